"""Trace segments made of records a test chooses, with the clocks it chooses; and random requests with every oddity
there is."""

import random
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from mpbroker import _native
from mpbroker.trace import record, segment, segment_writer
from mpbroker.trace.clock_sample import ClockSample
from mpbroker.trace.record import NOT_REACHED, SATURATED, STAGES, TraceRecord

OFFSET_NS = 1_700_000_000_000_000_000
APIS = {"0": "Produce", "1": "Fetch", "3": "Metadata"}
LISTENERS = [
    {"name": "PLAINTEXT", "protocol": "PLAINTEXT", "control": False},
    {"name": "CONTROL", "protocol": "PLAINTEXT", "control": True},
]


class Lane(NamedTuple):
    """Where a segment belongs, and its share of the counters."""

    broker: int = 1
    boot_id: int = 0xABCDEF0123456789
    ring: int = 0
    first_seq: int = 0
    dropped: int = 0
    sampled_out: int = 0


def clock(monotonic_ns: int, offset_ns: int = OFFSET_NS, uncertainty_ns: int = 50) -> ClockSample:
    """A sample with that offset of the wall clock."""
    return ClockSample(monotonic_ns, monotonic_ns + offset_ns, monotonic_ns, monotonic_ns, uncertainty_ns)


def write_segment(
    directory: Path,
    records: Sequence[TraceRecord],
    lane: Lane = Lane(),
    *,
    close: bool = True,
    clocks: Sequence[ClockSample] = (),
    events: Sequence[TraceRecord | bytes] = (),
) -> Path:
    """A segment of these requests, numbered from lane.first_seq, after the events; clocks: at opening and closing."""
    directory.mkdir(parents=True, exist_ok=True)
    times = [one.t0_ns for one in records] or [0]
    first, last = clocks or (clock(min(times)), clock(max(times) + 1_000_000))
    opened = segment.Opened(
        lane.broker,
        lane.boot_id,
        lane.ring,
        lane.first_seq,
        "record-trace",
        0,
        first,
        {"version": "test", "listeners": LISTENERS, "apis": APIS},
    )
    extra = b"".join(one if isinstance(one, bytes) else one.pack() for one in events)
    data = extra + b"".join(
        one._replace(seq_lo=(lane.first_seq + n) & 0xFFFFFFFF).pack() for n, one in enumerate(records)
    )
    tally = _native.TraceTally(lane.first_seq)
    tally.add(data)
    page = bytearray(segment.pack_opened(opened))
    written = lane.first_seq + len(records)
    progress = segment.Progress(
        lane.first_seq,
        lane.first_seq,
        0,
        0,
        written + lane.dropped + lane.sampled_out,
        written,
        lane.dropped,
        lane.sampled_out,
    )
    segment.PROGRESS.pack_into(page, segment.PROGRESS_OFFSET, *progress)
    if close:
        closed = segment.pack_closed(segment_writer.closed(tally)._replace(clock=last))
        page[segment.CLOSE_OFFSET : segment.CLOSE_OFFSET + len(closed)] = closed
    path = directory / segment.file_name(*opened[:4])
    path.write_bytes(bytes(page) + data)
    return path


def request(t0_ns: int = 1_000_000, *, missing: Sequence[str] = (), step: int = 10, **fields: int) -> TraceRecord:
    """A request that took `step` ticks from each stage to the next."""
    stage = tuple(NOT_REACHED if name in missing else (place + 1) * step for place, name in enumerate(STAGES))
    return TraceRecord(t0_ns=t0_ns, stage=stage, **{"handler_id": 1, "rx_wait": 7, **fields})


def random_requests(
    count: int, seed: int = 1, *, spread_ns: int = 5_000_000_000, sampled: bool = False
) -> list[TraceRecord]:
    """Requests as no broker would write them, too: missing, saturated and backward stages, unknown APIs and hashes."""
    return list(_drawn(count, seed, spread_ns, sampled))


@lru_cache(maxsize=16)
def _drawn(count: int, seed: int, spread_ns: int, sampled: bool) -> tuple[TraceRecord, ...]:
    chance = random.Random(seed)
    return tuple(_random_request(chance, 1_000_000_000 + chance.randrange(spread_ns), sampled) for _ in range(count))


def _random_request(chance: random.Random, t0_ns: int, sampled: bool) -> TraceRecord:
    """An API that is not known has an error; what has an error, or is no data, stands for itself."""
    one = _any_request(chance, t0_ns, sampled)
    if str(one.api_key) not in APIS and one.error == 0:
        one = one._replace(error=35)
    return one._replace(flags=one.flags & 0xFFF) if one.error or one.plane else one


def _any_request(chance: random.Random, t0_ns: int, sampled: bool) -> TraceRecord:
    ticks, stage = 0, []
    for _ in STAGES:
        ticks += int(chance.lognormvariate(6, 2))
        stage.append(ticks)
    for place in range(len(stage)):
        odd = chance.random()
        if odd < 0.05:
            stage[place] = NOT_REACHED
        elif odd < 0.055:
            stage[place] = chance.choice((SATURATED, 1 << 31, (1 << 31) - 1, 0))
    flags = chance.randrange(4) | (chance.choice((0, 0, 3)) << record.SAMPLE_SHIFT if sampled else 0)
    return TraceRecord(
        t0_ns=t0_ns,
        aux=chance.randrange(1 << 32),
        conn_id=chance.randrange(1 << 32),
        client_hash=chance.choice((0, 11, 12, 13)),
        topic_hash=chance.choice((0, 21, 22)),
        corr_id=chance.randrange(-1 << 31, 1 << 31),
        req_bytes=chance.randrange(1 << 32),
        resp_bytes=chance.randrange(5000),
        throttle_ms=chance.choice((0, 0, 0, 5)),
        plane_prio=chance.choice((0, 0, 1, 4, 2)),
        api_key=chance.choice((0, 0, 1, 3, 77)),
        api_version=chance.randrange(12),
        error=chance.choice((0, 0, 0, 6, -1)),
        listener=chance.choice((0, 1, 9)),
        inflight=chance.randrange(256),
        proc_id=chance.randrange(3),
        handler_id=chance.choice((0, 1, 0xFFFF)),
        nparts=chance.randrange(1 << 16),
        req_q=chance.randrange(1 << 16),
        resp_q=chance.randrange(1 << 16),
        purg_kind=chance.choice((0, 0, 1, 2, 200)),
        attempts=chance.randrange(256),
        flags=flags,
        rx_wait=chance.choice((NOT_REACHED, 0, 5, 5000, SATURATED, 1 << 31)),
        stage=tuple(stage),
        handler_cpu=chance.choice((0, 9, 0xFFFFFFFF)),
    )
