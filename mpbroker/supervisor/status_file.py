"""The file in the data directory that tells `status`, `stop` and `top` what to attach to; the supervisor writes it.

Left behind by a broker that was killed it does no harm: who holds the directory's lock decides whether a broker runs.
"""

import contextlib
import json
import os
from typing import Any, NamedTuple

from mpbroker.shm.process_context import BoundListener
from mpbroker.supervisor.ready import listener_document, write_atomically

STATUS_FILE = ".mpbroker-status.json"
MAX_STATUS_FILE_BYTES = 65536


class StatusFile(NamedTuple):
    """What it says. `page` is the name of the metrics page in /dev/shm, `names` are all names of this broker there.

    `trace_dir`: where it writes traces, empty if it does not trace.
    """

    pid: int
    node_id: int
    boot_id: int
    page: str
    names: tuple[str, ...]
    listeners: tuple[dict[str, Any], ...]
    trace_dir: str


def write_status_file(
    data_dir: str,
    node_id: int,
    boot_id: int,
    page: str,
    names: tuple[str, ...],
    listeners: tuple[BoundListener, ...],
    trace_dir: str,
) -> None:
    """Say what runs here."""
    document = {
        "pid": os.getpid(),
        "node_id": node_id,
        "boot_id": boot_id,
        "page": page,
        "names": list(names),
        "listeners": [listener_document(listener) for listener in listeners],
        "trace_dir": trace_dir,
    }
    write_atomically(os.path.join(data_dir, STATUS_FILE), document)


def read_status_file(data_dir: str) -> StatusFile | None:
    """What was said last; None when there is no such file or it is not one of ours."""
    try:
        with open(os.path.join(data_dir, STATUS_FILE), "rb") as file:
            found = json.loads(file.read(MAX_STATUS_FILE_BYTES))
        return StatusFile(
            int(found["pid"]),
            int(found["node_id"]),
            int(found["boot_id"]),
            str(found["page"]),
            tuple(map(str, found["names"])),
            tuple(found["listeners"]),
            str(found["trace_dir"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remove_status_file(data_dir: str) -> None:
    """Nothing runs here any more."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(data_dir, STATUS_FILE))
