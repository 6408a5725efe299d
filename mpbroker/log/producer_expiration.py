"""Forgetting idle producers: after their time, and earlier when the table of all partitions' producers fills up. Jobs
of the log keeper.

A producer that was forgotten may go on with any sequence; only the recognition of its repeated batches is lost.
"""

from typing import Final

from mpbroker.log.keeper_context import Interval, KeeperContext, PartitionRound

EVICTION_INTERVAL_MS: Final = 1000
FULL_SHARE, KEPT_SHARE = 0.9, 0.8


class ProducerExpiration:
    """Forgets producers that wrote nothing for `producer.id.expiration.ms`, and rows that a dead process lost."""

    def __init__(self, keeper: KeeperContext) -> None:
        self._keeper = keeper
        self._round = PartitionRound(keeper.clock, keeper.partitions, self._interval_ms(), keeper.first_delay_ms)
        keeper.log.sweep_producers()

    def _interval_ms(self) -> int:
        return int(self._keeper.config.producer_id_expiration_check_interval_ms)

    def do_work(self) -> None:
        """One turn: the next partitions of the round."""
        before_ms = self._keeper.clock.wall_ms() - self._keeper.config.producer_id_expiration_ms
        for partition in self._round.take():
            if self._keeper.state(partition) is not None:
                self._keeper.count(
                    "producers_forgotten", self._keeper.log.expire_producers(partition.ordinal, before_ms)
                )

    def remaining_ms(self) -> int:
        """Until the next round, 0 within one."""
        return self._round.remaining_ms()


class ProducerEviction:
    """Forgets the longest idle producers when nine tenths of `mpbroker.max.producers` are in use."""

    def __init__(self, keeper: KeeperContext) -> None:
        self._keeper = keeper
        self._interval = Interval(keeper.clock, EVICTION_INTERVAL_MS)

    def do_work(self) -> None:
        """One turn."""
        if not self._interval.due():
            return
        rows, times_ms = self._keeper.log.producer_times()
        if len(times_ms) < rows * FULL_SHARE:
            return
        before_ms = eviction_time_ms(times_ms, int(rows * KEPT_SHARE))
        forgotten = 0
        for partition in self._keeper.partitions.all:
            if self._keeper.state(partition) is not None:
                forgotten += self._keeper.log.expire_producers(partition.ordinal, before_ms)
        self._keeper.count("producers_forgotten", forgotten)
        self._keeper.events.warning(
            "producers_forgotten",
            count=forgotten,
            of=len(times_ms),
            why="the table is nearly full",
            setting="mpbroker.max.producers",
        )

    def remaining_ms(self) -> int:
        """Until the next look."""
        return self._interval.remaining_ms()


def eviction_time_ms(times_ms: list[int], most: int) -> int:
    """The time before which producers must be forgotten so that at most `most` of them stay."""
    if len(times_ms) <= most:
        return min(times_ms, default=0)
    ordered = sorted(times_ms, reverse=True)
    newest_gone = ordered[most]
    return newest_gone + 1
