"""The Python stack of a process, on demand: every process of a broker registers `faulthandler` for SIGUSR2, and
`mpbroker status --stacks` asks.

faulthandler writes from C, in the signal handler itself: a process answers while it is stuck in a C call or in an
endless loop. Its stack goes into a memfd of its own, which dies with it and which whoever may signal it finds under
/proc/PID/fd: no file on a disk that may be full, no line in a log that nobody may read. A process that dies of a fault
writes its stack to stderr first. The supervisor registers for itself before the first fork, and around each fork for
the child.
"""

import contextlib
import faulthandler
import fcntl
import os
import signal
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mpbroker.shm import memfd

MEMFD_NAME = "mpbroker-stack"
SIGNAL = signal.SIGUSR2
TIMEOUT_S = 2.0
MAX_BYTES = 1 << 20  # of one process's stacks: 100 frames a thread, and there is one thread
_PAUSE_S = 0.02
_LOOKS = 10
_STOPPED = "it is stopped: by SIGSTOP (then SIGCONT lets it go on), or a debugger holds it"
_ENDED = "it has ended"
_CHILD = '/supervisor/launch.py", line ', " in _child"  # where a forked process begins; what follows is its parent's


class Stack(NamedTuple):
    """What one process answered: its frames, innermost first, or the reason why there are none."""

    pid: int
    frames: tuple[str, ...]
    reason: str


_own = -1  # the descriptor that this process writes to


def register() -> None:
    """Have this process write its stack into a memfd at SIGUSR2, and to stderr when it dies of a fault. Forks inherit
    the latter."""
    global _own
    _own = _memfd()
    write_to(_own)
    if not faulthandler.is_enabled():
        faulthandler.enable(file=2)


@contextlib.contextmanager
def of_children(count: int) -> Iterator[list[int]]:
    """Around forks: the memfd that each child will write to, and has to keep. All signals are blocked.

    The parent does it, for whatever a child touches costs it a page. It goes back to its own memfd afterwards.
    """
    descriptors: list[int] = []
    try:
        for _ in range(count):
            descriptors.append(_memfd())
        yield descriptors
    finally:
        write_to(_own)
        for descriptor in descriptors:
            os.close(descriptor)


def write_to(descriptor: int) -> None:
    """From now on this process's stack goes there."""
    faulthandler.register(SIGNAL, file=descriptor, all_threads=True)


def _memfd() -> int:
    descriptor = os.memfd_create(MEMFD_NAME, os.MFD_CLOEXEC)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_APPEND)  # whoever asks empties it: the next answer begins at 0
    return descriptor


def ask(pids: Iterable[int], timeout_s: float = TIMEOUT_S) -> list[Stack]:
    """The stacks of processes of a broker; waits at most `timeout_s` seconds for all of them together.

    PermissionError when they are another user's."""
    with contextlib.ExitStack() as opened:
        asked = [(pid, *_signal(pid, opened)) for pid in pids]
        deadline = time.monotonic() + timeout_s
        return [_collect(pid, descriptor, reason, deadline) for pid, descriptor, reason in asked]


def _signal(pid: int, opened: contextlib.ExitStack) -> tuple[int, str]:
    """Ask one process: the descriptor its answer comes to, or -1 and the reason why it was not asked."""
    try:
        state = state_of(pid)
        if state in ("", "Z", "T", "t"):
            return -1, _STOPPED if state in ("T", "t") else _ENDED
        path = _memfd_of(pid)
        if path is None or not _catches(pid):
            return -1, "it has just been started and cannot answer yet; ask again"
        pidfd = os.pidfd_open(pid)
        opened.callback(os.close, pidfd)
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        opened.callback(os.close, descriptor)
        os.ftruncate(descriptor, 0)
        signal.pidfd_send_signal(pidfd, SIGNAL)
    except (FileNotFoundError, ProcessLookupError):
        return -1, _ENDED
    return descriptor, ""


def _memfd_of(pid: int) -> str | None:
    """Where the process writes to. Around a fork, parent and child have two for a moment: then look again."""
    for _ in range(_LOOKS):
        found = memfd.find_all(pid, MEMFD_NAME)
        if len(found) == 1:
            return found[0]
        time.sleep(_PAUSE_S)
    return None


def _collect(pid: int, descriptor: int, reason: str, deadline: float) -> Stack:
    """Wait for the answer until it is there and grows no more."""
    if reason:
        return Stack(pid, (), reason)
    size = 0
    while True:
        time.sleep(_PAUSE_S)
        before, size = size, os.fstat(descriptor).st_size
        if size and size == before:
            text = os.pread(descriptor, MAX_BYTES, 0).decode(errors="replace")
            return Stack(pid, frames_of(text), "")
        if time.monotonic() > deadline:
            return Stack(pid, (), _why_silent(pid))


def frames_of(text: str) -> tuple[str, ...]:
    """The frames in faulthandler's text that are the process's own, innermost first."""
    frames = []
    for line in map(str.strip, text.splitlines()):
        if not line or line.startswith("Current thread"):
            continue
        if all(part in line for part in _CHILD):
            break
        frames.append(line)
    return tuple(frames)


def _why_silent(pid: int) -> str:
    state = state_of(pid)
    if state in ("T", "t"):
        return _STOPPED
    if state == "D":
        return f"it waits in the kernel and takes no signal (state D, {_kernel_wait(pid)}): look at the disk"
    return f"it did not answer in time (state {state or 'gone'})"


def state_of(pid: int) -> str:
    """The letter of /proc/PID/stat; empty when the process is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _catches(pid: int) -> bool:
    """Whether the process has a handler for the signal, which would end it otherwise."""
    with open(f"/proc/{pid}/status") as file:
        caught = next(line for line in file if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (SIGNAL - 1) & 1)


def _kernel_wait(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/wchan") as file:
            return f"in {file.read() or 'an unknown place'}"
    except OSError:
        return "in an unknown place"
