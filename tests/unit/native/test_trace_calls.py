"""What the tracer asks of many records at once: how many failed, where the first slow one is, the ends of a segment."""

import struct
import time

import pytest

from mpbroker._native import TRACE_LANE_HEADER_BYTES, TraceLane, TraceTally, trace_lane_format, trace_scan
from mpbroker.trace.record import GAUGE, NOT_REACHED, TraceRecord, unpack

SAMPLED = 12  # bits behind which a record says for how many it stands


def made(send_done=10, t0_ns=1000, **fields):
    return TraceRecord(t0_ns, stage=(*(NOT_REACHED,) * 12, send_done), **fields).pack()


QUICK, SLOW, FAILED, MARK = made(98), made(99), made(10, error=7), made(99, kind=GAUGE, error=7)


@pytest.mark.parametrize(
    ("records", "found"),
    [
        ([], (0, 0, -1)),
        ([QUICK], (1, 0, -1)),
        ([SLOW], (1, 0, 0)),
        ([QUICK, SLOW, SLOW], (3, 0, 1)),
        ([MARK, SLOW], (1, 0, 1)),
        ([MARK, MARK], (0, 0, -1)),
        ([FAILED, QUICK, FAILED], (3, 2, -1)),
        ([made(error=-1)], (1, 1, -1)),
        ([made(flags=3 << SAMPLED), made(flags=1 << SAMPLED | 0x200, error=7)], (10, 2, -1)),
        ([made(10, rx_wait=88), made(10, rx_wait=89)], (2, 0, 1)),
        ([made(NOT_REACHED), SLOW[:127]], (1, 0, -1)),
    ],
)
def test_requests_failures_and_the_first_slow_one(records, found):
    assert trace_scan(b"".join(records), 99) == found
    assert trace_scan(b"".join(records), 0xFFFFFFFF) == (*found[:2], -1), "none is slow"


def test_a_tick_more_or_less():
    assert [trace_scan(QUICK + SLOW, ticks)[2] for ticks in (0, 98, 99, 100)] == [0, 0, 1, -1]


def ends(*records):
    tally = TraceTally(0)
    for some in records:
        tally.add(some)
    counts = [(key, count) for key, count in enumerate(tally.api_counts) if count]
    return tally.next_seq, tally.t0_min_ns, tally.t0_max_ns, tally.max_total_ticks, counts


def test_the_ends_of_a_segment():
    """Of requests only; of those that were not sent no time is known; APIs beyond the slots share the last one."""
    assert ends() == ends(b"") == ends(MARK) == (0, 0, 0, 0, [])
    assert ends(made(7, t0_ns=5, api_key=3)) == (1, 5, 5, 7, [(3, 1)])
    keys = [0, 62, 63, 64, 500, -1, 62, 0, 0]
    records = [made(20 + at, t0_ns=500 - at if at % 2 else 400 + at, api_key=key) for at, key in enumerate(keys)]
    records += [made(NOT_REACHED, t0_ns=450, api_key=5), MARK, made(99)[:100]]
    found = (10, 400, 499, 28, [(0, 3), (5, 1), (62, 2), (63, 4)])
    assert ends(b"".join(records)) == ends(*records) == found, "at once and one by one"


#: Magic 8, version 4, what it is whose 4, capacity 8 at byte 24; each with what is no lane any more.
BROKEN = {
    "no lane": (0, "<Q", 1),
    "a lane of another version": (8, "<I", 9999),
    "a broken lane header": (24, "<Q", 0),
}


@pytest.mark.parametrize("words", BROKEN)
def test_why_something_is_no_lane(words):
    memory = bytearray(TRACE_LANE_HEADER_BYTES + 64 * 128)
    trace_lane_format(memory, 64, 0, 1)
    assert TraceLane(memory).capacity == struct.unpack_from("<Q", memory, 24)[0] == 64
    at, form, wrong = BROKEN[words]
    struct.pack_into(form, memory, at, wrong)
    with pytest.raises(ValueError, match=f"^not a trace lane: {words}$"):
        TraceLane(memory)


def test_how_small_a_lane_may_be():
    """Its header and the records that it speaks of."""
    memory = bytearray(TRACE_LANE_HEADER_BYTES + 64 * 128)
    trace_lane_format(memory, 64, 0, 1)
    with pytest.raises(ValueError, match="^not a trace lane: a broken lane header$"):
        TraceLane(memory[:-1])
    with pytest.raises(ValueError, match="^not a trace lane: too small$"):
        TraceLane(memory[: TRACE_LANE_HEADER_BYTES - 1])


def test_what_is_committed_while_it_is_measured():
    """Every stage a tick after the one before; the lane was emptied after the first record."""
    memory = bytearray(TRACE_LANE_HEADER_BYTES + 64 * 128)
    trace_lane_format(memory, 64, 0, 1)
    lane = TraceLane(memory)
    before_ns = time.monotonic_ns()
    lane.bench_commit(2)
    at, length = lane.peek(9)
    assert (at, length) == (TRACE_LANE_HEADER_BYTES + 128, 128)
    record = unpack(memory, at)
    assert before_ns <= record.t0_ns <= time.monotonic_ns()
    assert record.stage == tuple(range(13)) and (record.seq_lo, record.flags) == (1, 0)
    assert struct.unpack_from("<Q", memory, 96) == (2,), "the fill number of the request that was committed last"


def test_from_which_time_on_a_request_is_slow():
    """Each is from 0 on, whether that is told or what was told is taken back; none is below 0."""
    memory = bytearray(TRACE_LANE_HEADER_BYTES + 64 * 128)
    trace_lane_format(memory, 64, 0, 1)
    lane = TraceLane(memory)
    for value, kept in ((0, 0), (64, 64), (-1, -1), (1, 0)):
        lane.slow_ns = value
        assert lane.slow_ns == kept
    lane.slow_ns = 640
    del lane.slow_ns
    assert lane.slow_ns == 0
    with pytest.raises(ValueError, match="^sample_shift must be 0 to 15$"):
        del lane.sample_shift
