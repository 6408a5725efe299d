"""`whatif`: what it predicts of the model's broker is what the model does when it is built that way."""

import json

import numpy as np
import pytest

from mpbroker.analysis.engine.running.study import StudyParameters
from mpbroker.analysis.engine.running.study_options import BadStudyOption
from mpbroker.analysis.studies import whatif
from tests.harness.event_model import AT, IN_FETCH_PURGATORY, Scenario, simulate
from tests.harness.event_trace import TraceOptions
from tests.harness.golden_trace import golden
from tests.harness.leading_findings import leading

BUSY = Scenario(rate=330, duration_ms=3000, service_ms=7.0, sigma=0.6, wake_ms=0.05)
TICK_NS = 64


def _run(directory, scenario, **options):
    with golden(directory, scenario) as (engine, outcome):
        result = whatif.STUDY.run(engine, StudyParameters(options=options))
    return result, {row["change"]: row for row in result.tables["whatif"].to_pylist()}, outcome


def _p99(outcome):
    """Of whole requests, without a fetch's waiting for data."""
    took = []
    for one in outcome.requests:
        asked = one.stage[AT["purg_leave"]] - one.stage[AT["purg_enter"]] if one.purgatory == IN_FETCH_PURGATORY else 0
        took.append((one.stage[AT["send_done"]] - one.arrival - asked) * TICK_NS)
    return float(np.percentile(took, 99))


def test_the_prediction_is_what_the_model_does_with_so_many_handlers(tmp_path):
    few = BUSY._replace(handlers=3)
    result, rows, outcome = _run(tmp_path, few, handlers="2,4,6")
    assert rows["measured"]["p99_ns"] == pytest.approx(_p99(outcome), rel=1e-6)
    assert rows["as it was"]["p99_ns"] == pytest.approx(_p99(outcome), rel=0.02)
    for handlers in (2, 4, 6):
        truth = _p99(simulate(few._replace(handlers=handlers)))
        assert rows[f"{handlers} handlers, fifo"]["p99_ns"] == pytest.approx(truth, rel=0.02)
    assert "“6 handlers, fifo” lowers p99 most" in result.verdicts[0] and "num.io.threads=6" in result.verdicts[0]
    json.dumps([figure.spec for figure in result.figures], allow_nan=False)


def test_costs_are_those_of_one_api(tmp_path):
    result, rows, _ = _run(tmp_path, BUSY, costs="Produce:0.5")
    [cheaper] = [name for name in rows if "Produce × 0.5" in name]
    assert rows[cheaper]["p99_ns"] < 0.8 * rows["as it was"]["p99_ns"]
    apis = {(row["change"], row["api"]): row for row in result.tables["whatif_apis"].to_pylist()}
    assert sum(row["n"] for (change, _), row in apis.items() if change == cheaper) == rows[cheaper]["n"]


def test_without_a_word_it_tries_what_one_may_want_to_know(tmp_path):
    result, rows, _ = _run(tmp_path, BUSY._replace(rate=60, duration_ms=4000))
    assert {"2 handlers, fifo", "5 handlers, fifo", "8 handlers, fifo", "4 handlers, shortest"} <= set(rows)
    assert rows["4 handlers, shortest"]["n"] == rows["measured"]["n"]
    assert result.verdicts[-1].startswith("Replayed as it was, p99 is ")


def test_a_replay_that_is_far_from_what_was_measured_says_so(tmp_path, monkeypatch):
    of = whatif.request_paths.of
    half = lambda work: (found := of(work))._replace(total=found.total // 2)  # noqa: E731
    monkeypatch.setattr(whatif.request_paths, "of", half)
    result, *_ = _run(tmp_path, BUSY, handlers="6")
    assert result.verdicts[0].startswith("The replay does not give what was measured")


@pytest.mark.parametrize(
    "options", [{"handlers": "0"}, {"discipline": "lifo"}, {"costs": "Produce"}, {"handlers": "x"}]
)
def test_what_cannot_be_is_refused(tmp_path, options):
    with pytest.raises(BadStudyOption) as raised:
        _run(tmp_path, Scenario(duration_ms=500), **options)
    assert raised.value.exit_code == 2


def test_its_tables_do_not_follow_from_the_order_of_files(tmp_path):
    """Small segments of two lanes: the same integers."""
    tables = []
    for number, size in enumerate((1500, 90)):
        with golden(tmp_path / str(number), BUSY._replace(duration_ms=1000), TraceOptions(segment_records=size)) as (
            engine,
            _,
        ):
            tables.append(whatif.STUDY.run(engine, StudyParameters(options={"discipline": "fair"})).tables["whatif"])
    assert tables[0].equals(tables[1])


def test_what_more_handlers_would_save_leads_the_list(tmp_path):
    """In the place of “waiting in the request ring”; an order that helps nobody on average is no finding."""
    few = BUSY._replace(handlers=3, rate=380)
    options = {"handlers": "6"}
    _, rows, _ = _run(tmp_path, few, **options)
    found = leading([tmp_path], whatif.STUDY, StudyParameters(options=options))
    assert found[0].kind == "other_handlers" and "queue" not in {one.kind for one in found}
    base, best = rows["as it was"], rows["6 handlers, fifo"]
    assert found[0].cost_s == pytest.approx((base["mean_ns"] - best["mean_ns"]) * base["n"] / 1e9)
    shortest = leading([tmp_path], whatif.STUDY, StudyParameters(options={"discipline": "shortest"}))
    saved = {one.kind for one in shortest} & {"other_handlers", "other_discipline"}
    assert saved <= {"other_discipline"}
