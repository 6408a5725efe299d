"""`waits`: its queueing and hand-off are those that the model counted while it ran."""

import json

import pytest

from mpbroker.analysis.engine.engines.choose_engine import choose_engine
from mpbroker.analysis.engine.input.trace_input import SampledTrace, open_input
from mpbroker.analysis.engine.running.study import StudyParameters
from mpbroker.analysis.studies import latency, queue_model, waits
from tests.harness.event_model import Scenario
from tests.harness.event_trace import TraceOptions
from tests.harness.golden_trace import FLOOD, golden
from tests.harness.leading_findings import leading

TICK_NS = 64
IDLE = Scenario(rate=60, duration_ms=4000, service_ms=4.0, wake_ms=0.05)
BUSY = Scenario(rate=420, duration_ms=5000, service_ms=7.0, sigma=0.6, wake_ms=0.05)
CONTROL = FLOOD._replace(discipline="priority", blocking=False, wake_ms=0.2)


def _rows(directory, scenario):
    with golden(directory, scenario) as (engine, outcome):
        result = waits.STUDY.run(engine, StudyParameters())
    return result, result.tables["waits"].to_pylist(), outcome


@pytest.mark.parametrize("scenario", [IDLE, BUSY, CONTROL], ids=["idle", "busy", "control"])
def test_queueing_and_hand_off_are_the_models(tmp_path, scenario):
    result, rows, outcome = _rows(tmp_path, scenario)
    queueing, handoff = sum(row["queueing_ns"] for row in rows), sum(row["handoff_ns"] for row in rows)
    assert queueing + handoff == (outcome.queued_ticks + outcome.free_ticks) * TICK_NS
    # the model's handler is free for no time between two requests that follow each other; so it is here
    assert queueing == pytest.approx(outcome.queued_ticks * TICK_NS, rel=1e-9, abs=TICK_NS)
    assert sum(row["n"] for row in rows) == len(outcome.requests)
    seen = sum(ticks > 0 for ticks in outcome.busy_ticks)  # the model has no gauges that name the others
    assert [row["handlers"] for row in rows] == [seen] * len(rows)
    json.dumps([figure.spec for figure in result.figures], allow_nan=False)


def test_an_idle_broker_waits_for_hand_off_only(tmp_path):
    result, [row], _ = _rows(tmp_path, IDLE)
    assert row["handoff_ns"] > 0.9 * row["wait_ns"] and row["p50_ns"] == int(0.05 * 15_625) * TICK_NS
    assert row["found_free"] > 0.95 * row["n"] and row["found_free_p50_ns"] == row["p50_ns"]
    assert "hand-off: a handler was free, but slept (the system does not tell" in result.verdicts[0]
    assert "More handlers would not help" in result.verdicts[1]


def test_a_busy_broker_waits_for_handlers(tmp_path):
    result, [row], _ = _rows(tmp_path, BUSY)
    assert row["queueing_ns"] > 0.5 * row["wait_ns"] and row["found_busy_p50_ns"] > row["found_free_p50_ns"]
    assert "was queueing: all 4 handlers were at work" in result.verdicts[0]
    assert "raise num.io.threads" in result.verdicts[1]


@pytest.mark.parametrize(("starved_s", "at_most"), [(0.001, "at most 0.0"), (10.0, "at most 100 %")])
def test_no_more_is_for_want_of_a_core_than_handlers_were_without(tmp_path, monkeypatch, starved_s, at_most):
    """Hand-offs of 240 requests at 50 µs: 12 ms, with gauges that tell of more or less than that."""
    read = waits.handler_work.read

    def with_gauges(engine, extent):
        works, said = read(engine, extent)
        return [work._replace(starved_s=starved_s) for work in works], said

    monkeypatch.setattr(waits.handler_work, "read", with_gauges)
    result, [row], _ = _rows(tmp_path, IDLE)
    assert row["no_core_at_most"] == pytest.approx(min(1.0, starved_s * 1e9 / row["handoff_wall_ns"]))
    assert row["handoff_wall_ns"] == pytest.approx(row["handoff_ns"], rel=0.05)
    assert ("more cores may" in result.verdicts[1]) == (starved_s > 1)
    assert at_most in result.verdicts[0] or starved_s < 1


def test_few_requests_and_sampled_traces_say_so(tmp_path):
    result, rows, _ = _rows(tmp_path / "few", IDLE._replace(duration_ms=300))
    assert rows[0]["n"] < waits.MIN_REQUESTS and result.verdicts[0].startswith("Too few requests waited")
    with golden(tmp_path / "sampled", IDLE, TraceOptions(sample_shift=2)) as (engine, _), pytest.raises(SampledTrace):
        waits.STUDY.run(engine, StudyParameters())
    part = choose_engine("local", open_input([tmp_path / "few"], apis=["Produce"]))
    assert any("Only a part of the trace" in words for words in waits.STUDY.run(part, StudyParameters()).verdicts)


@pytest.mark.parametrize(
    ("scenario", "kind"),
    [
        (BUSY._replace(rate=700, duration_ms=2500), "queueing"),
        (IDLE._replace(service_ms=0.5, wake_ms=5.0), "handoff"),
    ],
    ids=["queueing", "handoff"],
)
def test_what_waiting_is_for_leads_the_list(tmp_path, scenario, kind):
    """In the place of “waiting in the request ring”, which does not tell it; and once, though `queue-model` says it."""
    _, rows, _ = _rows(tmp_path, scenario)
    found = leading([tmp_path], waits.STUDY, beside=latency.STUDY)
    assert found[0].kind == kind and "queue" not in {one.kind for one in found}
    assert found[0].cost_s == sum(row[f"{kind}_ns"] for row in rows) / 1e9
    both = leading([tmp_path], waits.STUDY, beside=queue_model.STUDY)
    assert [one.kind for one in both].count(kind) == 1
