"""Spark as a fleet's team runs it, with real processes: a master with two workers, spark-submit, a Connect server.

LONG=1 only: some minutes, most of them for JVMs to start. Everything listens on loopback.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from mpbroker.analysis.engine.engines.choose_engine import open_engine
from mpbroker.analysis.engine.rollups import layout, table
from mpbroker.analysis.engine.rollups.table_files import LocalFiles
from mpbroker.analysis.engine.running import runner
from mpbroker.analysis.engine.running.study import StudyParameters
from mpbroker.analysis.spark import java
from tests.harness.event_model import Scenario, simulate
from tests.harness.event_trace import TraceOptions, write_trace

pytestmark = [
    pytest.mark.skipif(not os.environ.get("LONG"), reason="LONG=1 starts a Spark cluster"),
    pytest.mark.timeout(1500),
]
STUDIES = ["latency", "fleet"]
STARTS_S = 120
PROJECT = Path(__file__).parents[2]


def _spark_home():
    return Path(pytest.importorskip("pyspark").__file__).parent


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Of every process: our Java, this Python, loopback."""
    home = java.find().wrapper(tmp_path_factory.mktemp("java"))
    ours = {"JAVA_HOME": home, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    return {**os.environ, **{name: str(value) for name, value in ours.items()}, "SPARK_LOCAL_IP": "127.0.0.1"}


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """One big broker and two small ones."""
    folder = tmp_path_factory.mktemp("cluster-traces")
    for broker, duration_ms in ((1, 8000), (2, 1500), (3, 1500)):
        options = TraceOptions(broker_id=broker, boot_id=70 + broker, segment_records=400)
        write_trace(folder / str(broker), simulate(Scenario(seed=broker, duration_ms=duration_ms)), options)
    return folder


@contextmanager
def _process(command, environment, says, log):
    """A process of its own session, once it has written a line that fits; the match."""
    with open(log, "wb") as file:
        one = subprocess.Popen(
            command,
            stdout=file,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
    try:
        until = time.monotonic() + STARTS_S
        while not (found := re.search(says, log.read_text(errors="replace"))):
            assert one.poll() is None and time.monotonic() < until, log.read_text(errors="replace")[-2000:]
            time.sleep(0.2)
        yield found
    finally:
        os.killpg(one.pid, signal.SIGTERM)
        try:
            one.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(one.pid, signal.SIGKILL)
            one.wait()


@pytest.fixture(scope="module")
def master(environment, tmp_path_factory):
    """A standalone master with two workers of one core each; its URL."""
    folder = tmp_path_factory.mktemp("cluster")
    deploy = [str(_spark_home() / "bin" / "spark-class"), "org.apache.spark.deploy"]
    first = [deploy[0], f"{deploy[1]}.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    with _process(first, environment, r"Starting Spark master at (spark://\S+)", folder / "master") as found:
        worker = [
            deploy[0],
            f"{deploy[1]}.worker.Worker",
            found[1],
            "--cores",
            "1",
            "--memory",
            "1g",
            "--host",
            "127.0.0.1",
        ]
        worker += ["--webui-port", "0", "--work-dir"]
        says = "Successfully registered with master"
        with (
            _process([*worker, str(folder / "w1")], environment, says, folder / "worker1"),
            _process([*worker, str(folder / "w2")], environment, says, folder / "worker2"),
        ):
            yield found[1]


def _said(traces):
    engine = open_engine("local", [traces], {})
    return [line for name in STUDIES for line in runner.find_study(name).run(engine, StudyParameters()).verdicts]


def _ask(command, environment):
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=400, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def _study(traces, out, *more):
    return ["trace", "study", *STUDIES, "--in", str(traces), "--out", str(out), "--engine", "spark", *more]


def _tables(folder):
    """Those of a saved report, to the last integer."""
    return {path.name: pq.read_table(path) for path in sorted(folder.rglob("*.parquet"))}


def test_a_cluster_of_two_workers_says_the_same(traces, master, environment, tmp_path):
    out = _ask([sys.executable, "-m", "mpbroker", *_study(traces, tmp_path / "R", "--master", master)], environment)
    assert all(line in out for line in _said(traces))
    local = ["trace", "study", *STUDIES, "--in", str(traces), "--out", str(tmp_path / "L"), "--engine", "local"]
    _ask([sys.executable, "-m", "mpbroker", *local], environment)
    found, wanted = _tables(tmp_path / "R"), _tables(tmp_path / "L")
    assert found.keys() == wanted.keys() and len(wanted) >= len(STUDIES)
    assert all(found[name].equals(table) for name, table in wanted.items())


def _counted(place, inputs):
    """Rows of the table in order, by dataset, once its sums are those that the local engine has from the traces."""
    found = table.open_table(LocalFiles(Path(place)))
    ours = open_engine("local", inputs, {})
    rows = {}
    for name, ask in layout.datasets(found.window_ms).items():
        rows[name] = sorted(map(repr, found.read(name).to_pylist()))
        assert found.read(name)["n"].to_numpy().sum() == ours.tables([ask])[0]["n"].to_numpy().sum(), name
    return rows


def test_spark_submit_rolls_up_each_segment_once_and_studies_the_table(traces, master, environment, tmp_path):
    """Three runs, each a process and an application of its own: all of it, nothing, and what has come since."""
    submit = [str(_spark_home() / "bin" / "spark-submit"), "--master", master, "--conf", "spark.ui.enabled=false"]
    submit += ["--conf", "spark.driver.host=127.0.0.1", str(PROJECT / "deploy" / "spark_study.py")]
    environment = {**environment, "PYTHONPATH": str(PROJECT)}
    inputs, place = tmp_path / "traces", tmp_path / "rollups"
    shutil.copytree(traces, inputs)
    hourly = [*submit, "trace", "rollup", str(inputs), str(place), "--engine", "spark"]
    number = len(list(inputs.rglob("*.mpt")))
    out = _ask(hourly, environment)
    assert f"{number} segments with " in out and "0 were counted before, 0 are being written, 0 are damaged" in out
    rows, files = _counted(place, [inputs]), sorted(place.rglob("*.parquet"))
    assert f"0 segments with 0 requests added, {number} were counted before" in _ask(hourly, environment)
    assert (_counted(place, [inputs]), sorted(place.rglob("*.parquet"))) == (rows, files)
    options = TraceOptions(broker_id=4, boot_id=74, segment_records=400)
    write_trace(inputs / "4", simulate(Scenario(seed=4, duration_ms=1500)), options)
    more = len(list((inputs / "4").rglob("*.mpt")))
    out = _ask(hourly, environment)
    assert f"{more} segments with " in out and f"added, {number} were counted before" in out
    assert _counted(place, [inputs]) != rows
    said = _ask([*submit, *_study(place, tmp_path / "R")], environment)
    assert "fleet: " in said and "latency: Produce p99" in said


def test_a_connect_server_says_the_same_and_counts_each_segment_once(traces, environment, tmp_path):
    server = [str(_spark_home() / "bin" / "spark-submit"), "--master", "local[2]"]
    server += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    server += ["--conf", "spark.connect.grpc.binding.port=0", "--conf", "spark.ui.enabled=false", "spark-internal"]
    environment = {**environment, "PYTHONPATH": str(PROJECT)}
    with _process(server, environment, r"Spark Connect server started at: \S*?:(\d+)", tmp_path / "log") as found:
        more = ["--remote", f"sc://127.0.0.1:{found[1]}"]
        out = _ask([sys.executable, "-m", "mpbroker", *_study(traces, tmp_path / "R", *more)], environment)
        hourly = [sys.executable, "-m", "mpbroker", "trace", "rollup", str(traces), str(tmp_path / "rollups"), *more]
        first, second = _ask(hourly, environment), _ask(hourly, environment)
    assert all(line in out for line in _said(traces))
    number = len(list(traces.rglob("*.mpt")))
    assert f"{number} segments with " in first and "added, 0 were counted before" in first
    assert f"0 segments with 0 requests added, {number} were counted before" in second
    assert _counted(tmp_path / "rollups", [traces])["counts"]
