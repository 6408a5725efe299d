"""`tail` names the culprit that was built into the model: a stage, and who has it."""

import json

import numpy as np
import pytest

from mpbroker.analysis.engine.engines.choose_engine import choose_engine
from mpbroker.analysis.engine.input.durations import PIPELINE
from mpbroker.analysis.engine.input.trace_input import open_input
from mpbroker.analysis.engine.running.study import StudyParameters
from mpbroker.analysis.studies.tail import STUDY
from mpbroker.trace.record import TICK_NS
from tests.harness.event_model import AT, IN_FETCH_PURGATORY, PRODUCE, Scenario
from tests.harness.event_trace import TraceOptions
from tests.harness.golden_trace import CALM, golden

#: Handler 2 works eight times as long on the log; rarely asked, so that it makes the tail and not the mean.
SLOW_HANDLER = Scenario(rate=300, duration_ms=9000, service_ms=4, slow_handler=2, slow_factor=8, sigma=0.3)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    with golden(tmp_path_factory.mktemp("golden"), SLOW_HANDLER) as (engine, outcome):
        return STUDY.run(engine, StudyParameters(exemplars=50)), outcome


def test_parts_add_up_to_the_excess_of_the_model(found):
    result, outcome = found
    rows = [row for row in result.tables["tail_attribution"].to_pylist() if row["api"] == "Produce"]
    whole = np.sort([(one.stage[-1] - one.arrival) * TICK_NS for one in outcome.requests if one.api_key == PRODUCE])
    number = int(np.ceil(len(whole) * 0.01))
    tail = whole[-number:] if rows[0]["requests"] == number else whole[-rows[0]["requests"] :]
    assert abs(rows[0]["requests"] - number) <= 1
    assert sum(row["excess_us"] for row in rows) * 1000 == pytest.approx(tail.mean() - whole.mean(), rel=1e-6)
    assert sum(row["excess_share"] for row in rows) == pytest.approx(1)
    shares = {row["stage"]: row["excess_share"] for row in rows}
    assert shares["io"] == pytest.approx(0.8, abs=0.02) and shares["local"] == pytest.approx(0.2, abs=0.02)
    assert abs(shares["unattributed"]) < 1e-6


def test_the_slow_handler_stands_out(found):
    result, _ = found
    first = max(result.tables["co_occurrence"].to_pylist(), key=lambda row: row["score"])
    assert (first["dimension"], first["value"]) == ("handler", "2") and first["lift"] > 5
    assert any(words.startswith("Handler 2 has") for words in result.verdicts)
    [slow] = [one for one in result.findings if one.kind == "slow_handler"]
    assert slow.subject == "Produce 2" and slow.cost_s > 0 and "mpbroker status" in slow.change
    assert "reading or writing the log" in result.verdicts[0]


def _active_ns(one):
    """Of a request of the model, without waiting for data as its client asked."""
    asked = one.stage[AT["purg_leave"]] - one.stage[AT["purg_enter"]] if one.purgatory == IN_FETCH_PURGATORY else 0
    return (one.stage[-1] - one.arrival - asked) * TICK_NS


def test_exemplars_are_the_slowest(found):
    result, outcome = found
    exemplars = result.tables["exemplars"]
    slowest = sorted((_active_ns(one) for one in outcome.requests), reverse=True)[:50]
    assert exemplars["active_total_ns"].to_pylist() == slowest
    assert {f"{stage}_ns" for stage in PIPELINE} <= set(exemplars.column_names)
    assert set(exemplars["slowest_stage"].to_pylist()) <= set(PIPELINE)


def test_the_waterfall_ends_at_the_tails_mean(found):
    result, _ = found
    figures = {figure.name: figure for figure in result.figures}
    assert set(figures) == {"tail_attribution", "waterfall", "exemplars"}
    [steps] = figures["waterfall"].spec["data"]
    rows = [
        row
        for row in result.tables["tail_attribution"].to_pylist()
        if (row["api"], row["percentile"]) == ("Produce", "p99")
    ]
    mean_ms = sum(row["mean_us"] for row in rows) / 1000
    assert sum(value for value in steps["y"] if value is not None) == pytest.approx(
        mean_ms + sum(row["excess_us"] for row in rows) / 1000, rel=0.02
    )
    json.dumps([figure.spec for figure in result.figures], allow_nan=False)


def test_a_sample_keeps_its_weights(tmp_path):
    with golden(tmp_path, SLOW_HANDLER, TraceOptions(sample_shift=1)) as (engine, _):
        result = STUDY.run(engine, StudyParameters())
    rows = result.tables["tail_attribution"].to_pylist()
    assert rows[0]["stage"] == "io" and 0.7 < rows[0]["excess_share"] < 0.9
    assert any("sampled" in words for words in result.verdicts)


def test_few_requests_are_a_sentence(tmp_path):
    with golden(tmp_path, CALM._replace(duration_ms=300)) as (engine, outcome):
        result = STUDY.run(engine, StudyParameters())
    assert "No API has the 1,000 requests" in result.verdicts[0]
    assert result.tables["exemplars"].num_rows == min(50, len(outcome.requests))
    nothing = choose_engine("local", open_input([tmp_path], to_ns=1))
    assert "nothing to say" in STUDY.run(nothing, StudyParameters()).verdicts[0]
