"""A connection of a load generator whose next request follows from the last answer: a member of a group, a producer in
a transaction. One request is in flight at a time.

Owned by one generator process; everything but what is said is LoadConnection's.
"""

from __future__ import annotations

from mpbroker.analysis.lab.client_log import ClientLog
from mpbroker.analysis.lab.conversations import Ask, Conversation
from mpbroker.analysis.lab.load_connection import LoadConnection
from mpbroker.client.prepared_request import PreparedRequest
from mpbroker.protocol.codec import decode
from mpbroker.protocol.headers import decode_response_header, encode_request_frame
from mpbroker.protocol.schema import schema_of

_NOTHING_PREPARED = PreparedRequest(b"", None)


class TalkingConnection(LoadConnection):
    """`conversation` says what is sent next, and hears the answer."""

    def __init__(
        self,
        number: int,
        address: tuple[str, int],
        conversation: Conversation,
        client_id: str,
        first_corr_id: int,
        log: ClientLog,
    ) -> None:
        super().__init__(number, address, _NOTHING_PREPARED, 1, first_corr_id, log)
        self._conversation, self._client_id = conversation, client_id
        self._asked: Ask

    def _frame_of(self, corr_id: int) -> memoryview:
        self._asked = self._conversation.ask()
        return memoryview(encode_request_frame(self._asked.message, self._asked.version, corr_id, self._client_id))

    def _error_of(self, answer: memoryview) -> int:
        asked, version, shape = self._asked
        _, body_at = decode_response_header(schema_of(type(asked)).key, version, answer, 4)
        return self._conversation.hear(decode(shape, version, answer, body_at))
