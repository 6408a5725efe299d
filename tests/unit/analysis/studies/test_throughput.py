"""`throughput` counts what the model served, finds the steady part, and reads gauges."""

import json

import numpy as np
import pytest

from mpbroker.analysis.engine.engines.choose_engine import choose_engine
from mpbroker.analysis.engine.input.trace_input import TraceInput, open_input
from mpbroker.analysis.engine.mathematics.distribution import NOTHING
from mpbroker.analysis.engine.mathematics.steady_state import SteadyState
from mpbroker.analysis.engine.running.phases import Phase
from mpbroker.analysis.engine.running.study import StudyParameters
from mpbroker.analysis.studies.throughput import _SUMS, STUDY, Stretch, _phase_row, _phase_verdict
from tests.harness import gauges
from tests.harness.event_model import Scenario
from tests.harness.event_trace import Marker, TraceOptions
from tests.harness.golden_trace import CALM, FLOOD, golden


def test_rates_of_a_calm_load(tmp_path):
    with golden(tmp_path, CALM) as (engine, outcome):
        result = STUDY.run(engine, StudyParameters(window_ms=250))
    [phase] = result.tables["phases"].to_pylist()
    assert phase["steady"] and phase["requests_per_s"] == pytest.approx(CALM.rate, rel=0.12)
    assert sum(result.tables["by_api"]["n"].to_pylist()) == len(outcome.requests)
    assert result.verdicts[0].startswith("In the steady state the broker served")
    handled = sum(result.tables["by_api"]["handler_ns"].to_pylist()) / 64
    assert handled == pytest.approx(sum(outcome.busy_ticks), rel=0.01)
    everything = phase["in_flight"] + phase["waiting_on_purpose"]
    assert everything == pytest.approx(phase["requests_per_s"] * _mean_total_s(outcome), rel=0.15)
    assert phase["waiting_on_purpose"] > 0.5, "long polls of the model"
    assert "that waited as their clients asked" in result.verdicts[0] and phase["p99_us"] < 50_000


def _mean_total_s(outcome):
    return sum(one.stage[-1] - one.arrival for one in outcome.requests) / len(outcome.requests) * 64 / 1e9


def test_markers_are_phases_and_a_growing_queue_is_not_steady(tmp_path):
    options = TraceOptions(markers=(Marker("phase calm", 0), Marker("phase flood", 1000), Marker("end", 3000)))
    scenario = FLOOD._replace(blocking=False, ring_capacity=5000, elections_ms=(), duration_ms=3000)
    with golden(tmp_path, scenario, options) as (engine, _):
        result = STUDY.run(engine, StudyParameters())
    calm, flood = result.tables["phases"].to_pylist()
    assert (calm["phase"], flood["phase"]) == ("calm", "flood")
    assert not flood["steady"] and "in flight" in flood["reason"]
    assert flood["requests_per_s"] == pytest.approx(1200, rel=0.1)
    assert any("From “calm” to “flood” the rate goes from" in words for words in result.verdicts)


def test_errors_are_told_by_api_and_code_over_time(tmp_path):
    with golden(tmp_path, FLOOD) as (engine, outcome):
        result = STUDY.run(engine, StudyParameters(window_ms=100))
    failed = [one for one in outcome.requests if one.error]
    table = result.tables["errors"].to_pylist()
    assert failed and sum(row["n"] for row in table) == len(failed)
    assert {row["name"] for row in table} == {"NOT_LEADER_OR_FOLLOWER"} and {row["api"] for row in table} == {"Produce"}
    [figure] = [one for one in result.figures if one.name == "errors"]
    assert [trace["name"] for trace in figure.spec["data"]] == ["Produce: NOT_LEADER_OR_FOLLOWER"]
    assert any("ended with an error: Produce: NOT_LEADER_OR_FOLLOWER" in words for words in result.verdicts)
    [finding] = [one for one in result.findings if one.kind == "errors"]
    assert finding.share == pytest.approx(len(failed) / len(outcome.requests))


def test_without_errors_there_is_no_figure_of_them(tmp_path):
    with golden(tmp_path, CALM) as (engine, _):
        result = STUDY.run(engine, StudyParameters())
    assert "errors" not in {figure.name for figure in result.figures}


def test_a_warm_up_is_cut(tmp_path):
    scenario = Scenario(rate=1000, burst_rate=100, burst_ms=(0, 1500), duration_ms=9000, service_ms=1.0, handlers=4)
    with golden(tmp_path, scenario) as (engine, _):
        cut = STUDY.run(engine, StudyParameters(window_ms=200)).tables["phases"].to_pylist()[0]
        given = STUDY.run(engine, StudyParameters(window_ms=200, warmup_ms=3000)).tables["phases"].to_pylist()[0]
    assert cut["steady"] and 1000 <= cut["steady_from_ms"] - cut["from_ms"] <= 2500
    assert cut["requests_per_s"] == pytest.approx(1000, rel=0.06)
    assert 3000 <= given["steady_from_ms"] - given["from_ms"] <= 3400 and given["warm_up_s"] == 3.0


@pytest.mark.parametrize(
    ("first", "reason", "warm_up_s"), [(0, "", 0.0), (2, "", 0.4), (2, "it drifts", 0.0)], ids=["none", "cut", "drift"]
)
def test_a_warm_up_is_as_long_as_the_windows_that_were_cut(first, reason, warm_up_s):
    """The phase begins 150 ms before its first whole window: no part of a warm-up."""
    at = np.arange(400, 2400, 200)
    sums = dict.fromkeys(_SUMS, np.ones(len(at), np.int64))
    steady = SteadyState(first, len(at), 0.0, reason)
    phase = Phase("calm", 250_000_000, 2_450_000_000)
    row = _phase_row(Stretch("r", "", phase, at, sums, [NOTHING] * len(at), sums["n"], steady), 200)
    assert (row["warm_up_s"], row["from_ms"], row["steady_from_ms"]) == (warm_up_s, 250, 400 + 200 * first)


def test_gauges_give_utilisation_and_full_rings(tmp_path, monkeypatch):
    monkeypatch.setattr(
        TraceInput, "gauges", lambda self: gauges.table(seconds=5, cpu_share=0.85, depth=450, capacity=500)
    )
    with golden(tmp_path, CALM) as (engine, _):
        result = STUDY.run(engine, StudyParameters())
    assert result.tables["utilisation"]["cpu_share"].to_pylist() == pytest.approx([0.85] * 5)
    assert result.tables["saturation"]["full_share"].to_pylist() == [1.0]
    assert any("the busiest, handler 0, used 85 % of one" in words for words in result.verdicts)
    assert any("data ring was more than 80 % full in 100 % of 6 samples" in words for words in result.verdicts)


def test_without_gauges_it_says_so(tmp_path):
    with golden(tmp_path, CALM._replace(duration_ms=1500)) as (engine, _):
        result = STUDY.run(engine, StudyParameters())
    assert any("no gauges" in words for words in result.verdicts)
    for figure in result.figures:
        assert json.loads(json.dumps(figure.spec, allow_nan=False))["data"], figure.name


@pytest.mark.parametrize("duration_ms", [20, 120])
def test_a_tiny_trace_gives_sentences(tmp_path, duration_ms):
    with golden(tmp_path, CALM._replace(duration_ms=duration_ms)) as (engine, _):
        verdict = STUDY.run(engine, StudyParameters()).verdicts[0]
    assert "No steady state" in verdict or "too short for a rate" in verdict


def test_an_empty_trace_is_a_sentence(tmp_path):
    with golden(tmp_path, CALM._replace(duration_ms=200)):
        pass
    nothing = choose_engine("local", open_input([tmp_path], to_ns=1))
    assert "nothing to say" in STUDY.run(nothing, StudyParameters()).verdicts[0]


@pytest.mark.parametrize(("warm_up_s", "told"), [(0.0, False), (0.1, True)])
def test_the_part_of_a_window_at_the_beginning_is_no_warm_up(warm_up_s, told):
    """A phase begins anywhere; its first whole window up to a window later."""
    row = {"phase": "calm", "requests_per_s": 5.0, "mb_in_per_s": 1.0, "mb_out_per_s": 1.0, "in_flight": 1.0}
    row |= {"p99_us": 5.0, "waiting_on_purpose": 0.0, "seconds": 3.0, "steady": True, "warm_up_s": warm_up_s}
    row |= {"from_ms": 0, "steady_from_ms": 300 + 1000 * warm_up_s}
    assert ("warm-up of 0.1 s was cut" in _phase_verdict(row)) is told
    assert ("warm-up" in _phase_verdict(row)) is told
