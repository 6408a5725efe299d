"""How fast throttled replicas went lately (KIP-73), over all processes that move their bytes. Request handlers count
what followers are sent, fetchers what they have taken.

Each counts in its own row of the process table and looks at the sum, from which it takes samples as Kafka's rates do: a
process that dies takes nothing along, and its successor begins with a sample of its own. Only while a rate is set.
"""

from collections import deque
from collections.abc import Callable, Iterable

from mpbroker.config.broker_config import BrokerConfig
from mpbroker.config.replication_throttle import UNLIMITED, throttled_rate
from mpbroker.shm.core import Core
from mpbroker.shm.counters import Counter
from mpbroker.shm.process_table import ProcessRow


def summed(core: Core, slots: Iterable[int], counter: Counter) -> Callable[[], int]:
    """A function that adds up a counter over processes."""
    rows = [ProcessRow(core, slot) for slot in slots]
    return lambda: sum(row.counter(counter) for row in rows)


class ReplicationQuota:
    """`total`: the bytes of all processes together."""

    def __init__(self, total: Callable[[], int]) -> None:
        self._total = total
        self._seen: deque[tuple[int, int]] = deque()  # when, and the total then

    def is_exceeded(self, now_ms: int, limit: int, samples: int, sample_ms: int) -> bool:
        """Whether more than `limit` bytes a second went, over the newest `samples` of `sample_ms` each."""
        total, oldest_ms = self._total(), now_ms - samples * sample_ms
        while self._seen and self._seen[0][0] < oldest_ms:
            self._seen.popleft()
        if not self._seen or now_ms - self._seen[-1][0] >= sample_ms:
            self._seen.append((now_ms, total))
        since_ms, before = self._seen[0]
        return (total - before) * 1000 > limit * max(now_ms - since_ms, sample_ms)


def is_exceeded(quota: ReplicationQuota, config: BrokerConfig, rate: str, now_ms: int) -> bool:
    """Whether throttled replicas went faster than this broker's rate of that name allows; never where none is set."""
    limit = throttled_rate(config, rate)
    if limit == UNLIMITED:
        return False
    sample_ms = 1000 * config.replication_quota_window_size_seconds
    return quota.is_exceeded(now_ms, limit, config.replication_quota_window_num, sample_ms)
