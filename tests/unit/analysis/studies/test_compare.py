"""`compare` finds what was changed, nothing where nothing was, and gives no verdict from few runs."""

import json

import pytest

from mpbroker.analysis.engine.engines.choose_engine import choose_engine
from mpbroker.analysis.engine.input.trace_input import open_input
from mpbroker.analysis.engine.running import finding
from mpbroker.analysis.engine.running.study import StudyParameters
from mpbroker.analysis.studies.compare import STUDY
from tests.harness.event_model import Scenario, simulate
from tests.harness.event_trace import TraceOptions, write_trace

LOAD = Scenario(rate=300, duration_ms=4500, service_ms=3.0, sigma=0.5)


def _runs(directory, number, first_seed, **changes):
    for run in range(number):
        outcome = simulate(LOAD._replace(seed=first_seed + run, **changes))
        write_trace(
            directory / f"run-{run}", outcome, TraceOptions(boot_id=first_seed * 100 + run, delay_ms=20_000 * run)
        )
    return choose_engine("local", open_input([directory]))


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    base = tmp_path_factory.mktemp("runs")
    return {
        "baseline": _runs(base / "b", 6, 100),
        "same": _runs(base / "s", 6, 200),
        "slower": _runs(base / "w", 6, 300, service_ms=3.9),
        "one": _runs(base / "o", 1, 400, service_ms=3.9),
    }


def _differences(result):
    return {(row["api"], row["metric"]): row for row in result.tables["differences"].to_pylist()}


def _mean_and_number(engine):
    """Of produce requests: seconds, without what a client asked for."""
    rows = engine.requests(["api", "active_total_ns"]).to_pylist()
    found = [row["active_total_ns"] for row in rows if row["api"] == "Produce"]
    return sum(found) / len(found) / 1e9, len(found)


def test_a_slower_handler_is_found(sides):
    result = STUDY.run(sides["slower"], StudyParameters(baseline=sides["baseline"]))
    row = _differences(result)["Produce", "local_time p50"]
    assert row["verdict"] == "higher" and 1 < row["low"] < 1.3 < row["high"] + 0.05
    assert row["ratio"] == pytest.approx(1.3, rel=0.05)
    assert _differences(result)["Produce", "requests/s"]["verdict"] == "no difference found"
    assert any("Produce local_time p50 is " in words and "95 % interval" in words for words in result.verdicts)
    means = [_mean_and_number(side) for side in (sides["slower"], sides["baseline"])]
    [found] = [one for one in result.findings if one.subject == "Produce"]
    assert found.kind == "slower_than_baseline" and "reading or writing the log" in found.sentence
    assert found.cost_s == pytest.approx((means[0][0] - means[1][0]) * means[0][1], rel=0.1)
    assert finding.leading([result])[0] == found and 0.1 < found.share < 0.5
    assert {figure.name for figure in result.figures} == {"forest", "quantile_shift"}
    json.dumps([figure.spec for figure in result.figures], allow_nan=False)


def test_the_same_broker_is_the_same(sides):
    result = STUDY.run(sides["same"], StudyParameters(baseline=sides["baseline"]))
    verdicts = [row["verdict"] for row in result.tables["differences"].to_pylist()]
    assert result.findings == []
    assert len(verdicts) >= 6 and verdicts.count("no difference found") >= len(verdicts) - 1
    assert "No difference found" in result.verdicts[-3] + result.verdicts[-2] + result.verdicts[0]


def test_one_run_describes_only(sides):
    result = STUDY.run(sides["one"], StudyParameters(baseline=sides["baseline"]))
    assert {row["verdict"] for row in result.tables["differences"].to_pylist()} == {"descriptive only"}
    assert {row["low"] for row in result.tables["differences"].to_pylist()} == {None}
    assert result.findings == []
    assert result.verdicts[0].startswith("Descriptive only (1 run against 6 runs of the baseline)")


def test_without_a_baseline_or_runs(sides, tmp_path):
    assert "--baseline" in STUDY.run(sides["one"], StudyParameters()).verdicts[0]
    _runs(tmp_path, 1, 500, duration_ms=100)
    nothing = choose_engine("local", open_input([tmp_path], to_ns=1))
    assert "nothing to compare" in STUDY.run(nothing, StudyParameters(baseline=sides["one"])).verdicts[0]
