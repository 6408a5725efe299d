"""A fork of a test's process that does something, says so, and is there until it is ended."""

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def waiting_child(act: Callable[[], object]) -> Iterator[tuple[int, socket.socket]]:
    """Its pid, and our end of a connection of which it has the other. It lives inside, unless it is ended before."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            _kept = act()
            theirs.send(b"!")
            while True:
                signal.pause()
        finally:
            os._exit(1)
    theirs.close()
    try:
        assert ours.recv(1), "the child failed"
        yield pid, ours
    finally:
        ours.close()
        with suppress(ChildProcessError):  # it was ended: its number may be another's by now
            if os.waitpid(pid, os.WNOHANG)[0] == 0:
                end(pid)


def end(pid: int) -> None:
    """As kill -9 does."""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
