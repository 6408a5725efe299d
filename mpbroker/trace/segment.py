"""Trace segment files (`*.mpt`): a header of 4,096 bytes, then records of 128 bytes. Reading needs no broker.

The tracer alone writes them (segment_writer.py). A segment is `active` or was left by a crash while its close fields
are zero: its record count then follows from its size, and a torn last record is ignored. Close fields that are neither
zero nor fit their checksum are damage: what they said of the records is lost. The header:

      0  open fields    what is known when the file is made, their CRC, and `json_bytes`
    256  progress       base and present counters of the lane and their CRC, rewritten after every drain
    512  close fields   written once, in one piece
   1024  JSON           listeners, version

Counters are cumulative over a lane's life; the difference between progress and base is this segment's own share.
"""

import json
import os
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from mpbroker.errors import MpbrokerError
from mpbroker.trace.clock_sample import ClockSample
from mpbroker.trace.record import RECORD_BYTES, TICK_SHIFT

MAGIC = b"MPBTRACE"
VERSION = 1
HEADER_BYTES = 4096
SUFFIX = ".mpt"
API_SLOTS = 64  # counts of API keys 0..62; the last slot counts all others

OPEN = struct.Struct("<8sIIIIQIIQq24s5Q")  # up to the CRC
OPEN_CRC = struct.Struct("<I")
OPEN_CRC_OFFSET = 248
PROGRESS_OFFSET = 256
PROGRESS = struct.Struct("<8Q")
PROGRESS_CRC_OFFSET = PROGRESS_OFFSET + PROGRESS.size
CLOSE_OFFSET = 512
CLOSE = struct.Struct(f"<6Q5Q{API_SLOTS}I")
CLOSE_CRC_OFFSET = CLOSE_OFFSET + CLOSE.size
JSON_OFFSET = 1024
assert OPEN.size <= OPEN_CRC_OFFSET and PROGRESS_CRC_OFFSET + 4 <= CLOSE_OFFSET and CLOSE_CRC_OFFSET + 4 <= JSON_OFFSET
MAX_JSON_BYTES = HEADER_BYTES - JSON_OFFSET
#: A part of a header whose checksum does not fit may be one that is being written; after this it is there.
LOOK_AGAIN_S = 0.02


class SegmentError(MpbrokerError):
    """A file is no trace segment, or its header is damaged."""


class Opened(NamedTuple):
    """What a segment's header says from its first moment. `first_seq`: the lane's number of its first request."""

    broker_id: int
    boot_id: int
    ring: int
    first_seq: int
    cluster_id: str
    time_namespace_ns: int
    clock: ClockSample
    extra: dict[str, Any]


class Progress(NamedTuple):
    """Lane counters where this segment began (base_*) and at its last drain."""

    base_finished: int = 0
    base_written: int = 0
    base_dropped: int = 0
    base_sampled_out: int = 0
    finished: int = 0
    written: int = 0
    dropped: int = 0
    sampled_out: int = 0

    def share(self) -> tuple[int, int, int, int]:
        """What happened in this segment: requests finished, written, dropped, sampled out."""
        return (
            self.finished - self.base_finished,
            self.written - self.base_written,
            self.dropped - self.base_dropped,
            self.sampled_out - self.base_sampled_out,
        )

    def following(self) -> "Progress":
        """Where the next segment of the lane begins."""
        return Progress(*self[4:], *self[4:])


class Closed(NamedTuple):
    """What is known once a segment is complete. `api_counts` has API_SLOTS numbers; times are monotonic nanoseconds."""

    record_count: int
    next_seq: int
    t0_min_ns: int
    t0_max_ns: int
    max_total_ns: int
    records_crc: int
    clock: ClockSample
    api_counts: tuple[int, ...]


class SegmentInfo(NamedTuple):
    """A header. `closed` is None while it is active or after a crash; `record_count` is right in either case.

    `damage`: a sentence about a file that was cut or changed after it was written and can be read all the same; or
    empty. `is_doubtful`: the damage is in the close fields, and nothing says whether the records are those that were
    written.
    """

    path: Path
    opened: Opened
    progress: Progress
    closed: Closed | None
    record_count: int
    file_bytes: int
    damage: str = ""
    is_doubtful: bool = False

    @property
    def epoch_offset_ns(self) -> int:
        """Added to a monotonic stamp it gives nanoseconds since 1970."""
        return self.opened.clock.offset_ns

    @property
    def worth(self) -> tuple[bool, int]:
        """Of two copies of a segment the one with more of this is to be read."""
        return not self.is_doubtful, self.record_count


def file_name(broker_id: int, boot_id: int, ring: int, first_seq: int, further: int = 0) -> str:
    """`b<broker>-<boot>-r<ring>-<first sequence>.mpt`; names of one lane sort by time.

    `further`: how many segments with the same first sequence there are before it, for a segment may hold no request.
    """
    counted = f"_{further:06d}" if further else ""
    return f"{lane_start(broker_id, boot_id, ring)}{first_seq:020d}{counted}{SUFFIX}"


def lane_start(broker_id: int, boot_id: int, ring: int) -> str:
    """What the names of all files of one lane begin with."""
    return f"b{broker_id}-{boot_id & 0xFFFFFFFF:08x}-r{ring:02d}-"


def find(directory: Path, start: str = "", end: str = SUFFIX) -> list[Path]:
    """The files of a directory whose names begin and end so, by name; none where there is no directory to read.

    `Path.glob` compiles a regular expression, for which the tracer alone would copy half a megabyte of the memory that
    it shares with the other processes.
    """
    try:
        names = os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []
    return [directory / name for name in sorted(names) if name.startswith(start) and name.endswith(end)]


def pack_opened(opened: Opened) -> bytes:
    """A whole header page without progress and close fields."""
    extra = json.dumps(opened.extra, separators=(",", ":")).encode()
    if len(extra) > MAX_JSON_BYTES:
        extra = b'{"cut":true}'  # names of very many listeners: the records are worth more than the table
    page = bytearray(HEADER_BYTES)
    OPEN.pack_into(
        page,
        0,
        MAGIC,
        VERSION,
        RECORD_BYTES,
        TICK_SHIFT,
        opened.broker_id,
        opened.boot_id,
        opened.ring,
        len(extra),
        opened.first_seq,
        opened.time_namespace_ns,
        opened.cluster_id.encode()[:24],
        *opened.clock,
    )
    page[JSON_OFFSET : JSON_OFFSET + len(extra)] = extra
    OPEN_CRC.pack_into(page, OPEN_CRC_OFFSET, _open_crc(page, len(extra)))
    return bytes(page)


def pack_progress(progress: Progress) -> bytes:
    """The counters with their CRC, to be written at PROGRESS_OFFSET in one piece."""
    body = PROGRESS.pack(*progress)
    return body + struct.pack("<I", zlib.crc32(body) or 1)


def pack_closed(closed: Closed) -> bytes:
    """The close fields with their CRC, to be written at CLOSE_OFFSET in one piece."""
    head = closed[:6]
    body = CLOSE.pack(*head, *closed.clock, *closed.api_counts)
    return body + struct.pack("<I", zlib.crc32(body) or 1)


def read_info(path: Path) -> SegmentInfo:
    """Header of a segment file; SegmentError says what is wrong with it."""
    page, size = _read_page(path)
    if len(page) == HEADER_BYTES and (_parse_progress(page) is None or _is_close_damaged(page)):
        time.sleep(LOOK_AGAIN_S)
        page, size = _read_page(path)
    opened = _parse_opened(path, page)
    closed, progress, is_doubtful = _parse_closed(page), _parse_progress(page), _is_close_damaged(page)
    present = max(0, size - HEADER_BYTES) // RECORD_BYTES
    damage = ""
    if closed is not None and closed.record_count > present:
        damage = f"{path}: {present} records, but it was closed with {closed.record_count}: it has been cut"
        closed = None
    if progress is None:
        damage = (
            f"{path}: the checksum of its counters does not fit; how many requests were dropped meanwhile is not known"
        )
        written = opened.first_seq if closed is None else closed.next_seq
        progress = Progress(opened.first_seq, opened.first_seq, 0, 0, written, written, 0, 0)
    if is_doubtful:
        damage = f"{path}: its close fields are damaged, so nothing vouches for its records; none of them is counted"
    count = present if closed is None else closed.record_count
    return SegmentInfo(path, opened, progress, closed, count, size, damage, is_doubtful)


def _read_page(path: Path) -> tuple[bytes, int]:
    """The header as it is now, and the file's size after it was read."""
    with open(path, "rb") as file:
        page = file.read(HEADER_BYTES)
        return page, os.fstat(file.fileno()).st_size


def read_chunks(info: SegmentInfo, chunk_records: int = 8192, first: int = 0) -> Iterator[bytes]:
    """The records from number `first` of the file on, in pieces of whole records."""
    left = info.record_count - first
    with open(info.path, "rb") as file:
        file.seek(HEADER_BYTES + first * RECORD_BYTES)
        while left > 0:
            chunk = file.read(min(left, chunk_records) * RECORD_BYTES)
            whole = len(chunk) // RECORD_BYTES
            if whole == 0:
                return
            left -= whole
            yield chunk[: whole * RECORD_BYTES]


class RecordsChecksum:
    """Tells, once it has seen all records of a segment, whether they are those it was closed with."""

    def __init__(self, info: SegmentInfo) -> None:
        self._expected = info.closed.records_crc if info.closed is not None else None
        self._crc = 0

    def add(self, records: bytes) -> None:
        """The next records in the file's order."""
        if self._expected is not None:
            self._crc = zlib.crc32(records, self._crc)

    def fits(self) -> bool:
        """True also for an open segment, which has no checksum."""
        return self._expected is None or self._crc == self._expected


def verify(info: SegmentInfo) -> bool:
    """Whether a closed segment's records are those it was closed with (an open one has no checksum: True)."""
    checksum = RecordsChecksum(info)
    for chunk in read_chunks(info):
        checksum.add(chunk)
    return checksum.fits()


def _parse_opened(path: Path, page: bytes) -> Opened:
    if len(page) < HEADER_BYTES:
        raise SegmentError(f"{path}: {len(page)} bytes are no trace segment, its header alone has {HEADER_BYTES}")
    fields = OPEN.unpack_from(page, 0)
    magic, version, record_bytes, tick_shift, broker_id, boot_id, ring, json_bytes, first_seq, namespace_ns, cluster = (
        fields[:11]
    )
    if magic != MAGIC:
        raise SegmentError(f"{path}: not a trace segment")
    if version != VERSION or record_bytes != RECORD_BYTES or tick_shift != TICK_SHIFT:
        raise SegmentError(
            f"{path}: format {version} with records of {record_bytes} bytes; this program reads {VERSION}"
        )
    if json_bytes > MAX_JSON_BYTES or OPEN_CRC.unpack_from(page, OPEN_CRC_OFFSET)[0] != _open_crc(page, json_bytes):
        raise SegmentError(f"{path}: the header's checksum does not fit; the header is damaged")
    extra = json.loads(page[JSON_OFFSET : JSON_OFFSET + json_bytes])
    return Opened(
        broker_id,
        boot_id,
        ring,
        first_seq,
        cluster.rstrip(b"\0").decode("ascii", "replace"),
        namespace_ns,
        ClockSample(*fields[11:16]),
        extra,
    )


def _parse_closed(page: bytes) -> Closed | None:
    body = page[CLOSE_OFFSET:CLOSE_CRC_OFFSET]
    crc = int.from_bytes(page[CLOSE_CRC_OFFSET : CLOSE_CRC_OFFSET + 4], "little")
    if crc == 0 or crc != (zlib.crc32(body) or 1):
        return None  # never closed, or damaged: the size decides
    values = CLOSE.unpack(body)
    return Closed._make((*values[:6], ClockSample(*values[6:11]), values[11:]))


def _is_close_damaged(page: bytes) -> bool:
    """Something was written there, and it is not what a tracer writes: changed afterwards, or torn by a crash."""
    return any(page[CLOSE_OFFSET : CLOSE_CRC_OFFSET + 4]) and _parse_closed(page) is None


def _parse_progress(page: bytes) -> Progress | None:
    """None when the checksum does not fit; a page without one is believed."""
    crc = int.from_bytes(page[PROGRESS_CRC_OFFSET : PROGRESS_CRC_OFFSET + 4], "little")
    if crc not in (0, zlib.crc32(page[PROGRESS_OFFSET:PROGRESS_CRC_OFFSET]) or 1):
        return None
    return Progress(*PROGRESS.unpack_from(page, PROGRESS_OFFSET))


def _open_crc(page: bytes | bytearray, json_bytes: int) -> int:
    return zlib.crc32(bytes(page[JSON_OFFSET : JSON_OFFSET + json_bytes]), zlib.crc32(bytes(page[:OPEN_CRC_OFFSET])))
