"""`queue-model`: a replay of the model's broker gives the model's own waits, and hand-off is what it cannot explain."""

import json

import pytest

from mpbroker.analysis.engine.running import runner
from mpbroker.analysis.engine.running.study import StudyParameters
from mpbroker.analysis.studies import queue_model
from tests.harness.event_model import AT, Scenario
from tests.harness.golden_trace import golden
from tests.harness.leading_findings import leading

BUSY = Scenario(rate=420, duration_ms=6000, service_ms=7.0, sigma=0.6)
TICK_NS = 64


def _run(directory, scenario, window_ms=1000):
    with golden(directory, scenario) as (engine, outcome):
        result = queue_model.STUDY.run(engine, StudyParameters(window_ms=window_ms))
    [summary] = result.tables["queue_model_summary"].to_pylist()
    return result, summary, outcome


def test_without_hand_off_the_replay_is_what_was_measured(tmp_path):
    result, summary, outcome = _run(tmp_path, BUSY)
    waits = [one.stage[AT["dequeued"]] - one.stage[AT["enqueued"]] for one in outcome.requests]
    assert summary["n"] == len(waits) and summary["handlers"] == BUSY.handlers
    assert summary["replay_mean_ns"] == pytest.approx(TICK_NS * sum(waits) / len(waits), rel=1e-9)
    assert summary["explained"] == pytest.approx(1.0, rel=1e-9)
    assert summary["replay_p99_ns"] == summary["measured_p99_ns"] > summary["replay_p50_ns"]
    assert "more handlers (num.io.threads)" in result.verdicts[2]
    json.dumps([figure.spec for figure in result.figures], allow_nan=False)


def test_theory_is_near_what_its_assumptions_make_of_the_load(tmp_path):
    """Arrivals at random, independent services: the mean of a long run lies near M/G/k."""
    long = BUSY._replace(duration_ms=60_000, rate=300, sigma=0.4)
    result, summary, _ = _run(tmp_path, long, window_ms=20_000)
    assert 0.4 < summary["load"] < 0.7
    assert summary["mgk_mean_ns"] == pytest.approx(summary["measured_mean_ns"], rel=0.3)
    assert summary["ggk_mean_ns"] == pytest.approx(summary["measured_mean_ns"], rel=0.3)
    rows = result.tables["queue_model"].to_pylist()
    assert len(rows) == 3 and sum(row["arrivals"] for row in rows) == summary["n"]


def test_hand_off_is_what_no_queueing_explains(tmp_path):
    slow_to_wake = Scenario(rate=60, duration_ms=4000, service_ms=4.0, wake_ms=0.05)
    result, summary, _ = _run(tmp_path, slow_to_wake)
    assert summary["explained"] < 0.1 and summary["replay_p50_ns"] == 0 < summary["measured_p50_ns"]
    assert result.verdicts[0].startswith("Queueing alone explains ")
    assert "Most waiting is not queueing" in result.verdicts[-1]


def test_overload_has_no_steady_state(tmp_path):
    result, summary, _ = _run(tmp_path, BUSY._replace(rate=900, duration_ms=2500), window_ms=10_000)
    assert summary["load"] > 1 and summary["mgk_mean_ns"] is None
    assert any("No window had a steady state" in words for words in result.verdicts)


def test_it_is_found_by_its_name():
    assert runner.find_study("queue-model") is queue_model.STUDY and "queue-model" in runner.study_names()


@pytest.mark.parametrize(
    ("scenario", "kind", "column"),
    [
        (BUSY._replace(rate=700), "queueing", "replay_mean_ns"),
        (Scenario(rate=60, duration_ms=4000, service_ms=0.5, wake_ms=5.0), "handoff", "measured_mean_ns"),
    ],
    ids=["queueing", "handoff"],
)
def test_what_waiting_is_for_leads_the_list(tmp_path, scenario, kind, column):
    """In the place of “waiting in the request ring”, which does not tell it."""
    _, summary, _ = _run(tmp_path, scenario)
    found = leading([tmp_path], queue_model.STUDY)
    assert found[0].kind == kind and not {"queue", "wake_up"} & {one.kind for one in found}
    rest = summary["replay_mean_ns"] if kind == "handoff" else 0.0
    assert found[0].cost_s == pytest.approx((summary[column] - rest) * summary["n"] / 1e9, rel=1e-6)
