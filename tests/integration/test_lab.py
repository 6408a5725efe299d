"""`mpbroker lab run` for real, shortly: what it leaves, what it finds in trace and client log, and that nothing else is
left."""

import json
import os
import signal
import subprocess
import sys

import psutil
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from mpbroker.analysis.engine.engines.local_engine import LocalEngine
from mpbroker.analysis.engine.input.trace_input import open_input
from mpbroker.analysis.lab.variant_run import slug
from tests.harness.broker import wait_until

SMALL = """
question = "Does it run?"
seconds = 1.5
studies = []
measured = "light"
[[variant]]
name = "plain"
[[variant]]
name = "control plane"
control_listener = true
[[phase]]
name = "idle"
[[phase]]
name = "busy"
share = 2
[[group]]
name = "light"
clients = 2
listener = "control"
api = "api_versions"
rate_per_s = 50
[[group]]
name = "busy"
clients = 3
api = "produce"
loop = "closed"
phases = ["busy"]
value_bytes = 500
nice = 10
"""


@pytest.fixture
def lab(tmp_path):
    """Starts `mpbroker lab` with a temporary directory of its own, and sees that it is empty again in the end."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()

    def start(*words):
        return subprocess.Popen(
            [sys.executable, "-m", "mpbroker", "lab", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(temporary)},
            cwd=tmp_path,
        )

    yield start
    assert not os.listdir(temporary)


def _finish(process, code=0):
    out, err = process.communicate(timeout=110)
    assert process.returncode == code, out + err
    return out, err


def _run(lab, place, *words, answered):
    """What a run printed in which every variant answered more than so many requests of each group. A slow machine
    answers fewer in the time, and gets more of it."""
    for longer in ((), ("--seconds", "9"), ("--seconds", "20")):
        out, _ = _finish(lab("run", *words, *longer, "--out", place.name))
        variants = json.loads((place / "meta.json").read_text())["variants"]
        if all(each["clients"][group]["answered"] > least for each in variants for group, least in answered.items()):
            break
    return out


def test_a_small_scenario_with_two_variants(lab, tmp_path):
    (tmp_path / "small.toml").write_text(SMALL)
    place = tmp_path / "R"
    out = _run(lab, place, "small.toml", answered={"light": 100, "busy": 0})
    assert "report: R/report.html" in out and (place / "report.html").stat().st_size > 100_000
    assert out.startswith("Does it run?\n  “plain”: p99 of light is ")
    page = (place / "report.html").read_text()
    assert page.index("Does it run?") < page.index("What costs most time") < page.index("What the trace holds")
    for variant in ("plain", "control-plane"):
        assert f'href="variants/{variant}/report.html"' in page
        assert (place / "variants" / variant / "report.html").exists()
    meta = json.loads((place / "meta.json").read_text())
    assert meta["scenario"] == "small" and [each["name"] for each in meta["variants"]] == ["plain", "control plane"]
    assert (place / "tables" / "clients.client_latency.csv").exists()
    clients = pq.read_table(place / "client.parquet")
    for variant in meta["variants"]:
        rows = clients.filter(pc.equal(clients["variant"], variant["name"]))
        counted = variant["clients"]
        unsent = pc.equal(rows["corr_id"], -1)  # on a busy machine the end comes before the last ones are sent
        assert pc.sum(unsent).as_py() == sum(each["unsent"] for each in counted.values())
        rows = rows.filter(pc.invert(unsent))
        assert rows.num_rows == sum(each["answered"] for each in counted.values())
        assert counted["light"]["answered"] > 100 and counted["busy"]["answered"] > 0
        _agrees_with_the_trace(rows, open_input([place / variant["traces"]]), variant)
    planes = {
        (row["variant"], row["group"]): row["plane"]
        for row in clients.select(["variant", "group", "plane"]).to_pylist()
        if row["plane"] is not None  # never sent, on a busy machine
    }
    assert planes == {
        ("plain", "light"): "data",
        ("plain", "busy"): "data",
        ("control plane", "light"): "control",
        ("control plane", "busy"): "data",
    }
    _folders_of_others_stay_as_they_are(place)
    out, _ = _finish(lab("run", "small.toml", "--out", "R", "--seconds", "1", "--repeat", "2", "--seed", "7"))
    _repeated_runs_are_compared(place, out)


def _repeated_runs_are_compared(place, out):
    """The earlier run's output is replaced; every run of every variant is there, and `compare` has spoken of them."""
    meta = json.loads((place / "meta.json").read_text())
    assert (meta["repeat"], meta["seed"], len(meta["order"])) == (2, 7, 4)
    runs = {(each["name"], each["repeat"]): place / each["traces"] for each in meta["variants"]}
    assert set(runs) == {(name, number) for name in ("plain", "control plane") for number in (1, 2)}
    assert sorted(path.name for path in (place / "traces" / "plain").iterdir()) == ["run-01", "run-02"]
    assert len({open_input([path]).runs[0] for path in runs.values()}) == 4
    clients = pq.read_table(place / "client.parquet")
    assert {(row["variant"], row["repeat"]) for row in clients.select(["variant", "repeat"]).to_pylist()} == set(runs)
    assert "compare-control-plane" in meta["studies"] and "clients.client_runs.csv" in os.listdir(place / "tables")
    assert "Descriptive only (2 runs against 2 runs" in meta["studies"]["compare-control-plane"]["verdicts"][0]
    assert "2 runs each: 5 are needed to say whether that is chance" in out


def _folders_of_others_stay_as_they_are(place):
    """`trace study` reads the laboratory's traces and writes over nothing of the laboratory's, nor the other way
    round."""
    before, own = _contents(place), place.parent / "own"
    study = ["trace", "study", "latency", "--in", str(place / "traces" / "plain"), "--out"]
    for refused in (place, place / "traces", place / "variants" / "plain"):
        result = _mpbroker(*study, str(refused))
        assert result.returncode == 2 and "with --out" in result.stderr and result.stderr.count("\n") == 1
    assert _contents(place) == before
    for _ in range(2):  # its own output it replaces
        assert _mpbroker(*study, str(own)).returncode == 0
    made = _contents(own)
    result = _mpbroker("lab", "run", "small.toml", "--out", str(own), cwd=place.parent)
    assert result.returncode == 2 and "holds the output of `mpbroker trace study`" in result.stderr
    assert _contents(own) == made


def _contents(place):
    return {str(path): path.stat().st_mtime_ns for path in place.rglob("*")}


def _mpbroker(*words, **more):
    return subprocess.run(
        [sys.executable, "-m", "mpbroker", *words], capture_output=True, text=True, timeout=60, **more
    )


def _agrees_with_the_trace(rows, source, variant):
    """Every answered request has its record, and none was lost; markers are where phases begin."""
    assert rows["total_ns"].null_count == 0 and source.loss.dropped == 0
    for earlier, later in (("intended_ns", "sent_ns"), ("sent_ns", "arrived_ns"), ("arrived_ns", "done_ns")):
        assert pc.all(pc.less_equal(rows[earlier], rows[later])).as_py()  # where both are known
    texts = source.markers()["text"].to_pylist()
    assert texts == ["idle", "busy", "end of the load"]
    assert [name for name, *_ in variant["phases"]] == ["idle", "busy"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing(lab, tmp_path, number):
    (tmp_path / "small.toml").write_text(SMALL)
    process = lab("run", "small.toml", "--out", "R", "--seconds", "9")
    line = process.stderr.readline()
    while line and "phase busy" not in line:
        line = process.stderr.readline()
    started = psutil.Process(process.pid).children(recursive=True)
    assert len(started) > 5
    process.send_signal(number)
    _out, err = process.communicate(timeout=40)
    assert process.returncode == 130 and "Traceback" not in err
    wait_until(lambda: not any(map(_lives, started)), "everything it started to end", 20)


def _lives(process):
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # between the two
        return False


def test_a_broker_that_does_not_start_is_told(lab, tmp_path):
    (tmp_path / "wrong.toml").write_text(
        SMALL.replace('name = "plain"', 'name = "plain"\n[variant.broker]\n"no.such.key" = 1')
    )
    _, err = _finish(lab("run", "wrong.toml"), 1)
    assert "the broker did not start" in err and "no.such.key" in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("name", "spoken"),
    [
        (
            "rebalance-storm",
            {
                "classic": {"FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup"},
                "consumer": {"FindCoordinator", "ConsumerGroupHeartbeat"},
            },
        ),
        (
            "transactions",
            {
                "transactional": {"FindCoordinator", "InitProducerId", "AddPartitionsToTxn", "Produce", "EndTxn"},
                "as many": {"Produce"},
            },
        ),
    ],
)
def test_what_follows_from_its_last_answer_is_a_load_too(lab, tmp_path, name, spoken):
    """Each request that was answered has its record, of the APIs that such a client speaks; none had an error."""
    out = _run(lab, tmp_path / "R", name, "--seconds", "3", "--repeat", "1", answered=dict.fromkeys(spoken, 150))
    meta = json.loads((tmp_path / "R" / "meta.json").read_text())
    assert out.startswith(f"{meta['question']}\n  p99 of plain is ") and meta["repeat"] == 1
    clients = pq.read_table(tmp_path / "R" / "client.parquet")
    rows = clients.filter(pc.and_(clients["answered"], pc.not_equal(clients["group"], "plain")))
    assert rows["total_ns"].null_count == 0 and pc.sum(rows["error"]).as_py() == 0
    engine = LocalEngine(open_input([tmp_path / "R" / "traces"]))
    trace = engine.requests(["api", "client", "corr_id"])
    engine.close()
    apis = {(row["client"], row["corr_id"]): row["api"] for row in trace.to_pylist()}
    for group, wanted in spoken.items():
        mine = rows.filter(pc.equal(rows["group"], group))
        assert mine.num_rows > 150 and {apis[slug(group), each] for each in mine["corr_id"].to_pylist()} == wanted


def test_a_scenario_of_the_package_with_its_studies(lab, tmp_path):
    out = _run(lab, tmp_path / "R", "steady", "--seconds", "2", answered={"producers": 1000})
    assert "report: R/report.html" in out and "\n  A request of producers takes " in out
    assert "What costs most time (a request takes " in out and "\n   → " in out
    meta = json.loads((tmp_path / "R" / "meta.json").read_text())
    assert list(meta["studies"]) == ["clients", "latency", "throughput", "little"] and meta["dropped"] == 0
    counted = meta["variants"][0]["clients"]
    assert meta["input_records"] >= sum(each["answered"] for each in counted.values()) > 1000
    tables = {path.name for path in (tmp_path / "R" / "tables").glob("*.parquet")}
    assert {"clients.client_latency.parquet", "latency.stage_percentiles.parquet"} <= tables
