"""Follows the names of topics in shared memory, for the tracer's dictionary. Reads only, and only what has changed."""

from collections.abc import Callable

from mpbroker.shm.core import Core
from mpbroker.shm.topic_table import journal_since, metadata_generation, topic_read, topics_changed

MAX_ROUNDS = 4  # of one call; topics that change faster than that are read by the next one


class TopicNames:
    """What changed since the last look. `core`: shared memory."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._generation = 0

    def take(self, tell: Callable[[str], None]) -> None:
        """Call `tell` with the name of every topic that is new or has changed; about 100 ns when none has."""
        for _ in range(MAX_ROUNDS):
            if metadata_generation(self._core) == self._generation:
                return
            reached, rows = journal_since(self._core, self._generation)
            if rows is None:  # the journal does not reach back so far
                rows = topics_changed(self._core, [])
            for row in rows:
                found = topic_read(self._core, row)
                if found is not None and found.name:
                    tell(found.name)
            self._generation = reached
