"""Rollup tables in a catalog, by the command line, with the real jar of Iceberg: each segment once, wherever a job is
killed, and the answers of a table in a folder.

TEST_ICEBERG_JARS names the jar. It fits one version of Spark, which the project's environment may not have; that one
then lies in a folder of its own, before it on the path:

    pip install --no-deps --target spark41 'pyspark==4.1.*'
    mvn dependency:copy -Dartifact=org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0 -DoutputDirectory=jars
    PYTHONPATH=spark41 TEST_ICEBERG_JARS=jars/iceberg-spark-runtime-4.1_2.13-1.12.0.jar python -m pytest THIS
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from mpbroker.analysis.engine.engines.reusing_engine import merge_activity, merge_rollup
from mpbroker.analysis.engine.rollups import job, layout, table
from mpbroker.analysis.engine.rollups.table_files import LocalFiles
from tests.harness.record_trace import OFFSET_NS, Lane, clock, random_requests, write_segment

JARS = os.environ.get("TEST_ICEBERG_JARS", "")
ENDS_S = 300
PLACE = "table:lake.fleet.rollups"
PROJECT = Path(__file__).parents[2]
DRIVER = "tests.harness.catalog_driver"
pytestmark = [
    pytest.mark.skipif(not JARS, reason="TEST_ICEBERG_JARS names no jar of Iceberg's for the installed pyspark"),
    pytest.mark.timeout(10 * ENDS_S),
]


def _segment(folder, number, broker):
    offset_ns = OFFSET_NS + number * layout.HOUR_NS
    clocks = (clock(0, offset_ns), clock(10_000_000_000, offset_ns))
    write_segment(folder / str(broker), random_requests(80, seed=number), Lane(broker, 0xB00 + number), clocks=clocks)


class Fleet:
    """Traces of two brokers and two hours, and a catalog in a folder."""

    def __init__(self, folder):
        self.folder, self.traces, self.lake = folder, folder / "in", folder / "lake"
        (folder / "tmp").mkdir()
        for broker in (1, 2):
            for number in (0, 1):
                _segment(self.traces, number, broker)
        catalog = "spark.sql.catalog.lake"
        self.settings = [f"spark.jars={JARS}", "spark.sql.shuffle.partitions=2", f"{catalog}.type=hadoop"]
        self.settings += [f"{catalog}.warehouse={self.lake}"]
        self.rollup = ["trace", "rollup", str(self.traces), PLACE, *self.spark]

    @property
    def spark(self):
        return ["--master", "local[2]", *(word for one in self.settings for word in ("--conf", one))]

    def run(self, module, *words):
        """A process group of its own, at its end."""
        path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(PROJECT))))
        environ = {**os.environ, "PYTHONPATH": path, "TMPDIR": str(self.folder / "tmp"), "LAKE": str(self.lake)}
        environ["JDK_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # half the start
        return subprocess.run(
            [sys.executable, "-m", module, *words],
            env=environ,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=ENDS_S,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    def said(self, *words):
        done = self.run("mpbroker", *words)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    def snapshots(self):
        return len(list(self.lake.rglob("snap-*.avro")))

    def holds_what_a_folder_holds(self):
        """The same rows, added up: how many batches there were does not show."""
        to = self.folder / "read"
        shutil.rmtree(to, ignore_errors=True)
        to.mkdir()
        done = self.run(DRIVER, "read", PLACE, str(to), *self.settings)
        assert done.returncode == 0, done.stderr[-3000:]
        found = table.open_or_create(LocalFiles(self.folder / "rollups"))
        job.run([self.traces], found, job.LocalCounter())
        order = [("broker", "ascending"), ("file", "ascending")]
        theirs = pq.read_table(to / f"{layout.SEGMENTS}.parquet").sort_by(order)
        assert theirs.equals(found.read(layout.SEGMENTS).sort_by(order))
        for name, ask in found.datasets.items():
            merge = merge_rollup if ask.kind == "rollup" else merge_activity
            ours, other = (merge(one, None, ask.by) for one in (found.read(name), _read(to, name)))
            assert ours.num_rows and ours.equals(other), name


def _read(folder, name):
    return pq.read_table(folder / f"{name}.parquet")


@pytest.fixture
def fleet(tmp_path):
    return Fleet(tmp_path)


def _counts(segments, known):
    return f"{segments} segments with {80 * segments} requests added, {known} were counted before, 0 are being written"


def test_each_segment_counts_once_and_studies_say_the_same(fleet):
    assert _counts(4, 0) in fleet.run(DRIVER, "halved", *fleet.rollup).stdout and fleet.snapshots() == 2
    assert _counts(0, 4) in fleet.said(*fleet.rollup) and fleet.snapshots() == 2
    _segment(fleet.traces, 7, 2)
    late = fleet.run(DRIVER, "overtaken", *fleet.rollup)
    assert _counts(1, 4) in late.stdout, "the one that was quicker"
    assert late.returncode == 2 and "another trace rollup has added to table:lake.fleet.rollups: run it" in late.stderr
    fleet.holds_what_a_folder_holds()

    hour = (OFFSET_NS // layout.HOUR_NS + 1) * 3600
    for number, limits in enumerate(([], ["--from", str(hour), "--to", str(hour + 3600), "--broker", "2"])):
        words = ["trace", "study", "latency", "throughput", "fleet", *limits]
        ours, theirs = fleet.folder / f"ours-{number}", fleet.folder / f"theirs-{number}"
        one = fleet.said(*words, "--in", "rollups", "--engine", "local", "--out", str(ours))
        other = fleet.said(*words, "--in", PLACE, "--out", str(theirs), *fleet.spark)
        assert one.splitlines()[:-1] == other.splitlines()[:-1]
        tables = [{path.name: pq.read_table(path) for path in sorted(out.rglob("*.parquet"))} for out in (ours, theirs)]
        assert len(tables[0]) > 3 and tables[0] == tables[1]
        abouts = [json.loads((out / "meta.json").read_text()) for out in (ours, theirs)]
        assert abouts[0]["input"]["files"] == abouts[1]["input"]["files"] == (1 if limits else 5)
        assert abouts[1]["engine"] == "spark" and abouts[0]["input_records"] == abouts[1]["input_records"]


def test_a_job_killed_at_any_step_counts_once_when_it_is_run_again(fleet):
    def killed(step):
        assert fleet.run(DRIVER, step, *fleet.rollup).returncode == -signal.SIGKILL
        return fleet.snapshots()

    assert killed("counted") == 0 and killed("written") == 0 and list(fleet.lake.rglob("*.parquet"))
    assert _counts(4, 0) in fleet.said(*fleet.rollup) and fleet.snapshots() == 1
    _segment(fleet.traces, 7, 2)
    assert killed("committed") == 2
    assert _counts(0, 5) in fleet.said(*fleet.rollup) and fleet.snapshots() == 2
    fleet.holds_what_a_folder_holds()


def test_what_is_refused(fleet):
    done = fleet.run("mpbroker", "trace", "study", "latency", "--in", PLACE, *fleet.spark)
    assert done.returncode == 2 and f"{PLACE} does not exist" in done.stderr
    assert _counts(4, 0) in fleet.said(*fleet.rollup, "--window-ms", "60000")
    done = fleet.run("mpbroker", *fleet.rollup, "--window-ms", "10000")
    assert done.returncode == 2 and f"{PLACE} has windows of 60000 ms" in done.stderr
    assert _counts(0, 4) in fleet.said(*fleet.rollup), "those it has"
