"""Is this data directory ours, and whole? Asked by the supervisor before anything in it is touched.

A broker that starts on a directory whose metadata is missing, foreign or another cluster's sees records of no topic. It
would serve nothing and write beside them; so it does not start, and says what to do. Everything here only reads.
"""

import errno
import os
from contextlib import suppress
from typing import Final

from mpbroker.errors import ConfigError
from mpbroker.log import checkpoint_file, clean_shutdown, data_dir, disk, partition_directory
from mpbroker.log.unusable import unusable
from mpbroker.metadata.keys import STORE_FILE
from mpbroker.metadata.topic_names import CLUSTER_METADATA_TOPIC

KEY: Final = "log.dirs"
_BOOTSTRAP: Final = "bootstrap.checkpoint"  # of a directory that Kafka formatted
_WRITTEN, _ALL = os.R_OK | os.W_OK, os.R_OK | os.W_OK | os.X_OK
_RIGHTS: Final = {
    **dict.fromkeys((data_dir.LOCK_FILE, STORE_FILE, f"{STORE_FILE}-wal", f"{STORE_FILE}-shm"), _WRITTEN),
    **dict.fromkeys((data_dir.META_FILE, clean_shutdown.MARKER, *checkpoint_file.ALL), os.R_OK),
}
"""Of files that a start opens. What is written by putting another file in its place has to be read only."""
_ADOPT: Final = "`mpbroker adopt {path}` takes its topics in; or name another directory"


def check(path: str, shared_store: str | None = None, further: tuple[str, ...] = ()) -> None:
    """ConfigError, with the remedy, if a broker must not start on this directory. `shared_store`: the file of its
    cluster's store, empty if that is elsewhere; None: the broker is by itself. `further`: the other log directories,
    whose topics are named by the store in this one."""
    paths = (path, *further)
    elsewhere = "" if shared_store is not None else _records_elsewhere(further)
    if not os.path.isdir(path):
        if elsewhere:
            raise _refusal(paths, f"is not there, and {elsewhere} holds records", f"bring it back; or {_ADOPT}")
        return
    _check_rights(path)
    has_store = os.path.exists(os.path.join(path, STORE_FILE))
    if not has_store and (is_of_kraft(path) or os.path.exists(os.path.join(path, _BOOTSTRAP))):
        raise _refusal(paths, "is a data directory of Apache Kafka", _ADOPT)
    records = first_with_records(path)
    partition = records if has_store else first_partition(path)
    if not os.path.exists(os.path.join(path, data_dir.META_FILE)) and (has_store or partition):
        raise _refusal(
            paths,
            f"holds {partition or STORE_FILE} but no {data_dir.META_FILE}",
            f"put a copy of {data_dir.META_FILE} back; or `mpbroker adopt {{path}}` writes it anew",
        )
    is_unnamed = bool(partition) and not has_store and shared_store is None
    if not has_store and not (is_unnamed and records) and data_dir.is_of_zookeeper(path):
        raise _refusal(paths, "is a data directory of Apache Kafka with ZooKeeper", _ADOPT)
    if is_unnamed:  # empty ones would be taken for leftovers of ours
        raise _refusal(
            paths,
            f"holds {partition} but no {STORE_FILE}, which names the topics",
            f"put a copy of {STORE_FILE} (and of {STORE_FILE}-wal, if there is one) back; or {_ADOPT}",
        )
    if elsewhere and not has_store:
        what = f"holds no {STORE_FILE}, which names the topics, and {elsewhere} holds records"
        raise _refusal(paths, what, f"put a copy of {STORE_FILE} back; or {_ADOPT}")
    if shared_store is not None:
        _check_of_cluster(path, shared_store, records if has_store else "")
    elif records or elsewhere:
        _check_store(paths, records or elsewhere)


def _records_elsewhere(further: tuple[str, ...]) -> str:
    """A partition with records in another log directory of a broker; those that have no identity, or a store of their
    own, are refused for that."""
    for path in further:
        with suppress(OSError):  # it will be offline
            is_one = os.path.exists(os.path.join(path, data_dir.META_FILE))
            if is_one and not os.path.exists(os.path.join(path, STORE_FILE)) and not is_of_kraft(path):
                name = first_with_records(path)
                if name:
                    return os.path.join(path, name)
    return ""


def check_trace_dir(path: str) -> None:
    """ConfigError if it is there and this user may not use it."""
    _require(path, path, _ALL, "mpbroker.trace.dir")


def _check_rights(path: str) -> None:
    """Asked first: where nothing can be written, SQLite cannot open a store, which then looks damaged; and a start that
    finds out later has changed something by then."""
    _require(path, path, _ALL, KEY)
    for name, rights in _RIGHTS.items():
        _require(path, os.path.join(path, name), rights, KEY)
    for name in disk.directories(path, links=True):
        if partition_directory.parse_name(name):
            _require(path, os.path.join(path, name), _ALL, KEY)


def _require(path: str, place: str, rights: int, key: str) -> None:
    if not os.access(place, rights, effective_ids=True) and os.path.exists(place):
        is_read_only = os.statvfs(path).f_flag & os.ST_RDONLY
        raise unusable(place, OSError(errno.EROFS if is_read_only else errno.EACCES, "no"), key)


def _check_of_cluster(path: str, shared_store: str, records: str) -> None:
    """Topics of a broker by itself are not those of a cluster, even if their names are."""
    if records and os.path.realpath(shared_store) != os.path.realpath(os.path.join(path, STORE_FILE)):
        remedy = "start it without mpbroker.cluster.store; or name another directory"
        raise _refusal((path,), f"holds {records} and a {STORE_FILE} of a broker by itself", remedy)


def _check_store(paths: tuple[str, ...], records: str) -> None:
    from mpbroker.metadata.store_peek import UnreadableStore, peek  # only here: sqlite3 is a tenth of a start

    path = paths[0]
    meta = data_dir.read_meta(path)
    try:
        found = peek(os.path.join(path, STORE_FILE))
    except UnreadableStore as error:
        raise _refusal(
            paths,
            f"has a damaged store ({error})",
            f"put a copy of {STORE_FILE} back; or move {STORE_FILE}* away, and `mpbroker adopt {{path}}` takes the "
            "topics in by their directories, without their settings",
        ) from None
    cluster_id = meta.cluster_id if meta else ""
    if cluster_id in found.clusters:
        return
    if found.clusters:
        raise _refusal(
            paths,
            f"holds topics of cluster {', '.join(sorted(found.clusters))}, but its {data_dir.META_FILE} says "
            f"{cluster_id}",
            f"put the right {data_dir.META_FILE} back; or remove it, and `mpbroker adopt {{path}}` writes it anew",
        )
    remedy = f"put a copy of it back; or {_ADOPT}"
    raise _refusal(paths, f"has a {STORE_FILE} that names no topic, and there are records ({records})", remedy)


def is_of_kraft(path: str) -> bool:
    """Whether a Kafka without ZooKeeper keeps its metadata there."""
    return os.path.isdir(os.path.join(path, f"{CLUSTER_METADATA_TOPIC}-0"))


def first_with_records(path: str, or_empty: bool = False) -> str:
    """Name of a partition directory, or of a link to one, that holds records, or may: it cannot be read (`or_empty`: or
    segments without any); empty if there is none."""
    for name in disk.directories(path, links=True):
        parsed = partition_directory.parse_name(name)
        if parsed and parsed[0] != CLUSTER_METADATA_TOPIC:
            held = _held(path, name)
            if held or (or_empty and held is not None):
                return name
    return ""


def _held(path: str, name: str) -> int | None:
    try:
        return partition_directory.log_bytes(path, name)
    except PermissionError:
        return 1


def first_partition(path: str) -> str:
    """Of a partition directory with records; if there is none, of one that has segments without any."""
    return first_with_records(path) or first_with_records(path, or_empty=True)


def _refusal(paths: tuple[str, ...], what: str, remedy: str) -> ConfigError:
    """Of the first; a `{path}` in the remedy stands for all of them."""
    problem = f"{paths[0]} {what}: {remedy.format(path=' '.join(paths))}. Nothing was changed"
    return ConfigError(KEY, paths[0], problem=problem)
