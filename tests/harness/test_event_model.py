"""The event model itself: repeatable, monotone, and with the facts of the incident it stands for."""

import pytest

from mpbroker.trace import manifest, record
from mpbroker.trace.statistics import TraceStatistics
from tests.harness.event_model import AT, IN_PRODUCE_PURGATORY, EventModel, Scenario, simulate
from tests.harness.event_trace import BASE_NS, TraceOptions, write_trace

FLOOD = Scenario(
    rate=300,
    burst_rate=1200,
    burst_ms=(1000, 3000),
    ring_capacity=60,
    processors=3,
    elections_ms=(1500, 5500),
    duration_ms=7_000,
)


def test_one_seed_has_one_outcome():
    assert simulate(FLOOD).records(BASE_NS) == EventModel(FLOOD).run().records(BASE_NS)
    assert simulate(FLOOD).records(BASE_NS) != simulate(FLOOD._replace(seed=2)).records(BASE_NS)


@pytest.mark.parametrize("discipline", ["fifo", "priority", "plane"])
def test_stages_never_go_backwards(discipline):
    outcome = simulate(FLOOD._replace(discipline=discipline, blocking=discipline == "priority"))
    assert len(outcome.requests) > 2500 and len(outcome.control) == 2
    for one in outcome.records(BASE_NS):
        reached = [ticks for ticks in one.stage if ticks != record.NOT_REACHED]
        assert reached == sorted(reached) and one.stage[AT["send_done"]] == reached[-1]


def test_the_incident_and_its_cures():
    """Control waits for seconds behind data; with a ring of its own, only while no processor blocks on the data
    ring."""
    fifo, blocking, priority, plane = (
        simulate(FLOOD._replace(discipline=discipline, blocking=blocks)).control
        for discipline, blocks in (("fifo", True), ("priority", True), ("priority", False), ("plane", False))
    )
    assert min(one.wait for one in fifo) > 15_625_000 and all(one.hung > 0 for one in fifo[1:])
    assert min(one.wait for one in blocking) > 15_625_000 and blocking[0].overtook > 0
    assert max(one.wait for one in priority) < 20 * 15_625 and sum(one.hung for one in priority) == 0
    assert max(one.wait for one in plane) < 15_625 and sum(one.served for one in plane) <= 1


@pytest.mark.parametrize(
    "options",
    [TraceOptions(), TraceOptions(dropped=7), TraceOptions(sample_shift=3), TraceOptions(dropped=9, sample_shift=2)],
)
def test_every_request_is_accounted_for(tmp_path, options):
    outcome = simulate(FLOOD)
    paths = write_trace(tmp_path, outcome, options)
    statistics = TraceStatistics()
    for info in manifest.segments(tmp_path):
        statistics.add_segment(info)
    assert statistics.segments == len(paths) >= 3
    assert statistics.finished == len(outcome.requests)
    assert statistics.finished == statistics.records + statistics.dropped + statistics.sampled_out
    assert (statistics.dropped > 0) == bool(options.dropped) and (statistics.sampled_out > 0) == bool(
        options.sample_shift
    )


def test_hung_requests_left_the_purgatory_with_an_error():
    outcome = simulate(FLOOD._replace(produce_timeout_ms=900))
    hung = [one for one in outcome.requests if one.purgatory == IN_PRODUCE_PURGATORY]
    assert len(hung) == sum(one.hung for one in outcome.control) > 0
    assert {one.error for one in hung} == {6, 7}
    assert all(bool(one.flags & record.PURGATORY_TIMEOUT) == (one.error == 7) for one in hung)
