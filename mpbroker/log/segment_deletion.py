"""Unlinking what was taken out of use: `.deleted` segment files and `-delete` directories. A job of the log keeper.

What waits is kept in memory and found again in the directories, at start and then now and again, so a successor goes on
with it; its delay begins anew.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

from mpbroker.log import disk
from mpbroker.log.deletion import is_given_up, remove_deleted
from mpbroker.log.keeper_context import Interval, KeeperContext, PartitionRound
from mpbroker.log.kept_partitions import KeptPartition

DELETED: Final = ".deleted"
SUFFIXES: Final = (".timeindex", ".index", ".log")  # a .txnindex, which few segments have, is found by the search
SEARCH_INTERVAL_MS: Final = 300_000
DIRECTORY_INTERVAL_MS: Final = 5_000
MAX_A_TURN: Final = 256
MAX_WAITING: Final = 100_000  # what is beyond is found by the next search


class SegmentDeletion:
    """Files wait in the order of their time. `gone()` is called when something was removed."""

    def __init__(self, keeper: KeeperContext, gone: Callable[[], None] = lambda: None) -> None:
        self._gone = gone
        self._keeper = keeper
        self._queue: list[tuple[int, str]] = []  # a heap of (when, path)
        self._paths: set[str] = set()
        self._search = PartitionRound(keeper.clock, keeper.partitions, SEARCH_INTERVAL_MS)
        self._staying: set[str] = set()  # directories of which was said that they stay
        self._directories = Interval(keeper.clock, self._directory_interval_ms())
        self._told = ""  # of a directory that somebody's folder keeps: once

    def removed(self, partition: KeptPartition, bases: list[int]) -> None:
        """Segments were renamed just now."""
        for base in bases:
            for suffix in SUFFIXES:
                self._wait(partition, f"{base:020d}{suffix}{DELETED}")

    def do_work(self) -> None:
        """One turn: unlink what is due, search for files that were not reported."""
        for partition in self._search.take():
            self._find(partition)
        self._unlink_due()
        self._directories.interval_ms = self._directory_interval_ms()
        if self._directories.due():
            self._remove_directories()

    @property
    def waiting(self) -> int:
        """Files that wait for their time."""
        return len(self._paths)

    def remaining_ms(self) -> int:
        """Until something may be due."""
        now_ms = self._keeper.clock.monotonic_ms()
        first_ms = self._queue[0][0] - now_ms if self._queue else SEARCH_INTERVAL_MS
        return max(0, min(first_ms, self._search.remaining_ms(), self._directories.remaining_ms()))

    def _directory_interval_ms(self) -> int:
        return max(100, min(DIRECTORY_INTERVAL_MS, int(self._keeper.config.log_segment_delete_delay_ms)))

    def _wait(self, partition: KeptPartition, name: str) -> None:
        path = f"{self._keeper.directory(partition)}/{name}"
        if path not in self._paths and len(self._paths) < MAX_WAITING:
            self._paths.add(path)
            heappush(self._queue, (self._keeper.clock.monotonic_ms() + partition.settings.file_delete_delay_ms, path))

    def _find(self, partition: KeptPartition) -> None:
        try:
            names, _ = disk.files(self._keeper.directory(partition))
        except OSError:
            return  # deleted meanwhile, or offline
        for name in names:
            if is_given_up(name):
                self._wait(partition, name)

    def _unlink_due(self) -> None:
        now_ms = self._keeper.clock.monotonic_ms()
        due = 0
        while self._queue and self._queue[0][0] <= now_ms and due < MAX_A_TURN:
            _, path = heappop(self._queue)
            self._paths.discard(path)
            self._unlink(path)
            due += 1
        if due:
            self._keeper.log.close_stale()
            self._gone()

    def _unlink(self, path: str) -> None:
        try:
            disk.unlink(path)
        except FileNotFoundError:
            pass  # the topic is gone
        except OSError as error:
            self._keeper.io_failed("segment_not_removed", error, path=path)
        self._keeper.crash_point("keeper.deleted.unlinked")

    def _remove_directories(self) -> None:
        staying: dict[str, str] = {}
        try:
            removed = remove_deleted(
                self._keeper.data_dir,
                now_ms=self._keeper.clock.wall_ms(),
                delay_ms=self._keeper.config.log_segment_delete_delay_ms,
                foreign=staying.__setitem__,
            )
        except OSError as error:
            if str(error) != self._told or disk.condemns(error):
                self._keeper.io_failed("directory_not_removed", error)
            self._told = str(error)
            return
        self._say_staying(staying)
        for name in removed:
            self._keeper.events.info("directory_removed", directory=name)
        if removed:
            self._keeper.log.close_stale()
            self._gone()

    def _say_staying(self, staying: dict[str, str]) -> None:
        for name in sorted(staying.keys() - self._staying):
            self._keeper.count("stray_directories")
            self._keeper.events.warning(
                "deleted_directory_stays",
                directory=f"{self._keeper.data_dir}/{name}",
                found=staying[name],
                remedy="it is not the broker's: move it away, and the directory goes",
            )
        self._staying = set(staying)
