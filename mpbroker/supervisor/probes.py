"""The probes of all listeners together, in the supervisor's epoll loop; see ready.py for one of them."""

import select
import time

from mpbroker.shm.process_context import BoundListener
from mpbroker.supervisor.ready import ReadyProbe

AGAIN_S = 0.02


class Probes:
    """Asks every listener until each has answered once."""

    def __init__(self, epoll: select.epoll, listeners: tuple[BoundListener, ...]) -> None:
        self._epoll = epoll
        self._probes = [ReadyProbe(listener) for listener in listeners]
        self._by_fd: dict[int, ReadyProbe] = {}
        self._again_at = 0.0
        self.begun = False

    def begin(self) -> None:
        """Start, or start again, every probe that waits."""
        self.begun = True
        self._again_at = 0.0
        for probe in self._probes:
            if not probe.answered and probe.socket is None:
                try:
                    fd = probe.start().fileno()
                except OSError:
                    self._again_at = time.monotonic() + AGAIN_S
                    continue
                self._by_fd[fd] = probe
                self._epoll.register(fd, select.EPOLLIN)

    def readable(self, fd: int) -> None:
        """A descriptor is readable; nothing happens if it is not a probe's."""
        probe = self._by_fd.get(fd)
        if probe is None:
            return
        if probe.readable():  # closes its socket, which leaves the epoll set by that
            del self._by_fd[fd]
            if not probe.answered:
                self._again_at = time.monotonic() + AGAIN_S

    def step(self) -> bool:
        """Begin again what is due. True when every listener has answered."""
        if self._again_at and time.monotonic() >= self._again_at:
            self.begin()
        return self.begun and all(probe.answered for probe in self._probes)

    def timeout_s(self) -> float | None:
        """Seconds until `step` has something to do by itself."""
        return max(0.0, self._again_at - time.monotonic()) if self._again_at else None

    def close(self) -> None:
        """Give up."""
        for probe in self._probes:
            probe.close()
        self._by_fd.clear()
