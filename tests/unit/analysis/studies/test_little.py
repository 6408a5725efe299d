"""`little`: its depths are the model's own integrals, defects and unsteady loads get their names."""

import json

import pytest

from mpbroker.analysis.engine.engines.choose_engine import choose_engine
from mpbroker.analysis.engine.input.trace_input import SampledTrace, open_input
from mpbroker.analysis.engine.running.study import StudyParameters
from mpbroker.analysis.studies.little import (
    DEFECT,
    EMPTY,
    FEW,
    MIN_ARRIVALS,
    MIN_DEPTH,
    MISMATCH,
    OK,
    STUDY,
    UNSTEADY,
    _judge,
)
from tests.harness.event_model import TICKS_PER_MS, Scenario
from tests.harness.event_trace import BASE_NS, EPOCH_OFFSET_NS, Marker, TraceOptions
from tests.harness.golden_trace import CALM, FLOOD, golden

BUSY = Scenario(rate=420, duration_ms=8000, service_ms=7.0, sigma=0.6)
WINDOW_TICKS = 1000 * TICKS_PER_MS
FIRST_MS = (BASE_NS + EPOCH_OFFSET_NS) // 1_000_000


@pytest.mark.parametrize(
    "scenario", [BUSY, FLOOD, FLOOD._replace(discipline="plane", blocking=False)], ids=["busy", "flood", "plane"]
)
def test_depths_are_the_models_integrals(tmp_path, scenario):
    with golden(tmp_path, scenario) as (engine, outcome):
        result = STUDY.run(engine, StudyParameters())
    names = {"data request": "data", "control request": "control"}
    names |= {f"response-{number}": f"response {number}" for number in range(4)}
    checked = 0
    for row in result.tables["little_check"].to_pylist():
        window, integral = (row["window_ms"] - FIRST_MS) // 1000, outcome.depth_ticks[names[row["ring"]]]
        assert row["depth"] == pytest.approx(integral.get(window, 0) / WINDOW_TICKS, abs=1e-9)
        checked += 1
    assert checked >= 7


def test_a_steady_load_agrees_with_itself(tmp_path):
    with golden(tmp_path, BUSY) as (engine, _):
        result = STUDY.run(engine, StudyParameters(window_ms=2000))
    [ring] = [row for row in result.tables["little_summary"].to_pylist() if row["ring"] == "data request"]
    assert ring["little_mismatch"] < MISMATCH and ring["trace_defect"] == 0 < ring["ok"]
    assert ring["depth_found"] == pytest.approx(ring["depth_replayed"], rel=1e-6)
    assert any("no sign of lost records" in words for words in result.verdicts)
    json.dumps([figure.spec for figure in result.figures], allow_nan=False)


def test_lost_records_are_a_trace_defect(tmp_path):
    with golden(tmp_path, BUSY, TraceOptions(dropped=4)) as (engine, _):
        result = STUDY.run(engine, StudyParameters())
    assert sum(row["trace_defect"] for row in result.tables["little_summary"].to_pylist()) >= 3
    assert any("TRACE DEFECT" in words and "has lost records" in words for words in result.verdicts)


def test_a_filling_ring_is_not_stationary(tmp_path):
    scenario = FLOOD._replace(blocking=False, ring_capacity=5000, elections_ms=(), duration_ms=3000)
    with golden(tmp_path, scenario) as (engine, _):
        result = STUDY.run(engine, StudyParameters())
    [ring] = [row for row in result.tables["little_summary"].to_pylist() if row["ring"] == "data request"]
    assert ring["not_stationary"] >= 2 and ring["trace_defect"] == 0
    assert any("Not stationary" in words for words in result.verdicts)


def test_a_sample_is_refused(tmp_path):
    with (
        golden(tmp_path, CALM, TraceOptions(sample_shift=1)) as (engine, _),
        pytest.raises(SampledTrace, match="little"),
    ):
        STUDY.run(engine, StudyParameters())


def test_empty_rings_and_empty_traces_are_sentences(tmp_path):
    idle = CALM._replace(rate=30, duration_ms=800, service_ms=0.5)
    with golden(tmp_path, idle, TraceOptions(markers=(Marker("x", 0),))) as (engine, _):
        assert "tells anything" in STUDY.run(engine, StudyParameters()).verdicts[0]
    nothing = choose_engine("local", open_input([tmp_path], to_ns=1))
    assert "nothing to say" in STUDY.run(nothing, StudyParameters()).verdicts[0]


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, OK),
        ({"arrivals": MIN_ARRIVALS - 1, "depth_mismatch": 1.0, "depth_found": 9.0}, FEW),
        ({"depth_mismatch": 1.0, "depth_found": MIN_DEPTH, "depth_replayed": 0.0}, DEFECT),
        ({"depth_mismatch": 1.0, "depth_found": MIN_DEPTH * 0.99, "depth_replayed": 0.0}, OK),
        ({"depth_mismatch": 1.0, "depth_found": 0.1, "depth_replayed": 0.0, "depth": 0.1, "lambda_w": 0.1}, EMPTY),
        ({"depth": 0.1, "lambda_w": 0.0, "little_mismatch": 1.0}, EMPTY),
        ({"depth": MIN_DEPTH, "lambda_w": 0.0, "little_mismatch": 1.0}, UNSTEADY),
    ],
)
def test_a_ring_with_hardly_anybody_in_it_is_no_defect_of_the_trace(changes, verdict):
    """A request or two make a large share of next to nothing."""
    row = {
        "arrivals": MIN_ARRIVALS,
        "depth": 3.0,
        "lambda_w": 3.0,
        "depth_found": 3.0,
        "depth_replayed": 3.0,
        "little_mismatch": 0.0,
        "depth_mismatch": 0.0,
    }
    assert _judge(row | changes) == verdict
