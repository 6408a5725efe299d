"""Raw records as columns: every field and duration as the plain reading of the record has it."""

import pickle

import numpy as np
import pyarrow as pa
import pytest

from mpbroker.analysis.engine.input.clock_line import ClockLine
from mpbroker.analysis.engine.input.columns import COMPACT, FRAME, RECORD_DTYPE
from mpbroker.analysis.engine.input.decode import DecodeContext, RowFilter, decode
from mpbroker.analysis.engine.input.durations import FRAME_DURATIONS
from mpbroker.trace import record
from tests.harness.naive_engine import durations
from tests.harness.record_trace import OFFSET_NS, clock, random_requests, request

CONTEXT = DecodeContext(
    "00000000000000ab",
    3,
    2,
    (1 << 32) - 5,
    ClockLine([clock(0)]),
    {0: "Produce", 1: "Fetch"},
    ("PLAINTEXT", "CONTROL"),
    {11: "reader"},
    {21: "orders"},
)
RECORDS = [
    one._replace(seq_lo=(CONTEXT.first_seq + n) & 0xFFFFFFFF)
    for n, one in enumerate(random_requests(3000, seed=4, sampled=True))
]
DATA = b"".join(one.pack() for one in RECORDS)


def _plain(number: int, one: record.TraceRecord) -> dict:
    """A frame's row without numpy."""
    spans, flags = durations(one)
    epoch_ns = one.t0_ns + OFFSET_NS
    plane = one.plane_prio & 3
    return {
        "run": CONTEXT.run,
        "broker": 3,
        "epoch_ns": epoch_ns,
        "t0_ns": one.t0_ns,
        "ring": 2,
        "seq": CONTEXT.first_seq + number,
        "conn_id": one.conn_id,
        "client": {11: "reader"}.get(one.client_hash),
        "client_hash": one.client_hash,
        "topic": {21: "orders"}.get(one.topic_hash),
        "topic_hash": one.topic_hash,
        "listener": {0: "PLAINTEXT", 1: "CONTROL"}.get(one.listener, f"listener-{one.listener}"),
        "plane": {0: "data", 1: "control"}.get(plane, f"plane-{plane}"),
        "prio": one.plane_prio >> 2 & 7,
        "api": {0: "Produce", 1: "Fetch"}.get(one.api_key, f"Api{one.api_key}"),
        "api_key": one.api_key,
        "api_version": one.api_version,
        "error": one.error,
        "acks": (0, 1, 2, -1)[one.flags & 3],
        "flags": one.flags | flags,
        "processor": one.proc_id,
        "handler": None if one.handler_id == 0xFFFF else one.handler_id,
        "req_bytes": one.req_bytes,
        "resp_bytes": one.resp_bytes,
        "nparts": one.nparts,
        "req_q": one.req_q,
        "resp_q": one.resp_q,
        "inflight": one.inflight,
        "attempts": one.attempts,
        "purg_kind": {0: "none", 1: "produce", 2: "fetch"}.get(one.purg_kind, f"kind-{one.purg_kind}"),
        "throttle_ms": one.throttle_ms,
        "aux": one.aux,
        "corr_id": one.corr_id,
        "weight": one.weight,
        "handler_cpu_ns": None if one.handler_cpu == 0 else min(one.handler_cpu, (1 << 31) - 1) * 64,
        **{f"{name}_ns": spans[name] for name in FRAME_DURATIONS},
    }


def test_every_column_of_every_row():
    table = decode(DATA, CONTEXT)
    assert table.schema == FRAME
    microseconds = table.column("ts").cast(pa.int64()).to_pylist()
    assert microseconds == [(one.t0_ns + OFFSET_NS) // 1000 for one in RECORDS]
    assert table.drop_columns(["ts"]).to_pylist() == [_plain(number, one) for number, one in enumerate(RECORDS)]


@pytest.mark.parametrize("also_missing", [(), ("handler_start",), ("io_done",), ("handler_start", "io_done")])
def test_a_request_has_kafkas_view_as_differences_of_stages(also_missing):
    """Also one served in C, without some stages of its own."""
    one = request(step=10, missing=("purg_enter", "purg_leave", *also_missing))
    spans, flags = durations(one)
    at = dict(zip(record.STAGES, one.stage, strict=True))
    assert flags == 0
    assert spans["request_queue"] == 64 * (at["dequeued"] - at["frame_done"])
    assert spans["local_time"] == 64 * (at["local_done"] - at["dequeued"])
    assert spans["response_send"] == 64 * (at["send_done"] - at["resp_deq"])
    assert spans["kafka_total"] == 64 * (at["send_done"] - at["frame_done"])
    assert spans["true_total"] == 64 * (at["send_done"] + 7)


@pytest.mark.parametrize(("kind", "asked"), [(0, False), (1, False), (2, True), (3, True), (4, False)])
def test_waiting_that_a_client_asked_for_is_kept_apart(kind, asked):
    """A fetch that waits for data, a member that waits for its group; not a produce request that waits for replicas."""
    one = request(step=10, purg_kind=kind)
    table = decode(one.pack(), CONTEXT, ["purgatory_ns", "asked_wait_ns", "true_total_ns", "active_total_ns"])
    [row] = table.to_pylist()
    assert row["purgatory_ns"] > 0
    assert row["asked_wait_ns"] == (row["purgatory_ns"] if asked else None)
    assert row["active_total_ns"] == row["true_total_ns"] - (row["purgatory_ns"] if asked else 0)


def test_active_total_begins_at_the_first_read_where_the_kernel_does_not_tell():
    [row] = decode(
        request(rx_wait=record.NOT_REACHED).pack(), CONTEXT, ["true_total_ns", "active_total_ns", "total_ns"]
    ).to_pylist()
    assert row["true_total_ns"] is None and row["active_total_ns"] == row["total_ns"]


def test_only_requests_and_only_the_columns_asked_for():
    data = b"".join(request(kind=kind, corr_id=kind).pack() for kind in range(8))
    table = decode(data, CONTEXT, ["corr_id", "api"])
    assert table.column_names == ["corr_id", "api"] and table.to_pylist() == [{"corr_id": 0, "api": "Produce"}]
    assert decode(b"", CONTEXT, ["ts", "client", "total_ns"]).num_rows == 0
    with pytest.raises(KeyError):
        decode(data, CONTEXT, ["no_such_column"])


@pytest.mark.parametrize(
    "rows",
    [
        RowFilter(apis=("Fetch",)),
        RowFilter(apis=("Api77", "Produce")),
        RowFilter(brokers=(4,)),
        RowFilter(from_ns=OFFSET_NS + 2_000_000_000, to_ns=OFFSET_NS + 3_000_000_000),
    ],
)
def test_filter(rows):
    kept = decode(DATA, CONTEXT, ["corr_id", "api", "epoch_ns", "broker"], rows).to_pylist()
    everything = decode(DATA, CONTEXT, ["corr_id", "api", "epoch_ns", "broker"]).to_pylist()
    assert kept == [
        row
        for row in everything
        if (rows.apis is None or row["api"] in rows.apis)
        and (rows.brokers is None or row["broker"] in rows.brokers)
        and (rows.from_ns is None or rows.from_ns <= row["epoch_ns"] < rows.to_ns)
    ]
    assert len(kept) < len(everything)


def test_the_context_travels_to_other_processes():
    again = pickle.loads(pickle.dumps(CONTEXT))
    assert decode(DATA, again).equals(decode(DATA, CONTEXT))


def test_numpy_reads_the_record_where_the_record_has_it():
    assert {
        name: (RECORD_DTYPE.fields[name][1], RECORD_DTYPE.fields[name][0].itemsize) for name in RECORD_DTYPE.names
    } == record.layout()


def test_nothing_is_unsigned():
    """Spark has no unsigned types."""
    assert not [
        field.name for schema in (FRAME, COMPACT) for field in schema if pa.types.is_unsigned_integer(field.type)
    ]
    assert np.dtype(np.int64) == np.array(decode(DATA, CONTEXT, ["seq"]).column("seq")).dtype
