"""The acceptor: one process that takes the connections of every listener and hands them to the listener's processors.

The control plane's listener comes first in each turn, and again after each other one, of which a turn takes a bounded
number of connections: a flood of clients never delays brokers for longer than that takes. Listeners come and go while
it runs (KIP-226). Whatever happens to it, the listening sockets and both ends of every socketpair stay open in the
supervisor: the kernel keeps new connections in the backlog meanwhile.
"""

import select
import socket
import time
from collections.abc import Collection

from mpbroker.network import listener_passing
from mpbroker.network.listener_acceptor import ListenerAcceptor
from mpbroker.shm.process_context import ProcessContext
from mpbroker.shm.process_table import BrokerState, ProcessState, WaitName
from mpbroker.shm.scheduling import prefer_latency

POLL_MS, SHORT_POLL_MS = 500, 10
RANK_EVERY_S = 1.0
START_POLL_S, MAX_START_POLL_S, START_POLL_GROWTH = 0.001, 0.02, 1.01


def main(ctx: ProcessContext) -> None:
    """Run until asked to stop."""
    acceptor = Acceptor(ctx)
    ctx.running()
    wait_for_start(ctx)
    while not ctx.stop_requested():
        acceptor.turn(POLL_MS)
    ctx.process_row.set_state(ProcessState.STOPPING)
    acceptor.close()


def wait_for_start(ctx: ProcessContext) -> None:
    """Until the controller has recovered and all serve: before, a client would see a broker without its topics. A
    successor finds it done. It looks each millisecond, later each 20: nobody has to ring, and no start waits for a
    fork."""
    pause_s = START_POLL_S
    while ctx.core.state in (BrokerState.STARTING, BrokerState.RESETTING) and not ctx.stop_requested():
        ctx.process_row.set_wait(WaitName.ACCEPT)
        time.sleep(pause_s)
        pause_s = min(MAX_START_POLL_S, pause_s * START_POLL_GROWTH)


class Acceptor:
    """The accept loop. `turn` waits at most the time given, then does all there is to do.

    `listeners`: those it accepts for, by index, the control plane's first.
    """

    def __init__(self, ctx: ProcessContext) -> None:
        assert ctx.listener_channel is not None
        self._ctx = ctx
        self._channel = ctx.listener_channel
        self._epoll = select.epoll()
        self._epoll.register(ctx.wakeup_fd, select.EPOLLIN)
        self._epoll.register(self._channel, select.EPOLLIN)
        self.listeners: dict[int, ListenerAcceptor] = {}
        self._rank_due = 0.0
        self._let_go: list[int] = []  # the supervisor is to hear of them
        for index, listening in ctx.listen_sockets.items():
            self._add(index, listening)
        self._keep_rank()

    def turn(self, timeout_ms: int) -> None:
        """One turn: listeners that come or go; answers of processors, their deaths, new connections, hand-overs."""
        row = self._ctx.process_row
        row.set_wait(WaitName.ACCEPT)
        ready = {fd for fd, _ in self._epoll.poll(self._timeout_ms(timeout_ms) / 1000)}
        row.set_wait(WaitName.NONE)
        self._ctx.drain_wakeups()
        self._ctx.log.tick()
        self._keep_rank()
        self._reload()
        if self._channel.fileno() in ready:
            self._take_listeners()
        if self._let_go:
            self._let_go = [index for index in self._let_go if not listener_passing.let_go(self._channel, index)]
        self._serve(ready)

    def close(self) -> None:
        """Close what no processor has acknowledged; the clients see a closed connection."""
        for each in self.listeners.values():
            each.close()
        self.listeners.clear()

    def _serve(self, ready: Collection[int]) -> None:
        for each in self.listeners.values():
            each.hear(ready)
        control = [each for each in self.listeners.values() if each.is_control]
        for each in self.listeners.values():
            each.serve()
            if not each.is_control:
                for urgent in control:
                    urgent.serve()

    def _keep_rank(self) -> None:
        """With a control plane: asked for again once a second, for a flood of clients takes it."""
        if self._ctx.serves_control_plane and time.monotonic() >= self._rank_due:
            self._rank_due = time.monotonic() + RANK_EVERY_S
            prefer_latency(self._ctx.config.mpbroker_control_plane_scheduling)

    def _timeout_ms(self, timeout_ms: int) -> int:
        """Short while a listener waits for what rings no bell."""
        if self._let_go or any(each.awaits_others for each in self.listeners.values()):
            return min(timeout_ms, SHORT_POLL_MS)
        return timeout_ms

    # ---- listeners that come and go

    def _reload(self) -> None:
        config = self._ctx.take_reload()
        if config is None:
            return
        self._drop_removed()
        for each in self.listeners.values():
            each.use_config(config)

    def _drop_removed(self) -> None:
        present = {listener.index: listener for listener in self._ctx.listeners if not listener.removed}
        for index in [index for index in self.listeners if index not in present]:
            self.listeners.pop(index).close()
            self._let_go.append(index)
        for index, each in self.listeners.items():
            each.listener = present[index]

    def _take_listeners(self) -> None:
        """The supervisor publishes a listener, then passes its socket."""
        while (passed := listener_passing.receive(self._channel)) is not None:
            self._ctx.renew_listeners()
            self._drop_removed()
            known = any(one.index == passed.index and not one.removed for one in self._ctx.listeners)
            if passed.listening is None or not known or passed.index in self.listeners:
                self._refuse(passed)
            else:
                self._add(passed.index, passed.listening)

    def _refuse(self, passed: listener_passing.Passed) -> None:
        """A socket for which there was no descriptor is passed again, that of a listener which is gone again is not."""
        if passed.listening is not None:
            passed.listening.close()
        if passed.index not in self.listeners:
            self._let_go.append(passed.index)

    def _add(self, index: int, listening: socket.socket) -> None:
        self.listeners[index] = ListenerAcceptor(self._ctx, self._ctx.listeners[index], listening, self._epoll)
        self.listeners = dict(sorted(self.listeners.items(), key=lambda item: (not item[1].is_control, item[0])))
