"""Partition directories by name: `topic-0`, and what becomes of them (`-delete`, `-stray`). Kafka's names and files.

The controller creates and renames them, the log keeper removes what is marked as deleted. `partition.metadata` holds
the topic's id, so that a directory is never taken for one of a younger topic of the same name (KIP-516).
"""

import base64
import errno
import os
import re
import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from mpbroker.log import disk
from mpbroker.log.set_aside import set_aside

MAX_NAME_BYTES: Final = 255
METADATA_FILE: Final = "partition.metadata"
EPOCH_FILE: Final = "leader-epoch-checkpoint"
DELETE_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"
FUTURE_SUFFIX: Final = "-future"
"""Of a copy in the log directory that a partition shall move to."""
MOVED_HERE: Final = "moved-here"
"""A file in a copy that is whole: of two directories of one partition the one that has it counts."""
_FIRST_SEGMENT: Final = re.compile(r"0{20}\.(?:log|index|timeindex|txnindex)")
_OF_ALL: Final = re.compile(r"(?:partition\.metadata|leader-epoch-checkpoint)(?:\.tmp)?")
_LOG: Final = re.compile(r"[0-9]{20}\.log")
_PARTITION = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9][0-9]{0,9})")
_MAX_METADATA_BYTES: Final = 4096
_UNREADABLE: Final = (
    *(errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM),
    *(errno.EISDIR, errno.ELOOP, errno.ESPIPE, errno.ENXIO),  # no file: a folder, links in a ring, a pipe, a socket
)
TRIES_WHILE_IT_GOES: Final = 5


class FoundDirectory(NamedTuple):
    """A partition directory on disk. `topic_id`: 16 bytes, None when it has no readable partition.metadata."""

    name: str
    topic: str
    partition: int
    topic_id: bytes | None


def directory_name(topic: str, partition: int) -> str:
    """Name of a partition's directory."""
    return f"{topic}-{partition}"


def retired_name(name: str, topic_id: bytes, suffix: str) -> str:
    """Name of a directory that is no partition any more; a long topic name is shortened to what a file name may
    have."""
    stem, _, partition = name.rpartition("-")
    tail = f"-{partition}.{topic_id.hex()}{suffix}"
    return stem[: MAX_NAME_BYTES - len(tail)] + tail


def future_name(name: str, topic_id: bytes) -> str:
    """Name of a partition's copy in the log directory that it shall move to, as Kafka's; longer ones are refused."""
    return f"{name}.{topic_id.hex()}{FUTURE_SUFFIX}"


def left_name(name: str, topic_id: bytes) -> str:
    """Name of what is left in the log directory that a partition moved away from (native/log/move.h)."""
    return f"{name}.{topic_id.hex()}{DELETE_SUFFIX}"


def find_futures(data_dir: str) -> Iterator[FoundDirectory]:
    """The copies in a log directory; `topic_id`: that of their name."""
    for name in disk.patiently(disk.directories, data_dir):
        stem, _, rest = name.rpartition(".")
        parsed = parse_name(stem) if name.endswith(FUTURE_SUFFIX) else None
        with suppress(ValueError):
            topic_id = bytes.fromhex(rest.removesuffix(FUTURE_SUFFIX))
            if parsed and len(topic_id) == 16:
                yield FoundDirectory(name, *parsed, topic_id)


def made_at(data_dir: str, name: str) -> float:
    """When a copy was begun, in seconds since 1970."""
    with suppress(FileNotFoundError):
        return disk.patiently(disk.status, os.path.join(data_dir, name, METADATA_FILE)).st_mtime
    return 0.0


def retire_future(data_dir: str, name: str, topic_id: bytes) -> None:
    """Have a copy that nobody wants any more deleted; fine if there is none."""
    gone = f"{name}.{uuid.uuid4().hex}{DELETE_SUFFIX}"
    with suppress(FileNotFoundError):
        disk.patiently(disk.rename, os.path.join(data_dir, future_name(name, topic_id)), os.path.join(data_dir, gone))


def was_moved_here(path: str) -> bool:
    """Whether a partition's directory is the whole copy of another one of that name."""
    return disk.patiently(disk.exists, os.path.join(path, MOVED_HERE))


def parse_name(name: str) -> tuple[str, int] | None:
    """(topic, partition) of a directory name, None if it is not one of a partition."""
    found = _PARTITION.fullmatch(name)
    return (found[1], int(found[2])) if found else None


def prepare(data_dir: str, name: str, topic_id: bytes) -> None:
    """Make the directory, if need be, with Kafka's partition.metadata and leader epoch 0 from offset 0 on. What stands
    there instead and cannot be read is set aside.

    Made again where another process takes it away under our hands, as one does with the copy of a move that was called
    off: another move of that partition may make it at that moment.
    """
    path = os.path.join(data_dir, name)
    for _ in range(TRIES_WHILE_IT_GOES):
        with suppress(FileNotFoundError, FileExistsError):
            disk.patiently(_prepare, path, topic_id)
            return
    disk.patiently(_prepare, path, topic_id)


def _prepare(path: str, topic_id: bytes) -> None:
    disk.make_directories(path, 0o755)
    _complete(path, topic_id, read_topic_id(path))


def complete(path: str, topic_id: bytes) -> None:
    """The same for a directory that is there, unless it says that it belongs to another topic."""
    if disk.patiently(disk.is_directory, path) and (owner := read_topic_id(path)) in (topic_id, None):
        disk.patiently(_complete, path, topic_id, owner)


def _complete(path: str, topic_id: bytes, owner: bytes | None) -> None:
    if owner != topic_id:
        place = os.path.join(path, METADATA_FILE)
        if disk.exists(place):
            _check_file(place)
            set_aside(place)
        _write(place, f"version: 0\ntopic_id: {id_text(topic_id)}")
    if not disk.exists(os.path.join(path, EPOCH_FILE)):
        _write(os.path.join(path, EPOCH_FILE), "0\n1\n0 0\n")


def _check_file(path: str) -> None:
    """OSError, if what is there is none that can be read: whose it is nobody knows, so that it stays."""
    if not disk.is_file(path):
        raise OSError(errno.EEXIST, "is no file; move it away", path)
    with disk.opened(path):
        pass


def id_text(topic_id: bytes) -> str:
    """A topic id as Kafka writes it: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def read_topic_id(path: str) -> bytes | None:
    """The topic id in a directory's partition.metadata; None if there is none that can be read, also because it is no
    file, or not for this user."""
    name = os.path.join(path, METADATA_FILE)
    try:
        text = disk.patiently(disk.read_text, name, _MAX_METADATA_BYTES, "ascii")
        lines = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
        topic_id = base64.b64decode(lines["topic_id"] + "==", altchars=b"-_", validate=True)
    except (KeyError, ValueError):
        return None
    except OSError as error:
        if error.errno not in _UNREADABLE:
            raise
        return None
    return topic_id if len(topic_id) == 16 else None


def find_all(data_dir: str) -> Iterator[FoundDirectory]:
    """Every partition directory, or link to one, in name order; retired ones are left out."""
    for name in disk.patiently(disk.directories, data_dir, links=True):
        parsed = parse_name(name)
        if parsed:
            yield FoundDirectory(name, *parsed, _id_or_none(os.path.join(data_dir, name)))


def _id_or_none(path: str) -> bytes | None:
    """An error is no reason to give up what else is there: where the directory is a partition's, it comes again."""
    with suppress(OSError):
        return read_topic_id(path)
    return None


def log_bytes(data_dir: str, name: str) -> int | None:
    """Bytes of records in a directory; None if nothing in it has the name of a segment (or it is not there). What has,
    and is no file, counts as one without a byte: a log is not begun beside it."""
    try:
        return disk.patiently(_log_bytes, os.path.join(data_dir, name))
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        return 0


def _log_bytes(path: str) -> int | None:
    files, others = disk.files(path)
    sizes = [_size(os.path.join(path, name)) for name in files if _LOG.fullmatch(name)]
    return sum(sizes) if sizes or any(_LOG.fullmatch(name) for name in others) else None


def _size(path: str) -> int:
    """0 for what went meanwhile."""
    with suppress(FileNotFoundError):
        return disk.size(path)
    return 0


def is_unused(data_dir: str, name: str, is_noted: bool = False) -> bool:
    """Whether a directory holds what the making of a partition leaves, and nothing else: partition.metadata with a
    topic's id, which comes first, perhaps an empty segment. Of anything else nobody knows whose it is, unless a note
    of ours says that it was being made (`is_noted`): then it may have died before the first file."""
    path = os.path.join(data_dir, name)
    try:
        ours = (is_noted or read_topic_id(path) is not None) and not disk.is_link(path)
        return ours and disk.patiently(_is_unused, path)
    except PermissionError:
        return False


def _is_unused(path: str) -> bool:
    files, others = disk.files(path)
    return not others and all(
        _OF_ALL.fullmatch(name) or (_FIRST_SEGMENT.fullmatch(name) and not _size(os.path.join(path, name)))
        for name in files
    )


def retire(data_dir: str, name: str, topic_id: bytes, suffix: str) -> str | None:
    """Rename a directory out of the way; returns the new name, None if it is gone already."""
    for unique in (topic_id, uuid.uuid4().bytes):
        new_name = retired_name(name, unique, suffix)
        try:
            disk.patiently(disk.rename, os.path.join(data_dir, name), os.path.join(data_dir, new_name))
            return new_name
        except FileNotFoundError:
            return None
        except OSError as error:  # an older directory has that name and is not empty
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
    raise FileExistsError(errno.EEXIST, f"{name} cannot be renamed", data_dir)


def _write(path: str, text: str) -> None:
    """Whole or not at all for a reader; not synced: after a power loss the metadata store is what counts."""
    disk.write_file(path + ".tmp", text.encode("ascii"), sync_it=False)
    disk.rename(path + ".tmp", path)
