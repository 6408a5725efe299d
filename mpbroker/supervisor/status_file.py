"""The file in the data directory that tells `status`, `stop` and `trace` what to attach to; the supervisor writes it.

Left behind by a broker that was killed it does no harm: who holds the directory's lock decides whether a broker runs.
"""

import contextlib
import json
import os
from typing import Any, NamedTuple

from mpbroker.supervisor.ready import write_atomically

STATUS_FILE = ".mpbroker-status.json"
MAX_STATUS_FILE_BYTES = 65536


class StatusFile(NamedTuple):
    """What it says. `page` is the name of the metrics page in /dev/shm, `names` are all names of this broker there.

    `started_ms`: since 1970; `started_ns`: the same moment of CLOCK_MONOTONIC. `trace_dir`: where it writes traces,
    empty if it does not trace; with the dash-cam that is memory, and `dump_dir` is where it is written to (else empty).
    """

    pid: int
    version: str
    node_id: int
    cluster_id: str
    boot_id: int
    started_ms: int
    started_ns: int
    page: str
    names: tuple[str, ...]
    listeners: tuple[dict[str, Any], ...]
    trace_dir: str
    admin: str | None = None  # URL of the admin process
    dump_dir: str = ""


def write_status_file(data_dir: str, said: StatusFile) -> None:
    """Say what runs here."""
    write_atomically(os.path.join(data_dir, STATUS_FILE), said._asdict())


def read_status_file(data_dir: str) -> StatusFile | None:
    """What was said last; None when there is no such file or it is not one of ours. PermissionError for a file that
    this user may not read."""
    try:
        with open(os.path.join(data_dir, STATUS_FILE), "rb") as file:
            found = json.loads(file.read(MAX_STATUS_FILE_BYTES))
        return StatusFile(
            pid=int(found["pid"]),
            version=str(found["version"]),
            node_id=int(found["node_id"]),
            cluster_id=str(found["cluster_id"]),
            boot_id=int(found["boot_id"]),
            started_ms=int(found["started_ms"]),
            started_ns=int(found["started_ns"]),
            page=str(found["page"]),
            names=tuple(map(str, found["names"])),
            listeners=tuple(found["listeners"]),
            trace_dir=str(found["trace_dir"]),
            admin=str(found["admin"]) if found.get("admin") else None,
            dump_dir=str(found.get("dump_dir", "")),
        )
    except PermissionError:
        raise
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remove_status_file(data_dir: str) -> None:
    """Nothing runs here any more."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(data_dir, STATUS_FILE))
