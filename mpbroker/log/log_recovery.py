"""Start-up recovery of one partition's directory: what is on disk becomes the state that is published.

Runs in the controller at start and after a reset, before the partition is shown to anybody; nobody else writes these
files then. After a clean stop only sizes are checked and the tail behind the last index entry is read. Otherwise every
segment from the recovery point on is read with checksums and its indexes are written anew. Doing it twice does no harm.

Recovery never destroys (Kafka's recoverLog is the model for what is served):
- what lies behind *corruption* after an unclean stop is no part of the log any more, but stays beside it as `.cut`;
- a gap, damage in a segment that was synced, a segment under another's name: what is sound is served, with a line;
- a checkpoint that says more than the files hold is not believed; a log whose synced segments are all gone is not
  begun anew: LogMissing, and its partition stays offline until somebody has looked. (Without its files nobody knows how
  old a directory is. So this holds, too, where the checkpoint may speak of an older topic of that name.)
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct, field

from mpbroker._native import scan_segment
from mpbroker.log import disk
from mpbroker.log.deletion import is_given_up
from mpbroker.log.partition_directory import EPOCH_FILE, METADATA_FILE
from mpbroker.log.producer_replay import ProducerReplay
from mpbroker.log.producer_snapshot import SUFFIX as SNAPSHOT
from mpbroker.log.producer_snapshot import ProducerEntry, newest_snapshot, snapshot_offsets, snapshot_path
from mpbroker.log.segment_recovery import INDEX, LOG, SUFFIXES, TIME_INDEX, SegmentRecovery, SegmentState
from mpbroker.log.segment_swap import finish_swaps
from mpbroker.log.set_aside import set_aside
from mpbroker.log.txn_index_file import SUFFIX as TXN_INDEX
from mpbroker.log.txn_index_file import is_sound, read_aborted, write_aborted

INDEXES: Final = (INDEX, TIME_INDEX, TXN_INDEX)
_OF_ALL: Final = (METADATA_FILE, EPOCH_FILE)
_HALF_WRITTEN: Final = re.compile(rf"\d{{20}}(?:{SNAPSHOT}|{TXN_INDEX})\.tmp|(?:{METADATA_FILE}|{EPOCH_FILE})\.tmp")


class LogMissing(OSError):
    """The files of a log that was written and synced are not there. Nothing was made in their place."""


class NotAFile(OSError):
    """A file of the log has to be where something else is. Nothing was changed."""


class RecoveredLog(Struct):
    """A partition after recovery. `cut`: what is no longer part of the log, or is doubtful, one sentence each;
    `producers` by id; `txn_index_bytes`: of the active segment; `aborted_end`: behind the last abort marker; `unsound`:
    index files of a clean stop that could not be believed and were written anew from the log; `ended`: first offset and
    end of the marker of transactions that are over, as far as batches were read."""

    active: SegmentState
    log_start: int
    segment_count: int
    log_bytes: int
    txn_index_bytes: int = 0
    aborted_end: int = 0
    producers: dict[int, ProducerEntry] = field(default_factory=dict)
    cut: list[str] = field(default_factory=list)
    unsound: list[str] = field(default_factory=list)
    ended: list[tuple[int, int]] = field(default_factory=list)


class LogRecovery:
    """Recovers one directory. `clean`: the broker that last wrote here stopped cleanly. Offsets below
    `recovery_point` are known to be on disk; `log_start` is the checkpointed log start (0: none). `synced_end`,
    `served_end`: how far a log of this name was ever synced and served, whenever its directory was made. Compacted logs
    have gaps between segments; elsewhere a gap is worth a line."""

    def __init__(
        self,
        directory: str,
        *,
        index_interval_bytes: int,
        clean: bool,
        recovery_point: int = 0,
        log_start: int = 0,
        synced_end: int = 0,
        served_end: int = 0,
        gaps_allowed: bool = False,
    ) -> None:
        self._gaps_allowed = gaps_allowed
        self.directory = directory
        self._index_interval_bytes = index_interval_bytes
        self._clean = clean
        self._recovery_point = recovery_point
        self._log_start = log_start
        self._synced_end = max(recovery_point, synced_end)
        self._served_end = served_end
        self._has_snapshots = True
        self._cut: list[str] = []
        self._unsound: list[str] = []
        self._segments = SegmentRecovery(directory, index_interval_bytes, self._cut.append, self._unsound.append)

    def run(self) -> RecoveredLog:
        """Repairs the files and returns the state they stand for. OSError: the directory cannot be used, LogMissing:
        because its segments are not there."""
        names, others = disk.files(self.directory)
        if others:
            self._look_at(others, names)
        if not _all_ordinary(names):
            from mpbroker.log.kafka_swap import (
                finish_kafka_swaps,  # only here, as with _look_at's: a start seldom needs it
            )

            finish_swaps(self.directory)
            self._cut += finish_kafka_swaps(self.directory)
            self._put_away_leftovers()
            names = self._names()
        self._has_snapshots = any(name.endswith(SNAPSHOT) for name in names)
        found = _bases(names) or [self._create_first()]
        bases, last = self._walk(self._above_log_start(found))
        if self._log_start > last.next_offset:
            self._cut.append(
                f"{self._name()}: the log-start checkpoint says {self._log_start}, but the log ends at "
                f"{last.next_offset}: the checkpoint is not believed, records deleted before may be back"
            )
            self._log_start = 0
            bases, last = self._walk(_bases(self._names()))
        if self._recovery_point > last.next_offset:
            self._cut.append(
                f"{self._name()}: the log ends at {last.next_offset}, but records up to {self._recovery_point} were "
                "synced: put the missing files back before producers write on"
            )
        if self._clean and 0 < self._recovery_point < last.next_offset:
            self._cut.append(
                f"{self._name()}: the log ends at {last.next_offset}, but at the clean stop it ended at "
                f"{self._recovery_point}: its last offset may be damaged, or the checkpoint an older one"
            )
        log_start = max(self._log_start, bases[0])
        replay = self._replay(bases, last.next_offset)
        log_bytes = sum(disk.size(self._segments.path(base, LOG)) for base in bases)
        txn_index_bytes, aborted_end = self._aborted(bases)
        return RecoveredLog(
            last,
            log_start,
            len(bases),
            log_bytes,
            txn_index_bytes,
            aborted_end,
            replay.producers,
            self._cut,
            self._unsound,
            list(replay.ended),
        )

    def _names(self) -> list[str]:
        """Of the files."""
        return disk.files(self.directory)[0]

    def _look_at(self, others: list[str], names: list[str]) -> None:
        """What is no file is nobody's segment; NotAFile, where one has to be. Before anything is changed."""
        from mpbroker.log.no_files import in_the_way, named_like_ours

        obstacle = in_the_way(others, _bases(names), self._log_start, self._segments.next_offset)
        if obstacle is not None:
            raise NotAFile(
                errno.EEXIST,
                f"{self._name()}/{obstacle} is no file, but has the name of one that the log needs: move it away, put"
                " the right one there if there was one, and start again",
            )
        if odd := named_like_ours(others):
            self._cut.append(
                f"{self._name()}: {len(odd)} entries are named like files of the log and are none, the first is "
                f"{odd[0]}: left as they are; if they are not yours, move them away"
            )

    def _name(self) -> str:
        return os.path.basename(self.directory)

    def _above_log_start(self, bases: list[int]) -> list[int]:
        """Without segments wholly below the log start: deleted before, back by whatever way. Retention takes them."""
        below = sum(following <= self._log_start for following in bases[1:])
        return bases[below:]

    def _put_away_leftovers(self) -> None:
        """What retention gave up goes for good, so do our own half-written files. An index without a log is of no use
        to us, but may be the trace of a log that was lost: it is kept aside. Everything else is left alone."""
        names = set(self._names())
        lone = []
        for name in sorted(names):
            stem, suffix = os.path.splitext(name)
            path = os.path.join(self.directory, name)
            if is_given_up(name) or _HALF_WRITTEN.fullmatch(name):
                disk.unlink(path)
            elif (
                suffix in (INDEX, TIME_INDEX, TXN_INDEX)
                and len(stem) == 20
                and stem.isdecimal()
                and stem + LOG not in names
            ):
                set_aside(path)
                lone.append(name)
        if lone:
            self._cut.append(
                f"{self._name()}: {len(lone)} index files without a log were set aside as .cut, the first is "
                f"{lone[0]}: if their logs are elsewhere, put them back and start again"
            )

    def _create_first(self) -> int:
        """An empty log, where nothing says that there was one."""
        if self._synced_end > 0:
            raise LogMissing(
                f"{self._name()} has no segment, but records up to offset {self._synced_end} were synced; put its "
                "files back and start again, or delete the topic"
            )
        base = self._log_start
        if self._served_end > base:
            self._cut.append(
                f"{self._name()}: no segment is there, though records up to offset {self._served_end} were served; as "
                f"none is known to have been synced, an empty log begins at {base}: if its files are elsewhere, stop, "
                "put them back and start again before producers write on"
            )
        for suffix in SUFFIXES:
            with disk.opened(self._segments.path(base, suffix), os.O_CREAT | os.O_WRONLY | os.O_EXCL):
                pass
        return base

    def _walk(self, bases: list[int]) -> tuple[list[int], SegmentState]:
        """Goes through the segments in order; (bases of those that are the log, state of the last)."""
        state: SegmentState | None = None
        kept: list[int] = []
        gaps: list[tuple[int, int]] = []
        for number, base in enumerate(bases):
            following = bases[number + 1] if number + 1 < len(bases) else None
            if not self._belongs(kept, base, is_only=not kept and following is None):
                continue
            kept.append(base)
            settled = following is not None and (self._clean or following <= self._recovery_point)
            if settled and self._segments.indexes_sound(base) and not self._is_named_wrongly(base):
                gaps += () if self._gaps_allowed else _gap(self._segments.next_offset(base), following)
                continue
            state, cut = self._recover(base, active=following is None, settled=settled)
            if cut and not settled and following is not None:
                for later in bases[number + 1 :]:
                    self._set_segment_aside(later, f"it lies behind the damage in segment {base}")
                break
            gaps += () if self._gaps_allowed else _gap(state.next_offset, following)
        self._say_missing(gaps)
        if state is None or state.base != kept[-1]:
            state, _ = self._recover(kept[-1], active=True, settled=False)
        return kept, state

    def _belongs(self, kept: list[int], base: int, *, is_only: bool) -> bool:
        """Whether a segment is part of the log above those in `kept`. What holds the offsets of another one under a
        name that is not its own would hide them: it is set aside, be it this one or the last of `kept`. (In a compacted
        log a segment may begin behind its name, but it may not reach into another one.)"""
        first = self._segments.first_offset(base)
        if first is not None and first < base and not is_only:
            self._set_segment_aside(base, f"it holds offset {first}, which belongs to a segment below")
            return False
        while kept and not (self._begins_as_named(base) and self._begins_as_named(kept[-1])):
            end = self._segments.next_offset(kept[-1])
            if end <= base:
                break
            if not self._begins_as_named(base):
                self._set_segment_aside(base, f"it begins before offset {end}, where the one below ends")
                return False
            self._set_segment_aside(kept.pop(), f"it holds offsets up to {end - 1}, and segment {base} its own")
        return True

    def _begins_as_named(self, base: int) -> bool:
        return self._segments.first_offset(base) == base

    def _is_named_wrongly(self, base: int) -> bool:
        """Whether a segment does not begin with the offset that its name says, as far as compaction leaves that."""
        first = self._segments.first_offset(base)
        return first is not None and first != base and not (self._gaps_allowed and first > base)

    def _recover(self, base: int, *, active: bool, settled: bool) -> tuple[SegmentState, bool]:
        """After a clean stop everything was synced: what is damaged then was no torn write, and nothing is given up."""
        if self._clean and active and self._segments.indexes_sound(base):
            return self._segments.read_tail(base), False
        if self._clean:
            self._unsound.append(f"{self._name()}/{base:020d}{INDEX}")
        return self._segments.rebuild(base, settled=settled or self._clean)

    def _say_missing(self, gaps: list[tuple[int, int]]) -> None:
        """One sentence, of however many: a log that once was compacted may have one behind each segment."""
        if gaps:
            more = f" (and {len(gaps) - 1} times more)" if len(gaps) > 1 else ""
            self._cut.append(
                f"{self._name()}: offsets {gaps[0][0]} to {gaps[0][1] - 1} are missing{more}; the rest is served: if "
                "their files are elsewhere, put them back and start again"
            )

    def _set_segment_aside(self, base: int, reason: str) -> None:
        """Indexes before the log: dying in between leaves a log that is set aside again."""
        for suffix in (TXN_INDEX, TIME_INDEX, INDEX, LOG):
            path = self._segments.path(base, suffix)
            if disk.exists(path):
                set_aside(path)
        self._cut.append(f"{self._segments.name(base)}: set aside as .cut: {reason}")

    def _replay(self, bases: list[int], end_offset: int) -> ProducerReplay:
        """Newest snapshot at or below the end, then every batch behind it. Snapshots of what is not there any more
        would be believed once the log has grown up to them: they are set aside.

        Of segments that were read anew the .txnindex is written anew too, as the other indexes are. Where that needs
        entries, the replay begins at or below the segment: which transactions were open there must be known."""
        for offset in snapshot_offsets(self.directory) if self._has_snapshots else ():
            if offset > end_offset:
                set_aside(snapshot_path(self.directory, offset))
                self._cut.append(
                    f"{self._name()}: the producer snapshot of offset {offset} was set aside as .cut: the log ends at "
                    f"{end_offset}"
                )
        wanted = self._without_txn_index(bases, end_offset)
        upper = min([end_offset, *wanted])
        start, entries = newest_snapshot(self.directory, upper) if self._has_snapshots else (0, [])
        replay = ProducerReplay(start, entries)
        for number, base in enumerate(bases):
            following = bases[number + 1] if number + 1 < len(bases) else end_offset
            if following <= start:
                continue
            before = len(replay.aborted)
            with disk.opened(self._segments.path(base, LOG)) as log:
                scan_segment(log, -1, -1, base, self._index_interval_bytes, False, replay.take)
            if base in wanted:
                write_aborted(self._segments.path(base, TXN_INDEX), replay.aborted[before:])
        return replay

    def _without_txn_index(self, bases: list[int], end_offset: int) -> set[int]:
        """Segments whose .txnindex has to be written from the log. One that should not be there is removed at once."""
        wanted = set()
        for number, base in enumerate(bases):
            path = self._segments.path(base, TXN_INDEX)
            following = bases[number + 1] if number + 1 < len(bases) else end_offset
            aborts = self._segments.rebuilt.get(base)
            if aborts == 0:
                write_aborted(path, [])
            elif aborts or not self._txn_index_sound(path, base, following):
                wanted.add(base)
        return wanted

    def _txn_index_sound(self, path: str, base: int, following: int) -> bool:
        if not disk.exists(path):
            return True  # it was believed up to now: Kafka does not miss it either
        try:
            sound = is_sound(read_aborted(path), base, following)
        except ValueError:
            sound = False
        if not sound:
            self._unsound.append(f"{self._name()}/{os.path.basename(path)}")
        return sound

    def _aborted(self, bases: list[int]) -> tuple[int, int]:
        """(bytes of the active segment's .txnindex, offset behind the last abort marker of the log)."""
        sizes = []
        for base in reversed(bases):
            path = self._segments.path(base, TXN_INDEX)
            sizes.append(disk.size(path) if disk.exists(path) else 0)
            if sizes[-1]:
                return sizes[0], read_aborted(path)[-1].last_offset + 1
        return 0, 0


def _gap(end: int, following: int | None) -> list[tuple[int, int]]:
    """Offsets between a segment's end and the next one, from and to; none where they fit, or it is the last."""
    return [(end, following)] if following is not None and end < following else []


def _bases(names: Iterable[str]) -> list[int]:
    """Of the segments among the files of a directory."""
    stems = (name[: -len(LOG)] for name in names if name.endswith(LOG))
    return sorted(int(stem) for stem in stems if len(stem) == 20 and stem.isdecimal() and int(stem) < 2**63)


def _all_ordinary(names: list[str]) -> bool:
    """Whether a directory holds nothing but segments, their indexes, snapshots and the two files that every partition
    has: then no swap is to be finished, and nothing put away. Nearly all are so, and thousands are looked at."""
    there = set(names)
    for name in names:
        stem, suffix = os.path.splitext(name)
        if name in _OF_ALL or (len(stem) == 20 and stem.isdecimal() and suffix in (LOG, SNAPSHOT)):
            continue
        if suffix not in INDEXES or stem + LOG not in there:
            return False
    return True
