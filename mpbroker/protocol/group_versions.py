"""The APIs that the coordinator answers, of groups and of transactions, and their versions that are advertised. Fixed
at import; any process.

Their requests are handed over to the coordinator process (docs/architecture.md), so they have no row in the table of
the request handlers. Their messages: `protocol.group_apis`, which only the coordinator needs.
"""

from __future__ import annotations

from typing import Final

from mpbroker.protocol.api_keys import ApiKey

VERSIONS: Final[dict[int, tuple[int, int]]] = {
    ApiKey.PRODUCE: (3, 13),
    ApiKey.OFFSET_COMMIT: (2, 9),
    ApiKey.OFFSET_FETCH: (1, 9),
    ApiKey.JOIN_GROUP: (0, 9),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.LEAVE_GROUP: (0, 5),
    ApiKey.SYNC_GROUP: (0, 5),
    ApiKey.DESCRIBE_GROUPS: (0, 5),
    ApiKey.LIST_GROUPS: (0, 5),
    ApiKey.DELETE_GROUPS: (0, 2),
    ApiKey.OFFSET_DELETE: (0, 0),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1),
    ApiKey.INIT_PRODUCER_ID: (0, 5),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 5),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 4),
    ApiKey.END_TXN: (0, 5),
    ApiKey.WRITE_TXN_MARKERS: (0, 1),
    ApiKey.TXN_OFFSET_COMMIT: (0, 5),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, 0),
    ApiKey.LIST_TRANSACTIONS: (0, 1),
}
"""API key → oldest and newest version."""

HANDED_OVER: Final[dict[int, tuple[int, int]]] = {
    key: versions for key, versions in VERSIONS.items() if key not in (ApiKey.INIT_PRODUCER_ID, ApiKey.PRODUCE)
}
"""Those whose requests all go there, unseen by request handlers: key → versions. InitProducerId goes there only when it
names a transactional id; Produce only on its way, for a transaction that does not know its partitions yet."""
