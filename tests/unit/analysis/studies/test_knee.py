"""`knee`: from which load on latency grows, where the trace was made to have one there."""

import random
from statistics import median

import pytest

from mpbroker.analysis.engine.engines.choose_engine import choose_engine
from mpbroker.analysis.engine.input.trace_input import open_input
from mpbroker.analysis.engine.running.study import StudyParameters
from mpbroker.analysis.studies import knee
from tests.harness.leading_findings import leading
from tests.harness.record_trace import request, write_segment

WINDOW_MS = 100
KNEE = 3000


def _trace(directory, slope):
    """Windows of 100 ms, each with a load of its own; latency is flat up to KNEE requests a second."""
    chance, records = random.Random(2), []
    for window in range(16):
        rate = 1200 * 1.13**window
        level = int(8 * max(1.0, rate / KNEE) ** slope)
        for n in range(int(rate * WINDOW_MS / 1000)):
            at = 1_000_000_000 + int((window + n / (rate * WINDOW_MS / 1000)) * WINDOW_MS * 1_000_000)
            records.append(request(at, step=level + chance.randrange(3), conn_id=chance.randrange(1 << 20)))
    write_segment(directory, records)
    return choose_engine("local", open_input([directory]))


def test_it_is_where_it_was_put(tmp_path):
    engine = _trace(tmp_path, 3.0)
    result = knee.STUDY.run(engine, StudyParameters(window_ms=WINDOW_MS, target_p99_ms=0.05))
    [row] = result.tables["knee"].to_pylist()
    assert 0.8 * KNEE < row["knee_low_s"] <= row["knee_s"] <= row["knee_high_s"] < 1.25 * KNEE
    points = result.tables["knee_points"].to_pylist()
    activity = {one["window_ms"]: one["n"] for one in engine.activity(WINDOW_MS, ()).to_pylist()}
    assert all(one["requests_s"] == activity[one["window_ms"]] * 10 for one in points)
    assert max(activity) not in {one["window_ms"] for one in points}, "the last window is not whole"
    assert result.verdicts[0].startswith("The knee is at ") and "Plan for at most" in result.verdicts[0]


def test_without_one_it_says_so(tmp_path):
    result = knee.STUDY.run(_trace(tmp_path, 0.0), StudyParameters(window_ms=WINDOW_MS))
    assert result.verdicts[0].startswith("No knee up to ")


def test_a_load_that_hardly_varies_cannot_tell(tmp_path):
    result = knee.STUDY.run(_trace(tmp_path, 0.0), StudyParameters(window_ms=500))
    assert "too little to look for a knee" in result.verdicts[0] and "mpbroker lab run load-sweep" in result.verdicts[0]


def test_what_lies_beyond_the_knee_leads_the_list(tmp_path):
    """Its price: what requests took there more than below."""
    result = knee.STUDY.run(_trace(tmp_path, 3.0), StudyParameters(window_ms=WINDOW_MS))
    at, points = result.tables["knee"]["knee_s"].to_pylist()[0], result.tables["knee_points"].to_pylist()
    flat_ns = median(point["mean_ns"] for point in points if point["requests_s"] <= at)
    beyond = [point for point in points if point["requests_s"] > at]
    price = sum(point["requests_s"] * WINDOW_MS / 1000 * (point["mean_ns"] - flat_ns) for point in beyond) / 1e9
    first = leading([tmp_path], knee.STUDY, StudyParameters(window_ms=WINDOW_MS))[0]
    assert (
        first.kind == "past_knee"
        and first.cost_s == pytest.approx(price)
        and first.change.startswith("Plan for less load")
    )
    flat = tmp_path / "flat"
    flat.mkdir()
    _trace(flat, 0.0)
    found = leading([flat], knee.STUDY, StudyParameters(window_ms=WINDOW_MS))
    assert found and "past_knee" not in {one.kind for one in found}
