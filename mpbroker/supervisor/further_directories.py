"""The log directories beside the first one (`log.dirs=a,b,c`): made, locked and given their identity before the first
fork, or left out. Supervisor only.

The first directory holds the metadata store, the traces and what `status` reads; without it there is no broker. Of the
others one that fails is offline until the next start, with its partitions, and the broker starts without it. One that
belongs to somebody else, or whose identity is in doubt, is refused before anything in it is touched.
"""

import os
from contextlib import suppress
from typing import Final, NamedTuple

from mpbroker.errors import ConfigError
from mpbroker.log import data_dir, disk, reserve_file
from mpbroker.metadata.keys import STORE_FILE
from mpbroker.supervisor import data_dir_check
from mpbroker.supervisor.failed_start import MadeByStart

KEY: Final = "log.dirs"


class LogDirectory(NamedTuple):
    """A directory of `log.dirs`. `id`: its directory.id; `problem`: why it is offline, "": it is not."""

    path: str
    id: str
    problem: str = ""


class FurtherDirectories:
    """Those of one start. `take` may raise ConfigError or DataDirectoryInUse; `close` gives the locks back."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        self._made = {path: MadeByStart(path, os.path.join(path, "traces")) for path in paths}
        self._locks: list[data_dir.DataDirLock] = []
        self._paths = paths

    def check(self, node_id: int, first: data_dir.MetaProperties | None) -> None:
        """Foreign or another ConfigError where `take` would refuse, before anything is touched. `first`: what the first
        directory says. One that fails is for `take` to leave out."""
        owners = {first.directory_id: "the first directory"} if first else {}
        for path in self._paths:
            try:
                check(path)
                disk.status(os.path.join(path, data_dir.META_FILE))
            except OSError:
                continue
            found = data_dir.identity(path, node_id, first.cluster_id if first else None)
            if found and found.directory_id:
                _check_copy(path, found.directory_id, owners)

    def take(self, node_id: int, cluster_id: str, first_id: str) -> tuple[LogDirectory, ...]:
        """Lock each and check whose it is; `first_id`: the directory.id of the first directory."""
        taken: list[LogDirectory] = []
        owners = {first_id: "the first directory"}
        for path in self._paths:
            one = self._take(path, node_id, cluster_id)
            if one.id:
                _check_copy(path, one.id, owners)
            taken.append(one)
        return tuple(taken)

    @property
    def lock_fds(self) -> tuple[int, ...]:
        """Of the locks that were taken."""
        return tuple(lock.descriptor for lock in self._locks)

    def close(self, served: bool) -> None:
        """Give up the locks; unless clients were let in, what this start made goes, too."""
        locked = {lock.path for lock in self._locks}
        for path, made in self._made.items():
            if not served:
                (made.undo if path in locked else made.remove_empty)()
        for lock in self._locks:
            lock.close()

    def _take(self, path: str, node_id: int, cluster_id: str) -> LogDirectory:
        try:
            check(path)
            if reserve_file.is_needed(path) and data_dir.holder(path) is None:
                reserve_file.give_up(path)
            data_dir.create(path)
            lock = data_dir.lock(path)
        except OSError as error:
            return LogDirectory(path, "", str(error))
        except ConfigError as error:
            if isinstance(error, Foreign):
                raise
            return LogDirectory(path, "", str(error))
        self._locks.append(lock)
        return LogDirectory(path, data_dir.prepare(path, node_id, cluster_id).directory_id)


class Foreign(ConfigError):
    """The directory is somebody else's."""


def check(path: str) -> None:
    """Foreign, with the remedy, if the directory is another broker's, or nobody can say whose. OSError passes."""
    if not os.path.isdir(path):
        return
    if os.path.exists(os.path.join(path, STORE_FILE)):
        raise _refusal(
            path,
            f"has a metadata store ({STORE_FILE}) of its own",
            "name the directory with this broker's store first; or it is another broker's",
        )
    of_kafka = data_dir_check.is_of_kraft(path)
    with suppress(ConfigError):  # of a file that cannot be read: said by who reads the identity
        of_kafka = of_kafka or data_dir.is_of_zookeeper(path)
    if of_kafka:
        raise _refusal(path, "is a data directory of Apache Kafka", "name another one; or `mpbroker adopt` takes it in")
    held = data_dir_check.first_partition(path)
    if held and not os.path.exists(os.path.join(path, data_dir.META_FILE)):
        raise _refusal(
            path,
            f"holds {held} but no {data_dir.META_FILE}",
            f"put a copy of {data_dir.META_FILE} back, or move the directory's content away",
        )


def _check_copy(path: str, directory_id: str, owners: dict[str, str]) -> None:
    """Foreign if another directory has that id. `owners`: who has which id; this one is added."""
    owner = owners.setdefault(directory_id, path)
    if owner != path:
        raise _refusal(
            path,
            f"has the directory.id of {owner}",
            f"one of them is a copy: correct {data_dir.META_FILE} of the one that is new",
        )


def _refusal(path: str, what: str, remedy: str) -> Foreign:
    return Foreign(KEY, path, problem=f"{path} {what}: {remedy}. Nothing was changed")
