"""`little`: its depths are the model's own integrals, defects and unsteady loads get their names."""

import json

import numpy as np
import pytest

from mpbroker.analysis.engine.engines.choose_engine import choose_engine
from mpbroker.analysis.engine.input.trace_input import SampledTrace, open_input
from mpbroker.analysis.engine.measures import lost_records
from mpbroker.analysis.engine.measures.request_time import RequestTime
from mpbroker.analysis.engine.running import finding
from mpbroker.analysis.engine.running.study import StudyParameters
from mpbroker.analysis.studies.little import (
    _COLUMNS,
    DEFECT,
    EMPTY,
    FEW,
    MIN_ARRIVALS,
    MIN_DEPTH,
    MISMATCH,
    OK,
    STUDY,
    UNSTEADY,
    _findings,
    _judge,
    _smallest_loss,
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
    assert any("no sign of wrong clocks, and of lost records" in words for words in result.verdicts)
    assert result.verdicts[0].startswith("Sequence numbers: all ") and "none is missing (exact)" in result.verdicts[0]
    json.dumps([figure.spec for figure in result.figures], allow_nan=False)


def test_lost_records_are_a_trace_defect(tmp_path):
    with golden(tmp_path, BUSY, TraceOptions(dropped=4)) as (engine, _):
        result = STUDY.run(engine, StudyParameters())
    assert sum(row["trace_defect"] for row in result.tables["little_summary"].to_pylist()) >= 3
    assert any("TRACE DEFECT" in words and "has lost records" in words for words in result.verdicts)
    [loss] = result.findings
    waits = {side: _in_defects(result, f"depth_{side}") for side in ("found", "replayed")}
    assert loss.kind == "trace_loss" and loss.cost_s == pytest.approx(waits["found"] - waits["replayed"], rel=0.01)
    assert "5 windows" in loss.sentence and 0.1 < loss.share < 0.2


def _in_defects(result, name):
    """Request seconds in a ring by its depth, in windows of a second that are defects."""
    return sum(row[name] for row in result.tables["little_check"].to_pylist() if row["verdict"] == DEFECT)


def test_missing_records_cost_what_the_others_took(tmp_path):
    exact = lost_records.Numbers(records=80, lanes=1, missing=20, doubled=0)
    [found] = _findings(RequestTime(40.0), exact, [])
    assert found.kind == "trace_loss" and found.cost_s == pytest.approx(10.0)
    assert found.sentence.startswith("The trace lacks 20 of 100 requests (20 %, by sequence numbers)")
    assert _findings(RequestTime(40.0), exact._replace(missing=0), []) == []


def test_a_burst_costs_what_it_waited_longer_than_the_rest(tmp_path):
    burst = BUSY._replace(rate=200, service_ms=5.0, burst_rate=2600, burst_ms=(4700, 5000), ring_capacity=5000)
    with golden(tmp_path, burst) as (engine, _):
        result = STUDY.run(engine, StudyParameters())
        waits = engine.requests(["queue_ns", "epoch_ns"])
    found = next(one for one in finding.leading([result]) if one.kind == "bursts")
    rows = [row for row in result.tables["little_check"].to_pylist() if row["ring"] == "data request"]
    unsteady = {row["window_ms"]: row for row in rows if row["verdict"] == UNSTEADY}
    assert len(unsteady) == 3 and "In 3 windows of 6 the data request ring" in found.sentence
    calm = [row for row in rows if row["verdict"] in (OK, EMPTY)]
    usual = sum(row["mean_wait_us"] * row["arrivals"] for row in calm) / sum(row["arrivals"] for row in calm)
    excess = sum((row["mean_wait_us"] - usual) * row["arrivals"] for row in unsteady.values()) / 1e6
    assert found.cost_s == pytest.approx(excess) and excess < waits["queue_ns"].to_numpy().sum() / 1e9


@pytest.mark.parametrize("share", [0.001, 0.3])
def test_deleted_records_are_counted_to_the_last(tmp_path, share):
    """Where L and lambda W agree as before: they come from the records that are left."""
    with golden(tmp_path, BUSY) as (engine, _):
        whole = engine.requests(_COLUMNS).sort_by("seq")
    chance = np.random.default_rng(5)
    left = np.unique(np.concatenate(([0, len(whole) - 1], np.flatnonzero(chance.random(len(whole)) >= share))))
    found = lost_records.numbers(whole.take(left))
    assert found.missing == len(whole) - len(left) > 0 and found.doubled == 0
    words = lost_records.number_sentence(found)
    assert words.startswith(f"TRACE DEFECT by sequence numbers: {found.missing:,} of {len(whole):,} requests")
    twice = lost_records.numbers(whole.take(np.concatenate(([3], np.arange(len(whole))))))
    assert (twice.missing, twice.doubled) == (0, 1) and "1 are there twice" in lost_records.number_sentence(twice)


def test_a_part_of_a_trace_has_no_exact_answer(tmp_path):
    with golden(tmp_path, BUSY):
        part = choose_engine("local", open_input([tmp_path], apis=["Produce"]))
        assert "were not checked" in STUDY.run(part, StudyParameters()).verdicts[0]


def test_depths_over_time_are_averages_over_time(tmp_path):
    with golden(tmp_path, FLOOD) as (engine, _):
        tables = STUDY.run(engine, StudyParameters()).tables
    [ring] = [row for row in tables["little_summary"].to_pylist() if row["ring"] == "data request"]
    depths = [row["depth"] for row in tables["little_check"].to_pylist() if row["ring"] == "data request"]
    assert ring["depth"] == pytest.approx(sum(depths) / len(depths))


@pytest.mark.parametrize(("depth", "percent"), [(1.4, 36), (10.0, 10), (0.4, None)])
def test_the_smallest_loss_that_depths_would_show(depth, percent):
    words = lost_records.power(_smallest_loss({"depth_found": depth}))
    assert words == (
        f"a loss of less than {percent} % would not show there" if percent else "that would show no loss, however large"
    )


def _ring_samples(lost, samples=2000, seed=3):
    """A ring of mean depth 3, looked at now and then; a share of its records is lost."""
    chance = np.random.default_rng(seed)
    begins = np.sort(chance.integers(0, 10**9, 3000))
    ends = begins + chance.exponential(10**6, 3000).astype(np.int64)
    at = np.sort(chance.integers(10**7, 98 * 10**7, samples))
    depths = (begins[None, :] <= at[:, None]).sum(1) - (ends[None, :] <= at[:, None]).sum(1)
    kept = chance.random(len(begins)) >= lost
    return lost_records.samples(at, depths, begins[kept], ends[kept])


def test_gauges_show_a_loss_that_is_large_enough():
    whole, less = _ring_samples(0.0), _ring_samples(0.3)
    assert whole.depth == whole.from_records == pytest.approx(3, abs=0.5) and not whole.shows_loss
    assert less.shows_loss and less.from_records == pytest.approx(0.7 * less.depth, rel=0.1)
    assert less.smallest_loss < 0.3
    assert not _ring_samples(0.3, samples=25).shows_loss, "so few say nothing"


def test_gauges_of_an_empty_ring_show_nothing():
    found = lost_records.samples(np.array([5]), np.array([0]), np.array([1]), np.array([9]))
    assert found.smallest_loss == 1.0 and not found.shows_loss
    assert lost_records.samples(np.array([50]), np.array([0]), np.array([1]), np.array([9])) is None
    rows = [{"gauge_samples": 1, "gauge_depth": 0.0}]
    assert lost_records.gauge_sentence(rows) == [
        "Gauges say nothing of lost records: the rings were empty whenever the tracer looked."
    ]


def test_a_filling_ring_is_not_stationary(tmp_path):
    scenario = FLOOD._replace(blocking=False, ring_capacity=5000, elections_ms=(), duration_ms=3000)
    with golden(tmp_path, scenario) as (engine, _):
        result = STUDY.run(engine, StudyParameters())
    [ring] = [row for row in result.tables["little_summary"].to_pylist() if row["ring"] == "data request"]
    assert result.findings == [], "no calm window to compare with"
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
        exact, rings, gauges = STUDY.run(engine, StudyParameters()).verdicts[:3]
    assert "none is missing (exact)" in exact and "tells anything" in rings and "Gauges say nothing" in gauges
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
