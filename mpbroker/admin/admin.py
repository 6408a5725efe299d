"""The admin process: metrics and health over HTTP, on its own listener (`mpbroker.admin.listener`).

It writes nothing but its own row of the process table, and reads shared memory like `status` does: a scrape disturbs no
request. Nobody waits for it: it is forked when the broker is ready, its socket listens from the start on.
"""

import select
import socket
import time
from typing import TYPE_CHECKING

from mpbroker.shm.process_context import ProcessContext
from mpbroker.shm.process_table import ProcessState, WaitName

if TYPE_CHECKING:
    from mpbroker.admin.http_server import AdminServer

POLL_S = 0.5
PAUSE_S = 0.1
"""After a connection could not be taken: without, an epoll that says so again at once would keep a core busy."""


def main(ctx: ProcessContext) -> None:
    """Run until asked to stop."""
    assert ctx.listen_socket is not None
    admin = Admin(ctx, ctx.listen_socket)
    ctx.running()
    while not ctx.stop_requested():
        admin.turn()
    ctx.process_row.set_state(ProcessState.STOPPING)


class Admin:
    """The loop: waits for a connection or a signal, hands connections to the HTTP server."""

    def __init__(self, ctx: ProcessContext, listening: socket.socket) -> None:
        self._ctx = ctx
        self._listening = listening
        self._server: AdminServer | None = None
        self._epoll = select.epoll()
        self._epoll.register(ctx.wakeup_fd, select.EPOLLIN)
        self._epoll.register(listening, select.EPOLLIN)
        self._paused_until_s = 0.0
        self._is_said = False

    def turn(self) -> None:
        """One turn, of at most POLL_S."""
        self._ctx.process_row.set_wait(WaitName.ACCEPT)
        events = self._epoll.poll(self._listen_again())
        self._ctx.process_row.set_wait(WaitName.NONE)
        self._ctx.drain_wakeups()
        self._ctx.take_reload()
        self._ctx.log.tick()
        if self._server is not None:
            self._server.cut_off()
            self._server.tick()
        if any(fd == self._listening.fileno() for fd, _ in events):
            self._serve()

    def _serve(self) -> None:
        try:
            if self._server is None:
                from mpbroker.admin.http_server import AdminServer

                self._server = AdminServer(self._listening, self._ctx)
            self._server.handle_request()
        except OSError as error:  # no descriptor, or no memory, for the server itself
            self._pause(error)
            return
        if self._server.not_taken is not None:
            self._pause(self._server.not_taken)
        else:
            self._is_said = False

    def _pause(self, error: OSError) -> None:
        """Out of descriptors or memory: it passes, and until then connections wait in the socket's queue."""
        if not self._is_said:
            self._ctx.log.warning("accept_failed", "admin", listener="admin", error=error)
        self._is_said = True
        self._paused_until_s = time.monotonic() + PAUSE_S
        self._epoll.unregister(self._listening)

    def _listen_again(self) -> float:
        """Seconds to wait for; a pause that is over ends."""
        if self._paused_until_s == 0.0:
            return POLL_S
        left_s = self._paused_until_s - time.monotonic()
        if left_s > 0:
            return left_s
        self._paused_until_s = 0.0
        self._epoll.register(self._listening, select.EPOLLIN)
        return POLL_S
