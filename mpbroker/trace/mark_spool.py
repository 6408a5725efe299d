"""Markers on their way into a trace: files in `marks` below the trace directory, put there by `mpbroker trace mark`,
taken by the tracer.

A file is `<monotonic ns>-<pid>-<number>.mark` with one JSON object {"t0_ns", "text"}, renamed into place when complete.
With "dump_after_ms" it also asks the dash-cam for a dump, which goes on for so long.
Directory and files belong to one user alone; the tracer takes nothing else, and removes what it does not take.
"""

import contextlib
import errno
import fcntl
import itertools
import json
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from mpbroker.errors import MpbrokerError

DIRECTORY = "marks"
SUFFIX = ".mark"
NEW_SUFFIX = ".new"
MAX_TEXT_CHARS = 200
MAX_FILE_BYTES = 4096
MAX_AT_ONCE = 64
MAX_LOOKED_AT = 1024
MAX_DUMP_AFTER_MS = 3_600_000
_NS_PER_S = 1_000_000_000
CERTAIN_NS = 3 * _NS_PER_S
"""Within that a directory may change twice and show one time; the coarsest file systems count by two seconds."""
_NO_FILE_OF_OURS = {errno.ELOOP, errno.ENXIO, errno.EACCES, errno.EISDIR}
_numbers = itertools.count()


class MarkRefused(MpbrokerError):
    """A text that cannot be a marker."""

    exit_code = 2


class Mark(NamedTuple):
    """A marker that waits in the spool. `t0_ns`: CLOCK_MONOTONIC when it was made. `dump_after_ms`: None for one that
    asks for no dump."""

    path: Path
    text: str
    t0_ns: int
    dump_after_ms: int | None = None


def put(traces: Path, text: str, t0_ns: int | None = None, dump_after_ms: int | None = None) -> Path:
    """Leave a marker for the tracer that writes into `traces`; returns the file, which is gone once it was recorded.

    `t0_ns`: the moment to mark, now if None. MarkRefused for an empty text or one with more than MAX_TEXT_CHARS.
    """
    text = " ".join(text.split())
    if not text or len(text) > MAX_TEXT_CHARS:
        raise MarkRefused(f"a marker has 1 to {MAX_TEXT_CHARS} characters, this one has {len(text)}")
    t0_ns = time.monotonic_ns() if t0_ns is None else t0_ns
    directory = traces / DIRECTORY
    directory.mkdir(mode=0o700, exist_ok=True)
    path = directory / f"{t0_ns:020d}-{os.getpid()}-{next(_numbers)}{SUFFIX}"
    temporary = path.with_suffix(NEW_SUFFIX)
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        asked = {} if dump_after_ms is None else {"dump_after_ms": dump_after_ms}
        os.write(file, json.dumps({"t0_ns": t0_ns, "text": text} | asked).encode())
    finally:
        os.close(file)
    temporary.replace(path)
    return path


def is_watched(traces: Path) -> bool:
    """Whether a tracer takes markers there."""
    try:
        file = os.open(traces / DIRECTORY, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


class MarkSpool:
    """The tracer's side. `complain(reason)` is called once for what it refuses, until it has taken a good one again."""

    def __init__(self, traces: Path, complain: Callable[[str], object]) -> None:
        self._directory = traces / DIRECTORY
        self._complain = complain
        self._complained = False
        self._directory.mkdir(mode=0o700, exist_ok=True)
        self._lock = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._held = False
        self._empty_at: tuple[int, int] | None = None
        self._hold()

    def _hold(self) -> None:
        """Show that somebody watches, for as long as this process lives; somebody may be looking at this moment."""
        if not self._held:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                self._held = True
            except BlockingIOError:
                pass

    def take(self) -> list[Mark]:
        """Markers that wait, oldest first, at most MAX_AT_ONCE. Each stays until `done`."""
        self._hold()
        found: list[Mark] = []
        for name in sorted(self._names()):
            if len(found) >= MAX_AT_ONCE:
                break
            mark = self._read(self._directory / name)
            if mark is not None:
                found.append(mark)
        return found

    def _names(self) -> list[str]:
        """What lies there. It is asked for five times a second and more: one that was empty is not read again until it
        has changed."""
        status = os.stat(self._directory)
        now = status.st_ino, status.st_mtime_ns
        if now == self._empty_at:
            return []
        with os.scandir(self._directory) as entries:
            names = [entry.name for entry, _ in zip(entries, range(MAX_LOOKED_AT), strict=False)]
        is_certain = time.time_ns() - status.st_mtime_ns > CERTAIN_NS
        self._empty_at = now if is_certain and not names else None
        return names

    def done(self, mark: Mark) -> None:
        """It was recorded."""
        self._complained = False
        mark.path.unlink(missing_ok=True)

    def _read(self, path: Path) -> Mark | None:
        """The marker in a file; None if it holds none (any more), or is not complete yet."""
        try:
            return _parse(path)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            if not (path.suffix == NEW_SUFFIX and _is_young(path)):
                self._refuse(path, error)
        except OSError as error:
            if error.errno in _NO_FILE_OF_OURS:  # else it may be read the next time, or is gone
                self._refuse(path, error)
        return None

    def _refuse(self, path: Path, error: Exception) -> None:
        if not self._complained:
            self._complained = True
            self._complain(f"{path.name}: {error}")
        with contextlib.suppress(OSError):  # a directory: it stays and is passed over
            path.unlink(missing_ok=True)


def _parse(path: Path) -> Mark:
    """ValueError and others say what is wrong with the file."""
    if path.suffix != SUFFIX:
        raise ValueError("no marker has such a name")
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o077 or status.st_uid not in (0, os.geteuid()):
            raise ValueError("others than its owner may have written it")
        row = json.loads(os.read(file, MAX_FILE_BYTES))
    finally:
        os.close(file)
    text, t0_ns, after_ms = row["text"], row["t0_ns"], row.get("dump_after_ms")
    if not isinstance(text, str) or not 0 < len(text) <= MAX_TEXT_CHARS:
        raise ValueError("its text is empty or too long")
    if type(t0_ns) is not int or not 0 < t0_ns <= time.monotonic_ns() + _NS_PER_S:
        raise ValueError("its time is not one of this machine")
    if after_ms is not None and (type(after_ms) is not int or not 0 <= after_ms <= MAX_DUMP_AFTER_MS):
        raise ValueError("its dump goes on for too long")
    return Mark(path, text, t0_ns, after_ms)


def _is_young(path: Path) -> bool:
    try:
        return time.time() - path.lstat().st_mtime < 60
    except OSError:
        return True
