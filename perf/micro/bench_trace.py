"""Trace records: committing one, draining them into a segment, summing them up: `pytest perf/micro/bench_trace.py`.

To hold (CPU per record on a two-core virtual machine): begin, 13 stamps and commit 60 ns (of it the record alone 10);
drain to a file with checksum and summary 0.35 µs; statistics in plain Python 2 µs. Nothing here asserts a time.
"""

import os

import pytest

from mpbroker.trace import lane, statistics
from tests.unit.trace.traces import drain_of, full_request

RECORDS = 10_000


@pytest.fixture
def one_lane():
    name = f"/mpbroker-bench-{os.getpid()}"
    yield lane.create(name, 0, boot_id=1)
    lane.unlink(name)


def test_commit(benchmark, one_lane):
    """Of 10,000 records; the loop is in C."""
    benchmark(one_lane.native.bench_commit, RECORDS)
    assert one_lane.counters().dropped == 0


def test_drain_to_a_segment(benchmark, one_lane, tmp_path):
    """Of 10,000 records, page-cache hot."""
    record = full_request(1).pack()
    drain = drain_of(one_lane, tmp_path, segment_bytes=1 << 28)

    def fill():
        for _ in range(RECORDS):
            one_lane.native.put(record)
        return (0,), {}

    assert benchmark.pedantic(drain.step, setup=fill, rounds=20) == RECORDS
    drain.close()


def test_statistics(benchmark):
    """Of 10,000 records."""
    records = full_request(1).pack() * RECORDS

    def add():
        found = statistics.TraceStatistics()
        found.add_records(records)
        return found

    assert benchmark(add).records == RECORDS
