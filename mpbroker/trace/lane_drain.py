"""Moves one lane's records into segment files; used by the tracer process, which alone writes what this holds.

A record leaves the lane only after its `pwrite` returned. A tracer that dies in between leaves records both in the file
and in the lane: its successor closes the file, and seeks the lane to where the file ends, so none is written twice.
"""

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from mpbroker.trace import manifest, record, segment, segment_writer
from mpbroker.trace.clock_sample import take
from mpbroker.trace.lane import Lane, LaneCounters
from mpbroker.trace.record import RECORD_BYTES, TraceRecord
from mpbroker.trace.segment import Progress

CHUNK_RECORDS = 8192
CLOCK_SAMPLE_MS = 10_000
MAX_WAITING_EVENTS = 4096
EVENTS_AT_ONCE = 64


class Limits(NamedTuple):
    """When a segment is full: its size, its age."""

    segment_bytes: int
    segment_ms: int


class Origin(NamedTuple):
    """What all segments of a broker say about it. `extra`: listeners and version, a JSON object."""

    broker_id: int
    cluster_id: str
    time_namespace_ns: int
    extra: dict[str, Any]


class LaneDrain:
    """One lane and its present segment. Times given are monotonic nanoseconds."""

    def __init__(self, lane: Lane, directory: Path, origin: Origin, limits: Limits) -> None:
        self.lane = lane
        self.limits = limits
        self._directory = directory
        self._origin = origin
        self._writer: segment_writer.SegmentWriter | None = None
        self._opened_ns = 0
        self._clock_ns = 0
        self._events: deque[bytes] = deque()
        self._urgent = False
        self._is_outdated = False
        self.events_lost = 0
        self.watch: Callable[[memoryview, int], object] | None = None
        self._progress = Progress()
        self._resume()

    @property
    def active(self) -> dict[Path, int]:
        """The open segment and its size."""
        return {self._writer.path: self._writer.file_bytes} if self._writer else {}

    def add_event(self, data: bytes, urgent: bool = True) -> None:
        """Keep a record of the tracer's own, of any kind but request, for `write_events`; if not urgent, for the next
        segment.

        While nothing can be written the oldest give way to new ones, counted in `events_lost`.
        """
        if len(self._events) >= MAX_WAITING_EVENTS:
            self._events.popleft()
            self.events_lost += 1
        self._events.append(data)
        self._urgent = self._urgent or urgent

    def write_events(self, now_ns: int) -> None:
        """Write the events that wait, opening a segment for urgent ones. OSError: those not written stay."""
        if self._events and (self._urgent or self._writer is not None):
            self._writer_at(now_ns)
            self._rotate_if_full(now_ns)

    def step(self, now_ns: int) -> int:
        """Write what the lane holds now; returns the number of records. OSError: nothing is lost, try again."""
        counters = self.lane.counters()
        moved = 0
        while counters.drained + moved < counters.written:
            writer = self._writer_at(now_ns)
            left = counters.written - counters.drained - moved
            records = self.lane.peek(min(max(1, self._room(writer)), CHUNK_RECORDS, left))
            if not records:
                break  # counters and lane contradict each other: nothing can be read from this lane any more
            writer.append(records)
            if self.watch is not None:
                self.watch(records, now_ns)
            self.lane.release(records)
            moved += len(records) // RECORD_BYTES
            self._rotate_if_full(now_ns)
        self._finish_step(counters, now_ns)
        return moved

    def tail(self) -> segment_writer.Tail:
        """Between two steps: what the lane holds may be written there, if it fits (native/trace/trace_tail.h); the
        next step notes the progress. Nothing may be where somebody watches."""
        if self._writer is None or self._is_outdated or self.watch is not None:
            return self.lane.native, None, -1, 0, 0
        return self._writer.tail(self.lane.native, self.limits.segment_bytes)

    def _room(self, writer: segment_writer.SegmentWriter) -> int:
        """Records that the segment still takes."""
        return (self.limits.segment_bytes - writer.file_bytes) // RECORD_BYTES

    def use_origin(self, origin: Origin) -> None:
        """What segments say from now on; the present one ends. OSError: it ends before requests or events are
        written."""
        self._origin = origin
        self._is_outdated = self._writer is not None
        self.close()

    def close(self) -> None:
        """End the present segment. OSError while its counters are noted: it stays the present one."""
        if self._writer is not None:
            if self._writer.tally.next_seq > self._progress.written:
                self._note_written(self._writer)
            writer, self._writer, self._is_outdated = self._writer, None, False
            try:
                manifest.append(self._directory, writer.close())
            finally:
                writer.abandon()

    def give_up(self) -> int:
        """After the last step: what could not be written any more, as on a full disk, counts as dropped. That is stored
        in the open segment's header, which takes no new room. Returns how many records it was; OSError: not even so."""
        counters = self.lane.counters()
        lost = counters.written - counters.drained
        if lost and self._writer is not None:
            counted = self._progress._replace(
                finished=counters.finished,
                written=self._writer.tally.next_seq,
                dropped=counters.dropped + lost,
                sampled_out=counters.sampled_out,
            )
            self._note(counted, self._writer)
        return lost

    def _finish_step(self, counters: LaneCounters, now_ns: int) -> None:
        """Counters, drop notice, clock and age, once per step."""
        before = self._progress
        if counters[:4] != (before.finished, before.written, before.dropped, before.sampled_out):
            writer = self._writer_at(now_ns)
            if counters.dropped > before.dropped:
                notice = TraceRecord(
                    t0_ns=now_ns,
                    kind=record.DROP_NOTICE,
                    seq_lo=counters.written & 0xFFFFFFFF,
                    aux=min(counters.dropped - before.dropped, 0xFFFFFFFF),
                    proc_id=self.lane.processor,
                )
                writer.append(notice.pack())
            self._note(
                self._progress._replace(  # not `before`: a segment that began just now has a base of its own
                    finished=counters.finished,
                    written=counters.written,
                    dropped=counters.dropped,
                    sampled_out=counters.sampled_out,
                ),
                writer,
            )
        if self._writer is not None and now_ns - self._clock_ns >= CLOCK_SAMPLE_MS * 1_000_000:
            self._writer.sample_clock()
            self._clock_ns = now_ns
        self._rotate_if_full(now_ns)

    def _note_written(self, writer: segment_writer.SegmentWriter) -> None:
        """Before a segment ends in the middle of a step, or after records followed: what else the counters say comes
        with the next step."""
        written = writer.tally.next_seq
        gained = written - self._progress.written
        self._note(self._progress._replace(written=written, finished=self._progress.finished + gained), writer)

    def _note(self, progress: Progress, writer: segment_writer.SegmentWriter) -> None:
        writer.note(progress)
        self._progress = progress

    def _writer_at(self, now_ns: int) -> segment_writer.SegmentWriter:
        """The present segment; a new one if there is none, beginning with a clock record and what waits."""
        if self._is_outdated:
            self.close()
        if self._writer is None:
            opened = segment.Opened(
                self._origin.broker_id,
                self.lane.boot_id,
                self.lane.processor,
                self._progress.written,
                self._origin.cluster_id,
                self._origin.time_namespace_ns,
                take(),
                self._origin.extra,
            )
            self._progress = self._progress.following()
            self._writer = segment_writer.create(self._directory, opened, self._progress)
            self._opened_ns = self._clock_ns = now_ns
            self._writer.sample_clock()
        while self._events:
            some = [self._events[index] for index in range(min(EVENTS_AT_ONCE, len(self._events)))]
            self._writer.append(b"".join(some))
            for _ in some:
                self._events.popleft()
        self._urgent = False
        return self._writer

    def _rotate_if_full(self, now_ns: int) -> None:
        if self._writer is None:
            return
        if (
            self._writer.file_bytes >= self.limits.segment_bytes
            or now_ns - self._opened_ns >= self.limits.segment_ms * 1_000_000
        ):
            self.close()

    def _resume(self) -> None:
        """Continue where a predecessor's last file of this lane ends."""
        counters = self.lane.counters()
        boot_id = self.lane.boot_id
        start = segment.lane_start(self._origin.broker_id, boot_id, self.lane.processor)
        mine = [info for info in manifest.segments(self._directory, start=start) if info.opened.boot_id == boot_id]
        if mine and mine[-1].progress.written >= counters.drained:
            self._progress = mine[-1].progress.following()
            self.lane.native.seek(self._progress.written)
        elif counters.drained:  # its last files were deleted or damaged, and with them what they said about losses
            gone = (
                counters.drained + counters.dropped + counters.sampled_out,
                counters.drained,
                counters.dropped,
                counters.sampled_out,
            )
            self._progress = Progress(*gone, *gone)


def recover_directory(directory: Path, broker_id: int) -> int:
    """Close every segment of this broker that a killed tracer left open, and list in the manifest what is missing
    there.

    Returns how many it closed. To be called before any LaneDrain is made. A file of ours whose header was never written
    holds nothing and is removed.
    """
    for path in segment.find(directory, f"b{broker_id}-"):
        if path.stat().st_size < segment.HEADER_BYTES:
            path.unlink()
    known = {row.file for row in manifest.read(directory)}
    found = 0
    for info in manifest.segments(directory, skip=known):
        if info.closed is None and info.opened.broker_id == broker_id:
            info = segment_writer.recover(info)
            found += 1
        if info.closed is not None:
            manifest.append(directory, info)
    return found
