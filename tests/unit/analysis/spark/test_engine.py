"""The Spark engine's SQL, and what it refuses; that its numbers are right is tests/integration/test_spark_engine.py."""

import shutil

import pytest

from mpbroker.analysis.engine.engines.choose_engine import choose_engine
from mpbroker.analysis.engine.engines.engine import EngineError, Where
from mpbroker.analysis.engine.input.trace_input import open_input
from mpbroker.analysis.spark import engine
from mpbroker.analysis.spark.engine import SparkEngine
from mpbroker.analysis.spark.session import SparkError


def test_chosen_by_name_it_borrows_the_session_there_is(spark, trace):
    chosen = choose_engine("spark", open_input([trace]))
    assert isinstance(chosen, SparkEngine) and chosen.name == "spark" and chosen.spark is spark
    with pytest.raises(EngineError, match="cannot group by topic"):
        chosen.rollup(1000, ("topic",))
    chosen.close()
    assert spark.range(2).count() == 2, "it was not ours to stop"


@pytest.mark.parametrize(("columns", "where"), [(["latency"], Where()), (["api"], Where(order="-latency"))])
def test_an_unknown_column_is_said(columns, where):
    with pytest.raises(EngineError, match="no column latency; there are: run, broker, "):
        engine._order_of(columns, where)


def test_ties_follow_the_order():
    assert engine._order_of(["api"], Where(order="-total_ns")) == [
        "total_ns",
        "epoch_ns",
        "run",
        "broker",
        "ring",
        "seq",
    ]
    assert engine._order_of(["api"], Where(order="seq")) == ["seq", "epoch_ns", "run", "broker", "ring"]
    assert engine._order_of(["api"], Where()) == []


def test_conditions():
    assert engine._conditions(Where(apis=("Produce",), planes=("control",), min_total_ns=5)) == [
        "api IN ('Produce')",
        "plane IN ('control')",
        "total_ticks >= 0 AND total_ticks * 64L >= 5",
    ]


def test_what_spark_says_becomes_a_sentence(spark, trace, tmp_path):
    """A file that is gone when the query runs; not Spark's whole trace of calls."""
    copy = tmp_path / "trace"
    shutil.copytree(trace / "a", copy)
    chosen = SparkEngine(open_input([copy]))
    shutil.rmtree(copy)
    with pytest.raises(SparkError, match=f"^Spark failed: .*{copy} does not exist") as caught:
        chosen.activity(0)
    assert "\n" not in str(caught.value) and "Traceback" not in str(caught.value) and caught.value.exit_code == 2
