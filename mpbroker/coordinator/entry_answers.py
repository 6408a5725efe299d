"""Answers of the coordinator: encoded, put into their entries, tried again while there is no memory for them.

Runs in the coordinator process. A request is *in hand* while it is executed; what is not answered then is parked: its
entry stays CLAIMED by the coordinator's slot, and a successor puts it back.
"""

from __future__ import annotations

from contextlib import suppress

from mpbroker.channel.handler_port import HandlerPort, Request
from mpbroker.channel.request_log import naming
from mpbroker.channel.response_frame import encode_answer
from mpbroker.errors import ErrorCode
from mpbroker.protocol.types import Struct
from mpbroker.shm.events import Events
from mpbroker.shm.layout import ParkedKind
from mpbroker.shm.process_table import ProcessRow

RETRY_MS, PATIENCE_MS = 20, 30_000


class EntryAnswers:
    """The requests this process holds, and answers that wait for memory."""

    def __init__(self, port: HandlerPort, row: ProcessRow, log: Events) -> None:
        self._port = port
        self._row = row
        self._log = log
        self._in_hand: Request | None = None
        self._parked: set[Request] = set()
        self._waiting: list[tuple[Request, bytes, int]] = []  # frame, end of patience

    @property
    def parked(self) -> int:
        """Requests that wait for something."""
        return len(self._parked)

    def take(self, request: Request) -> None:
        """A claimed request is executed from now on."""
        self._in_hand = request

    def park(self) -> bool:
        """The request in hand has been executed: if it is not answered yet, it waits. Whether it does."""
        request, self._in_hand = self._in_hand, None
        if request is None:
            return False
        self._port.park(request, ParkedKind.COORDINATOR)
        self._parked.add(request)
        return True

    def answer(self, request: Request, message: Struct, now_ms: int) -> None:
        """Sends the response of a request in hand or parked. Of one that is answered already, nothing."""
        if not self._take_back(request):
            return
        try:
            frame = encode_answer(request, message)
        except ValueError as error:  # a name that got longer when it was read
            self._refuse(request, "unanswerable", str(error))
            return
        if not self._port.answer(request, frame):
            self._waiting.append((request, frame, now_ms + PATIENCE_MS))

    def give_back(self, request: Request) -> None:
        """Request handlers go on with it."""
        if self._take_back(request):
            self._port.give_back(request)

    def refuse(self, request: Request, reason: str, detail: str = "", code: int = ErrorCode.INVALID_REQUEST) -> None:
        """Closes the connection of a request that cannot be answered."""
        if self._take_back(request):
            self._refuse(request, reason, detail, code)

    def close(self, request: Request, message: Struct | None, code: int) -> None:
        """Sends the response, if there is one and it can be written, and closes the connection."""
        if not self._take_back(request):
            return
        frame = b""
        if message is not None:
            with suppress(ValueError):  # unwritable: the close alone tells
                frame = encode_answer(request, message)
        self._port.answer_close(request, code, frame)

    def close_parked(self) -> None:
        """The broker ends: who waits is told by the end of the connection, as by Kafka."""
        for request in list(self._parked):
            self.close(request, None, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def retry(self, now_ms: int) -> None:
        """Tries again what found no memory."""
        waiting, self._waiting = self._waiting, []
        for request, frame, patience_ends_ms in waiting:
            if self._port.answer(request, frame):
                continue
            if now_ms < patience_ends_ms:
                self._waiting.append((request, frame, patience_ends_ms))
            else:
                self._refuse(request, "no_answer_memory")

    def next_due_ms(self, now_ms: int) -> int | None:
        """When to call `retry`."""
        return now_ms + RETRY_MS if self._waiting else None

    def _take_back(self, request: Request) -> bool:
        if request is self._in_hand:
            self._in_hand = None
            return True
        if request not in self._parked:
            return False
        self._parked.discard(request)
        self._port.resume(request)
        return True

    def _refuse(
        self, request: Request, reason: str, detail: str = "", code: int = ErrorCode.UNKNOWN_SERVER_ERROR
    ) -> None:
        self._row.count("requests_refused")
        named = naming(request)
        about = f"{named['client_id']} {named['api']} {reason}"
        self._log.warning("request_refused", about, reason=reason, **named, detail=detail)
        self._port.answer_close(request, code)
