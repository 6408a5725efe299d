"""Deletes old trace segments, and the names of boots that have none left; run by the tracer once a minute.

Only closed segments go, oldest first: first those older than the age, then as many as needed to come under the size.
"""

from pathlib import Path
from typing import NamedTuple

from mpbroker.trace import dictionary, segment


class Candidate(NamedTuple):
    """A closed segment: file, its last change (seconds since 1970), its size."""

    path: Path
    modified_s: float
    file_bytes: int


def candidates(directory: Path, active: set[Path]) -> list[Candidate]:
    """All segments but the active ones, oldest first."""
    found = []
    for path in segment.find(directory):
        if path not in active:
            status = path.stat()
            found.append(Candidate(path, status.st_mtime, status.st_size))
    return sorted(found, key=lambda one: (one.modified_s, one.path.name))


def choose(
    closed: list[Candidate], active_bytes: int, now_s: float, retention_bytes: int, retention_ms: int
) -> list[Candidate]:
    """Which of the closed segments (oldest first) to delete; a limit of -1 does not limit."""
    doomed = [one for one in closed if retention_ms >= 0 and (now_s - one.modified_s) * 1000 > retention_ms]
    if retention_bytes < 0:
        return doomed
    total = active_bytes + sum(one.file_bytes for one in closed) - sum(one.file_bytes for one in doomed)
    for one in closed[len(doomed) :]:
        if total <= retention_bytes:
            break
        doomed.append(one)
        total -= one.file_bytes
    return doomed


def apply(
    directory: Path, active: dict[Path, int], now_s: float, retention_bytes: int, retention_ms: int
) -> list[Path]:
    """Delete what is due. `active`: open segments with their sizes. Returns the files deleted."""
    doomed = choose(candidates(directory, set(active)), sum(active.values()), now_s, retention_bytes, retention_ms)
    for one in doomed:
        one.path.unlink(missing_ok=True)
    return [one.path for one in doomed]


def delete_dictionaries(directory: Path, keep: set[tuple[int, int]]) -> list[Path]:
    """Delete the dictionaries of boots whose last segment is gone. `keep`: (broker, low half of the boot id) not to
    touch."""
    doomed = []
    for path in segment.find(directory, dictionary.START, dictionary.SUFFIX):
        boot = dictionary.boot_of(path)
        if boot is not None and boot not in keep and not segment.find(directory, f"b{boot[0]}-{boot[1]:08x}-"):
            path.unlink(missing_ok=True)
            doomed.append(path)
    return doomed
