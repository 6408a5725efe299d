"""Statistics against numbers worked out by hand."""

import pytest

from mpbroker.trace import statistics
from mpbroker.trace.record import SAMPLE_SHIFT, TraceRecord
from mpbroker.trace.statistics import Gap, Histogram, TraceStatistics
from tests.unit.trace.traces import full_request, request, write_segment


def test_stages_of_one_request():
    found = TraceStatistics()
    found.add_records(full_request(1, purg_enter=55, purg_leave=75).pack())
    spans = found.apis[0].spans
    ticks = {name: histogram.percentile(50) / 64 for name, histogram in spans.items()}
    assert ticks == {"queue": 10, "local": 20, "purgatory": 20, "response_queue": 5, "send": 15, "total": 100}


def test_stages_not_reached_are_not_counted():
    found = TraceStatistics()
    found.add_records(request(1, enqueued=1, send_done=5).pack() + full_request(2).pack())
    assert {name: one.count for name, one in found.apis[0].spans.items()} == {
        "queue": 1,
        "local": 1,
        "purgatory": 0,
        "response_queue": 1,
        "send": 1,
        "total": 2,
    }


def test_percentiles_of_known_durations():
    histogram = Histogram()
    for microseconds in range(1, 1001):
        histogram.add(microseconds * 1000)
    for percent, wanted in ((50, 500), (90, 900), (99, 990)):
        assert histogram.percentile(percent) / 1000 == pytest.approx(wanted, rel=0.012)
    assert histogram.greatest_ns == 1_000_000
    assert Histogram().percentile(50) == 0.0


def test_bucket_bounds():
    assert [statistics.bucket_of(ns) for ns in (0, 1, 3, 1023)] == [0, 32, 64, 320]


def test_apis_errors_and_weights():
    found = TraceStatistics()
    weighted = full_request(1, api_key=3, flags=2 << SAMPLE_SHIFT)
    failed = full_request(2, api_key=0, error=6)
    clock = TraceRecord(t0_ns=1, kind=5)
    found.add_records(weighted.pack() + failed.pack() + clock.pack())
    assert found.records == 2
    assert (found.apis[3].count, found.apis[3].errors, found.apis[3].spans["total"].count) == (4, 0, 4)
    assert (found.apis[0].count, found.apis[0].errors, found.apis[0].errors_by_code) == (1, 1, {6: 1})


def test_errors_are_counted_by_code_and_weight():
    found = TraceStatistics()
    for number, (error, shift) in enumerate([(3, 0), (3, 2), (-1, 0), (0, 3)]):
        found.add_records(full_request(number, api_key=10, error=error, flags=shift << SAMPLE_SHIFT).pack())
    (api,) = found.to_json({10: "FindCoordinator"})["apis"]
    assert api["errors"] == 6
    assert api["errors_by_code"] == [
        {"code": 3, "name": "UNKNOWN_TOPIC_OR_PARTITION", "count": 5},
        {"code": -1, "name": "UNKNOWN_SERVER_ERROR", "count": 1},
    ]


def test_accounts_over_segments_balance(tmp_path):
    infos = [write_segment(tmp_path, [full_request(first), full_request(first + 1)]) for first in (0, 2)]
    result = statistics.collect(infos).to_json({0: "Produce"})
    assert (result["finished"], result["records"], result["dropped"], result["sampled_out"]) == (10, 4, 4, 2)
    assert result["finished"] == result["records"] + result["dropped"] + result["sampled_out"]
    (produce,) = result["apis"]
    assert (produce["api"], produce["count"], produce["errors"]) == ("Produce", 4, 0)
    assert produce["stages"]["total"] == {"count": 4, "max_us": 6.4, "p50_us": 6.4, "p90_us": 6.4, "p99_us": 6.4}


def test_records_newer_than_the_counters_count_as_finished(tmp_path):
    info = write_segment(tmp_path, [full_request(0)], close=False)
    with open(info.path, "ab") as file:
        file.write(b"".join(full_request(number).pack() for number in range(1, 5)))
    result = statistics.collect([statistics.segment.read_info(info.path)])
    assert (result.finished, result.records, result.dropped, result.sampled_out) == (8, 5, 2, 1)


def test_gaps_between_and_within_segments():
    """A segment says which numbers its records have, and up to which one the lane had counted."""
    found = TraceStatistics()
    found._lanes[7, 5, 0] = [(10, "b", 14, 13), (0, "a", 4, 8), (20, "d", 24, 24), (14, "c", 20, 20)]
    found._lanes[7, 5, 1] = [(1, "b", 2, 2), (0, "a", 0, 0)]
    assert found.gaps() == [Gap(7, f"{5:016x}", 0, 4, 4), Gap(7, f"{5:016x}", 0, 8, 2), Gap(7, f"{5:016x}", 1, 0, 1)]
