"""HTTP for the admin process, by the standard library: one thread for each connection, at most MAX_CONNECTIONS of them,
each with a deadline; GET and HEAD only, one request a connection. Imported at the first connection, because most
brokers are never asked.
"""

import contextlib
import socket
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Final

from mpbroker import __version__
from mpbroker.admin.pages import PLAIN, Page, Pages
from mpbroker.shm.process_context import ProcessContext

MAX_CONNECTIONS: Final = 16
READ_TIMEOUT_S: Final = 5.0
"""For each receive and send."""
MOST_S: Final = 15.0
"""For a connection in all: one that sends or reads a byte at a time keeps nobody else out."""
_BUSY: Final = b"HTTP/1.0 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"


class AdminServer(ThreadingMixIn, TCPServer):
    """Takes connections of a socket that listens already. `handle_request` takes one, without waiting."""

    daemon_threads = True
    block_on_close = False
    timeout = 0

    def __init__(self, listening: socket.socket, context: ProcessContext) -> None:
        super().__init__(("", 0), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.context = context
        self._pages = Pages(context)
        self._ends_s: dict[socket.socket, float] = {}
        self._places = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self.not_taken: OSError | None = None

    def get_request(self) -> Any:
        """Take a connection; why none could be taken is kept in `not_taken`, for the base class says nothing of it."""
        self.not_taken = None
        try:
            return super().get_request()
        except BlockingIOError:  # the client went away meanwhile
            raise
        except OSError as error:
            self.not_taken = error
            raise

    def tick(self) -> None:
        """Once a turn of the admin process."""
        self._pages.tick()

    def page(self, path: str) -> Page:
        """The page at a path; 500 when it cannot be made, which is logged."""
        try:
            return self._pages.get(path)
        except Exception as error:
            self.context.log.exception("admin_page_failed", error, path)
            return Page(500, PLAIN, b"the page cannot be made; the broker's log says why\n")

    def process_request(self, request: Any, client_address: Any) -> None:
        """A thread of its own, if there is a place; else a short refusal."""
        if not self._places.acquire(blocking=False):
            request.setblocking(False)
            request.send(_BUSY)
            self.shutdown_request(request)
            return
        self._ends_s[request] = time.monotonic() + MOST_S
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be begun
            self._ends_s.pop(request, None)
            self._places.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """The thread; gives its place back."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._ends_s.pop(request, None)
            self._places.release()

    def cut_off(self) -> None:
        """End connections that have lasted too long; the admin process calls it in every turn."""
        now_s = time.monotonic()
        for connection, end_s in list(self._ends_s.items()):
            if now_s >= end_s:
                with contextlib.suppress(OSError):  # it has ended meanwhile
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is nobody's error."""


class _Handler(BaseHTTPRequestHandler):
    """One request. The base class bounds the request line and the number and length of headers."""

    server: AdminServer
    server_version = f"mpbroker/{__version__}"
    sys_version = ""
    timeout = READ_TIMEOUT_S

    def do_GET(self) -> None:
        """Answer with the page."""
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        """The same without its body."""
        self._answer(with_body=False)

    def _answer(self, with_body: bool) -> None:
        page = self.server.page(self.path)
        self.send_response(HTTPStatus(page.status))
        self.send_header("Content-Type", page.content_type)
        self.send_header("Content-Length", str(len(page.body)))
        self.end_headers()
        if with_body:
            self.wfile.write(page.body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: scrapes are no news."""
