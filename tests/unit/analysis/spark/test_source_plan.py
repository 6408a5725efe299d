"""Options of the data source, and which pieces of which segments a read covers."""

import shutil
import warnings
from linecache import getline

import pytest

from mpbroker.analysis.engine.engines.engine import Ask
from mpbroker.analysis.engine.input.decode import RowFilter
from mpbroker.analysis.spark import source_plan
from mpbroker.analysis.spark.source_plan import OptionError, Piece, cut, open_paths, parse_options, pieces, shared_out
from mpbroker.trace.record import MARKER, REQUEST


def test_options_become_values():
    options = parse_options(
        {
            "path": "/t",
            "from": "2026-01-31T12:00:00.000001Z",
            "to": "1769860800000000007",
            "apis": "Produce, Fetch",
            "brokers": "1,2",
            "kinds": "marker,request",
            "maxrecordspertrigger": "10",
        }
    )
    assert options == source_plan.SourceOptions(
        ("/t",),
        RowFilter(1_769_860_800_000_001_000, 1_769_860_800_000_000_007, ("Produce", "Fetch"), (1, 2)),
        (REQUEST, MARKER),
        10,
    )


def test_what_is_not_named_is_not_limited():
    options = parse_options({"path": "file:///t/x", "from": "", "apis": " "})
    assert options == source_plan.SourceOptions(("/t/x",), RowFilter()) and options.requests_only
    assert parse_options({"paths": '["/a", "/b"]'}).paths == ("/a", "/b")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "needs a path"),
        ({"path": "t", "api": "Fetch"}, "no option api; there are: path, "),
        ({"path": "t", "from": "yesterday"}, "from is a time as .* not 'yesterday'"),
        ({"path": "t", "brokers": "one"}, "brokers are ids such as 1,2, not 'one'"),
        ({"path": "t", "kinds": "answer"}, "no kind answer; there are: request, "),
        ({"path": "t", "maxrecordspertrigger": "0"}, "from 1 on, not '0'"),
    ],
)
def test_a_wrong_option_is_named(options, sentence):
    with pytest.raises(OptionError, match=sentence):
        parse_options(options)


def test_segments_without_such_requests_are_not_read(trace):
    def found(**options):
        parsed = parse_options({"path": str(trace), **options})
        return list(pieces(open_paths(parsed), parsed))

    every, elections = found(), found(apis="LeaderAndIsr")
    assert len(elections) == 1 < len(every), "one segment has the only election"
    assert found(apis="Heartbeat") == []
    assert len(found(apis="Heartbeat", kinds="marker,request")) == len(every), "counts are of requests, not of events"
    assert {piece.info.opened.broker_id for piece in found(brokers="2")} == {2}
    assert sum(piece.records for piece in every) == sum(piece.info.record_count for piece in every) > 1500


def test_a_compacted_trace_is_not_for_this_source(trace, monkeypatch):
    class Compacted:
        parquet = (trace,)

    monkeypatch.setattr(source_plan, "open_input", lambda *paths, **limits: Compacted())
    with pytest.raises(
        OptionError, match=r"is a compacted trace: read it with mpbroker.analysis.spark.frames.requests"
    ):
        open_paths(parse_options({"path": str(trace)}))


def test_a_damaged_file_is_left_out_with_a_warning(trace, tmp_path):
    """Not twice: an engine, which asks for tables, tells it with them."""
    for path in sorted((trace / "a").glob("*.mpt"))[:2]:
        shutil.copy(path, tmp_path)
    _whole, damaged = sorted(tmp_path.glob("*.mpt"))
    options = parse_options({"path": str(tmp_path)})

    def planned(of):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = [(piece.info.path, piece.records) for piece in pieces(open_paths(of), of)]
        assert all("open_paths(of)" in getline(one.filename, one.lineno) for one in told), "it points there"
        return found, [str(one.message) for one in told]

    everything, told = planned(options)
    assert len(everything) == 2 and told == []
    data = bytearray(damaged.read_bytes())
    data[5000] ^= 4
    damaged.write_bytes(data)
    left, told = planned(options)
    assert left == [one for one in everything if one[0] != damaged]
    assert told == [f"{damaged}: its records are not those it was closed with; none of them is counted"]
    assert planned(options._replace(asks=(Ask("rollup", 1000),))) == (left, [])


def test_a_large_segment_is_cut_into_equal_pieces(monkeypatch):
    monkeypatch.setattr(source_plan, "PARTITION_RECORDS", 100)
    assert [(one.first, one.records) for one in cut(None, None, 7, 257)] == [(7, 83), (90, 83), (173, 84)]
    assert list(cut(None, None, 5, 5)) == []


def test_small_segments_share_a_task(monkeypatch):
    monkeypatch.setattr(source_plan, "PARTITION_RECORDS", 100)
    sizes = [40, 40, 40, 100, 10, 90, 1]
    tasks = shared_out(Piece(None, None, 0, size) for size in sizes)
    assert [[one.records for one in task] for task in tasks] == [[40, 40], [40], [100], [10, 90], [1]]
