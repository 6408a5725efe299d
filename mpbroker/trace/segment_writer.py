"""Writes one trace segment; the tracer process alone. Crash-safe: a record is in the file once its `pwrite` returned.

A full disk or an I/O error raises OSError and leaves the writer as it was before the call, so that it can be tried
again while the lane keeps the records.
"""

import os
from pathlib import Path
from typing import TypeAlias

from mpbroker import _native
from mpbroker.trace import clock_sample, segment
from mpbroker.trace.record import RECORD_BYTES, TICK_SHIFT

MAX_WITHOUT_REQUESTS = 1_000_000

Tail: TypeAlias = tuple[_native.TraceLane, _native.TraceTally | None, int, int, int]
"""Where `_native.trace_wait` writes a lane's records: the lane; tally and descriptor of the open segment, None and -1
where there is none; bytes of its header, records that it takes in all."""


def closed(tally: _native.TraceTally) -> segment.Closed:
    """The close fields, with the clocks of this moment."""
    return segment.Closed(
        tally.count,
        tally.next_seq,
        tally.t0_min_ns,
        tally.t0_max_ns,
        tally.max_total_ticks << TICK_SHIFT,
        tally.crc,
        clock_sample.take(),
        tally.api_counts,
    )


class SegmentWriter:
    """An open segment. Make one with `create` or `reopen`."""

    def __init__(self, path: Path, file: int, opened: segment.Opened, progress: segment.Progress) -> None:
        self.path = path
        self.opened = opened
        self.progress = progress
        self.tally = _native.TraceTally(opened.first_seq)
        self._file = file

    @property
    def file_bytes(self) -> int:
        """Bytes of header and records."""
        return segment.HEADER_BYTES + self.tally.count * RECORD_BYTES

    def tail(self, lane: _native.TraceLane, segment_bytes: int) -> Tail:
        """Where records of the lane are written between two turns, until the file has so many bytes."""
        room = max(0, segment_bytes - segment.HEADER_BYTES) // RECORD_BYTES
        return lane, self.tally, self._file, segment.HEADER_BYTES, room

    def append(self, records: bytes | memoryview) -> None:
        """Write whole records; those of kind request must be the lane's next ones, in order."""
        _write_all(self._file, records, self.file_bytes)
        self.tally.add(records)

    def note(self, progress: segment.Progress) -> None:
        """Store the lane's counters as they were when the last records were read."""
        if progress != self.progress:
            _write_all(self._file, segment.pack_progress(progress), segment.PROGRESS_OFFSET)
            self.progress = progress

    def sample_clock(self) -> None:
        """Add a clock record."""
        self.append(clock_sample.take().pack_record(self.tally.next_seq & 0xFFFFFFFF, self.opened.ring))

    def close(self) -> segment.SegmentInfo:
        """Sync the records, store the close fields in one write, sync again. The file never changes afterwards."""
        fields = closed(self.tally)
        os.fsync(self._file)
        _write_all(self._file, segment.pack_closed(fields), segment.CLOSE_OFFSET)
        os.fsync(self._file)
        self.abandon()
        return segment.SegmentInfo(self.path, self.opened, self.progress, fields, fields.record_count, self.file_bytes)

    def abandon(self) -> None:
        """Give the descriptor back without close fields, as a crash would."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def create(directory: Path, opened: segment.Opened, progress: segment.Progress) -> SegmentWriter:
    """A new segment file, mode 0600; none is left behind if its header does not fit on the disk."""
    path, file = _new_file(directory, opened)
    try:
        page = bytearray(segment.pack_opened(opened))
        page[segment.PROGRESS_OFFSET : segment.PROGRESS_CRC_OFFSET + 4] = segment.pack_progress(progress)
        _write_all(file, page, 0)
    except BaseException:
        os.close(file)
        path.unlink(missing_ok=True)
        raise
    return SegmentWriter(path, file, opened, progress)


def _new_file(directory: Path, opened: segment.Opened) -> tuple[Path, int]:
    """The first name that no segment has; more than one of a sequence only where segments without requests were
    closed."""
    for further in range(MAX_WITHOUT_REQUESTS):
        path = directory / segment.file_name(*opened[:4], further)
        try:
            return path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            continue
    raise FileExistsError(f"{path} and all before it exist")


def recover(info: segment.SegmentInfo) -> segment.SegmentInfo:
    """Close a segment that a killed tracer left open: cut a torn record, count what is there, store the close fields.

    Dropped and sampled-out counts are those of its last complete drain; what came later is the next segment's.
    """
    writer = SegmentWriter(info.path, os.open(info.path, os.O_RDWR | os.O_CLOEXEC), info.opened, info.progress)
    try:
        for chunk in segment.read_chunks(info):
            writer.tally.add(chunk)
        os.ftruncate(writer._file, writer.file_bytes)
        known, written = info.progress, writer.tally.next_seq
        writer.note(known._replace(written=written, finished=written + known.dropped + known.sampled_out))
        return writer.close()
    finally:
        writer.abandon()


def _write_all(file: int, data: bytes | bytearray | memoryview, position: int) -> None:
    view = memoryview(data)
    while len(view):
        written = os.pwrite(file, view, position)
        view, position = view[written:], position + written
