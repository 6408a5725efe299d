"""Runs of studies: what is left in the folder, in what order things are refused, and the page written anew."""

import csv
import json
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mpbroker.analysis.engine.engines.choose_engine import choose_engine
from mpbroker.analysis.engine.input.trace_input import SampledTrace, open_input
from mpbroker.analysis.engine.running import runner, saved_report
from mpbroker.analysis.engine.running.runner import StudyError
from mpbroker.analysis.engine.running.study import Figure, Study, StudyParameters, StudyResult
from tests.harness.record_trace import OFFSET_NS, Lane, random_requests, request, write_segment

FIGURE = Figure(
    "line",
    "A line",
    "What it shows",
    {"data": [{"type": "scatter", "x": [1, 2], "y": [np.float64(3.5), 4]}], "layout": {}},
)


def _run(engine, parameters):
    rows = engine.activity(0).to_pylist()[0]["n"]
    return StudyResult({"rows": pa.table({"n": [rows], "label": ['a "b"']})}, [f"{rows} requests."], [FIGURE])


@pytest.fixture
def studies(monkeypatch):
    """Two studies of our own; they note that they ran."""
    ran = []

    def run(engine, parameters):
        ran.append(parameters)
        return _run(engine, parameters)

    own = {
        "plain": Study("plain", "One.\nTwo.", "rollup", run),
        "ordered": Study("ordered", "One.\nTwo.", "order", run),
    }
    monkeypatch.setattr(runner, "study_names", lambda: sorted(own))
    monkeypatch.setattr(runner, "import_module", lambda name: SimpleNamespace(STUDY=own[name.rpartition(".")[2]]))
    return ran


def _engine(tmp_path, **lane):
    write_segment(tmp_path / "in", random_requests(200, seed=5), Lane(**lane))
    return choose_engine("local", open_input([tmp_path / "in"]))


def test_everything_is_left_in_the_folder(tmp_path, studies):
    out = tmp_path / "deep" / "R"
    found = runner.run_studies(
        ["plain", "ordered", "plain"],
        _engine(tmp_path, dropped=3),
        out,
        StudyParameters(window_ms=250),
        paths=[tmp_path / "in"],
        title="A title",
        more={"scenario": "steady"},
    )
    assert (
        found.report == out / "report.html"
        and len(studies) == 2
        and [one.study for one in found.results] == ["plain", "ordered"]
    )
    assert sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()) == [
        "meta.json",
        "report.html",
        "results.json",
        "tables/ordered.rows.csv",
        "tables/ordered.rows.parquet",
        "tables/plain.rows.csv",
        "tables/plain.rows.parquet",
    ]
    assert pq.read_table(out / "tables" / "plain.rows.parquet").to_pylist() == [{"n": 200, "label": 'a "b"'}]
    with open(out / "tables" / "plain.rows.csv", newline="") as file:
        assert list(csv.reader(file)) == [["n", "label"], ["200", 'a "b"']]
    assert "A title" in (out / "report.html").read_text()


def test_studies_share_their_tables(tmp_path, studies, monkeypatch):
    engine, asked = _engine(tmp_path), []
    activity = engine.activity
    monkeypatch.setattr(engine, "activity", lambda *words: asked.append(words) or activity(*words))
    runner.run_studies(["plain", "ordered"], engine, tmp_path / "R")
    assert len(studies) == 2 and asked == [(0, ())], "both studies and the runner ask for the same sums"


def test_meta_says_what_it_was_made_from(tmp_path, studies):
    runner.run_studies(
        ["plain"], _engine(tmp_path, dropped=3), tmp_path / "R", StudyParameters(window_ms=250), paths=["x"]
    )
    meta = json.loads((tmp_path / "R" / "meta.json").read_text())
    assert {
        key: meta[key] for key in ("input_records", "dropped", "sampled_out", "finished", "gaps", "engine", "missing")
    } == {
        "input_records": 200,
        "dropped": 3,
        "sampled_out": 0,
        "finished": 203,
        "gaps": [],
        "engine": "local",
        "missing": 0,
    }
    assert meta["parameters"]["window_ms"] == 250 and meta["clock"]["samples"] == 2 and meta["input"]["requests"] == 200
    assert {"mpbroker", "python", "numpy", "pyarrow"} <= set(meta["versions"])
    assert OFFSET_NS < meta["first_epoch_ns"] < meta["last_epoch_ns"]
    assert meta["studies"]["plain"]["tables"] == {"rows": 1} and meta["studies"]["plain"]["verdicts"] == [
        "200 requests."
    ]
    said = " ".join(meta["sentences"])
    assert "3 of 203 requests" in said and "stage of 137 seconds or more" in said and "before its predecessor" in said


def test_a_study_that_needs_order_refuses_a_sample_before_anything_is_computed(tmp_path, studies):
    with pytest.raises(SampledTrace, match="ordered"):
        runner.run_studies(["plain", "ordered"], _engine(tmp_path, sampled_out=9), tmp_path / "R")
    assert studies == [] and not (tmp_path / "R").exists()


def test_an_unknown_study_names_those_there_are(tmp_path, studies):
    with pytest.raises(StudyError, match=r"no study 'plian'; there are: ordered, plain") as raised:
        runner.run_studies(["plain", "plian"], _engine(tmp_path), tmp_path / "R")
    assert raised.value.exit_code == 2 and studies == []


def test_the_page_can_be_written_anew(tmp_path, studies):
    out = tmp_path / "R"
    runner.run_studies(["plain"], _engine(tmp_path), out)
    before = (out / "report.html").read_text()
    (out / "report.html").unlink()
    assert saved_report.write_again(out).read_text() == before


@pytest.mark.parametrize("damage", ["missing", "torn", "other"])
def test_results_that_cannot_be_read_are_told(tmp_path, studies, damage):
    out = tmp_path / "R"
    runner.run_studies(["plain"], _engine(tmp_path), out)
    if damage == "missing":
        (out / "results.json").unlink()
    else:
        (out / "meta.json").write_text("{" if damage == "torn" else "{}")
    with pytest.raises(saved_report.NoResults) as raised:
        saved_report.write_again(out)
    assert raised.value.exit_code == 2


def test_the_studies_are_found_by_listing_their_package():
    assert set(runner.study_names()) >= {
        "latency",
        "throughput",
        "priority",
        "tail",
        "little",
        "waits",
        "queue-model",
        "compare",
    }
    for name in runner.study_names():
        study = runner.find_study(name)
        assert (
            study.name == name
            and len(study.summary.splitlines()) == 2
            and study.needs in ("rollup", "requests", "order")
        )


def test_an_empty_trace_has_no_totals(tmp_path, studies):
    write_segment(tmp_path / "in", [], events=[request(kind=4)])
    engine = choose_engine("local", open_input([tmp_path / "in"]))
    meta = runner._meta(engine, StudyParameters(), [], {}, [])
    assert meta["first_epoch_ns"] is None and meta["input"]["requests"] == 0 and meta["sentences"] == []


def test_the_folder_says_what_each_stage_had_of_all_the_time(tmp_path, studies):
    """Of whole requests, in the order of the way; waiting that a client asked for is in no part."""
    records = [request(1_000_000 * n, step=10) for n in range(1, 9)]
    records += [request(9_000_000, step=10, api_key=1, purg_kind=2)]  # a fetch that waited for data
    write_segment(tmp_path / "in", records)
    engine = choose_engine("local", open_input([tmp_path / "in"]))
    shares = runner.run_studies(["plain"], engine, tmp_path / "R").meta["stage_shares"]
    table = engine.requests(["active_total_ns", "rx_wait_ns", "queue_ns", "purgatory_ns", "asked_wait_ns"]).to_pylist()
    whole = sum(row["active_total_ns"] for row in table)
    for stage in ("rx_wait", "queue"):
        assert shares[stage] == round(sum(row[f"{stage}_ns"] for row in table) / whole, 4) > 0
    parked = sum(row["purgatory_ns"] - (row["asked_wait_ns"] or 0) for row in table)
    assert shares["purgatory"] == round(parked / whole, 4) and list(shares)[:2] == ["rx_wait", "read"]
    assert 0.9 < sum(shares.values()) <= 1, "the rest lies between stages"
