"""`anomaly`: the windows that were made different are found, with what is different, and no others."""

import random
from statistics import median

import numpy as np
import pytest

from mpbroker.analysis.engine.engines.choose_engine import choose_engine
from mpbroker.analysis.engine.input.trace_input import open_input
from mpbroker.analysis.engine.running.study import StudyParameters
from mpbroker.analysis.studies import anomaly, hol
from mpbroker.trace.record import STAGES
from tests.harness.leading_findings import leading
from tests.harness.record_trace import OFFSET_NS, request, write_segment

WINDOWS, EACH, ODD = 20, 110, 11
QUEUED = STAGES.index("dequeued")


def _run(tmp_path, **odd):
    chance, records = random.Random(6), []
    first = -(-OFFSET_NS // 100_000_000) * 100_000_000 - OFFSET_NS + 1_000_000_000  # a window's beginning
    for window in range(WINDOWS):
        strange = odd if window == ODD else {}
        count = EACH * strange.get("times", 1)
        for n in range(count):
            at = first + window * 100_000_000 + n * 100_000_000 // count
            one = request(at, step=40 + chance.randrange(3), req_bytes=strange.get("bytes", 1000) + n % 7)
            one = one._replace(error=7 if n % 10 < strange.get("errors", 0) else 0)
            extra = strange.get("queue", 0)
            stage = tuple(ticks + extra * (place >= QUEUED) for place, ticks in enumerate(one.stage))
            records.append(one._replace(stage=stage))
    write_segment(tmp_path / "t", records)
    engine = choose_engine("local", open_input([tmp_path / "t"]))
    result = anomaly.STUDY.run(engine, StudyParameters(window_ms=100))
    return result, result.tables["anomaly"].to_pylist()


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        ({"queue": 20_000}, "mostly waiting in the request ring (+1.3 ms on average); nothing else was different"),
        ({"times": 4}, "4,400 requests/s (usually 1,100)"),
        ({"bytes": 9000}, "bytes a request (usually "),
        ({"errors": 3}, "30 % errors"),
    ],
    ids=["latency", "rate", "bytes", "errors"],
)
def test_the_odd_window_is_found_with_what_is_odd(tmp_path, odd, said):
    result, rows = _run(tmp_path, **odd)
    assert [place for place, row in enumerate(rows) if row["odd"]] == [ODD], rows
    assert result.verdicts[0].startswith("1 window of 20 (100 ms each) differs") and said in result.verdicts[1]


def test_equal_windows_do_not_differ(tmp_path):
    result, rows = _run(tmp_path)
    assert not any(row["odd"] for row in rows) and result.verdicts[0].startswith("None of 20 windows")
    rates = [row["requests_s"] for row in rows]
    assert rates == [EACH * 10.0] * WINDOWS


def test_scores_are_those_by_hand():
    values = np.array([1.0, 2, 3, 4, 100])
    middle = median(values)
    spread = 1.4826 * median(abs(value - middle) for value in values)
    assert anomaly.scores(values, values, 0.1).tolist() == [(value - middle) / spread for value in values]
    assert anomaly.scores(values, values, 500.0)[4] == (100 - 3) / 500, "at least that"


def test_a_slow_window_leads_the_list(tmp_path):
    """At the price of what its requests took beyond the window in the middle."""
    _run(tmp_path, queue=200_000)
    found = leading([tmp_path / "t"], anomaly.STUDY, StudyParameters(window_ms=100), hol.STUDY)
    assert found[0].kind == "odd_windows" and "first among them" in found[0].sentence
    assert found[0].cost_s == pytest.approx(EACH * 200_000 * 64 / 1e9, rel=0.01)


@pytest.mark.parametrize("odd", [{"times": 4}, {"bytes": 9000}])
def test_a_window_that_is_not_slower_explains_no_time(tmp_path, odd):
    result, rows = _run(tmp_path, **odd)
    assert any(row["odd"] for row in rows) and result.findings == []
