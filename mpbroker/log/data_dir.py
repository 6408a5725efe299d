"""The data directory itself: its lock, its identity (meta.properties), whether it can be written.

The supervisor locks and prepares it before it forks; `format` prepares it without a broker; `status` and `stop` only
look who holds it. The lock is an open-file-description lock: forked workers that keep the descriptor keep the lock, so
a new broker cannot start beside workers that outlive their supervisor by a moment; asking for the holder takes no lock;
and a Kafka on the same directory is shut out too.
"""

import base64
import contextlib
import errno
import fcntl
import os
import struct
from collections.abc import Callable
from typing import NamedTuple

from mpbroker.config.properties import parse_properties
from mpbroker.errors import ConfigError, DataDirectoryInUse
from mpbroker.log import disk
from mpbroker.log.checkpoint_file import replace_durably
from mpbroker.log.set_aside import keep_tail
from mpbroker.log.unusable import unusable
from mpbroker.shm.owner import refusal

FIRST = 0  # index in partition rows of the first log directory, the data directory
LOCK_FILE = ".lock"
META_FILE = "meta.properties"
META_VERSION = 1
META_VERSIONS = {"0": "broker.id", "1": "node.id"}  # version → the key of the node's number
MAX_NODE_ID = 2**31 - 1
MAX_META_BYTES = 64 * 1024
MAX_LOCK_TRIES = 100

_FLOCK = "hhqqi4x"  # struct flock of 64-bit Linux: type, whence, start, length, pid
_KEY = "log.dirs"


class MetaProperties(NamedTuple):
    """What meta.properties says. Ids are 22 characters of URL-safe base64; node_id is a broker's number."""

    cluster_id: str
    node_id: int
    directory_id: str


class DataDirLock:
    """The lock of a data directory, held until `close` or until the last process with the descriptor ends."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    def close(self) -> None:
        """Give the lock up (in this process; forked ones that kept the descriptor still hold it)."""
        if self.descriptor >= 0:
            disk.close(self.descriptor)
            self.descriptor = -1


def create(path: str, key: str = _KEY, mode: int = 0o777) -> None:
    """Make the directory if it is not there and prove that files can be made in it; ConfigError, which names the
    setting `key`, otherwise. `mode`: of a directory that is made, before the umask."""
    try:
        disk.patiently(_prove, path, mode)
    except OSError as error:
        raise unusable(path, error, key) from None


def _prove(path: str, mode: int) -> None:
    probe = os.path.join(path, f".writable-{os.getpid()}")
    disk.make_directories(path, mode)
    with disk.opened(probe, os.O_CREAT | os.O_WRONLY, 0o600):
        pass
    disk.unlink(probe)


def lock(path: str) -> DataDirLock:
    """Take the lock and write our pid into it. DataDirectoryInUse names the pid that has it."""
    for _ in range(MAX_LOCK_TRIES):
        taken = _try_lock(path)
        if taken is not None:
            return taken
    raise DataDirectoryInUse(path, 0)


def _try_lock(path: str) -> DataDirLock | None:
    """None when the file was taken away meanwhile: its holder failed to start. A lock on it keeps nobody out."""
    name = os.path.join(path, LOCK_FILE)
    try:
        descriptor = disk.patiently(disk.open_file, name, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise unusable(path, error) from None
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _whole_file(fcntl.F_WRLCK))
    except OSError as error:
        pid = _pid_in(descriptor)
        disk.close(descriptor)
        if error.errno in (errno.EAGAIN, errno.EACCES):
            raise DataDirectoryInUse(path, pid) from None
        raise unusable(path, error) from None
    try:
        still = _is_still(name, descriptor)
    except OSError as error:
        disk.close(descriptor)
        raise unusable(path, error) from None
    if not still:
        disk.close(descriptor)
        return None
    try:
        disk.patiently(disk.truncate, descriptor, 0)
        disk.patiently(disk.write, descriptor, b"%d\n" % os.getpid())
    except OSError as error:  # a full disk: an empty lock file tells nobody anything
        with contextlib.suppress(OSError):
            disk.unlink(name)
        disk.close(descriptor)
        raise unusable(path, error) from None
    return DataDirLock(path, descriptor)


def _is_still(name: str, descriptor: int) -> bool:
    """Whether the open file is the one that has this name now."""
    try:
        return os.path.samestat(disk.patiently(disk.status, name), disk.patiently(disk.status, descriptor))
    except FileNotFoundError:
        return False


def holder(path: str) -> int | None:
    """The pid of the broker that holds the directory (0 when it is not written down), None when nobody does.

    BelongsToAnother when this user may not look."""
    try:
        descriptor = disk.patiently(disk.open_file, os.path.join(path, LOCK_FILE))
    except PermissionError:
        raise refusal(f"data directory {path}", path) from None
    except OSError:
        return None
    try:
        found = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _whole_file(fcntl.F_WRLCK))
        return None if struct.unpack(_FLOCK, found)[0] == fcntl.F_UNLCK else _pid_in(descriptor)
    finally:
        disk.close(descriptor)


def _whole_file(kind: int) -> bytes:
    return struct.pack(_FLOCK, kind, os.SEEK_SET, 0, 0, 0)


def _pid_in(descriptor: int) -> int:
    text = disk.patiently(disk.read_at, descriptor, 32, 0).strip()
    return int(text) if text.isdigit() else 0


def prepare(
    path: str, node_id: int, cluster_id: str | None = None, random_bytes: Callable[[int], bytes] = os.urandom
) -> MetaProperties:
    """The identity of the directory; a fresh one is given the node id and a cluster id (a new one unless given).

    ConfigError when the directory belongs to another node or cluster.
    """
    found = identity(path, node_id, cluster_id)
    if found is None:
        found = MetaProperties(cluster_id or new_id(random_bytes), node_id, new_id(random_bytes))
        write_meta(path, found)
    return found


def identity(path: str, node_id: int, cluster_id: str | None = None) -> MetaProperties | None:
    """What meta.properties says, None when there is none. ConfigError when it is another node's or cluster's."""
    found = read_meta(path)
    if found is None:
        return None
    if found.node_id != node_id:
        problem = f"data directory {path} belongs to node {found.node_id}, and node.id is {node_id}"
        raise ConfigError("node.id", node_id, problem=problem)
    if cluster_id is not None and found.cluster_id != cluster_id:
        problem = f"data directory {path} belongs to cluster {found.cluster_id}, not to {cluster_id}"
        raise ConfigError("cluster id", cluster_id, problem=problem)
    return found


def read_meta(path: str) -> MetaProperties | None:
    """What meta.properties says, None when there is none. Both of Kafka's versions (0: broker.id, 1: node.id) are read.

    ConfigError names the key, what it says, what is allowed and what to do."""
    name, pairs = os.path.join(path, META_FILE), _meta_pairs(path)
    if pairs is None:
        return None
    version = pairs.get("version", "")
    if version.isdecimal() and int(version) > META_VERSION:
        known = " and ".join(META_VERSIONS)
        problem = f"{name} was written by a newer version of mpbroker (version={version}, this one knows {known})"
        raise ConfigError("version", version, problem=f"{problem}: start that version")
    if version not in META_VERSIONS:
        raise _broken(name, "version", version, " or ".join(META_VERSIONS))
    key = META_VERSIONS[version]
    node_id, cluster_id = pairs.get(key, ""), pairs.get("cluster.id", "")
    if not (node_id.isascii() and node_id.isdecimal() and len(node_id) <= 10 and int(node_id) <= MAX_NODE_ID):
        raise _broken(name, key, node_id, f"the number of the node, 0 to {MAX_NODE_ID}")
    if not cluster_id:
        raise _broken(name, "cluster.id", cluster_id, "the id of the cluster, which `mpbroker format` made")
    return MetaProperties(cluster_id, int(node_id), pairs.get("directory.id", ""))


def is_of_zookeeper(path: str) -> bool:
    """Whether meta.properties is of the version that only Apache Kafka with ZooKeeper writes. ConfigError."""
    return (_meta_pairs(path) or {}).get("version") == "0"


def _meta_pairs(path: str) -> dict[str, str] | None:
    """The lines of meta.properties, None when there is none."""
    name = os.path.join(path, META_FILE)
    try:
        text = disk.patiently(disk.read_text, name, MAX_META_BYTES)
        return {key: value for key, value, _ in parse_properties(text, name)}
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(_KEY, name, problem=f"{name} cannot be read: {error}") from None


def _broken(name: str, key: str, value: str, allowed: str) -> ConfigError:
    """A line of meta.properties that is missing or wrong."""
    found = f"{key}={value} must be" if value else f"{key} is missing; it must be"
    problem = f"{name}: {found} {allowed}; correct that line, or put a copy of the file back"
    return ConfigError(key, value, problem=problem)


def write_meta(path: str, meta: MetaProperties) -> None:
    """Write meta.properties so that it is there whole or not at all."""
    name = os.path.join(path, META_FILE)
    text = (
        f"version={META_VERSION}\nnode.id={meta.node_id}\ncluster.id={meta.cluster_id}\n"
        f"directory.id={meta.directory_id}\n"
    )
    try:
        disk.patiently(replace_durably, name, text.encode())
    except OSError as error:
        with contextlib.suppress(OSError):
            disk.unlink(name + ".tmp")
        raise unusable(path, error) from None


def keep_meta(path: str) -> None:
    """A copy of meta.properties as `meta.properties.0.cut`, before it is written anew."""
    name = os.path.join(path, META_FILE)
    try:
        with disk.opened(name) as descriptor:
            keep_tail(descriptor, name, 0, MAX_META_BYTES)
    except OSError as error:
        raise unusable(path, error) from None


def new_id(random_bytes: Callable[[int], bytes] = os.urandom) -> str:
    """A random id as Kafka writes them: 16 bytes (UUID version 4) in 22 base64 characters, the first never '-'."""
    while True:
        raw = bytearray(random_bytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        text = base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")
        if not text.startswith("-"):
            return text


def is_id(text: str) -> bool:
    """Whether a text can be a cluster id: 22 base64 characters that stand for 16 bytes."""
    try:
        return len(text) == 22 and len(base64.b64decode(text + "==", altchars=b"-_", validate=True)) == 16
    except ValueError:
        return False
