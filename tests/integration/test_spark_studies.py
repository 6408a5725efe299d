"""Studies say the same, word for word and row for row, whichever engine computed what they stand on."""

import pyarrow as pa
import pytest

from mpbroker.analysis.engine.engines.engine import Where
from mpbroker.analysis.engine.engines.local_engine import LocalEngine
from mpbroker.analysis.engine.engines.reusing_engine import ReusingEngine
from mpbroker.analysis.engine.input.trace_input import open_input
from mpbroker.analysis.engine.running import runner
from mpbroker.analysis.engine.running.study import StudyParameters
from mpbroker.analysis.spark.engine import SparkEngine
from tests.harness.event_model import simulate
from tests.harness.event_trace import Marker, TraceOptions, write_trace
from tests.harness.golden_trace import FLOOD

OTHERS = ["service", "fairness", "slowclient", "purgatory", "hol", "whatif", "knee", "usl", "skew", "anomaly"]
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def engines(spark, tmp_path_factory):
    """Both over the model's incident."""
    folder = tmp_path_factory.mktemp("flood")
    markers = (Marker("phase: calm", 0), Marker("phase: flood", 1000), Marker("end of the load", 7000))
    write_trace(folder, simulate(FLOOD), TraceOptions(markers=markers))
    source = open_input([folder])
    return LocalEngine(source), SparkEngine(source)


@pytest.mark.parametrize("name", ["latency", "throughput", "priority", "tail"])
def test_a_study_says_the_same(engines, name):
    ours, theirs = (runner.find_study(name).run(engine, StudyParameters()) for engine in engines)
    _compare(ours, theirs)


class OneScan(ReusingEngine):
    """Reads single requests once, all columns of them, and every other table in one scan: Spark's start of a query is
    what a study of a small trace costs."""

    def __init__(self, inner):
        super().__init__(inner)
        self._all = inner.requests()

    def requests(self, columns=None, where=Where()):
        assert where == Where(where.from_ns, where.to_ns, limit=where.limit), "only a part of the time"
        at = self._all["epoch_ns"].to_numpy()
        kept = self._all.filter(pa.array((at >= (where.from_ns or 0)) & (at < (where.to_ns or 1 << 62))))
        return kept if columns is None else kept.select(columns)


def test_the_others_say_the_same_of_what_each_engine_read(engines):
    """Spark's rows come in no particular order: what a study makes of them must not depend on it."""
    both, parameters = [OneScan(engine) for engine in engines], StudyParameters(window_ms=250)
    for engine in both:
        activity = engine.activity(0, ())
        rollups = [study for name in OTHERS if (study := runner.find_study(name)).asks is not None]
        engine.prepare([ask for study in rollups for ask in study.asks(engine, activity, parameters)])
    for name in OTHERS:
        _compare(*(runner.find_study(name).run(engine, parameters) for engine in both))


def _compare(ours, theirs):
    assert theirs.verdicts == ours.verdicts
    assert {name: table.num_rows for name, table in theirs.tables.items()} == {
        name: table.num_rows for name, table in ours.tables.items()
    }
    for table in ours.tables:
        assert theirs.tables[table].to_pylist() == ours.tables[table].to_pylist(), table
    assert [figure.spec for figure in theirs.figures] == [figure.spec for figure in ours.figures]
