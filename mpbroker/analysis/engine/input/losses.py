"""What a trace does not have: requests dropped by full lanes, left out by sampling, or in files that are gone. Pure.

finished = records + dropped + sampled_out; `missing` requests stood in segments that were deleted or are damaged, or
their sequence numbers are skipped in one that is there.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from mpbroker.analysis.engine.input.soundness import Checked, Hole
from mpbroker.trace.segment import SegmentInfo


class Gap(NamedTuple):
    """`missing` requests of a lane from sequence number first_seq on are in no file; epoch_ns: where they belong."""

    run: str
    broker: int
    ring: int
    first_seq: int
    missing: int
    epoch_ns: int


class SegmentCounts(NamedTuple):
    """Requests of one segment: in the file, and its share of the lane's counters. `next_seq`: after its last one."""

    info: SegmentInfo
    records: int
    finished: int
    dropped: int
    sampled_out: int
    next_seq: int
    holes: tuple[Hole, ...] = ()


class Loss(NamedTuple):
    """Sums over a trace (requests only). `sentences`: what a reader of its figures should know, damaged files first."""

    finished: int = 0
    records: int = 0
    dropped: int = 0
    sampled_out: int = 0
    gaps: tuple[Gap, ...] = ()
    damaged_files: int = 0
    sentences: tuple[str, ...] = ()

    @property
    def damage(self) -> tuple[str, ...]:
        """A sentence for each damaged file: its name, and what is wrong with it."""
        return self.sentences[: self.damaged_files]

    @property
    def missing(self) -> int:
        """Requests in gaps."""
        return sum(gap.missing for gap in self.gaps)

    @property
    def dropped_share(self) -> float:
        """Of the finished requests and those in gaps, how many the trace should have and has not (0 … 1)."""
        whole = self.finished + self.missing
        return (self.dropped + self.missing) / whole if whole else 0.0


def count_segment(checked: Checked) -> SegmentCounts:
    """A segment that is being written may hold records newer than its counters: they count as finished, too. Of one
    that was cut, is damaged or has holes, what is missing is a gap."""
    info, records = checked.info, checked.requests
    finished, _, dropped, sampled_out = info.progress.share()
    here = records + dropped + sampled_out
    if info.damage or checked.holes:
        finished = here
    elif info.closed is None:
        finished = max(finished, here)
    return SegmentCounts(info, records, finished, dropped, sampled_out, checked.next_seq, checked.holes)


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
    return loss._replace(sentences=(*complaints, *sentences_of(loss)))


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
        sentences=(
            *(sentence for one in each for sentence in one.damage),
            *(sentence for one in each for sentence in one.sentences[one.damaged_files :]),
        ),
    )


def _gaps(counts: Iterable[SegmentCounts], epoch_of: Callable[[SegmentInfo, int], int]) -> Iterable[Gap]:
    lanes: dict[tuple[int, int, int], list[SegmentCounts]] = {}
    for one in counts:
        lanes.setdefault(one.info.opened[:3], []).append(one)
    for (broker, boot_id, ring), segments in lanes.items():
        reached: int | None = None
        for one in sorted(segments, key=lambda one: (one.info.opened.first_seq, one.info.path.name)):
            first_seq, written = one.info.opened.first_seq, one.info.progress.written
            next_seq, epoch_ns = one.next_seq, epoch_of(one.info, one.info.opened.clock.monotonic_ns)
            holes = ((hole.first_seq, hole.first_seq + hole.missing) for hole in one.holes)
            # a file that is gone; numbers skipped in one that is there; a file that was cut
            for begin, end in ((reached, first_seq), *holes, (next_seq, written)):
                if begin is not None and begin < end:
                    yield Gap(f"{boot_id:016x}", broker, ring, begin, end - begin, epoch_ns)
            reached = max(reached or 0, next_seq, written)


def sentences_of(loss: Loss) -> Iterable[str]:
    """What a reader of its figures should know."""
    if loss.dropped:
        yield (
            f"{loss.dropped} of {loss.finished} requests ({100 * loss.dropped / max(1, loss.finished):.2f} %) were "
            "dropped because a lane was full: the busiest moments are underrepresented"
        )
    if loss.gaps:
        yield (
            f"{loss.missing} requests are missing in {len(loss.gaps)} "
            f"{'gap' if len(loss.gaps) == 1 else 'gaps'}: segments between others were deleted, or files were cut or "
            "damaged"
        )
    if loss.sampled_out:
        yield (
            f"{loss.sampled_out} of {loss.finished} requests were sampled out; counts and percentiles are weighted "
            "for them"
        )
