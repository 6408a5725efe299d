"""The requests frame in Spark is the local engine's, from raw segments and from compacted files; SQL of its columns."""

import pyarrow as pa
import pytest

from mpbroker.analysis.engine.engines.engine import EngineError
from mpbroker.analysis.engine.engines.local_engine import LocalEngine
from mpbroker.analysis.engine.input.columns import COMPACT, FRAME
from mpbroker.analysis.engine.input.compaction import compact
from mpbroker.analysis.engine.input.decode import RowFilter
from mpbroker.analysis.engine.input.trace_input import open_input
from mpbroker.analysis.spark import frames

ORDER = [("broker", "ascending"), ("ring", "ascending"), ("seq", "ascending")]


@pytest.fixture(scope="module")
def compacted(trace, tmp_path_factory):
    folder = tmp_path_factory.mktemp("compacted") / "trace"
    compact(open_input([trace]), folder)
    return folder


@pytest.fixture
def whole(trace):
    return LocalEngine(open_input([trace])).requests().sort_by(ORDER)


def typed(frame):
    return frame.toArrow().cast(FRAME).sort_by(ORDER)


def test_from_raw_segments(spark, trace, whole):
    frame = frames.requests(spark, trace)
    assert frame.columns == FRAME.names and typed(frame).equals(whole)


def test_from_compacted_files(spark, compacted, whole):
    frame = frames.requests(spark, str(compacted))
    assert frame.columns == FRAME.names and typed(frame).equals(whole)


def test_by_a_path_with_a_scheme(spark, compacted, whole):
    """Where there is no local folder to look into: the files by their pattern, the rows by conditions."""
    found = frames.requests(spark, compacted.as_uri(), ["broker", "seq"], RowFilter(brokers=(2,))).toArrow()
    assert sorted(found["seq"].to_pylist()) == sorted(
        row for row, broker in zip(whole["seq"].to_pylist(), whole["broker"].to_pylist(), strict=True) if broker == 2
    )


def test_dictionary_names_stand_in_the_frame(spark, trace):
    names = {row[0] for row in frames.requests(spark, trace, ["client"]).distinct().collect()}
    assert names == {"client-11", "client-12", "client-13", "client-14", "controller"}


@pytest.mark.parametrize("raw", [True, False])
def test_limits(spark, trace, compacted, whole, raw):
    times = sorted(whole["epoch_ns"].to_pylist())
    rows = RowFilter(times[200], times[700], ("Fetch", "Metadata"), (1,))
    found = frames.requests(spark, trace if raw else compacted, ["epoch_ns", "api", "broker"], rows).toArrow()
    ours = LocalEngine(
        open_input([trace], from_ns=times[200], to_ns=times[700], apis=("Fetch", "Metadata"), brokers=(1,))
    ).requests(["epoch_ns", "api", "broker"])
    assert found.num_rows == ours.num_rows > 20
    assert sorted(found["epoch_ns"].to_pylist()) == sorted(ours["epoch_ns"].to_pylist())


def test_nothing_that_could_match_is_an_empty_frame(spark, compacted):
    assert frames.requests(spark, compacted, ["api"], RowFilter(apis=("Heartbeat",))).collect() == []


def test_an_unknown_column_is_said():
    with pytest.raises(EngineError, match="no column latency; there are: run, broker, "):
        frames.requests(None, "anywhere", ["api", "latency"])


def test_strings_are_quoted():
    assert frames.in_list("api", ["a", "it's", "b\\"]) == "api IN ('a', 'it\\'s', 'b\\\\')"


def test_times_in_microseconds_and_exactly():
    assert frames.time_conditions(None, None) == []
    assert frames.time_conditions(1_999, 3_000) == [
        "ts >= timestamp_micros(1)",
        f"{frames.EPOCH_NS} >= 1999",
        "ts <= timestamp_micros(3)",
        f"{frames.EPOCH_NS} < 3000",
    ]


def test_every_column_of_the_frame_has_an_expression():
    """Plain names are those that compacted files have, too."""
    for name in FRAME.names:
        assert frames.expression(name) != name or name in COMPACT.names
    assert pa.types.is_int64(FRAME.field("true_total_ns").type)
