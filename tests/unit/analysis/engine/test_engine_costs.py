"""`auto` chooses by what was measured: its constants are the recorded ones; the choice turns where the lines cross."""

import json
import os
from pathlib import Path

import pytest

from mpbroker.analysis.engine.engines import choose_engine, engine_costs
from mpbroker.analysis.engine.engines.engine_costs import LOCAL, SPARK, crossing, seconds, spark_is_quicker
from perf import engine_costs as measured

BASELINE = Path(__file__).parents[4] / "perf" / "baselines" / "engine-costs-epyc-2-cores.json"


def test_the_constants_are_those_of_the_recorded_measurement():
    found = json.loads(BASELINE.read_text())
    assert found["equal"] and len(found["points"]) == 4
    assert measured.costs(found) == {"local": LOCAL._asdict(), "spark": SPARK._asdict()}


def test_a_line_gives_back_the_runs_it_was_made_of():
    found = json.loads(BASELINE.read_text())
    for one in found["points"]:
        cost = SPARK if one["engine"] == "spark" else LOCAL
        assert seconds(cost, one["records"], 1) == pytest.approx(one["cpu_s"], rel=0.02, abs=0.1)


@pytest.mark.parametrize("cores", [4, 16, 64])
def test_it_turns_where_the_lines_cross(cores):
    at = crossing(cores)
    assert seconds(SPARK, round(at), cores) == pytest.approx(seconds(LOCAL, round(at), 1), rel=1e-6)
    assert not spark_is_quicker(int(at * 0.999), cores) and spark_is_quicker(int(at * 1.001), cores)
    assert crossing(2 * cores) < at


def test_where_spark_has_no_cores_to_spread_over_it_never_pays(monkeypatch):
    monkeypatch.setattr(engine_costs, "SPARK", SPARK._replace(cpu_s=2 * LOCAL.cpu_s))
    assert crossing(2) is None and crossing(3) is not None
    assert not spark_is_quicker(10**12, 2) and spark_is_quicker(10**12, 3)


def test_a_trace_is_given_to_spark_by_its_size_cores_and_what_is_installed(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: range(16))
    at = int(crossing(16))
    assert choose_engine._spark_pays(2 * at) and not choose_engine._spark_pays(at // 2)
    monkeypatch.setattr(choose_engine, "find_spec", lambda name: None)
    assert not choose_engine._spark_pays(2 * at)
