"""Flushing: making logs durable. A job of the log keeper; no lock is held while the disk works.

With `mpbroker.log.flush=commit` every partition with unsynced records is synced as soon as this process is rung,
whatever gathered meanwhile going with the next sync, and then the handlers that wait for it are rung. Otherwise, as
Kafka, a log is synced behind each roll and, if `log.flush.scheduler.interval.ms` is set, when its records have waited
for `flush.ms` (`flush.messages` is the appending handler's business). A failed sync is never repeated: the log
directory goes offline. Syncs run beside each other (sync_pool.py): a slow one delays no other partition. With several
log directories this job of each has a thread (flush_thread.py), so that a slow one's other jobs do not, either.
"""

from collections.abc import Callable, Iterable
from typing import Final

from mpbroker.errors import ErrorCode
from mpbroker.log.keeper_context import Interval, KeeperContext
from mpbroker.log.syncs import Synced
from mpbroker.shm.process_table import WaitName

ROLLED_INTERVAL_MS: Final = 1000
COMMIT: Final = "commit"
SOUND: Final = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
WAIT_S: Final = 1.0
PROGRESS_MS: Final = 5000


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
        """One turn: look what has been synced, begin everything that is due now."""
        self._collect()
        log = self._keeper.log
        if self.on_commit:
            self._start(log.unflushed(False))
        else:
            if self._rolled.due():
                self._start(log.unflushed(True))
            self._scheduler.interval_ms = self._scheduler_ms()
            if self._scheduler.due():
                self._flush_old()
        self._collect()

    def flush_everything(self) -> bool:
        """At a clean stop: syncs all, says now and then how many are left; False if anything could not be synced."""
        clock, syncs = self._keeper.clock, self._keeper.syncs
        self._settle()
        wanted = [ordinal for ordinal in self._keeper.log.unflushed(False) if self._keeper.is_mine(ordinal)]
        left, said_ms, good = len(wanted), clock.monotonic_ms(), True
        self._start(wanted)
        while left > 0:
            for done in self._collect():
                left -= 1
                good = good and done.error in SOUND
            if left == 0 or not syncs.wait(WAIT_S):
                break
            if clock.monotonic_ms() - said_ms >= PROGRESS_MS:
                said_ms = clock.monotonic_ms()
                self._keeper.events.info("syncing_logs", left=left, of=len(wanted))
        return good and left == 0

    def _settle(self) -> None:
        """What is under way comes to its end first, so that what is counted afterwards is what was begun afterwards."""
        while self._keeper.syncs.wait(WAIT_S):
            self._collect()

    def remaining_ms(self) -> int:
        """Until something may be due; in commit mode, and when a sync ends, the bell says."""
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
                self._start([partition.ordinal])
                since_ms = now_ms
            self._last_ms[key] = since_ms

    def _start(self, ordinals: Iterable[int]) -> None:
        keeper = self._keeper
        for ordinal in filter(keeper.is_mine, ordinals):
            keeper.waiting(WaitName.FSYNC)
            keeper.crash_point("keeper.flush.begin")
            keeper.syncs.start(ordinal)
        keeper.waiting(WaitName.NONE)

    def _collect(self) -> list[Synced]:
        keeper = self._keeper
        done = keeper.syncs.finished()
        for ordinal, error, flushed_to in done:
            keeper.crash_point("keeper.flush.synced")
            if error == ErrorCode.NONE:
                keeper.count("log_flushes")
                keeper.notify(ordinal)
                self._flushed(ordinal)
            elif error == ErrorCode.KAFKA_STORAGE_ERROR:
                keeper.events.error("flush_failed", f"row {ordinal}", ordinal=ordinal, flushed_to=flushed_to)
        return done
