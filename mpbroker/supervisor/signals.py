"""Signals of the supervisor: handlers set flags, a pipe wakes its epoll loop (Python restarts epoll_wait after
EINTR)."""

import os
import signal

_STOP = (signal.SIGTERM, signal.SIGINT)
CATCHABLE = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR1)


class SupervisorSignals:
    """Flags set by signals: `stops` counts SIGTERM and SIGINT, `reload` is set by SIGHUP, `dump` by SIGUSR1. `fd` is
    readable after one."""

    def __init__(self) -> None:
        self.stops = 0
        self.reload = False
        self.dump = False
        self.fd, self._write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        for number in _STOP:
            signal.signal(number, self._on_stop)
        signal.signal(signal.SIGHUP, self._on_reload)
        signal.signal(signal.SIGUSR1, self._on_dump)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)

    def drain(self) -> None:
        """Empty the pipe."""
        try:
            while os.read(self.fd, 512):
                pass
        except BlockingIOError:
            pass

    def _on_stop(self, _number: int, _frame: object) -> None:
        self.stops += 1

    def _on_dump(self, _number: int, _frame: object) -> None:
        self.dump = True

    def _on_reload(self, _number: int, _frame: object) -> None:
        self.reload = True


def reset_for_child() -> None:
    """In a freshly forked child: no wakeup pipe of the supervisor, every handler back to its default but that of
    stacks.py, which is the child's already."""
    signal.set_wakeup_fd(-1)
    for number in CATCHABLE:
        signal.signal(number, signal.SIG_DFL)
