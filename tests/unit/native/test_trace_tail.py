"""`TraceTally` and `trace_wait`: what they take, what they refuse, and that they keep nothing. What following does is
tested in native/tests/trace/test_trace_tail.c and in tests/unit/trace/test_lane_drain.py."""

import os

import pytest

from mpbroker import _native
from tests.harness.kept_blocks import ROUNDS, kept
from tests.unit.trace.traces import full_request

MOST_TAILS = 32


@pytest.fixture
def lane():
    memory = bytearray(_native.TRACE_LANE_HEADER_BYTES + 64 * 128)
    _native.trace_lane_format(memory, 64, 0, 1)
    return _native.TraceLane(memory)


def test_a_tally_counts_on_from_its_first_request():
    tally = _native.TraceTally((1 << 64) - 2)
    assert (tally.count, tally.next_seq, tally.crc, tally.t0_min_ns, tally.max_total_ticks) == (0, 2**64 - 2, 0, 0, 0)
    record = full_request(1, api_key=3).pack()
    tally.add(memoryview(record + record)[:200])  # whole ones alone
    assert (tally.count, tally.next_seq, tally.crc) == (1, 2**64 - 1, _native.crc32(record))
    assert (tally.t0_min_ns, tally.t0_max_ns, tally.max_total_ticks) == (5000, 5000, 100)
    assert tally.api_counts == (0, 0, 0, 1, *[0] * 60)


@pytest.mark.parametrize(("first", "error"), [("1", TypeError), (-1, OverflowError), (1 << 64, OverflowError)])
def test_a_first_request_that_is_none(first, error):
    with pytest.raises(error):
        _native.TraceTally(first)


def test_as_many_tails_as_there_can_be_processors(lane):
    tail = (lane, None, 0, 0, 0)
    assert _native.trace_wait((tail,) * MOST_TAILS, -1, -1, -1, 0) == 0
    with pytest.raises(ValueError, match=f"at most {MOST_TAILS} tails, and no time below 0"):
        _native.trace_wait((tail,) * (MOST_TAILS + 1), -1, -1, -1, 0)
    with pytest.raises(ValueError, match="no time below 0"):
        _native.trace_wait((), -1, -1, -1, -1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lane: [lane, None, 0, 0, 0], r"a tail is \(lane, tally or None, file, head_bytes, room\)"),
        (lambda lane: (lane, None, 0, 0), "exactly 5 arguments"),
        (lambda lane: (lane, None, "0", 0, 0), "str"),
        (lambda lane: (lane, 0, 0, 0, 0), "expected a TraceTally or None"),
        (lambda lane: (None, None, 0, 0, 0), "expected a TraceLane"),
        (lambda lane: (0, None, 0, 0, 0), "expected a TraceLane or None"),
    ],
)
def test_a_tail_that_is_none(lane, change, words):
    with pytest.raises(TypeError, match=words):
        _native.trace_wait(((lane, None, -1, 0, 0), change(lane)), -1, -1, -1, 0)


def test_a_signal_ends_the_wait():
    signalled = os.eventfd(1, os.EFD_NONBLOCK)
    assert _native.trace_wait((), signalled, -1, -1, 10_000) == _native.TRACE_SIGNALLED
    os.close(signalled)


def test_a_lane_without_a_tally_is_not_written(lane, tmp_path):
    """Whatever descriptor stands beside it."""
    lane.put(full_request(0).pack())
    with open(tmp_path / "file", "wb") as file:
        bell = os.eventfd(1, os.EFD_NONBLOCK)
        assert _native.trace_wait(((lane, None, file.fileno(), 0, 9),), -1, bell, -1, 10_000) == 2
        os.close(bell)
    assert (tmp_path / "file").stat().st_size == 0


def test_nothing_is_kept(lane):
    tally, bell = _native.TraceTally(0), os.eventfd(0, os.EFD_NONBLOCK)

    def work():
        assert _native.trace_wait(((lane, tally, -1, 0, 0),), -1, bell, -1, 0) == 0
        assert len(_native.TraceTally(7).api_counts) == 64
        with pytest.raises(TypeError):
            _native.trace_wait(((lane, 0, 0, 0, 0),), -1, bell, -1, 0)

    assert kept(work) < ROUNDS // 2
    os.close(bell)
