"""Partitions on their way to another log directory (KIP-113): chooses the next one, has it copied in a thread, and has
it change places with its copy. A job of the log keeper process, of all log directories together.

What is wanted stands in the partitions' rows, where AlterReplicaLogDirs put it; a successor, and a start that finds the
copies (controller/moves.py), go on with it. A copy that cannot be made is given up with a line, and its partition stays
where it is.
"""

from __future__ import annotations

import os
import queue
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from mpbroker._native import Log
from mpbroker.errors import ErrorCode
from mpbroker.log import deletion, disk, partition_directory
from mpbroker.log.checkpoint_file import HIGH_WATERMARK, LOG_START, RECOVERY_POINT
from mpbroker.log.checkpoint_writer import CheckpointWriter
from mpbroker.log.keeper_context import Interval, KeeperContext
from mpbroker.log.kept_partitions import KeptPartition
from mpbroker.log.log_cleaner import LogCleaner, Pace, Stopped
from mpbroker.log.partition_directory import MOVED_HERE
from mpbroker.log.replica_move import CalledOff, Copied, ReplicaMove, SourceUnreadable, Wish

LOOK_MS: Final = 1000
OPEN_SEGMENTS: Final = 64


class DirectoryKeeper(Protocol):
    """What is needed of a log directory's LogKeeper."""

    keeper: KeeperContext
    checkpoints: CheckpointWriter
    cleaner: LogCleaner

    def partition_at(self, ordinal: int, /) -> KeptPartition | None:
        """The partition of a row, if it lies there."""
        ...


class Ended(NamedTuple):
    """A round of the thread that ended: with `copied`, or with why not; neither: it is not wanted any more."""

    copied: Copied | None
    reason: str = ""
    fails_target: OSError | None = None


class Under(NamedTuple):
    """The move that is under way."""

    wish: Wish
    move: ReplicaMove
    source: DirectoryKeeper
    target: DirectoryKeeper
    began_s: float


class ReplicaMover:
    """`keepers`: of the log directories that can be used, by number. `make_log`: a Log for the thread, None: there is
    none, a test steps the job. `moves()`: counts what is asked for and what ends; `ring` wakes the log keeper."""

    def __init__(
        self,
        log: Log,
        keepers: Mapping[int, DirectoryKeeper],
        moves: Callable[[], int],
        make_log: Callable[[], Log] | None = None,
        ring: Callable[[], None] = lambda: None,
    ) -> None:
        self._log = log
        self._keepers = keepers
        self._moves = moves
        self._make_log = make_log
        self._ring = ring
        self._any = next(iter(keepers.values())).keeper
        self._look = Interval(self._any.clock, LOOK_MS)
        self._seen: int | None = None
        self._ended: queue.SimpleQueue[Ended] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._under: Under | None = None
        self._stopping = False

    def do_work(self) -> None:
        """One turn: the end of the move under way, or the beginning of the next."""
        if self._under is not None:
            with suppress(queue.Empty):
                self._round_ended(self._under, self._ended.get_nowait())
            return
        if self._moves() != self._seen or self._look.due():
            self._seen = self._moves()
            self._begin_next()

    def remaining_ms(self) -> int:
        """Until it looks by itself; the thread rings."""
        return self._look.remaining_ms() if self._under is None else LOOK_MS

    def stop(self) -> None:
        """At the end of the broker: the copy stays for the next start, which begins it anew."""
        self._stopping = True
        if self._thread is not None:
            self._thread.join(timeout=5)

    # ---- the beginning

    def _begin_next(self) -> None:
        for ordinal in self._log.moves():
            wanted = self._log.move_of(ordinal)
            source = next((each for each in self._keepers.values() if each.partition_at(ordinal)), None)
            if wanted is None or source is None:
                continue  # deleted, or its log directory is offline
            partition = source.partition_at(ordinal)
            to, number, *_ = wanted
            if partition is None or to == source.keeper.log_dir or source.cleaner.is_at(partition):
                continue
            if to not in self._keepers or not self._log.log_dir_online(to):
                self._log.give_up_move(ordinal, number)
                continue
            self._begin(Wish(partition, to, number), source, self._keepers[to])
            return

    def _begin(self, wish: Wish, source: DirectoryKeeper, target: DirectoryKeeper) -> None:
        keeper, partition = source.keeper, wish.partition
        future = partition_directory.future_name(partition.dir, partition.topic_id)
        per_second = keeper.config.replica_alter_log_dirs_io_max_bytes_per_second or 1.0
        pace = Pace(per_second, lambda: self._stopping or move.is_called_off())
        log = self._log if self._make_log is None else self._make_log()
        move = ReplicaMove(
            log, wish, keeper.directory(partition), f"{target.keeper.data_dir}/{future}", pace, keeper.crash_point
        )
        self._under = Under(wish, move, source, target, time.monotonic())
        self._start(self._under, is_first=True)

    def _start(self, under: Under, is_first: bool = False) -> None:
        """A round of copying."""
        if self._make_log is None:
            self._ended.put(self._copy(under, is_first))
            return
        self._thread = threading.Thread(target=self._work, args=(under, is_first), name="mover", daemon=True)
        self._thread.start()

    # ---- the thread

    def _work(self, under: Under, is_first: bool) -> None:
        try:
            ended = self._copy(under, is_first)
        except BaseException:  # broken: another process takes over
            os._exit(1)
        self._ended.put(ended)
        self._ring()

    def _copy(self, under: Under, is_first: bool) -> Ended:
        try:
            if is_first:
                self._prepare(under)
            return Ended(under.move.copy())
        except (CalledOff, Stopped):
            return Ended(None)
        except SourceUnreadable as error:
            return Ended(None, str(error))
        except OSError as error:
            return self._failed(under, error)

    def _failed(self, under: Under, error: OSError) -> Ended:
        """A copy that was called off is taken away while it is made: that is no fault of its log directory."""
        is_gone = isinstance(error, FileNotFoundError | FileExistsError)
        return Ended(None) if is_gone and under.move.is_called_off() else Ended(None, str(error), error)

    def _prepare(self, under: Under) -> None:
        """The copy's directory, if it went meanwhile; and nothing of an earlier move of the partition is in its way: of
        two directories only one is marked, and what it leaves behind gets a name that is free."""
        partition, source, target = under.wish.partition, under.source.keeper, under.target.keeper
        name, topic_id = partition.dir, partition.topic_id
        future = partition_directory.future_name(name, topic_id)
        partition_directory.prepare(target.data_dir, future, topic_id)
        if partition_directory.was_moved_here(source.directory(partition)):
            disk.sync_directory(source.data_dir)
            disk.unlink(f"{source.directory(partition)}/{MOVED_HERE}")
            disk.sync_directory(source.directory(partition))
        left = partition_directory.left_name(name, topic_id)
        with suppress(FileNotFoundError):
            if deletion.remove_partition(f"{source.data_dir}/{left}"):
                unique = partition_directory.left_name(name, uuid.uuid4().bytes)
                disk.rename(f"{source.data_dir}/{left}", f"{source.data_dir}/{unique}")

    # ---- the end

    def _round_ended(self, under: Under, ended: Ended) -> None:
        self._thread = None
        if ended.copied is not None:
            self._change_places(under, ended.copied)
            return
        self._under = None
        under.target.checkpoints.expect_no_more(under.wish.partition)
        if ended.reason:
            self._give_up(under, ended)
        elif not self._stopping and not self._is_wanted(under.wish):
            self._remove_copy(under)  # whoever called it off did so, too, perhaps before it was made

    def _is_wanted(self, wish: Wish) -> bool:
        """Whether the partition is there still, and shall move to that log directory."""
        ordinal, wanted = wish.partition.ordinal, self._log.move_of(wish.partition.ordinal)
        is_there = any(
            found is not None and found.topic_id == wish.partition.topic_id
            for found in (keeper.partition_at(ordinal) for keeper in self._keepers.values())
        )
        return is_there and wanted is not None and wanted[0] == wish.to

    def _remove_copy(self, under: Under) -> None:
        partition = under.wish.partition
        future = partition_directory.future_name(partition.dir, partition.topic_id)
        with suppress(OSError):  # nobody reads it; a start would find it
            deletion.remove_partition(f"{under.target.keeper.data_dir}/{future}")

    def _give_up(self, under: Under, ended: Ended) -> None:
        partition, target = under.wish.partition, under.target.keeper
        error = ended.fails_target
        if error is not None and disk.condemns(error):
            target.io_failed("partition_not_copied", error, partition=partition.dir)
        self._any.count("partition_moves_failed")
        self._any.events.warning(
            "partition_not_moved", partition=partition.dir, to=target.data_dir, reason=ended.reason
        )
        if self._log.give_up_move(partition.ordinal, under.wish.number) or under.source.keeper.state(partition) is None:
            return  # it is not certain that the copy will not be needed: a start finds it
        self._remove_copy(under)  # its room is needed now

    def _change_places(self, under: Under, copied: Copied) -> None:
        wish, partition = under.wish, under.wish.partition
        offsets = {RECOVERY_POINT: copied.synced, HIGH_WATERMARK: copied.synced, LOG_START: copied.log_start}
        if not under.target.checkpoints.expect(partition, offsets):
            self._round_ended(under, Ended(None, "the checkpoints of the new log directory cannot be written"))
            return
        self._any.crash_point("mover.checkpointed")
        try:
            last = under.move.follow(copied)
        except (CalledOff, SourceUnreadable) as error:
            self._round_ended(under, Ended(None, "" if isinstance(error, CalledOff) else str(error)))
            return
        except OSError as error:
            self._round_ended(under, self._failed(under, error))
            return
        code = None
        if last is not None:
            code = self._log.end_move(partition.ordinal, partition.topic_id, wish.to, wish.number, *last)
        if code is None or code == ErrorCode.REQUEST_TIMED_OUT:
            self._start(under)  # it is another log by now, or busy
        elif code == ErrorCode.NONE:
            self._moved(under)
        else:
            self._round_ended(under, Ended(None, f"it could not change places with its copy (error {code})"))

    def _moved(self, under: Under) -> None:
        """Both directories have their new names. Once that is durable the mark has done its work."""
        partition, source, target = under.wish.partition, under.source.keeper, under.target.keeper
        self._under = None
        self._any.crash_point("mover.moved")
        cleaned_to = under.source.cleaner.cleaned_to(partition)
        if cleaned_to is not None:
            under.target.cleaner.take_in(partition, cleaned_to)
        try:
            disk.sync_directory(source.data_dir)
            if not disk.exists(source.directory(partition)):
                disk.unlink(f"{target.directory(partition)}/{MOVED_HERE}")
        except OSError as error:
            source.io_failed("directory_not_synced", error, partition=partition.dir)
        self._any.count("partitions_moved")
        self._any.events.info(
            "partition_moved",
            partition=partition.dir,
            source=source.data_dir,
            to=target.data_dir,
            bytes=under.move.bytes_copied,
            ms=int((time.monotonic() - under.began_s) * 1000),
        )
