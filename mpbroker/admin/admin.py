"""The admin process: metrics and health over HTTP, on its own listener (`mpbroker.admin.listener`).

It writes nothing but its own row of the process table, and reads shared memory like `status` does: a scrape disturbs no
request. Nobody waits for it: it is forked when the broker is ready, its socket listens from the start on.
"""

import select
import socket
from typing import TYPE_CHECKING

from mpbroker.shm.process_context import ProcessContext
from mpbroker.shm.process_table import ProcessState, WaitName

if TYPE_CHECKING:
    from mpbroker.admin.http_server import AdminServer

POLL_S = 0.3


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

    def turn(self) -> None:
        """One turn, of at most POLL_S."""
        self._ctx.process_row.set_wait(WaitName.ACCEPT)
        events = self._epoll.poll(POLL_S)
        self._ctx.process_row.set_wait(WaitName.NONE)
        self._ctx.drain_wakeups()
        self._ctx.take_reload()
        self._ctx.log.tick()
        if self._server is not None:
            self._server.cut_off()
        if any(fd == self._listening.fileno() for fd, _ in events):
            self._serve()

    def _serve(self) -> None:
        if self._server is None:
            from mpbroker.admin.http_server import AdminServer

            self._server = AdminServer(self._listening, self._ctx)
        self._server.handle_request()
