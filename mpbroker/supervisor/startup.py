"""What comes before the first fork, and what a start that fails takes away again; supervisor only.

The data directory is made, locked and given its identity; the trace directory is made.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from mpbroker.config.broker_config import BrokerConfig
from mpbroker.errors import ConfigError, DataDirectoryInUse
from mpbroker.log import data_dir, reserve_file, unusable
from mpbroker.supervisor import data_dir_check
from mpbroker.supervisor.failed_start import MadeByStart
from mpbroker.supervisor.further_directories import FurtherDirectories, LogDirectory

PATIENCE_S = 3.0


class Claim:
    """The data directory is ours, and the log directories, of which it is the first. `served`: set once clients were
    let in; until then it is left as it was found."""

    def __init__(self, lock: data_dir.DataDirLock, cluster_id: str, directories: tuple[LogDirectory, ...]) -> None:
        self.lock_fds: tuple[int, ...] = (lock.descriptor,)
        self.cluster_id = cluster_id
        self.directories = directories
        self.served = False


@contextmanager
def claim_data_dir(config: BrokerConfig) -> Iterator[Claim]:
    """Lock the data directory and check whose it is. DataDirectoryInUse, ConfigError; also for a disk that is full."""
    made = MadeByStart(config.data_dir, config.trace_dir)
    further = FurtherDirectories(config.data_dirs[1:])
    lock, claim = None, None
    try:
        if reserve_file.is_needed(config.data_dir) and data_dir.holder(config.data_dir) is None:
            reserve_file.give_up(config.data_dir)  # before the check: to read a store, SQLite makes a file beside it
        place = config.cluster_store
        shared = None if place is None else getattr(place, "sqlite_path", "") or ""
        data_dir_check.check(config.data_dir, shared, config.data_dirs[1:])
        known = _known_identity(config) if os.path.isdir(config.data_dir) else None
        further.check(config.node_id, known)
        if config.mpbroker_trace_enabled:
            data_dir_check.check_trace_dir(config.trace_dir)
        data_dir.create(config.data_dir)
        lock = _lock(config.data_dir)
        if config.mpbroker_trace_enabled:
            with suppress(unusable.NoSpace):  # it forbids no start: the tracer says so, and makes it once there is room
                data_dir.create(config.trace_dir, "mpbroker.trace.dir", 0o700)
        meta = _identity(config)
        others = further.take(config.node_id, meta.cluster_id, meta.directory_id)
        claim = Claim(lock, meta.cluster_id, (LogDirectory(config.data_dir, meta.directory_id), *others))
        claim.lock_fds += further.lock_fds
        yield claim
    except OSError as error:
        if error.errno not in unusable.FULL:
            raise
        raise unusable.no_space(config.data_dir) from None
    finally:
        further.close(claim is not None and claim.served)
        if lock is None:
            made.remove_empty()
        else:
            if claim is None or not claim.served:
                made.undo()
            lock.close()


def _known_identity(config: BrokerConfig) -> data_dir.MetaProperties | None:
    """Of the data directory; None: it has none. A broker of a cluster is not given a cluster's id: it would be that of
    a new cluster."""
    known = data_dir.identity(config.data_dir, config.node_id)
    if config.cluster_store is not None and known is None:
        problem = (
            f"{config.data_dir} is not formatted: a broker of a cluster needs the cluster's id, see "
            "`mpbroker format --cluster-id`, or `mpbroker cluster start`, which does it"
        )
        raise ConfigError("log.dirs", config.data_dir, problem=problem)
    return known


def _identity(config: BrokerConfig) -> data_dir.MetaProperties:
    """Of the data directory. Where there are others, partitions are told apart by the directories' ids: it gets one if
    it was made without, and what its file said is kept beside it: perhaps it has lost it."""
    _known_identity(config)
    meta = data_dir.prepare(config.data_dir, config.node_id)
    if not meta.directory_id and (len(config.data_dirs) > 1 or config.cluster_store is not None):
        meta = meta._replace(directory_id=data_dir.new_id())
        data_dir.keep_meta(config.data_dir)
        data_dir.write_meta(config.data_dir, meta)
    return meta


def _lock(path: str) -> data_dir.DataDirLock:
    """A broker killed a moment ago may have workers that still hold the lock: while the one that took it is dead,
    wait."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return data_dir.lock(path)
        except DataDirectoryInUse as error:
            if not error.pid or os.path.exists(f"/proc/{error.pid}") or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
