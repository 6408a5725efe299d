"""The APIs that the coordinator answers, of groups and of transactions: key, versions, messages. Fixed at import; any
process.

Their requests are handed over to the coordinator process (docs/architecture.md), so they have no row in the table of
the request handlers. Which of their versions are advertised is read here.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages import REQUESTS, RESPONSES
from mpbroker.protocol.types import Struct


class GroupApi(NamedTuple):
    """One API. `takes_empty_id`: whether Kafka lets the empty string be a group id there."""

    key: int
    versions: tuple[int, int]
    request: type[Struct]
    response: type[Struct]
    takes_empty_id: bool


def _row(key: int, lowest: int, highest: int, takes_empty_id: bool = False) -> GroupApi:
    return GroupApi(key, (lowest, highest), REQUESTS[key], RESPONSES[key], takes_empty_id)


BY_KEY: Final[dict[int, GroupApi]] = {
    row.key: row
    for row in (
        _row(ApiKey.PRODUCE, 12, 13),
        _row(ApiKey.OFFSET_COMMIT, 2, 9, True),
        _row(ApiKey.OFFSET_FETCH, 1, 9, True),
        _row(ApiKey.JOIN_GROUP, 0, 9),
        _row(ApiKey.HEARTBEAT, 0, 4),
        _row(ApiKey.LEAVE_GROUP, 0, 5),
        _row(ApiKey.SYNC_GROUP, 0, 5),
        _row(ApiKey.DESCRIBE_GROUPS, 0, 5, True),
        _row(ApiKey.LIST_GROUPS, 0, 5),
        _row(ApiKey.DELETE_GROUPS, 0, 2, True),
        _row(ApiKey.OFFSET_DELETE, 0, 0),
        _row(ApiKey.INIT_PRODUCER_ID, 0, 5),
        _row(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5),
        _row(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4),
        _row(ApiKey.END_TXN, 0, 5),
        _row(ApiKey.WRITE_TXN_MARKERS, 0, 1),
        _row(ApiKey.TXN_OFFSET_COMMIT, 0, 5),
        _row(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0),
        _row(ApiKey.LIST_TRANSACTIONS, 0, 1),
    )
}
"""API key → row."""

HANDED_OVER: Final[dict[int, tuple[int, int]]] = {
    key: row.versions for key, row in BY_KEY.items() if key not in (ApiKey.INIT_PRODUCER_ID, ApiKey.PRODUCE)
}
"""Those whose requests all go there, unseen by request handlers: key → versions. InitProducerId goes there only when it
names a transactional id; Produce only on its way, for a transaction that does not know its partitions yet."""
