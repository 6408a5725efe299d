"""Forgetting idle producers: after their time, and earlier when the table of all partitions' producers fills up. Jobs
of the log keeper.

A producer that was forgotten may go on with any sequence; only the recognition of its repeated batches is lost. What
counts is when a producer wrote by the broker's clock, not what it wrote into its batches; a clock that is wrong at the
start, or set forward later, makes nobody idle. Where room is needed,
producers that wrote a single batch go first: a flood of new producer ids forgets itself before it forgets anybody else.
Between two rounds of this an append makes room itself (native/log/producer_room.c), for one producer at a time.
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
        before_ms = self._idle_before_ms()
        for partition in self._round.take():
            if self._keeper.state(partition) is not None:
                forgotten = self._keeper.log.expire_producers(partition.ordinal, before_ms, before_ms)
                self._keeper.count("producers_forgotten", forgotten)
                if not forgotten and self._keeper.is_busy(partition):
                    self._round.again(partition)

    def _idle_before_ms(self) -> int:
        """Who wrote nothing since then is idle. A wall clock that was set forward is not believed, and nobody has been
        idle for longer than this broker has seen."""
        clock, began = self._keeper.clock, self._keeper.began
        idle_ms = int(self._keeper.config.producer_id_expiration_ms)
        if began is None:
            return clock.wall_ms() - idle_ms
        ran_ms = clock.monotonic_ms() - began.monotonic_ms
        return 0 if ran_ms < idle_ms else min(clock.wall_ms(), began.wall_ms + ran_ms) - idle_ms

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
        rows, once_ms, often_ms = self._keeper.log.producer_times()
        used = len(once_ms) + len(often_ms)
        if used < rows * FULL_SHARE:
            return
        often_before_ms, once_before_ms = eviction_times_ms(once_ms, often_ms, int(rows * KEPT_SHARE))
        forgotten = 0
        for partition in self._keeper.partitions.all:
            if self._keeper.state(partition) is not None:
                forgotten += self._keeper.log.expire_producers(partition.ordinal, often_before_ms, once_before_ms)
        self._keeper.count("producers_forgotten", forgotten)
        self._keeper.events.warning(
            "producers_forgotten",
            count=forgotten,
            of=used,
            why="the table is nearly full",
            setting="mpbroker.max.producers",
        )

    def remaining_ms(self) -> int:
        """Until the next look."""
        return self._interval.remaining_ms()


def eviction_times_ms(once_ms: list[int], often_ms: list[int], most: int) -> tuple[int, int]:
    """(time before which producers of several batches go, the same for those of one) so that at most `most` stay."""
    if len(often_ms) <= most:
        return 0, eviction_time_ms(once_ms, most - len(often_ms))
    return eviction_time_ms(often_ms, most), max(once_ms, default=0) + 1


def eviction_time_ms(times_ms: list[int], most: int) -> int:
    """The time before which producers must be forgotten so that at most `most` of them stay."""
    if len(times_ms) <= most:
        return min(times_ms, default=0)
    ordered = sorted(times_ms, reverse=True)
    newest_gone = ordered[most]
    return newest_gone + 1
