"""Studies say the same, word for word and row for row, whichever engine computed what they stand on."""

import pytest

from mpbroker.analysis.engine.engines.local_engine import LocalEngine
from mpbroker.analysis.engine.input.trace_input import open_input
from mpbroker.analysis.engine.running import runner
from mpbroker.analysis.engine.running.study import StudyParameters
from mpbroker.analysis.spark.engine import SparkEngine
from tests.harness.event_model import simulate
from tests.harness.event_trace import Marker, TraceOptions, write_trace
from tests.harness.golden_trace import FLOOD

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def engines(spark, tmp_path_factory):
    """Both over the model's incident."""
    folder = tmp_path_factory.mktemp("flood")
    markers = (Marker("phase: calm", 0), Marker("phase: flood", 1000), Marker("end of the load", 7000))
    write_trace(folder, simulate(FLOOD), TraceOptions(markers=markers))
    source = open_input([folder])
    return LocalEngine(source), SparkEngine(source)


@pytest.mark.parametrize("name", ["latency", "throughput", "priority", "tail", "whatif"])
def test_a_study_says_the_same(engines, name):
    ours, theirs = (runner.find_study(name).run(engine, StudyParameters()) for engine in engines)
    assert theirs.verdicts == ours.verdicts
    assert {name: table.num_rows for name, table in theirs.tables.items()} == {
        name: table.num_rows for name, table in ours.tables.items()
    }
    for table in ours.tables:
        assert theirs.tables[table].to_pylist() == ours.tables[table].to_pylist(), table
    assert [figure.spec for figure in theirs.figures] == [figure.spec for figure in ours.figures]
