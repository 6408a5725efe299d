"""`latency` gives the exact percentiles within a bucket, the columns promised, and sentences that fit."""

import json

import numpy as np
import pytest

from mpbroker.analysis.engine.engines.choose_engine import choose_engine
from mpbroker.analysis.engine.input.trace_input import open_input
from mpbroker.analysis.engine.running.study import StudyParameters
from mpbroker.analysis.studies.latency import STUDY
from mpbroker.trace.record import TICK_NS
from tests.harness.event_model import AT, FETCH, IN_FETCH_PURGATORY, PRODUCE
from tests.harness.event_trace import TraceOptions
from tests.harness.golden_trace import CALM, FLOOD, golden

COLUMNS = ["api", "stage", "n", "p50_us", "p90_us", "p99_us", "p999_us", "max_us"]
HALF_BUCKET = 2 ** (1 / 32) - 1


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    with golden(tmp_path_factory.mktemp("golden"), CALM) as (engine, outcome):
        return STUDY.run(engine, StudyParameters()), outcome


def _rows(table, **wanted):
    return [row for row in table.to_pylist() if all(row[key] == value for key, value in wanted.items())]


@pytest.mark.parametrize(
    "stage,begin,end",
    [("queue", "enqueued", "dequeued"), ("local_time", "dequeued", "local_done"), ("true_total", None, "send_done")],
)
def test_percentiles_are_those_of_the_requests(found, stage, begin, end):
    result, outcome = found
    table = result.tables["stage_percentiles"]
    assert table.column_names == COLUMNS
    spans = (
        np.array(
            [
                one.stage[AT[end]] - (one.stage[AT[begin]] if begin else one.arrival)
                for one in outcome.requests
                if one.api_key == PRODUCE
            ]
        )
        * TICK_NS
        / 1000
    )
    [row] = _rows(table, api="Produce", stage=stage)
    assert row["n"] == len(spans) and row["max_us"] == pytest.approx(spans.max())
    for q, column in ((0.5, "p50_us"), (0.9, "p90_us"), (0.99, "p99_us"), (0.999, "p999_us")):
        exact = np.quantile(spans, q, method="inverted_cdf")
        assert row[column] == pytest.approx(exact, rel=HALF_BUCKET, abs=0.1)


def test_clients_listeners_and_windows_cover_every_request(found):
    result, outcome = found
    for name in ("by_client", "by_listener", "over_time"):
        assert sum(result.tables[name]["n"].to_pylist()) == len(outcome.requests), name
    clients = {row["client"] for row in result.tables["by_client"].to_pylist()}
    assert clients == {"client-11", "client-12", "client-13", "client-14"}
    assert {row["listener"] for row in result.tables["by_listener"].to_pylist()} == {"CLIENTS"}


@pytest.mark.parametrize(("q", "column"), [(0.5, "queue_p50_us"), (0.99, "queue_p99_us")])
def test_a_clients_wait_in_the_ring_is_that_of_its_requests(found, q, column):
    result, outcome = found
    for row in _rows(result.tables["by_client"], api="Produce"):
        waits = [
            one.stage[AT["dequeued"]] - one.stage[AT["enqueued"]]
            for one in outcome.requests
            if one.api_key == PRODUCE and f"client-{one.client}" == row["client"]
        ]
        exact = np.quantile(np.array(waits) * TICK_NS / 1000, q, method="inverted_cdf")
        assert row[column] == pytest.approx(exact, rel=HALF_BUCKET, abs=0.1), row["client"]


def test_kafkas_view(found):
    result, outcome = found
    [row] = _rows(result.tables["kafka_view"], api="Fetch", metric="RemoteTimeMs")
    parked = [one for one in outcome.requests if one.purgatory]
    assert (row["n"], row["max_ms"]) == (len(parked), 50.0)


def test_long_polls_are_no_latency(found):
    """Fetches of the model wait 50 ms for data, as their clients asked; what they took beside that is theirs."""
    result, outcome = found
    fetches = [one for one in outcome.requests if one.api_key == FETCH]
    active = np.array([one.stage[-1] - one.arrival - _asked(one) for one in fetches]) * TICK_NS / 1000
    [row] = _rows(result.tables["stage_percentiles"], api="Fetch", stage="active_total")
    assert row["n"] == len(fetches) and row["max_us"] == pytest.approx(active.max())
    assert row["p99_us"] == pytest.approx(np.quantile(active, 0.99, method="inverted_cdf"), rel=HALF_BUCKET)
    [polls] = _rows(result.tables["stage_percentiles"], api="Fetch", stage="asked_wait")
    assert polls["max_us"] == 50_000 and polls["n"] == sum(_asked(one) > 0 for one in fetches)
    spent = {row["stage"] for row in _rows(result.tables["stage_share"], api="Fetch")}
    assert "io" in spent and "purgatory" not in spent
    [said] = [words for words in result.verdicts if "their clients asked for that" in words]
    assert said.startswith(f"{polls['n']} of {len(fetches)} Fetch requests also waited for new data")


def _asked(one):
    return one.stage[AT["purg_leave"]] - one.stage[AT["purg_enter"]] if one.purgatory == IN_FETCH_PURGATORY else 0


def test_a_window_with_few_requests_has_no_percentile_that_needs_more(tmp_path):
    with golden(tmp_path, CALM._replace(rate=60, duration_ms=4000)) as (engine, _):
        result = STUDY.run(engine, StudyParameters(window_ms=1000))
    counts = {(row["api"], row["window_ms"]): row["n"] for row in result.tables["over_time"].to_pylist()}
    [figure] = [one for one in result.figures if one.name == "over_time"]
    by_name = {trace["name"]: trace["y"] for trace in figure.spec["data"] if trace["visible"]}
    assert 10 <= max(counts.values()) < 100 and "p99 from 100 requests on" in figure.caption
    assert any(value is not None for value in by_name["p50"]) and not any(by_name["p99"])
    [shares] = [one for one in result.figures if one.name == "stage_share"]
    assert {trace["type"] for trace in shares.spec["data"]} == {"bar"}, "no slopes through windows without requests"


def test_shares_of_a_window_add_up(found):
    sums: dict = {}
    for row in found[0].tables["stage_share"].to_pylist():
        key = (row["window_ms"], row["api"])
        sums[key] = sums.get(key, 0) + row["share"]
    assert len(sums) >= 18 and all(value == pytest.approx(1, abs=1e-4) for value in sums.values())


def test_the_verdict_names_the_stage(tmp_path):
    with golden(tmp_path, FLOOD) as (engine, _):
        verdict = STUDY.run(engine, StudyParameters()).verdicts[0]
    assert verdict.startswith("Produce p99 is ") and "waiting in the socket until a processor reads it" in verdict
    assert "too few requests for a p99.9" in verdict


def test_loss_and_sampling_are_said(tmp_path):
    with golden(tmp_path, CALM, TraceOptions(dropped=10, sample_shift=1)) as (engine, outcome):
        result = STUDY.run(engine, StudyParameters())
    assert any("were lost by the tracer" in words for words in result.verdicts)
    assert any("sampled" in words for words in result.verdicts)
    estimated = sum(row["n"] for row in _rows(result.tables["stage_percentiles"], stage="total"))
    assert estimated == pytest.approx(len(outcome.requests) * 0.9, rel=0.1)


def test_figures_are_plain_json(found):
    for figure in found[0].figures:
        assert json.loads(json.dumps(figure.spec, allow_nan=False))["data"], figure.name


def test_a_handful_of_requests_is_said(tmp_path):
    with golden(tmp_path, CALM._replace(duration_ms=60)) as (engine, outcome):
        result = STUDY.run(engine, StudyParameters())
    assert len(outcome.requests) < 40 and "too few for percentiles" in result.verdicts[0]


def test_an_empty_trace_is_a_sentence(tmp_path):
    with golden(tmp_path, CALM._replace(duration_ms=200)):
        pass
    nothing = choose_engine("local", open_input([tmp_path], to_ns=1))
    assert "nothing to say about latency" in STUDY.run(nothing, StudyParameters()).verdicts[0]
