"""Where request time goes: costs add up to all of it, and each cause is told from its symptom."""

import pytest

from mpbroker.analysis.engine.engines.choose_engine import choose_engine
from mpbroker.analysis.engine.input.trace_input import TraceInput, open_input
from mpbroker.analysis.engine.mathematics import windows
from mpbroker.analysis.engine.measures import time_costs
from mpbroker.analysis.engine.running.actions import ACTIONS
from tests.harness import gauges
from tests.harness.event_model import AT, IN_FETCH_PURGATORY, Scenario
from tests.harness.event_trace import TraceOptions
from tests.harness.golden_trace import CALM, FLOOD, golden
from tests.harness.record_trace import request, write_segment

#: Handlers that are too few for the load.
CROWDED = Scenario(rate=480, duration_ms=4000, service_ms=8.0, handlers=4, ring_capacity=5000)
#: Handlers that sleep between requests.
QUIET = Scenario(rate=60, duration_ms=3000, service_ms=1.0, wake_ms=0.05)


def _findings(engine, window_ms=250):
    extent = windows.extent(engine.activity(0))
    return {one.kind: one for one in time_costs.findings(engine, extent, engine.rollup(window_ms, ("api",)), window_ms)}


@pytest.mark.parametrize("scenario", [CALM, FLOOD, CROWDED])
def test_costs_add_up_to_all_request_time(tmp_path, scenario):
    with golden(tmp_path, scenario) as (engine, outcome):
        found = _findings(engine)
    whole_s = sum(one.stage[-1] - one.arrival - _asked(one) for one in outcome.requests) * 64 / 1e9
    assert [one.of_s for one in found.values()] == [pytest.approx(whole_s, rel=1e-6)] * len(found)
    assert sum(one.cost_s for one in found.values()) == pytest.approx(whole_s, rel=0.001)


def _asked(one):
    return one.stage[AT["purg_leave"]] - one.stage[AT["purg_enter"]] if one.purgatory == IN_FETCH_PURGATORY else 0


def test_too_few_handlers_are_the_dearest(tmp_path):
    with golden(tmp_path, CROWDED) as (engine, _):
        found = _findings(engine)
    assert max(found.values(), key=lambda one: one.cost_s).kind == "queue" and "num.io.threads" in found["queue"].change
    assert found["queue"].sentence.startswith("Produce requests spend ")


@pytest.mark.parametrize(("cpu", "waiting", "no_core"), [(0.6, 0.4, 0.4), (0.3, 0.6, 2 / 3), (0.9, 0.01, 0.0)])
def test_waiting_for_a_process_without_a_core_is_told_apart(tmp_path, monkeypatch, cpu, waiting, no_core):
    """Nine parts working and one waiting for a core: a tenth of what requests wait for that process is due to that."""
    with golden(tmp_path, CROWDED) as (engine, _):
        before = _findings(engine)["queue"].cost_s
        monkeypatch.setattr(TraceInput, "gauges", lambda self: gauges.table(5, cpu, 5, 500, runqueue_share=waiting))
        found = _findings(engine)
    starved = found["no_core"].cost_s if no_core else 0.0
    assert starved == pytest.approx(before * no_core, rel=1e-6)
    assert found["queue"].cost_s == pytest.approx(before * (1 - no_core), rel=1e-6)
    if no_core:
        assert (
            f"Handler 0 was ready to run but had no core for {waiting:.0%}".replace("%", " %")
            in found["no_core"].sentence
        )
        assert "No setting of the broker helps" in found["no_core"].change


@pytest.mark.parametrize(("scenario", "kind"), [(QUIET, "wake_up"), (CROWDED, "queue")])
def test_waiting_for_an_idle_process_is_its_waking(tmp_path, monkeypatch, scenario, kind):
    """Unless it takes longer than any waking: then there was a burst, in a second that was idle on average."""
    with golden(tmp_path, scenario) as (engine, _):
        monkeypatch.setattr(TraceInput, "gauges", lambda self: gauges.table(5, 0.1, 0, 500))
        found = _findings(engine)
    assert {kind} == {"wake_up", "queue"} & set(found) and found[kind].cost_s > 0
    assert "No setting helps" in ACTIONS["wake_up"].change


def test_waiting_behind_ones_own_requests_is_no_fault_of_the_processors(tmp_path):
    """One connection sends three requests at once: the second and third lie in the socket until the one before is
    answered."""
    ticks = 2_000  # a stage of `request` is `step` ticks long
    made = []
    for burst in range(50):
        sent = 10_000_000 + burst * 1_000_000_000
        at = sent
        for number in range(3):
            made.append(
                request(at, conn_id=7, step=ticks, corr_id=3 * burst + number, rx_wait=(at - sent) // 64, purg_kind=0)
            )
            at += 64 * made[-1].stage[-1]
    write_segment(tmp_path, made)
    engine = choose_engine("local", open_input([tmp_path]))
    assert time_costs.own_connection_share(engine, windows.extent(engine.activity(0))) == pytest.approx(1.0)
    found = _findings(engine)
    assert "rx_wait" not in found and "Use more connections" in found["own_connection"].change


def test_a_sample_tells_nothing_of_a_connections_order(tmp_path):
    with golden(tmp_path, CALM, TraceOptions(sample_shift=1)) as (engine, _):
        assert time_costs.own_connection_share(engine, windows.extent(engine.activity(0))) == 0.0
        assert _findings(engine)
