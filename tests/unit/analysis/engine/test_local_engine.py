"""The numpy engine against a plain loop over the records, from raw segments and from compacted files; its memory."""

import tracemalloc

import pytest

from mpbroker.analysis.engine.engines import accumulate, local_engine
from mpbroker.analysis.engine.engines.choose_engine import choose_engine
from mpbroker.analysis.engine.engines.engine import EngineError, Where
from mpbroker.analysis.engine.input.columns import FRAME
from mpbroker.analysis.engine.input.compaction import compact
from mpbroker.analysis.engine.input.trace_input import open_input
from tests.harness import naive_engine
from tests.harness.record_trace import OFFSET_NS, Lane, clock, random_requests, request, write_segment

COUNT = 300
ORDER = Where(order="epoch_ns")


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """Three lanes of two brokers, sampled, one segment left open."""
    folder = tmp_path_factory.mktemp("traces")
    for number, lane in enumerate((Lane(sampled_out=9), Lane(ring=1), Lane(broker=2, boot_id=5, first_seq=1 << 33))):
        records = random_requests(COUNT, seed=number, sampled=True)
        write_segment(folder, records, lane, close=number != 1, clocks=(clock(0), clock(10_000_000_000)))
    return folder


@pytest.fixture(scope="module")
def compacted(directory, tmp_path_factory):
    folder = tmp_path_factory.mktemp("compacted") / "one"
    compact(open_input([directory]), folder, slice_requests=150)
    return folder


@pytest.fixture(params=["raw", "compacted"])
def engine(request, directory, compacted, monkeypatch):
    monkeypatch.setattr(local_engine, "CHUNK_RECORDS", 110)
    return choose_engine("local", open_input([directory if request.param == "raw" else compacted]))


@pytest.fixture(scope="module")
def rows(directory):
    """Every request's frame row beside its record."""
    found = []
    frame = choose_engine("local", open_input([directory])).requests(None, ORDER).to_pylist()
    by_place = {(row["broker"], row["ring"], row["corr_id"], row["t0_ns"]): row for row in frame}
    for number, (broker, ring) in enumerate(((1, 0), (1, 1), (2, 0))):
        found += [
            (by_place[broker, ring, one.corr_id, one.t0_ns], one)
            for one in random_requests(COUNT, seed=number, sampled=True)
        ]
    return found


@pytest.mark.parametrize(
    ("window_ms", "by"),
    [
        (1000, ()),
        (0, ("api",)),
        (250, ("run", "broker", "listener", "plane")),
        (5000, ("client", "handler", "processor", "error")),
    ],
)
def test_rollup_and_activity_are_the_plain_ones(engine, rows, window_ms, by):
    assert engine.rollup(window_ms, by).to_pylist() == naive_engine.rollup(rows, window_ms, by)
    assert engine.activity(window_ms, by).to_pylist() == naive_engine.activity(rows, window_ms, by)


def test_the_frame_is_the_same_from_raw_and_compacted(directory, compacted):
    raw, small = (choose_engine("local", open_input([place])) for place in (directory, compacted))
    assert raw.requests(None, ORDER).schema == FRAME
    assert raw.requests(None, ORDER).equals(small.requests(None, ORDER))
    for by in ((), ("client", "handler")):
        assert raw.rollup(1000, by).equals(small.rollup(1000, by))
    assert raw.input.loss == small.input.loss and raw.input.is_sampled and small.input.is_sampled
    assert raw.input.clock == small.input.clock and raw.input.sources == small.input.sources


@pytest.mark.parametrize(
    "where",
    [
        Where(apis=("Produce", "Metadata")),
        Where(planes=("control",)),
        Where(min_total_ns=200_000),
        Where(from_ns=OFFSET_NS + 2_000_000_000, to_ns=OFFSET_NS + 3_000_000_000),
        Where(order="-total_ns", limit=17),
        Where(order="client", limit=40, min_total_ns=1),
    ],
)
def test_where(engine, rows, where):
    names = ["epoch_ns", "api", "plane", "total_ns", "client"]
    found = engine.requests(names, where).to_pylist()
    wanted = [
        row
        for row, _ in rows
        if (where.apis is None or row["api"] in where.apis)
        and (where.planes is None or row["plane"] in where.planes)
        and (where.min_total_ns is None or (row["total_ns"] or 0) >= where.min_total_ns)
        and (where.from_ns is None or where.from_ns <= row["epoch_ns"] < where.to_ns)
    ]
    if where.order is None:
        assert sorted(row["epoch_ns"] for row in found) == sorted(row["epoch_ns"] for row in wanted)
        return
    name = where.order.removeprefix("-")
    sign = -1 if where.order != name else 1
    wanted.sort(
        key=lambda row: (
            row[name] is None,
            *([sign * row[name]] if isinstance(row[name], int) else [row[name] or ""]),
            row["epoch_ns"],
            row["run"],
            row["broker"],
            row["ring"],
            row["seq"],
        )
    )
    assert found == [{name: row[name] for name in names} for row in wanted[: where.limit]]


def test_the_inputs_own_limits_hold_everywhere(directory, compacted, rows):
    limits = {
        "from_ns": OFFSET_NS + 2_000_000_000,
        "to_ns": OFFSET_NS + 4_000_000_000,
        "apis": ["Fetch"],
        "brokers": [2],
    }
    wanted = [
        (row, one)
        for row, one in rows
        if limits["from_ns"] <= row["epoch_ns"] < limits["to_ns"] and row["api"] == "Fetch" and row["broker"] == 2
    ]
    assert wanted
    for place in (directory, compacted):
        engine = choose_engine("local", open_input([place], **limits))
        assert engine.rollup(1000).to_pylist() == naive_engine.rollup(wanted, 1000, ())
        assert engine.activity(1000).to_pylist() == naive_engine.activity(wanted, 1000, ())
        assert engine.requests(["seq"]).num_rows == len(wanted)


def test_limit_without_order_gives_so_many(engine):
    assert engine.requests(["seq"], Where(limit=5)).num_rows == 5
    assert engine.requests(["seq"], Where(limit=0)).num_rows == 0


def test_an_empty_trace_has_empty_tables(tmp_path):
    write_segment(tmp_path, [])
    engine = choose_engine("auto", open_input([tmp_path]))
    assert engine.name == "local"
    assert engine.rollup(1000, ("api",)).column_names == [
        "window_ms",
        "api",
        "stage",
        "bucket",
        "n",
        "sum_ns",
        "max_ns",
    ]
    assert engine.activity(1000).num_rows == engine.requests().num_rows == 0


def test_what_cannot_be_asked(engine):
    with pytest.raises(EngineError, match="cannot group by color"):
        engine.rollup(1000, ("color",))
    with pytest.raises(EngineError, match="no column color"):
        engine.requests(["color"])
    with pytest.raises(EngineError, match="to order by"):
        engine.requests(["seq"], Where(order="-color"))
    with pytest.raises(EngineError, match="no engine 'flink'"):
        choose_engine("flink", engine.input)


def test_sums_are_exact_beyond_what_a_float_holds(tmp_path):
    """137 s, weight 32,768, thousands of times: more than 2**53 ticks."""
    one = request(flags=15 << 12, step=100_000_000)
    write_segment(tmp_path, [one] * 3000, Lane(sampled_out=3000 * 32_767))
    table = choose_engine("local", open_input([tmp_path])).rollup(0).to_pylist()
    total = next(row for row in table if row["stage"] == "total")
    assert total["sum_ns"] == 3000 * 32768 * 1_300_000_000 * 64 and total["n"] == 3000 * 32768


def test_memory_does_not_grow_with_the_trace(tmp_path, monkeypatch):
    monkeypatch.setattr(local_engine, "CHUNK_RECORDS", 2048)
    monkeypatch.setattr(accumulate, "MERGE_ROWS", 1 << 14)
    records = random_requests(4096, seed=9)
    peaks = []
    for name, repeat in (("small", 3), ("large", 15)):
        for number in range(repeat):
            write_segment(tmp_path / name, records, Lane(first_seq=4096 * number))
        engine = choose_engine("local", open_input([tmp_path / name]))
        tracemalloc.start()
        engine.rollup(60_000, ("api",))
        engine.activity(60_000, ("api",))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]
