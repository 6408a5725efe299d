"""Percentiles and accounts at their edges: of one, of weights, of what was not reached, of what is gone."""

import random

import pytest

from mpbroker.trace import record, segment, statistics
from mpbroker.trace.record import NOT_REACHED, SAMPLE_SHIFT, STAGES, TraceRecord
from mpbroker.trace.statistics import Gap, Histogram, TraceStatistics
from tests.unit.trace.traces import full_request, request, write_segment


def test_the_least_and_the_greatest_are_exact():
    histogram = Histogram()
    assert (histogram.count, histogram.least_ns, histogram.greatest_ns) == (0, 0, 0)
    for nanoseconds, least, greatest in ((700, 700, 700), (900, 700, 900), (0, 0, 900), (800, 0, 900), (901, 0, 901)):
        histogram.add(nanoseconds)
        assert (histogram.least_ns, histogram.greatest_ns) == (least, greatest)
        assert histogram.percentile(100) <= greatest and histogram.percentile(0) >= least
    assert histogram.count == 5


@pytest.mark.parametrize("percent", [1, 10, 50, 90, 99, 100])
def test_a_percentile_is_that_of_the_sorted_durations_within_a_bucket(percent):
    """As if each had been added as often as it counts."""
    source, histogram, all_of_them = random.Random(7), Histogram(), []
    for _ in range(300):
        nanoseconds, weight = int(2 ** source.uniform(3, 33)), source.choice((1, 1, 4))
        histogram.add(nanoseconds, weight)
        all_of_them += [nanoseconds] * weight
    exact = sorted(all_of_them)[max(0, -(-len(all_of_them) * percent // 100) - 1)]
    assert histogram.count == len(all_of_them)
    assert histogram.percentile(percent) == pytest.approx(exact, rel=0.0225 if exact > 100 else 0.1)


def test_the_middle_of_a_bucket_stands_for_what_is_in_it():
    histogram = Histogram()
    for nanoseconds in (1, 1 << 40):
        histogram.add(nanoseconds, 0)
    histogram.add(1023, 10)
    assert histogram.percentile(50) == pytest.approx(2 ** (320.5 / 32) - 1)


def test_a_duration_needs_both_its_ends_and_is_never_negative():
    found = TraceStatistics()
    for first, last in ((3, 8), (8, 3), (NOT_REACHED, 3), (3, NOT_REACHED)):
        found.add_records(request(1, enqueued=first, dequeued=last).pack())
    queue = found.apis[0].spans["queue"]
    assert (queue.count, queue.least_ns, queue.greatest_ns) == (2, 0, 5 << 6)


def test_every_span_lies_between_its_two_stages():
    """Each stage at a time of its own, so that no other pair has the same distance."""
    stages = {name: 3**number for number, name in enumerate(STAGES)}
    found = TraceStatistics()
    found.add_records(request(1, **stages).pack())
    for name, (first, last) in statistics.SPANS.items():
        distance = stages[last] - (stages[first] if first else 0)
        assert found.apis[0].spans[name].greatest_ns == distance << 6, name
    assert list(statistics.SPANS) == ["queue", "local", "purgatory", "response_queue", "send", "total"]


def test_what_is_printed_is_in_microseconds_and_only_of_what_was_reached():
    found = TraceStatistics()
    found.add_records(request(1, api_key=3, enqueued=0, dequeued=125, flags=1 << SAMPLE_SHIFT).pack())
    found.add_records(request(2, api_key=2, error=-1).pack() + request(2, api_key=1, error=3).pack())
    said = found.to_json({3: "Metadata"})
    apis = [(one["api_key"], one["api"], one["count"]) for one in said["apis"]]
    assert apis == [(1, "1", 1), (2, "2", 1), (3, "Metadata", 2)]
    assert said["apis"][2]["stages"] == {
        "queue": {"count": 2, "max_us": 8.0, "p50_us": 8.0, "p90_us": 8.0, "p99_us": 8.0}
    }
    assert [one["errors"] for one in said["apis"]] == [1, 1, 0] and said["apis"][1]["stages"] == {}
    assert (said["records"], said["weighted"], said["gaps"], said["damage"], said["segments"]) == (3, 4, [], [], 0)


def test_with_a_choice_the_others_count_as_records_alone(tmp_path):
    """Whether a trace is whole does not depend on what somebody wants to see of it."""
    made = [full_request(number, api_key=number % 2) for number in range(5)]
    info = write_segment(tmp_path, made, apis={"0": "Produce", "1": "Fetch"})
    clock = TraceRecord(t0_ns=1, kind=record.CLOCK).pack()
    chosen = statistics.collect([info], lambda one: lambda chunk: chunk[:128] + clock)
    assert (chosen.records, chosen.finished, chosen.segments) == (5, 8, 1)
    assert {key: api.count for key, api in chosen.apis.items()} == {0: 1} and chosen.gaps() == []
    assert chosen.weighted == 1 and chosen.damage == []


def _change(info, number, offset, data):
    with open(info.path, "r+b") as file:
        file.seek(4096 + 128 * number + offset)
        file.write(data)


def test_records_that_are_not_those_it_was_closed_with_are_damage_and_do_not_count(tmp_path):
    info = write_segment(tmp_path, [full_request(number) for number in range(2)])
    _change(info, 1, 2, b"\xff")
    found = statistics.collect([info])
    assert found.damage == [f"{info.path}: its records are not those it was closed with; none of them is counted"]
    assert found.to_json({})["damage"] == found.damage and (found.records, found.apis) == (0, {})
    assert found.finished == 0 + 2 + 1 and found.gaps() == [Gap(4, "abcdef0123456789", 2, 0, 2)]


@pytest.mark.parametrize("chosen", [False, True])
def test_an_impossible_record_of_an_open_segment_and_what_follows_do_not_count(tmp_path, chosen):
    info = write_segment(tmp_path, [full_request(number) for number in range(5)], close=False)
    _change(info, 3, 46, (27_876).to_bytes(2, "little"))
    first_one = (lambda info: lambda data: data[:128]) if chosen else None
    found = statistics.collect([segment.read_info(info.path)], first_one)
    [said] = found.damage
    assert said.startswith(f"{info.path}: record 3 has API 27876, which there is not, and no error: it is damaged")
    assert found.records == 3 and {key: api.count for key, api in found.apis.items()} == {0: 1 if chosen else 3}
    assert found.finished == 3 + 2 + 1 and found.gaps() == [Gap(4, "abcdef0123456789", 2, 3, 2)]


def test_what_the_header_told_is_not_said_twice(tmp_path):
    info = write_segment(tmp_path, [full_request(number) for number in range(5)])
    with open(info.path, "r+b") as file:
        file.seek(segment.CLOSE_OFFSET)
        file.write(b"\xff")
    found = statistics.collect([segment.read_info(info.path)])
    assert (found.records, found.finished, found.damage) == (0, 3, [])
    assert found.gaps() == [Gap(4, "abcdef0123456789", 2, 0, 5)]


@pytest.mark.parametrize("damage", ["", "it was cut"])
def test_of_a_damaged_segment_what_is_there_counts(tmp_path, damage):
    info = write_segment(tmp_path, [full_request(number) for number in range(2)])
    info = info._replace(progress=info.progress._replace(finished=50, written=9), damage=damage)
    found = statistics.collect([info])
    assert found.finished == (2 + 2 + 1 if damage else 50) and (found.dropped, found.sampled_out) == (2, 1)
    assert found.gaps() == [Gap(4, "abcdef0123456789", 2, 2, 7)], "the lane had counted nine"


def test_what_retention_deleted_before_the_first_segment_is_no_gap(tmp_path):
    infos = [write_segment(tmp_path, [full_request(first)]) for first in (5, 8)]
    infos = [one._replace(progress=segment.Progress(*[0] * 8)) for one in infos]
    assert statistics.collect(infos).gaps() == [Gap(4, "abcdef0123456789", 2, 6, 2)]


def test_a_segment_inside_another_ones_numbers_opens_no_gap():
    """A copy of a file lies beside it: what one of them reached is reached."""
    found = TraceStatistics()
    found._lanes[7, 5, 0] = [(0, "a", 9, 9), (2, "b", 4, 4), (9, "c", 12, 12)]
    assert found.gaps() == []


def test_a_percentile_is_printed_to_the_nanosecond():
    found = TraceStatistics()
    found.add_records(b"".join(request(1, enqueued=0, dequeued=ticks).pack() for ticks in range(1, 90)))
    queue = found.to_json({})["apis"][0]["stages"]["queue"]
    for percent in (50, 90, 99):
        exact = found.apis[0].spans["queue"].percentile(percent)
        assert queue[f"p{percent}_us"] * 1000 == pytest.approx(round(exact), abs=1e-6)


@pytest.mark.parametrize(("percent", "nanoseconds"), [(50, 100), (51, 10_000), (0, 100), (100, 10_000)])
def test_half_of_two_do_not_exceed_the_lesser_one(percent, nanoseconds):
    histogram = Histogram()
    histogram.add(100)
    histogram.add(10_000)
    assert histogram.percentile(percent) == pytest.approx(nanoseconds, rel=0.012)


def test_errors_of_one_code_and_weight_are_counted_together():
    found = TraceStatistics()
    failed = [full_request(number, error=7, flags=2 << SAMPLE_SHIFT).pack() for number in range(3)]
    found.add_records(b"".join(failed))
    assert found.apis[0].errors_by_code == {7: 12} and found.apis[0].errors == found.weighted == 12


def test_each_segments_records_are_its_own(tmp_path):
    """Of two that are still open, what is there is what was finished."""
    infos = [
        write_segment(tmp_path, [full_request(number) for number in numbers], close=False)
        for numbers in (range(3), range(3, 5))
    ]
    found = statistics.collect(infos)
    assert (found.finished, found.records, found.segments, found.gaps()) == (3 + 2 + 2 * (2 + 1), 5, 2, [])
