"""Traces for tests: requests with known stage times, written through the real lane and segment code."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from mpbroker.trace import lane, manifest, record, segment, segment_writer
from mpbroker.trace.clock_sample import ClockSample
from mpbroker.trace.lane_drain import LaneDrain, Limits, Origin
from mpbroker.trace.record import NOT_REACHED, STAGES, TraceRecord

CLOCK = ClockSample(
    monotonic_ns=1_000,
    realtime_ns=1_700_000_000_000_001_000,
    boottime_ns=2_000,
    monotonic_raw_ns=900,
    uncertainty_ns=40,
)
APIS = {"0": "Produce"}
ORIGIN = Origin(broker_id=4, cluster_id="cluster-of-the-test-22", time_namespace_ns=0, extra={"apis": APIS})


def request(
    number: int, *, api_key: int = 0, t0_ns: int = 5_000, error: int = 0, flags: int = 0, **ticks: int
) -> TraceRecord:
    """A request; `ticks` gives stages by name."""
    stage = tuple(ticks.get(name, NOT_REACHED) for name in STAGES)
    return TraceRecord(
        t0_ns=t0_ns,
        seq_lo=number,
        corr_id=number,
        api_key=api_key,
        api_version=7,
        error=error,
        flags=flags,
        stage=stage,
    )


def full_request(number: int, **fields: int) -> TraceRecord:
    """Times in ticks: queue 10, local 20, response queue 5, send 15, total 100."""
    return request(
        number,
        **{
            "frame_done": 5,
            "parsed": 6,
            "enqueued": 20,
            "dequeued": 30,
            "handler_start": 31,
            "io_done": 45,
            "local_done": 50,
            "resp_enq": 80,
            "resp_deq": 85,
            "send_start": 90,
            "send_done": 100,
            **fields,
        },
    )


def write_segment(
    directory: Path, records: list[TraceRecord], close: bool = True, apis: Mapping[str, str] = APIS
) -> segment.SegmentInfo:
    """A segment of ring 2 with these requests and nothing else."""
    opened = segment.Opened(4, 0xABCDEF0123456789, 2, records[0].seq_lo, "cluster", 0, CLOCK, {"apis": dict(apis)})
    first = records[0].seq_lo
    writer = segment_writer.create(directory, opened, segment.Progress(first, first, 0, 0, first, first, 0, 0))
    writer.append(b"".join(one.pack() for one in records))
    end = writer.tally.next_seq
    writer.note(writer.progress._replace(finished=end + 3, written=end, dropped=2, sampled_out=1))
    if close:
        return writer.close()
    writer.abandon()
    return segment.read_info(writer.path)


def drain_of(one: lane.Lane, directory: Path, segment_bytes: int = 1 << 20, segment_ms: int = 60_000) -> LaneDrain:
    """A LaneDrain with small limits."""
    return LaneDrain(one, directory, ORIGIN, Limits(segment_bytes, segment_ms))


def finish(writer: lane.Lane, *numbers: int) -> None:
    """A processor's requests of these numbers are done: they stand in its lane."""
    for number in numbers:
        writer.native.put(full_request(number).pack())


def records_in(directory: Path) -> list[TraceRecord]:
    """All records of a directory's segments, of whatever kind."""
    return _records(manifest.segments(directory))


def requests_in(directory: Path) -> list[int]:
    """Correlation ids of all requests in a directory's segments, in file order."""
    infos = map(segment.read_info, sorted(directory.glob("*.mpt")))
    return [one.corr_id for one in _records(infos) if one.kind == record.REQUEST]


def _records(infos: Iterable[segment.SegmentInfo]) -> list[TraceRecord]:
    return [
        record.unpack(chunk, at)
        for info in infos
        for chunk in segment.read_chunks(info)
        for at in range(0, len(chunk), 128)
    ]
