"""Metric families of fetch sessions (KIP-227), under Kafka's names. Pure; used by the admin process."""

from collections.abc import Iterator, Sequence
from typing import Final

from mpbroker.admin.exposition import COUNTER, GAUGE, Family, labelled
from mpbroker.shm.counters import Counter

_CACHE: Final = "kafka_server_fetchsessioncache_"


def session_families(sessions: int, partitions: int, counters: Sequence[int]) -> Iterator[Family]:
    """All families of sessions. `counters`: sums over all processes, by number."""
    evicted = counters[Counter.FETCH_SESSIONS_EVICTED]
    for name, kind, value, sentence in (
        ("numincrementalfetchsessions", GAUGE, sessions, "Fetch sessions."),
        ("numincrementalfetchpartitionscached", GAUGE, partitions, "Partitions of all fetch sessions."),
        ("incrementalfetchsessionevictions_total", COUNTER, evicted, "Fetch sessions that made room for others."),
    ):
        yield Family(f"{_CACHE}{name}", kind, sentence, [labelled(value)])
