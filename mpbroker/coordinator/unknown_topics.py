"""Whether a topic that metadata does not name is gone for good, or not known here yet. Coordinator process, which alone
writes this.

What is loaded from a log may name topics that this broker has not heard of: in a cluster, metadata reaches some brokers
later than others, and a coordinator may take over what its predecessor wrote about a topic made a moment ago. Who takes
that for a deletion throws committed offsets away, and ends a transaction without its marker.
"""

from __future__ import annotations

from typing import Final

from mpbroker.metadata.metadata_cache import MetadataCache
from mpbroker.shm.clock import Clock

#: A broker that lags so far behind for longer has lost its registration.
GRACE_MS: Final = 10_000


class UnknownTopics:
    """By partition of the internal topic: what was written there since this broker coordinates it names topics that
    were known here."""

    def __init__(self, metadata: MetadataCache, clock: Clock, in_cluster: bool) -> None:
        self._metadata = metadata
        self._clock = clock
        self._grace_ms = GRACE_MS if in_cluster else 0
        self._since_ms: dict[int, int] = {}

    def took_over(self, partition: int) -> None:
        """This broker coordinates it from now on."""
        self._since_ms[partition] = self._clock.monotonic_ms()

    def are_gone(self, partition: int) -> bool:
        """Whether a topic named there that is not known was deleted."""
        since_ms = self._since_ms.get(partition)
        waited_ms = 0 if since_ms is None else self._clock.monotonic_ms() - since_ms
        return self._metadata.has_read_everything and waited_ms >= self._grace_ms
