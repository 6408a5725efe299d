"""The only way from mpbroker/log to the kernel, as native/log/log_io.h is the log's in C: both ask one hook, with which
a test makes any call fail, and one table says what an errno means (native/log/io_error.h).

Every process that touches a data directory; stateless. OSError passes to the caller. What a signal interrupts is made
again. `patiently` is for work that must not be given up because descriptors or memory were short for a moment.
"""

import errno
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, ParamSpec, TypeVar

from mpbroker._native import (
    IO_LIST,
    IO_MAKE_DIR,
    IO_OPEN,
    IO_READ,
    IO_RENAME,
    IO_STATUS,
    IO_SYNC,
    IO_TRUNCATE,
    IO_UNLINK,
    IO_WRITE,
    io_error_class,
    io_error_condemns,
    io_refused,
)

TRIES: Final = 12
FIRST_WAIT_S: Final = 0.001
PASSING: Final = "passing"
GONE: Final = "gone"
_DELETED: Final = " (deleted)"  # behind the name of an open file that has none any more

_P = ParamSpec("_P")
_R = TypeVar("_R")


def condemns(error: OSError) -> bool:
    """Whether an error with a file of our own beside the log takes the log directory offline. That one is gone is no
    reason: its topic was deleted meanwhile. Nor is a folder or a link that somebody put where it would be."""
    number = error.errno or errno.EIO
    return io_error_class(number) != GONE and io_error_condemns(number)


def passes(error: OSError) -> bool:
    """Whether descriptors or memory ran out, or a signal came: nothing was done, and the next try may succeed."""
    return error.errno is not None and io_error_class(error.errno) == PASSING


def patiently(action: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
    """Call `action`, which may be done twice, again while it fails with an error that passes: 2 s in all, then the
    caller gets it. Not for the log keeper's jobs, which are tried again when they are due."""
    for attempt in range(TRIES - 1):
        try:
            return action(*args, **kwargs)
        except OSError as error:
            if not passes(error):
                raise
        time.sleep(FIRST_WAIT_S * 2**attempt)
    return action(*args, **kwargs)


def _ask(call: int, what: object) -> None:
    number = io_refused(call)
    if number:
        raise OSError(number, os.strerror(number), str(what))


def open_file(path: str, flags: int = os.O_RDONLY, mode: int = 0o644) -> int:
    """A descriptor, closed on exec. A pipe that has the name of a file keeps nobody waiting."""
    _ask(IO_OPEN, path)
    return os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, mode)


def close(descriptor: int) -> None:
    """Give a descriptor back."""
    os.close(descriptor)


@contextmanager
def opened(path: str, flags: int = os.O_RDONLY, mode: int = 0o644) -> Iterator[int]:
    """A descriptor for the length of a block."""
    descriptor = open_file(path, flags, mode)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read_at(descriptor: int, length: int, position: int) -> bytes:
    """At most `length` bytes."""
    _ask(IO_READ, descriptor)
    return os.pread(descriptor, length, position)


def read_whole(path: str, max_bytes: int) -> bytes:
    """A file's first `max_bytes`."""
    pieces: list[bytes] = []
    left = max_bytes
    with opened(path) as descriptor:
        while left > 0:
            piece = read_at(descriptor, min(left, 1 << 20), max_bytes - left)
            if not piece:
                break
            pieces.append(piece)
            left -= len(piece)
    return b"".join(pieces)


def read_text(path: str, max_bytes: int, encoding: str = "utf-8") -> str:
    """A file's text, lines ending with a line feed. UnicodeDecodeError."""
    return read_whole(path, max_bytes).decode(encoding).replace("\r\n", "\n").replace("\r", "\n")


def write(descriptor: int, content: bytes) -> None:
    """All of it, at the descriptor's position."""
    left = memoryview(content)
    while left:
        _ask(IO_WRITE, descriptor)
        left = left[os.write(descriptor, left) :]


def write_at(descriptor: int, content: bytes, position: int) -> None:
    """All of it, at a position."""
    left = memoryview(content)
    while left:
        _ask(IO_WRITE, descriptor)
        written = os.pwrite(descriptor, left, position)
        left, position = left[written:], position + written


def write_file(path: str, content: bytes, *, sync_it: bool, mode: int = 0o644) -> None:
    """A file with this content, whatever it held before. After an error it may hold anything."""
    with opened(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, mode) as descriptor:
        write(descriptor, content)
        if sync_it:
            sync(descriptor)


def truncate(where: int | str, length: int) -> None:
    """Cut an open file, or one at a path, to a length."""
    _ask(IO_TRUNCATE, where)
    os.truncate(where, length)


def allocate(descriptor: int, length: int) -> None:
    """Take blocks for so many bytes."""
    _ask(IO_WRITE, descriptor)
    os.posix_fallocate(descriptor, 0, length)


def set_modified(path: str, modified_ns: int) -> None:
    """Say when a file was last written, since 1970."""
    _ask(IO_STATUS, path)
    os.utime(path, ns=(modified_ns, modified_ns))


def sync(descriptor: int) -> None:
    """Make an open file, or directory, durable."""
    _ask(IO_SYNC, descriptor)
    os.fsync(descriptor)


def sync_directory(path: str) -> None:
    """Make creations, renames and removals in a directory durable."""
    with opened(path, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        sync(descriptor)


def rename(path: str, to: str) -> None:
    """Also over a file that has that name."""
    _ask(IO_RENAME, path)
    os.rename(path, to)


def unlink(path: str) -> None:
    """Remove a file."""
    _ask(IO_UNLINK, path)
    os.unlink(path)


def remove_directory(path: str) -> None:
    """Remove an empty directory."""
    _ask(IO_UNLINK, path)
    os.rmdir(path)


def make_directories(path: str, mode: int = 0o777) -> None:
    """A directory and those above it; fine if they are there."""
    _ask(IO_MAKE_DIR, path)
    os.makedirs(path, mode, exist_ok=True)


def names(path: str) -> list[str]:
    """What is in a directory, in no order."""
    _ask(IO_LIST, path)
    return os.listdir(path)


def files(path: str) -> tuple[list[str], list[str]]:
    """What is in a directory, in no order: the names of regular files, or of links to one; and all others, which nobody
    opens: a directory, a link to nowhere, or a pipe, at which opening waits for ever."""
    _ask(IO_LIST, path)
    regular: list[str] = []
    others: list[str] = []
    with os.scandir(path) as entries:
        for entry in entries:
            (regular if _is_file(entry) else others).append(entry.name)
    return regular, others


def _is_file(entry: os.DirEntry[str]) -> bool:
    with suppress(OSError):  # links that lead to each other
        return entry.is_file()
    return False


def directories(path: str, *, links: bool = False) -> list[str]:
    """Names of the directories in a directory, in order. `links`: also of links to one."""
    _ask(IO_LIST, path)
    with os.scandir(path) as entries:
        return sorted(entry.name for entry in entries if _is_directory(entry, links))


def _is_directory(entry: os.DirEntry[str], links: bool) -> bool:
    with suppress(OSError):
        return entry.is_dir(follow_symlinks=links)
    return False


def status(where: int | str) -> os.stat_result:
    """Of an open file, or of what is at a path."""
    _ask(IO_STATUS, where)
    return os.stat(where)


def size(path: str) -> int:
    """In bytes."""
    return status(path).st_size


def exists(path: str) -> bool:
    """Whether something is at a path, be it a link that leads nowhere. Unlike os.path's it does not take an error for a
    no."""
    _ask(IO_STATUS, path)
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def is_directory(path: str) -> bool:
    """Whether a directory is at a path; an error is no no."""
    try:
        return stat.S_ISDIR(status(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def is_file(path: str) -> bool:
    """Whether a regular file is at a path, or a link to one; an error is no no."""
    try:
        return stat.S_ISREG(status(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return False


def is_link(path: str) -> bool:
    """Whether a link is at a path."""
    _ask(IO_STATUS, path)
    return os.path.islink(path)


def real_path(path: str) -> str:
    """Without links."""
    _ask(IO_STATUS, path)
    return os.path.realpath(path)


def deleted_and_open(pids: Iterable[int], prefix: str) -> int:
    """Bytes on disk of files that were deleted below a directory (`prefix` ends with a slash) and that some of these
    processes have open; each file once. What cannot be looked at, a process that ended say, counts nothing."""
    found: dict[tuple[int, int], int] = {}
    for pid in pids:
        with suppress(OSError):
            for name in names(f"/proc/{pid}/fd"):
                with suppress(OSError):
                    _note_deleted(f"/proc/{pid}/fd/{name}", prefix, found)
    return sum(found.values())


def _note_deleted(link: str, prefix: str, found: dict[tuple[int, int], int]) -> None:
    target = os.readlink(link)
    if target.startswith(prefix) and target.endswith(_DELETED):
        held = status(link)
        if held.st_nlink == 0:
            found[held.st_dev, held.st_ino] = held.st_blocks * 512


def disk_status(path: str) -> os.statvfs_result:
    """Of the disk that a path is on."""
    _ask(IO_STATUS, path)
    return os.statvfs(path)
