"""The data source: its readers alone, then in Spark, batch and stream."""

import pickle
import shutil

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

from mpbroker.analysis.engine.engines.local_engine import LocalEngine
from mpbroker.analysis.engine.input.columns import FRAME
from mpbroker.analysis.engine.input.trace_input import open_input
from mpbroker.analysis.spark import source
from mpbroker.analysis.spark.arrow_types import EVENT, narrow
from mpbroker.analysis.spark.read_limits import SPARK_HAS_LIMITS, ReadAllAvailable, ReadMaxRows
from mpbroker.analysis.spark.source import InputPartition, MpbTraceSource
from mpbroker.trace import segment
from mpbroker.trace.clock_sample import ClockSample, take
from mpbroker.trace.record import TraceRecord

WORKER_WAS_LATE = "Python worker failed to connect back"


def read_all(reader, tasks=None):
    """As Spark does it: the reader goes to workers by pickle, each reads its task."""
    sent = pickle.loads(pickle.dumps(reader))
    return [
        batch
        for task in (reader.partitions() if tasks is None else tasks)
        for batch in sent.read(pickle.loads(pickle.dumps(task)))
    ]


def sorted_frame(table):
    return table.sort_by([("broker", "ascending"), ("ring", "ascending"), ("seq", "ascending")])


def test_a_batch_is_the_frame(trace):
    made = MpbTraceSource({"path": str(trace)})
    reader = made.reader(made.schema())
    batches = read_all(reader)
    assert all(batch.schema.equals(FRAME) for batch in batches)
    ours = LocalEngine(open_input([trace])).requests()
    assert sorted_frame(pa.Table.from_batches(batches)).equals(sorted_frame(ours)) and ours.num_rows > 1500


def test_only_the_columns_of_the_schema_are_made(trace):
    reader = MpbTraceSource({"path": str(trace), "apis": "Fetch"}).reader(narrow(["queue_ticks", "api", "ts_ns"]))
    whole = pa.Table.from_batches(read_all(reader))
    assert whole.schema.names == ["queue_ticks", "api", "ts_ns"] and set(whole["api"].to_pylist()) == {"Fetch"}
    assert whole.schema.field("queue_ticks").type == pa.int32() and whole.schema.field("ts_ns").type == pa.int16()


def test_a_reader_sends_no_other_tasks_along(trace):
    reader = MpbTraceSource({"path": str(trace)}).reader(narrow(["seq"]))
    assert reader._tasks and pickle.loads(pickle.dumps(reader))._tasks == []


def test_nothing_to_read_is_an_empty_partition(trace):
    reader = MpbTraceSource({"path": str(trace), "apis": "Heartbeat"}).reader(narrow(["seq"]))
    assert reader.partitions() == [] and list(reader.read(InputPartition(None))) == []


def test_a_file_that_shrinks_while_it_is_read_is_an_error(tmp_path, trace):
    path = tmp_path / next(trace.rglob("*.mpt")).name
    path.write_bytes(next(trace.rglob(path.name)).read_bytes())
    reader = MpbTraceSource({"path": str(path)}).reader(narrow(["seq"]))
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size - 2000)
    with pytest.raises(EOFError, match="has become shorter while it was read"):
        read_all(reader)


def test_events_have_columns_of_their_own(tmp_path):
    clock = take()
    opened = segment.Opened(3, 9, 0, 0, "c", 0, clock, {})
    records = [ClockSample(*clock).pack_record(0, 5) for _ in range(3)]
    (tmp_path / segment.file_name(3, 9, 0, 0)).write_bytes(segment.pack_opened(opened) + b"".join(records))
    made = MpbTraceSource({"path": str(tmp_path), "kinds": "clock,marker"})
    (batch,) = read_all(made.reader(made.schema()))
    assert batch.schema.equals(EVENT) and batch.num_rows == 3
    row = batch.to_pylist()[0]
    assert row["kind"] == "clock" and row["record"] == records[0] and row["broker"] == 3 and row["processor"] == 5
    assert row["epoch_ns"] == clock.realtime_ns
    none = MpbTraceSource({"path": str(tmp_path), "kinds": "clock", "to": str(clock.realtime_ns)})
    assert sum(one.num_rows for one in read_all(none.reader(narrow(["kind"], EVENT)))) == 0


def stream(path, **options):
    return MpbTraceSource({"path": str(path), **options}).streamReader(narrow(["broker", "ring", "seq"]))


def test_a_stream_goes_on_where_it_was(trace):
    reader = stream(trace, maxRecordsPerTrigger="130")
    offset, found = reader.initialOffset(), []
    assert reader.getDefaultReadLimit() == ReadMaxRows(130)
    while (reached := reader.latestOffset(offset, reader.getDefaultReadLimit())) != offset:
        batches = read_all(reader, reader.partitions(offset, reached))
        assert sum(batch.num_rows for batch in batches) <= 130
        found += [row for batch in batches for row in batch.to_pylist()]
        offset = reached
    keys = [(row["broker"], row["ring"], row["seq"]) for row in found]
    assert len(set(keys)) == len(keys) == open_input([trace]).loss.records
    assert reader.partitions(offset, offset) == []


def test_a_stream_sees_a_segment_grow_but_no_torn_record(tmp_path):
    clock = take()
    path = tmp_path / segment.file_name(1, 9, 0, 0)
    records = b"".join(TraceRecord(t0_ns=0, seq_lo=number).pack() for number in range(4))
    path.write_bytes(segment.pack_opened(segment.Opened(1, 9, 0, 0, "c", 0, clock, {})) + records[:356])
    reader = stream(tmp_path)
    first = reader.latestOffset({}, ReadAllAvailable())
    assert first == {str(path): 2}
    reader.prepareForTriggerAvailableNow()
    with open(path, "ab") as file:
        file.write(records[356:])
    assert reader.latestOffset(first, ReadAllAvailable()) == first, "not beyond what there was at the beginning"
    fresh = stream(tmp_path)
    second = fresh.latestOffset(first, ReadAllAvailable())
    assert second == {str(path): 4}
    assert sum(batch.num_rows for batch in read_all(fresh, fresh.partitions(first, second))) == 2


def test_a_stream_waits_for_a_first_segment(tmp_path):
    assert stream(tmp_path).latestOffset({}, ReadAllAvailable()) == {}


def test_in_spark_with_a_narrow_schema(spark, trace, monkeypatch):
    spark.dataSource.register(MpbTraceSource)
    frame = (
        spark.read.format(source.FORMAT).option("brokers", "2").schema("api string, total_ns bigint").load(str(trace))
    )
    ours = LocalEngine(open_input([trace], brokers=[2])).requests(["api", "total_ns"])
    theirs = {
        row["api"]: (row["n"], row["s"])
        for row in frame.groupBy("api").agg(F.count("*").alias("n"), F.sum("total_ns").alias("s")).collect()
    }
    sums = ours.group_by("api").aggregate([([], "count_all"), ("total_ns", "sum")]).to_pylist()
    assert theirs == {row["api"]: (row["count_all"], row["total_ns_sum"]) for row in sums} and len(theirs) == 3


def test_in_spark_a_wrong_type_is_said(spark, trace):
    spark.dataSource.register(MpbTraceSource)
    with pytest.raises(Exception, match="column total_ns has the type bigint, not int"):
        spark.read.format(source.FORMAT).schema("total_ns int").load(str(trace)).collect()


def ended_query(frame, folder):
    """A query of all there is, which has ended well. Spark waits 10 s for its Python process to import pyspark and to
    connect, longer takes a busy machine now and then: only then is it started anew, four times."""
    for turn in range(5):
        writer = frame.writeStream.format("memory").queryName("windows").outputMode("append")
        place = str(folder / f"checkpoint-{turn}")  # a table in memory goes on from none
        query = writer.option("checkpointLocation", place).trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(90)
            break
        except StreamingQueryException as error:
            if WORKER_WAS_LATE not in str(error) or turn == 4:
                raise
    return query


@pytest.mark.skipif(not SPARK_HAS_LIMITS, reason="before Spark 4.2 availableNow knows no limits and no end")
def test_in_spark_as_a_stream_with_a_watermark(spark, trace, tmp_path):
    """All there is now, in batches of a limited size; windows come out, which needs SupportsTriggerAvailableNow."""
    spark.dataSource.register(MpbTraceSource)
    frame = (
        spark.readStream.format(source.FORMAT)
        .option("maxRecordsPerTrigger", "700")
        .schema("ts timestamp")
        .load(str(trace))
        .withWatermark("ts", "2 seconds")
        .groupBy(F.window("ts", "1 second"))
        .count()
    )
    query = ended_query(frame, tmp_path)
    counted = {
        row["window_ms"]: row["count"]
        for row in spark.table("windows").selectExpr("unix_millis(window.start) AS window_ms", "count").collect()
    }
    wanted = {row["window_ms"]: row["n"] for row in LocalEngine(open_input([trace])).activity(1000).to_pylist()}
    assert counted and counted.items() <= wanted.items()
    assert len([one for one in query.recentProgress if one["numInputRows"]]) >= 3


class Broken(Exception):
    """What a test's sink dies of."""


class Sink:
    """Keeps the rows of each batch under its number, as a table does that a stream writes exactly once; dies behind
    one of them, when it has its rows and the checkpoint does not know that yet."""

    def __init__(self):
        self.batches = {}
        self.dies_behind = 1

    def take(self, frame, number):
        rows = sorted(map(tuple, frame.collect()))
        assert self.batches.setdefault(number, rows) == rows, "a batch that is repeated has the rows it had"
        if number == self.dies_behind:
            raise Broken

    def query(self, spark, trace, folder):
        """Runs to the end of what there is, from where the checkpoint in the folder says."""
        frame = spark.readStream.format(source.FORMAT).option("maxRecordsPerTrigger", "650")  # ends within a segment
        frame = frame.schema("broker int, ring int, seq bigint").load(str(trace))
        writer = frame.writeStream.foreachBatch(self.take).option("checkpointLocation", str(folder))
        for turn in range(5):
            try:
                assert writer.trigger(availableNow=True).start().awaitTermination(180)
                return
            except StreamingQueryException as error:
                if WORKER_WAS_LATE not in str(error) or turn == 4:
                    raise


@pytest.mark.skipif(not SPARK_HAS_LIMITS, reason="before Spark 4.2 availableNow knows no limits and no end")
@pytest.mark.timeout(400)  # two streams start, which takes long on a busy machine
def test_in_spark_a_stream_goes_on_from_its_checkpoint(spark, trace, tmp_path):
    """It dies in the middle, the broker goes on, and it is begun again: each request counts once."""
    spark.dataSource.register(MpbTraceSource)
    here, sink = tmp_path / "trace", Sink()
    shutil.copytree(trace / "b", here / "b")
    with pytest.raises(StreamingQueryException, match="Broken"):
        sink.query(spark, here, tmp_path / "checkpoint")
    assert sorted(sink.batches) == [0, 1], "the middle"
    (here / "a").mkdir()
    for path in sorted((trace / "a").iterdir())[:4]:
        shutil.copy(path, here / "a")
    sink.dies_behind = None
    sink.query(spark, here, tmp_path / "checkpoint")
    found = [row for rows in sink.batches.values() for row in rows]
    wanted = LocalEngine(open_input([here])).requests(["broker", "ring", "seq"]).to_pylist()
    assert sorted(found) == sorted(tuple(row.values()) for row in wanted) and len(set(found)) == len(found)
    assert len(sink.batches) > 2 and {row[0] for row in found} == {1, 2}
