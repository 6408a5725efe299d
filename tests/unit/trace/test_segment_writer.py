"""What a segment's writer adds by itself."""

import time

import pytest

from mpbroker.trace import record, segment, segment_writer
from tests.unit.trace.traces import CLOCK


@pytest.mark.parametrize("seq", [7, 0xFFFFFFFF, 0x1_0000_0005])
def test_a_clock_sample_stands_before_the_next_record(tmp_path, seq):
    """Its number is the low half of the next request's, and its times lie around the moment."""
    opened = segment.Opened(4, 1, 2, seq, "cluster", 0, CLOCK, {})
    writer = segment_writer.create(tmp_path, opened, segment.Progress(seq, seq, 0, 0, seq, seq, 0, 0))
    before = time.monotonic_ns()
    writer.sample_clock()
    writer.close()
    [raw] = segment.read_chunks(segment.read_info(writer.path))
    found = record.unpack(raw, 0)
    assert (found.kind, found.seq_lo, found.proc_id) == (record.CLOCK, seq & 0xFFFFFFFF, 2)
    assert before <= found.t0_ns <= time.monotonic_ns()
