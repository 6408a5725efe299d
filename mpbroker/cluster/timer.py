"""A histogram of times, as Kafka's timers are read: count, sum, largest, quantiles. Of one process; pure."""

from typing import Final

BUCKETS: Final = 32
"""Of times by powers of two, in milliseconds: the last takes all that is longer."""


class Timer:
    """How often, and how long: a histogram over powers of two."""

    def __init__(self) -> None:
        self.count = 0
        self.sum_ms = 0
        self.max_ms = 0
        self.buckets = [0] * BUCKETS

    def add(self, ms: int) -> None:
        """One more."""
        self.count += 1
        self.sum_ms += ms
        self.max_ms = max(self.max_ms, ms)
        self.buckets[min(ms.bit_length(), BUCKETS - 1)] += 1

    def quantile_ms(self, share: float) -> int:
        """At most so long did `share` of them take; rounded up to a power of two."""
        left = self.count * share
        for bits, count in enumerate(self.buckets):
            left -= count
            if count and left <= 0:
                return min((1 << bits) - 1, self.max_ms)
        return 0
