"""Who lives, among the brokers of one machine that share a SQLite store: files in `<store>-sessions/`.

`<owner>`  its first byte is locked by the supervisor of the broker of that name, for as long as that lives: the kernel
           gives a POSIX lock up at its holder's death, whoever else lives on. Behind it stands who took the lock, and
           that processors of the broker lock bytes for their listeners (listener_locks.py).
`s-<id>`   the time at which the process of a session last said that it lives (CLOCK_MONOTONIC, one for the machine).
`bell-*`   a pipe of each process that watches the store (store_bell.py).

Written by supervisors (owners) and by the agents that open the store. A process that holds a lock must not open the
same owner's file a second time: closing any descriptor of a file gives up its process's POSIX locks on it.
"""

import errno
import fcntl
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from mpbroker.metadata.meta_store import StoreError

_FLOCK: Final = "hhqqi4x"  # struct flock of 64-bit Linux: type, whence, start, length, pid
_BEAT: Final = struct.Struct("<q")
_LINE_BYTES: Final = 256
NEVER_MS: Final = 1 << 62


class Mark(NamedTuple):
    """A text at its place of an owner's file."""

    at: int
    text: bytes


LISTENERS_LOCKED: Final = Mark(2 * _LINE_BYTES, b"listeners\n")
"""Behind what releases read that know nothing of it; one of those takes it away when it takes the owner's lock."""


class OwnerAlive(StoreError):
    """Another process holds the lock of this owner."""

    def __init__(self, owner: str, pid: int) -> None:
        super().__init__(f"{owner} runs already on this machine and store (pid {pid or 'unknown'})")


class Holder(NamedTuple):
    """Who holds an owner's lock: boot id of its kernel, an id of this one start, its pid (0: not to be seen)."""

    machine: str
    start: str
    pid: int


def machine_id() -> str:
    """This machine and its start: another one, or the same after a reboot, has another."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def directory_of(store: str | Path) -> Path:
    """Where the files of a store are."""
    return Path(f"{store}-sessions")


class OwnerLock:
    """The lock of one owner, held until `close` or until this process ends."""

    def __init__(self, store: str | Path, owner: str) -> None:
        directory = directory_of(store)
        directory.mkdir(mode=0o700, exist_ok=True)
        self._descriptor = os.open(directory / owner, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except OSError as error:
            pid = lock_pid(self._descriptor)
            os.close(self._descriptor)
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            raise OwnerAlive(owner, pid or 0) from None
        line = f"\n{machine_id()} {os.urandom(16).hex()}\n".encode()
        content = line.ljust(LISTENERS_LOCKED.at, b"\n") + LISTENERS_LOCKED.text
        os.pwrite(self._descriptor, content, 0)
        os.ftruncate(self._descriptor, len(content))

    def close(self) -> None:
        """Give it up: the sessions of this owner end."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class SessionFiles:
    """The files as an agent sees them. Descriptors of owners' files stay open until `close`."""

    def __init__(self, store: str | Path, monotonic_ms: Callable[[], int]) -> None:
        self.directory = directory_of(store)
        self.directory.mkdir(mode=0o700, exist_ok=True)
        self._monotonic_ms = monotonic_ms
        self._owners: dict[str, int] = {}
        self._beats: dict[int, int] = {}

    def holder(self, owner: str) -> Holder | None:
        """Who holds the owner's lock; None: nobody does."""
        try:
            descriptor = self._owners.get(owner, -1)
            if descriptor < 0:
                path = self.directory / owner
                descriptor = self._owners[owner] = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            pid = lock_pid(descriptor)
            words = os.pread(descriptor, _LINE_BYTES, 0).decode("ascii", "replace").split()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"{self.directory / owner}: {error.strerror}") from error
        return None if pid is None or len(words) != 2 else Holder(words[0], words[1], pid)

    def beat(self, session: int) -> None:
        """The session's process lives now."""
        descriptor = self._beats.get(session, -1)
        if descriptor < 0:
            path = self._beat_file(session)
            descriptor = self._beats[session] = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.pwrite(descriptor, _BEAT.pack(self._monotonic_ms()), 0)

    def silent_ms(self, session: int) -> int:
        """For how long the session's process has not said that it lives; NEVER_MS if it never did."""
        try:
            with open(self._beat_file(session), "rb") as file:
                content = file.read(_BEAT.size)
        except FileNotFoundError:
            return NEVER_MS
        return self._monotonic_ms() - _BEAT.unpack(content)[0] if len(content) == _BEAT.size else NEVER_MS

    def beat_changed_ns(self, session: int) -> int:
        """When the file of its beats was last written, by the file system's clock; 0 if it is not there."""
        try:
            return os.stat(self._beat_file(session)).st_mtime_ns
        except FileNotFoundError:
            return 0

    def forget(self, session: int) -> None:
        """The session has ended."""
        if (descriptor := self._beats.pop(session, -1)) >= 0:
            os.close(descriptor)
        self._beat_file(session).unlink(missing_ok=True)

    def sweep(self, living: set[int]) -> None:
        """Take away what sessions left that are no more."""
        for path in self.directory.glob("s-*"):
            if path.name[2:].isdigit() and int(path.name[2:]) not in living:
                self.forget(int(path.name[2:]))

    def close(self) -> None:
        """Close all descriptors."""
        for descriptor in (*self._owners.values(), *self._beats.values()):
            os.close(descriptor)
        self._owners.clear()
        self._beats.clear()

    def _beat_file(self, session: int) -> Path:
        return self.directory / f"s-{session}"


def lock_pid(descriptor: int, byte: int = 0) -> int | None:
    """Who has locked a byte (0: a process that cannot be seen from here), None: nobody."""
    asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
    kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    return None if kind == fcntl.F_UNLCK else pid
