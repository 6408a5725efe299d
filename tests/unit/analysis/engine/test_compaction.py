"""Compacted traces: what is in the files, how they are encoded, and that a killed compaction leaves nothing to be
read."""

import json

import duckdb
import pyarrow.parquet as pq
import pytest

from mpbroker.analysis.engine.input import compact_file, compact_header, compaction
from mpbroker.analysis.engine.input.columns import COMPACT
from mpbroker.analysis.engine.input.compact_header import CompactError
from mpbroker.analysis.engine.input.trace_input import NoTrace, open_input
from mpbroker.trace import record
from mpbroker.trace.dictionary import file_name
from tests.harness.record_trace import Lane, random_requests, request, write_segment

HOUR_NS = 3_600_000_000_000


@pytest.fixture
def raw(tmp_path):
    write_segment(
        tmp_path / "raw", random_requests(900, seed=2), events=[request(kind=record.GAUGE), request(kind=record.MARKER)]
    )
    write_segment(tmp_path / "raw", random_requests(300, seed=3, spread_ns=2 * HOUR_NS), Lane(ring=1))
    (tmp_path / "raw" / file_name(1, Lane().boot_id)).write_text(
        json.dumps({"k": "client", "hash": 11, "name": "reader"}) + "\n"
    )
    return tmp_path / "raw"


def test_rows_are_sorted_by_time_in_folders_of_hour_and_class(raw, tmp_path):
    header = compaction.compact(open_input([raw]), tmp_path / "out", slice_requests=200)
    assert sum(one.rows for one in header.files) == 1200
    for one in header.files:
        table = pq.ParquetFile(tmp_path / "out" / one.path).read()
        assert table.schema.equals(COMPACT) and table.num_rows == one.rows
        rows = table.select(["ts", "ts_ns", "ring", "seq", "api", "plane", "broker"]).to_pylist()
        assert rows == sorted(rows, key=lambda row: (row["ts"], row["ts_ns"], row["ring"], row["seq"]))
        parts = dict(part.split("=") for part in one.path.split("/")[:-1])
        assert {(f"{row['ts']:%Y-%m-%d}", f"{row['ts']:%H}", str(row["broker"])) for row in rows} == {
            (parts["dt"], parts["hour"], parts["node"])
        }
        for row in rows:
            name = (
                "control"
                if row["plane"] == "control"
                else {"Produce": "produce", "Fetch": "fetch"}.get(row["api"], "other")
            )
            assert name == parts["api_class"]
    assert {one.path.split("/")[1] for one in header.files} == {"hour=22", "hour=23", "hour=00"}


def test_encodings_are_those_old_readers_know(raw, tmp_path):
    header = compaction.compact(open_input([raw]), tmp_path / "out")
    metadata = pq.ParquetFile(tmp_path / "out" / header.files[0].path).metadata
    group = metadata.row_group(0)
    columns = {group.column(place).path_in_schema: group.column(place) for place in range(group.num_columns)}
    assert (
        "DELTA_BINARY_PACKED" in columns["queue_ticks"].encodings and "DELTA_BINARY_PACKED" in columns["ts"].encodings
    )
    assert "RLE_DICTIONARY" in columns["api"].encodings
    assert not any("BYTE_STREAM_SPLIT" in column.encodings for column in columns.values())
    assert {column.compression for column in columns.values()} == {"ZSTD"} and all(
        c.is_stats_set for c in columns.values()
    )
    assert {column.physical_type for name, column in columns.items() if name.endswith("_ticks")} == {"INT32"}
    assert group.sorting_columns[0].column_index == COMPACT.get_field_index("ts")


def test_duckdb_reads_them_without_help(raw, tmp_path):
    compaction.compact(open_input([raw]), tmp_path / "out")
    found = duckdb.sql(
        f"select count(*), count(distinct api), sum(case when queue_ticks >= 0 then queue_ticks end) "
        f"from read_parquet('{tmp_path}/out/**/*.parquet', hive_partitioning=true) where run = '{Lane().boot_id:016x}'"
    )
    count, apis, ticks = found.fetchall()[0]
    assert (count, apis) == (1200, 4) and ticks > 0


def test_everything_else_of_the_trace_comes_along(raw, tmp_path):
    compaction.compact(open_input([raw]), tmp_path / "out")
    before, after = open_input([raw]), open_input([tmp_path / "out"])
    assert after.raw_events().equals(before.raw_events()) and before.raw_events().num_rows == 2
    assert after.loss == before.loss and after.clock == before.clock and after.runs == before.runs
    boot = next(iter(after.clocks))
    assert after.names.client(boot.broker, boot.boot_id, 11) == "reader"
    assert (tmp_path / "out" / file_name(1, boot.boot_id)).stat().st_mode & 0o777 == 0o600


def test_files_outside_of_what_is_asked_for_are_not_opened(raw, tmp_path):
    header = compaction.compact(open_input([raw]), tmp_path / "out")
    last = max(one.epoch_max_ns for one in header.files)
    assert len(open_input([tmp_path / "out"], from_ns=last).parquet_files) == 1
    assert open_input([tmp_path / "out"], brokers=[8]).parquet_files == []
    produce = open_input([tmp_path / "out"], apis=["Fetch"]).parquet_files
    assert produce and all("api_class=produce" not in str(path) for path in produce)
    folder = produce[0].parent
    assert open_input([folder]).parquet_files == [one for one in produce if one.parent == folder]
    assert open_input([produce[0]]).parquet_files == [produce[0]]


def test_small_parts_share_row_groups_and_large_ones_are_split(raw, tmp_path, monkeypatch):
    monkeypatch.setattr(compact_file, "FILE_ROWS", 250)
    monkeypatch.setattr(compact_file, "GROUP_ROWS", 100)
    header = compaction.compact(open_input([raw]), tmp_path / "out", slice_requests=50)
    assert max(one.rows for one in header.files) < 500 and sum(one.rows for one in header.files) == 1200
    assert len({one.path for one in header.files}) == len(header.files)


class Killed(BaseException):
    """The process died here."""


@pytest.mark.parametrize("where", ["_write_requests", "_write_events", "_write_dictionaries", "compact_header.write"])
def test_a_killed_compaction_leaves_no_trace_and_does_not_hinder_the_next(raw, tmp_path, monkeypatch, where):
    holder, _, name = where.rpartition(".")
    module = compact_header if holder else compaction
    original = getattr(module, name)

    def die(*arguments):
        if name != "write":
            original(*arguments)
        raise Killed

    monkeypatch.setattr(module, name, die)
    with pytest.raises(Killed):
        compaction.compact(open_input([raw]), tmp_path / "dst" / "out")
    assert not (tmp_path / "dst" / "out").exists()
    with pytest.raises(NoTrace):
        open_input([tmp_path / "dst"])
    monkeypatch.undo()
    compaction.compact(open_input([raw]), tmp_path / "dst" / "out")
    assert open_input([tmp_path / "dst"]).loss.records == 1200 and [
        one.name for one in (tmp_path / "dst").iterdir()
    ] == ["out"]


def test_what_is_refused(raw, tmp_path):
    compaction.compact(open_input([raw]), tmp_path / "out")
    with pytest.raises(CompactError, match="not empty"):
        compaction.compact(open_input([raw]), tmp_path / "out")
    with pytest.raises(CompactError, match="compacted already"):
        compaction.compact(open_input([tmp_path / "out"]), tmp_path / "twice")
    with pytest.raises(NoTrace, match="one kind at a time"):
        open_input([raw, tmp_path / "out"])
    stray = tmp_path / "stray.parquet"
    stray.write_bytes(b"")
    with pytest.raises(CompactError, match="belongs to no compacted trace"):
        open_input([stray])


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format":2}', '{"format":1,"loss":{}}'])
def test_a_damaged_head_is_told(raw, tmp_path, text):
    compaction.compact(open_input([raw]), tmp_path / "out")
    (tmp_path / "out" / compact_header.FILE).write_text(text)
    with pytest.raises(CompactError, match=r"compact.json"):
        open_input([tmp_path / "out"])


def test_a_slice_of_time_can_be_compacted(raw, tmp_path):
    everything = open_input([raw])
    from_ns = min(line.epoch_of(1_000_000_000) for line in everything.clocks.values()) + 1_000_000_000
    part = open_input([raw], from_ns=from_ns, to_ns=from_ns + 500_000_000, apis=["Produce"])
    header = compaction.compact(part, tmp_path / "out")
    assert 0 < sum(one.rows for one in header.files) < 200
    assert all(from_ns <= one.epoch_min_ns and one.epoch_max_ns < from_ns + 500_000_000 for one in header.files)
