"""HTTP for the admin process, by the standard library: one thread for each connection, at most MAX_CONNECTIONS of them,
each with a deadline; GET and HEAD only, one request a connection. Imported at the first connection, because most
brokers are never asked.
"""

import socket
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Final

from mpbroker import __version__
from mpbroker.admin.pages import PLAIN, Page, Pages
from mpbroker.shm.process_context import ProcessContext

MAX_CONNECTIONS: Final = 16
READ_TIMEOUT_S: Final = 5.0
"""For the whole of the request, and for each send of the answer."""
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
        self._places = threading.BoundedSemaphore(MAX_CONNECTIONS)

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
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """The thread; gives its place back."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

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
