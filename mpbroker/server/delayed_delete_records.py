"""DelayedDeleteRecords: log starts that were moved and are not written down yet. Lives in the handler that claimed the
request.

The log keeper writes them down and rings (mpbroker/log/record_deletion.py). After this handler's death another one runs
the request again: what is deleted already stays so, and is waited for again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from mpbroker.channel.handler_port import Request
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.delete_records import DeleteRecordsPartitionResult, DeleteRecordsResponse
from mpbroker.server.server_context import ParkedRequest, ServerContext
from mpbroker.shm.layout import ParkedKind

NO_LOW_WATERMARK: Final = -1


class MovedStart(Struct, eq=False):
    """A partition whose log begins at `start` from now on, and its place in the answer."""

    topic_id: bytes
    ordinal: int
    start: int
    result: DeleteRecordsPartitionResult

    def refuse(self, code: int) -> None:
        """An error instead."""
        self.result.error_code = code
        self.result.low_watermark = NO_LOW_WATERMARK


class DelayedDeleteRecords(ParkedRequest):
    """Completes when every partition's log start is written down or the partition is gone."""

    PARKED_KIND = ParkedKind.PRODUCE  # as for a Produce: until it is on disk
    __slots__ = ("moved", "response")

    def __init__(
        self,
        context: ServerContext,
        request: Request,
        deadline_ms: int,
        moved: Sequence[MovedStart],
        response: DeleteRecordsResponse,
    ) -> None:
        super().__init__(context, request, deadline_ms, {each.ordinal for each in moved})
        self.moved = list(moved)
        self.response = response

    def try_complete(self) -> bool:
        self.context.metadata.refresh()
        self.moved = [each for each in self.moved if not self._settled(each)]
        return not self.moved

    def _settled(self, moved: MovedStart) -> bool:
        if self.context.metadata.topic_by_id(moved.topic_id) is None:
            moved.refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return True
        state = self.context.log_manager.state(moved.ordinal)
        if state is None:
            moved.refuse(ErrorCode.KAFKA_STORAGE_ERROR)
            return True
        if state.start_written < moved.start:
            return False
        moved.result.low_watermark = state.start_written
        return True

    def on_expiration(self) -> None:
        self.request.flag_timed_out()
        self.context.count("purgatory_expired")
        for each in self.moved:
            each.result.error_code = ErrorCode.REQUEST_TIMED_OUT

    def on_complete(self) -> None:
        self.context.resume(self.request)
        self.context.answer(self.request, self.response)
