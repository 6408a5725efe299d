"""The file that says the last stop was a clean one (`.kafka_cleanshutdown`, as Kafka's).

The log keeper writes it as the very last thing of a clean stop; the controller takes it away at start, before anything
is written, so that it never speaks of a later state than the one it was written for. It names the partition directories
that it does not speak for: those that were offline, or belonged to no topic, and may be put back or taken in later. Of
the others it says where their logs began, so that first segments lost later are missed (log_recovery.py finds a gap).
"""

import json
import os
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from mpbroker.log import disk
from mpbroker.log.checkpoint_file import replace_durably

MARKER: Final = ".kafka_cleanshutdown"
VERSION: Final = 0
NO_BROKER_EPOCH: Final = -1
MAX_BYTES: Final = 64 * 1024 * 1024
_NONE: Final[Mapping[str, int]] = MappingProxyType({})


class CleanStop(NamedTuple):
    """What the last stop says. `unknown`: partition directories it says nothing about; `log_starts`: where the logs in
    the others began."""

    clean: bool
    unknown: frozenset[str] = frozenset()
    log_starts: Mapping[str, int] = _NONE

    def of(self, directory: str) -> bool:
        """Whether a partition's directory (its name) was left by a clean stop."""
        return self.clean and directory not in self.unknown


def write_marker(
    data_dir: str,
    broker_epoch: int = NO_BROKER_EPOCH,
    unknown: Collection[str] = (),
    log_starts: Mapping[str, int] = _NONE,
) -> None:
    """Everything in the directory but `unknown` is on disk and whole. OSError passes."""
    content: dict[str, object] = {"version": VERSION, "brokerEpoch": broker_epoch}
    if unknown:
        content["unknown"] = sorted(unknown)
    if log_starts:
        content["logStarts"] = dict(log_starts)
    replace_durably(os.path.join(data_dir, MARKER), json.dumps(content).encode())


def take_marker(data_dir: str) -> CleanStop:
    """What the last stop says; the file is gone afterwards, durably. One that cannot be understood says that it was not
    clean. OSError passes."""
    path = os.path.join(data_dir, MARKER)
    try:
        found = _parse(disk.patiently(disk.read_whole, path, MAX_BYTES))
    except FileNotFoundError:
        return CleanStop(False)
    disk.patiently(disk.unlink, path)
    disk.patiently(disk.sync_directory, data_dir)
    return found


def remove_marker(data_dir: str) -> None:
    """The directory was changed by somebody else than a broker: the next start reads the logs."""
    take_marker(data_dir)


def _parse(content: bytes) -> CleanStop:
    try:
        said = json.loads(content)
        log_starts = {str(name): int(number) for name, number in said.get("logStarts", {}).items()}
        return CleanStop(True, frozenset(map(str, said.get("unknown", []))), log_starts)
    except (ValueError, AttributeError, TypeError, OverflowError):
        return CleanStop(False)
