"""Whether the machine went down under a broker of a cluster: then its logs may lack what it acknowledged, and it must
not lead, or count as in sync, on the strength of them. Controller process of a broker of a cluster only.

A process that is killed loses nothing, for what it wrote is the kernel's; a kernel that ends does. So the file says of
which boot of the machine (its boot id) the last run was. Another boot without the marker of a clean stop is an unclean
start; so are the starts after it until a clean stop: nobody can say whether the controller has heard of it. The file is
written before anything else of a start, and says the same to every process of that start.
"""

import json
import os
from typing import Final, NamedTuple

from mpbroker.log.checkpoint_file import replace_durably
from mpbroker.log.clean_shutdown import MARKER
from mpbroker.log.partition_directory import find_all

FILE: Final = "last-machine.json"
MAX_BYTES: Final = 4096


class LastRun(NamedTuple):
    """`machine`: the kernel's boot id; `start`: this start of the broker; `unclean`: what was found at it."""

    machine: str
    start: str
    unclean: bool


def unclean_start(directories: list[str], machine: str, start: str) -> bool:
    """Whether this start of the broker, whichever process asks, follows on a crash of the machine. Asked before the
    logs are opened, which takes the markers away. OSError passes."""
    path = os.path.join(directories[0], FILE)
    last = _read(path)
    if last is not None and last.start == start:
        return last.unclean
    now = LastRun(machine, start, not all(map(_stopped_cleanly, directories)) and _is_other(last, machine, directories))
    replace_durably(path, json.dumps(now._asdict()).encode())
    return now.unclean


def _is_other(last: LastRun | None, machine: str, directories: list[str]) -> bool:
    """Without a clean stop: whether the machine is not known to have run on. Where nobody wrote it down, logs were
    written by who knows whom."""
    if last is None:
        return any(next(iter(find_all(directory)), None) for directory in directories if os.path.isdir(directory))
    return last.unclean or last.machine != machine


def _stopped_cleanly(directory: str) -> bool:
    """One that is away is not served either; what lies there counts when it comes back, with the stop after that."""
    return not os.path.isdir(directory) or os.path.exists(os.path.join(directory, MARKER))


def _read(path: str) -> LastRun | None:
    """None: not there, or not to be understood."""
    try:
        with open(path, "rb") as file:
            found = json.loads(file.read(MAX_BYTES))
        return LastRun(str(found["machine"]), str(found["start"]), bool(found["unclean"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
