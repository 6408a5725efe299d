"""`mpbroker trace study`, `compact`, `rollup` and `report`: the contract of their output, and one sentence for every
mistake."""

import json
import signal
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from mpbroker.cli import trace_arguments
from mpbroker.cli.main import main
from tests.harness.event_model import Scenario, simulate
from tests.harness.event_trace import Marker, TraceOptions, write_trace

PERCENTILES = ["api", "stage", "n", "p50_us", "p90_us", "p99_us", "p999_us", "max_us"]


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "traces"
    write_trace(
        folder,
        simulate(Scenario(rate=300, burst_rate=1200, burst_ms=(1000, 2000), processors=2)),
        TraceOptions(dropped=50, markers=(Marker("step 2", 1000),)),
    )
    return folder


def test_the_contract(traces, tmp_path, capsys):
    out = tmp_path / "R"
    assert main(["trace", "study", "latency", "throughput", "--in", str(traces), "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[-1] == f"report: {out}/report.html" and said.startswith("note: ")
    assert pq.read_table(out / "tables" / "latency.stage_percentiles.parquet").column_names == PERCENTILES
    assert (out / "tables" / "latency.stage_percentiles.csv").read_text().splitlines()[0].replace('"', "") == ",".join(
        PERCENTILES
    )
    meta = json.loads((out / "meta.json").read_text())
    assert (
        meta["engine"] == "local"
        and meta["dropped"] > 0
        and meta["input_records"] + meta["dropped"] == meta["finished"]
    )
    assert list(meta["studies"]) == ["latency", "throughput"]
    (out / "report.html").unlink()
    assert main(["trace", "report", str(out)]) == 0 and (out / "report.html").stat().st_size > 10_000


def test_stats_and_study_count_the_same(traces, capsys):
    assert main(["trace", "stats", "--in", str(traces.parent), "--json"]) == 0  # folders are searched downwards
    found = json.loads(capsys.readouterr().out)
    assert found["finished"] == found["records"] + found["dropped"] + found["sampled_out"] > 1000


def test_without_a_name_the_studies_are_listed(capsys):
    assert main(["trace", "study"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "latency" in lines and len(lines) % 3 == 0


def test_compacted_traces_give_the_same_tables(traces, tmp_path, capsys):
    small = tmp_path / "small"
    assert main(["trace", "compact", str(traces), str(small)]) == 0
    assert "a request): " in capsys.readouterr().out
    tables = []
    for place, out in ((traces, tmp_path / "A"), (small, tmp_path / "B")):
        assert main(["trace", "study", "latency", "--in", str(place), "--out", str(out)]) == 0
        tables.append((out / "tables" / "latency.stage_percentiles.csv").read_text())
    assert tables[0] == tables[1]


def test_a_slice(traces, tmp_path):
    slice_of = ["--api", "Produce", "--from", "2023-11-14T22:13:21", "--to", "1700000002.5", "--broker", "1"]
    assert main(["trace", "study", "latency", "--in", str(traces), "--out", str(tmp_path / "R"), *slice_of]) == 0
    table = pq.read_table(tmp_path / "R" / "tables" / "latency.stage_percentiles.parquet")
    assert table.column("api").unique().to_pylist() == ["Produce"]
    meta = json.loads((tmp_path / "R" / "meta.json").read_text())
    assert 1_700_000_001 * 10**9 <= meta["first_epoch_ns"] <= meta["last_epoch_ns"] < 1_700_000_002_500_000_000


def test_rollup_is_made_and_nothing_is_added_twice(traces, tmp_path, capsys):
    path = tmp_path / "rollup"
    assert main(["trace", "rollup", str(traces), str(path)]) == 0
    said = capsys.readouterr().out
    segments, requests = int(said.split()[0]), int(said.split()[3])
    assert "0 were counted before" in said and segments > 0 and requests > 0
    assert main(["trace", "rollup", str(traces), str(path)]) == 0
    assert f"0 segments with 0 requests added, {segments} were counted before" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["trace", "study", "latncy"], "no study 'latncy'; there are: anomaly, compare, "),
        (["trace", "study", "latency", "--in", "/no/such/folder"], "/no/such/folder does not exist"),
        (["trace", "study", "latency", "--in", "."], "no trace in ."),
        (["trace", "study", "latency", "--engine", "flink"], "invalid choice: 'flink'"),
        (["trace", "study", "latency", "--from", "yesterday"], "'yesterday' is no time"),
        (["trace", "study", "latency", "--set", "x"], "write --set NAME=VALUE"),
        *(
            (["trace", "study", "latency", "--from", far], f"'{far}' is no time")
            for far in ("inf", "nan", "1e300", "1e999999999", "9999-12-31")
        ),
        (["trace", "study", "latency", "--from", "5", "--to", "5"], "--from 5 is not before --to 5"),
        (
            ["trace", "study", "latency", "--api", "Prodce", "--from", "5"],
            "--api Prodce: no API has this name; near it: Produce",
        ),
        (["trace", "study", "latency", "--broker", "-1"], "'-1': a whole number from 0 to 2147483647"),
        (["trace", "study", "latency", "--broker", "77", "--from", "5"], "no segment of broker 77 in "),
        (["trace", "study", "latency", "--window-ms", "0"], "'0': a whole number from 1 to 86400000"),
        (["trace", "study", "latency", "--window-ms", "99999999999999"], "a whole number from 1 to 86400000"),
        (["trace", "study", "latency", "--warmup-ms", "-5"], "a whole number from 0 to"),
        (["trace", "study", "latency", "--target-p99-ms", "nan"], "--target-p99-ms: invalid"),
        (
            ["trace", "study", "latency", "--engine", "local", "--remote", "sc://h:1"],
            "--master, --remote and --conf are Spark's",
        ),
        (["trace", "study", "latency", "--data-dir", "."], "no trace segments in traces"),
        (["trace", "tail", "--count", "-5"], "'-5': a whole number from 1 to"),
        (["trace", "report", "."], "is missing: name a folder"),
        (["trace", "compact", "/no/such/folder", "x"], "does not exist"),
        (["trace", "frobnicate"], "invalid choice: 'frobnicate'"),
        (["trace"], "PART"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_code_2(words, sentence, traces, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if "--set" in words or "--from" in words:
        words = [*words, "--in", str(traces)]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith("mpbroker: ") and sentence in said and len(said.splitlines()) == 1


def test_a_sampled_trace_is_refused_by_a_study_that_needs_order(tmp_path, capsys):
    write_trace(tmp_path / "in", simulate(Scenario(rate=300)), TraceOptions(sample_shift=2))
    assert main(["trace", "study", "little", "--in", str(tmp_path / "in"), "--out", str(tmp_path / "R")]) == 2
    assert "little follows single requests in their order" in capsys.readouterr().err
    assert not (tmp_path / "R").exists()


@pytest.mark.parametrize(
    ("package", "module", "extra"),
    [
        ("pyarrow", "mpbroker.analysis.engine.input.trace_input", "studies"),
        ("numpy", "mpbroker.analysis.engine.running.runner", "studies"),
    ],
)
def test_a_missing_extra_is_named(package, module, extra, traces, monkeypatch, capsys):
    for name in [
        name for name in sys.modules if name.startswith(("mpbroker.analysis.engine.", "mpbroker.analysis.studies."))
    ]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["trace", "study", "latency", "--in", str(traces)]) == 2
    assert f"needs the package {package}: pip install 'mpbroker[{extra}]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1970-01-01T00:00:01", 10**9),
        ("1970-01-01T01:00:01+01:00", 10**9),
        ("2.5", 2_500_000_000),
        (None, None),
        ("2026-11-21", 1795219200 * 10**9),
        ("1795284828.059760123", 1795284828059760123),
        ("1970-01-01T00:00:00.000001", 1000),
    ],
)
def test_times(text, ns):
    assert trace_arguments.epoch_ns(text) == ns


def test_apis_are_known_however_they_are_written():
    assert trace_arguments.api_names(["produce", "FETCH", "api77"]) == ["Produce", "Fetch", "Api77"]
    assert trace_arguments.api_names(None) is None


_INTERRUPTED = """
import logging, sys, time
from mpbroker.cli.main import main
from mpbroker.analysis.engine.engines import local_engine

class Slow(local_engine.LocalEngine):
    def rollup(self, *_):
        try:
            print("busy", flush=True)
            time.sleep(60)
        except BaseException:
            logging.exception("what a package says of it")
            raise
    activity = rollup
    def close(self):
        print("closed", flush=True)

local_engine.LocalEngine = Slow
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_study_closes_its_engine_and_says_nothing(number, traces, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", _INTERRUPTED, "trace", "study", "latency", "--in", str(traces), "--engine", "local"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout.readline() == "busy\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "closed\n", "")
