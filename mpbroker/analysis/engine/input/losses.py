"""What a trace does not have: requests dropped by full lanes, left out by sampling, or in files that are gone. Pure.

finished = records + dropped + sampled_out; `missing` requests stood in segments that were deleted or are damaged.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from mpbroker.trace import segment
from mpbroker.trace.record import RECORD_BYTES, REQUEST
from mpbroker.trace.segment import SegmentInfo

_KIND_OFFSET = 44


class Gap(NamedTuple):
    """`missing` requests of a lane from sequence number first_seq on are in no file; epoch_ns: where they belong."""

    run: str
    broker: int
    ring: int
    first_seq: int
    missing: int
    epoch_ns: int


class SegmentCounts(NamedTuple):
    """Requests of one segment: in the file, and its share of the lane's counters."""

    info: SegmentInfo
    records: int
    finished: int
    dropped: int
    sampled_out: int


class Loss(NamedTuple):
    """Sums over a trace (requests only). `sentences`: what a reader of its figures should know."""

    finished: int = 0
    records: int = 0
    dropped: int = 0
    sampled_out: int = 0
    gaps: tuple[Gap, ...] = ()
    damaged_files: int = 0
    sentences: tuple[str, ...] = ()

    @property
    def missing(self) -> int:
        """Requests in gaps."""
        return sum(gap.missing for gap in self.gaps)

    @property
    def dropped_share(self) -> float:
        """Of the finished requests and those in gaps, how many the trace should have and has not (0 … 1)."""
        whole = self.finished + self.missing
        return (self.dropped + self.missing) / whole if whole else 0.0


def count_segment(info: SegmentInfo) -> SegmentCounts:
    """A segment that is being written may hold records newer than its counters: they count as finished, too."""
    finished, _, dropped, sampled_out = info.progress.share()
    if info.closed is not None:
        return SegmentCounts(info, info.closed.next_seq - info.opened.first_seq, finished, dropped, sampled_out)
    records = _requests(info)
    here = records + dropped + sampled_out
    finished = here if info.damage else max(finished, here)  # of a file that was cut, what is missing is a gap
    return SegmentCounts(info, records, finished, dropped, sampled_out)


def loss_of(
    counts: Sequence[SegmentCounts], complaints: Sequence[str], epoch_of: Callable[[SegmentInfo, int], int]
) -> Loss:
    """Of these segments; `epoch_of` turns a monotonic stamp of a segment into time since 1970."""
    gaps = tuple(_gaps(counts, epoch_of))
    loss = Loss(
        sum(one.finished for one in counts),
        sum(one.records for one in counts),
        sum(one.dropped for one in counts),
        sum(one.sampled_out for one in counts),
        gaps,
        len(complaints),
    )
    return loss._replace(sentences=(*complaints, *_sentences(loss)))


def merged(losses: Iterable[Loss]) -> Loss:
    """Of several traces together."""
    each = list(losses)
    return Loss(
        finished=sum(one.finished for one in each),
        records=sum(one.records for one in each),
        dropped=sum(one.dropped for one in each),
        sampled_out=sum(one.sampled_out for one in each),
        gaps=tuple(gap for one in each for gap in one.gaps),
        damaged_files=sum(one.damaged_files for one in each),
        sentences=tuple(sentence for one in each for sentence in one.sentences),
    )


def _requests(info: SegmentInfo) -> int:
    found = 0
    for chunk in segment.read_chunks(info, 65536):
        found += int(np.count_nonzero(np.frombuffer(chunk, np.uint8)[_KIND_OFFSET::RECORD_BYTES] == REQUEST))
    return found


def _gaps(counts: Iterable[SegmentCounts], epoch_of: Callable[[SegmentInfo, int], int]) -> Iterable[Gap]:
    lanes: dict[tuple[int, int, int], list[SegmentCounts]] = {}
    for one in counts:
        lanes.setdefault(one.info.opened[:3], []).append(one)
    for (broker, boot_id, ring), segments in lanes.items():
        reached: int | None = None
        for one in sorted(segments, key=lambda one: (one.info.opened.first_seq, one.info.path.name)):
            first_seq, written = one.info.opened.first_seq, one.info.progress.written
            next_seq, epoch_ns = first_seq + one.records, epoch_of(one.info, one.info.opened.clock.monotonic_ns)
            for begin, end in ((reached, first_seq), (next_seq, written)):  # a file that is gone; a file that was cut
                if begin is not None and begin < end:
                    yield Gap(f"{boot_id:016x}", broker, ring, begin, end - begin, epoch_ns)
            reached = max(reached or 0, next_seq, written)


def _sentences(loss: Loss) -> Iterable[str]:
    if loss.dropped:
        yield (
            f"{loss.dropped} of {loss.finished} requests ({100 * loss.dropped / max(1, loss.finished):.2f} %) were "
            "dropped because a lane was full: the busiest moments are underrepresented"
        )
    if loss.gaps:
        yield (
            f"{loss.missing} requests are missing in {len(loss.gaps)} "
            f"{'gap' if len(loss.gaps) == 1 else 'gaps'}: segments between others were deleted, or files were cut"
        )
    if loss.sampled_out:
        yield (
            f"{loss.sampled_out} of {loss.finished} requests were sampled out; counts and percentiles are weighted "
            "for them"
        )
