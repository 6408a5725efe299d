"""The record: the same bytes in Python and C, and exactly these bytes."""

import struct

from mpbroker import _native
from mpbroker.trace import record
from mpbroker.trace.record import TraceRecord


def test_layout_is_the_one_of_the_c_struct():
    assert record.layout() == _native.trace_layout()
    assert sum(size for _, size in record.layout().values()) == record.RECORD_BYTES


def golden() -> TraceRecord:
    return TraceRecord(
        t0_ns=0x1122334455667788,
        seq_lo=7,
        aux=3,
        conn_id=0x00020005,
        client_hash=0xA1A2A3A4,
        topic_hash=0xB1B2B3B4,
        corr_id=-2,
        req_bytes=200,
        resp_bytes=60,
        throttle_ms=5,
        kind=0,
        plane_prio=1,
        api_key=1,
        api_version=11,
        error=-1,
        listener=2,
        inflight=4,
        proc_id=16,
        handler_id=48,
        nparts=9,
        req_q=500,
        resp_q=20,
        purg_kind=2,
        attempts=1,
        flags=0x0108,
        rx_wait=record.NOT_REACHED,
        stage=(*range(1, 13), record.NOT_REACHED),
        handler_cpu=77,
    )


def test_golden_bytes():
    wanted = (
        bytes.fromhex(
            "8877665544332211"
            "07000000"
            "03000000"
            "05000200"
            "a4a3a2a1"
            "b4b3b2b1"
            "feffffff"
            "c8000000"
            "3c000000"
            "05000000"
            "00"
            "01"
            "0100"
            "0b00"
            "ffff"
            "02"
            "04"
            "1000"
            "3000"
            "0900"
            "f401"
            "1400"
            "02"
            "01"
            "0801"
            "ffffffff"
        )
        + struct.pack("<13I", *range(1, 13), 0xFFFFFFFF)
        + struct.pack("<I", 77)
    )
    assert len(wanted) == 128
    assert golden().pack() == wanted
    assert record.unpack(b"x" + wanted, 1) == golden()


def test_meaning_of_fields():
    one = golden()
    assert one.plane == 1
    assert one.flag_names() == ["purgatory-timeout", "re-dispatched"]
    assert one.weight == 1
    assert one._replace(flags=3 << record.SAMPLE_SHIFT).weight == 8
    assert one.stage_ns(record.STAGES.index("dequeued")) == 4 * 64
    assert one.stage_ns(record.STAGES.index("send_done")) is None


def test_of_what_nobody_says_nothing_is_known():
    """A record of another kind than request says only what its kind has: the rest is 0, and no stage was reached."""
    plain = TraceRecord(t0_ns=5)
    unknown = {"handler_id": 0xFFFF, "rx_wait": 0xFFFFFFFF, "stage": (0xFFFFFFFF,) * 13, "t0_ns": 5}
    assert plain._asdict() == dict.fromkeys(TraceRecord._fields, 0) | unknown
    assert record.unpack(plain.pack()) == plain
