"""The controller's side of the metadata snapshot: writes topic rows and announces each change in the journal.

Runs in the controller alone, which is the only writer. Costs O(change): a topic is one row, one journal word and one
step of the generation. A controller killed between two of these is cured by its successor: `recover` reads what is
there, the caller publishes what its store says, and `announce_all` makes every reader look at every row once.
"""

from collections import deque

import msgspec

from mpbroker.shm.core import Core
from mpbroker.shm.layout import TopicFlags
from mpbroker.shm.topic_table import (
    MAX_OVERRIDES_BYTES,
    TopicRow,
    journal_append,
    journal_skip,
    rows_high,
    rows_raise,
    topic_count,
    topic_read,
    topic_write,
)


class TopicImage(msgspec.Struct, frozen=True):
    """What the snapshot shows of a topic. `overrides` as JSON, `version`: store revision it was last changed at."""

    id: bytes
    name: str
    partition_count: int
    first_ordinal: int
    internal: bool
    overrides: bytes
    version: int

    @property
    def flags(self) -> int:
        """The row's flags."""
        return TopicFlags.EXISTS | (TopicFlags.INTERNAL if self.internal else 0)


def encode_overrides(configs: dict[str, str]) -> bytes | None:
    """A topic's settings as the row keeps them; None if they are too long for it."""
    encoded = msgspec.json.encode(configs)
    return encoded if len(encoded) <= MAX_OVERRIDES_BYTES else None


class MetadataSnapshot:
    """All topic rows, from the writer's point of view."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._rows = topic_count(core)
        self._free: deque[int] = deque()

    def recover(self) -> dict[bytes, int]:
        """Rows in use, by topic id; everything else is free from here on."""
        used: dict[bytes, int] = {}
        self._free.clear()
        for row in range(rows_high(self._core)[0]):
            found = topic_read(self._core, row)
            if found is not None and _shows_topic(found):
                used[found.id] = row
            else:
                self._free.append(row)
        return used

    @property
    def free_rows(self) -> int:
        """How many topics there is room for."""
        return len(self._free) + self._rows - rows_high(self._core)[0]

    def reserve(self, wanted: int | None = None) -> int:
        """Take a free row, used ones first, or the given one if it is free; IndexError when the table is full."""
        if wanted is not None and wanted in self._free:
            self._free.remove(wanted)
            return wanted
        if self._free:
            return self._free.popleft()
        row: int = rows_high(self._core)[0]
        rows_raise(self._core, row + 1, 0)
        return row

    def release(self, row: int) -> None:
        """Give back a reserved row that shows no topic."""
        self._free.append(row)

    def publish(self, row: int, image: TopicImage) -> bool:
        """Show the topic in its row and announce it; False: the row shows exactly this already."""
        found = topic_read(self._core, row)
        if found is not None and found[1:] == _row_values(image):
            return False
        topic_write(self._core, row, *_row_values(image))
        journal_append(self._core, row)
        return True

    def retire(self, row: int) -> None:
        """Show that the topic of this row is gone. The row is not free before `release`."""
        found = topic_read(self._core, row)
        if found is None or not _shows_topic(found):
            return
        topic_write(self._core, row, TopicFlags.DELETING, *found[2:])
        journal_append(self._core, row)

    def announce(self, row: int) -> None:
        """Make readers look at a row again that shows what it showed: something behind it has changed."""
        journal_append(self._core, row)

    def announce_all(self) -> int:
        """Make every reader compare every row: what a dead predecessor wrote may not be in the journal."""
        return int(journal_skip(self._core))


def _shows_topic(found: TopicRow) -> bool:
    return found.flags & (TopicFlags.EXISTS | TopicFlags.DELETING) == TopicFlags.EXISTS


def _row_values(image: TopicImage) -> tuple[int, bytes, str, int, int, bytes, int]:
    return (
        int(image.flags),
        image.id,
        image.name,
        image.partition_count,
        image.first_ordinal,
        image.overrides,
        image.version,
    )
