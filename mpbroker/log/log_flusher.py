"""Flushing: making logs durable. A job of the log keeper; no lock is held while the disk works.

With `mpbroker.log.flush=commit` every partition with unsynced records is synced as soon as this process is rung,
whatever gathered meanwhile going with the next sync, and then the handlers that wait for it are rung. Otherwise, as
Kafka, a log is synced behind each roll and, if `log.flush.scheduler.interval.ms` is set, when its records have waited
for `flush.ms` (`flush.messages` is the appending handler's business). A failed sync is never repeated: the log
directory goes offline.
"""

from collections.abc import Callable
from typing import Final

from mpbroker.errors import ErrorCode
from mpbroker.log.keeper_context import Interval, KeeperContext
from mpbroker.shm.process_table import WaitName

ROLLED_INTERVAL_MS: Final = 1000
COMMIT: Final = "commit"


class LogFlusher:
    """`flushed(ordinal)` is called behind every sync: the place to look whether the log rolled."""

    def __init__(self, keeper: KeeperContext, flushed: Callable[[int], None]) -> None:
        self._keeper = keeper
        self._flushed = flushed
        self._rolled = Interval(keeper.clock, ROLLED_INTERVAL_MS)
        self._scheduler = Interval(keeper.clock, self._scheduler_ms(), keeper.first_delay_ms)
        self._last_ms: dict[tuple[bytes, int], int] = {}  # (topic id, partition) → when it was synced or first seen

    @property
    def on_commit(self) -> bool:
        """Whether acknowledgements wait for this job."""
        return bool(self._keeper.config.mpbroker_log_flush == COMMIT)

    def _scheduler_ms(self) -> int:
        return int(self._keeper.config.log_flush_scheduler_interval_ms)

    def do_work(self) -> None:
        """One turn: everything that is due now."""
        log = self._keeper.log
        if self.on_commit:
            self._flush_all(log.unflushed(False))
            return
        if self._rolled.due():
            self._flush_all(log.unflushed(True))
        self._scheduler.interval_ms = self._scheduler_ms()
        if self._scheduler.due():
            self._flush_old()

    def flush_everything(self) -> bool:
        """At a clean stop; False if anything could not be synced."""
        return self._flush_all(self._keeper.log.unflushed(False))

    def remaining_ms(self) -> int:
        """Until something may be due; in commit mode the bell says."""
        if self.on_commit:
            return 1000
        return min(self._rolled.remaining_ms(), self._scheduler.remaining_ms())

    def _flush_old(self) -> None:
        now_ms = self._keeper.clock.monotonic_ms()
        behind = set(self._keeper.log.unflushed(False))
        last, self._last_ms = self._last_ms, {}
        for partition in self._keeper.partitions.all:
            key = partition.topic_id, partition.partition
            since_ms = last.get(key, now_ms)
            if partition.ordinal in behind and now_ms - since_ms >= partition.settings.flush_ms:
                self._flush(partition.ordinal)
                since_ms = now_ms
            self._last_ms[key] = since_ms

    def _flush_all(self, ordinals: list[int]) -> bool:
        flushed = [self._flush(ordinal) for ordinal in ordinals]  # each of them, whatever became of the others
        return all(flushed)

    def _flush(self, ordinal: int) -> bool:
        keeper = self._keeper
        keeper.waiting(WaitName.FSYNC)
        keeper.crash_point("keeper.flush.begin")
        error, offset = keeper.log.flush(ordinal)
        keeper.crash_point("keeper.flush.synced")
        keeper.waiting(WaitName.NONE)
        if error == ErrorCode.NONE:
            keeper.count("log_flushes")
            keeper.notify(ordinal)
            self._flushed(ordinal)
        elif error == ErrorCode.KAFKA_STORAGE_ERROR:
            keeper.events.error("flush_failed", ordinal=ordinal, flushed_to=offset)
        return error in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
