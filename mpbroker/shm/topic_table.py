"""Topic rows, the change journal and partition chains in the core segment (native/shm/metadata.h); a door to the C
core.

Any process may read. Only the controller calls `topic_write`, `journal_append`, `journal_skip`, `partition_link` and
`rows_raise`.
"""

from typing import Final, NamedTuple

from mpbroker import _native
from mpbroker.shm.core import Core

MAX_OVERRIDES_BYTES: Final = 3584
"""Most bytes of a topic's settings as JSON (MPB_TOPIC_BLOB)."""

journal_append = _native.journal_append
journal_since = _native.journal_since
journal_skip = _native.journal_skip
metadata_generation = _native.metadata_generation
partition_link = _native.partition_link
rows_high = _native.rows_high
rows_raise = _native.rows_raise
topic_count = _native.topic_count
topic_partitions = _native.topic_partitions
topic_write = _native.topic_write
topics_changed = _native.topics_changed


class TopicRow(NamedTuple):
    """A consistent copy of a topic row. `selector` counts its changes, `overrides` is a JSON object."""

    selector: int
    flags: int
    id: bytes
    name: str
    partition_count: int
    first_ordinal: int
    overrides: bytes
    version: int


class PartitionWho(NamedTuple):
    """Whom a partition row belongs to. `next_ordinal` is one more than the next partition's row, 0 for the last."""

    flags: int
    topic_row: int
    partition: int
    next_ordinal: int
    topic_id: bytes
    dir: str
    log_dir: int = 0


def topic_read(core: Core, row: int) -> TopicRow | None:
    """The row as it is now, None if it was never written."""
    found = _native.topic_read(core, row)
    return None if found is None else TopicRow._make(found)


def partition_who(core: Core, ordinal: int) -> PartitionWho:
    """The identity in a partition row; only the controller may rely on all of it fitting together."""
    return PartitionWho._make(_native.partition_who(core, ordinal))
