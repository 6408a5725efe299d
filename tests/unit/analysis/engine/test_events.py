"""Gauges and process events of a trace as tables; records of other versions do no harm."""

from mpbroker.analysis.engine.input.trace_input import open_input
from mpbroker.trace import record
from mpbroker.trace.gauge import ProcessGauge, RingGauge
from mpbroker.trace.process_event import DIED, STARTED, ProcessEvent
from mpbroker.trace.role_change import RoleChange, unpack
from tests.harness.record_trace import OFFSET_NS, Lane, request, write_segment

RUN = f"{Lane().boot_id:016x}"


def _input(tmp_path, *events):
    write_segment(tmp_path, [request(1_000_000), request(9_000_000)], events=events)
    return open_input([tmp_path])


def test_gauges(tmp_path):
    ring = RingGauge(5_000_000, 8, 3, 500, 20)
    process = ProcessGauge(4_000_000, 6, 1_000, None, 4711, 3, 1, 2)
    unknown = record.TraceRecord(t0_ns=1, kind=record.GAUGE, aux=99).pack()
    rows = _input(tmp_path, ring.pack(0), process.pack(0), unknown).gauges().to_pylist()
    empty = dict.fromkeys(
        ("plane", "depth", "capacity", "peak", "role", "index", "pid", "incarnation", "cpu_ns", "runqueue_wait_ns")
    )
    assert rows == [
        empty
        | {
            "run": RUN,
            "broker": 1,
            "epoch_ns": OFFSET_NS + 4_000_000,
            "type": "process",
            "name": "handler 1",
            "slot": 6,
            "role": "handler",
            "index": 1,
            "pid": 4711,
            "incarnation": 2,
            "cpu_ns": 1_000,
        },
        empty
        | {
            "run": RUN,
            "broker": 1,
            "epoch_ns": OFFSET_NS + 5_000_000,
            "type": "ring",
            "name": "data",
            "slot": 8,
            "plane": "data",
            "depth": 3,
            "capacity": 500,
            "peak": 20,
        },
    ]


def test_process_events(tmp_path):
    started = ProcessEvent(2_000_000, STARTED, 6, 3, 1, 4711, 2, None, 0, None)
    died = ProcessEvent(3_000_000, DIED, 6, 3, 1, 4711, 2, 9, 1, None)
    rows = _input(tmp_path, died.pack(0), started.pack(0)).process_events().to_pylist()
    assert [
        (row["epoch_ns"] - OFFSET_NS, row["event"], row["name"], row["pid"], row["exit"], row["restarts"])
        for row in rows
    ] == [(2_000_000, "started", "handler 1", 4711, None, 0), (3_000_000, "died", "handler 1", 4711, "signal 9", 1)]


def test_role_changes(tmp_path):
    led = RoleChange(5_000_000, 0xDEADBEEF, 3, 7, 1, 0, 120, 118, 2, 1)
    lost = led._replace(t0_ns=6_000_000, old_role=0, new_role=2, leader_epoch=8, leader=None)
    assert unpack(lost.pack(4)) == lost and record.unpack(lost.pack(4)).proc_id == 4
    rows = _input(tmp_path, lost.pack(0), led.pack(0)).role_changes().to_pylist()
    assert [(row["epoch_ns"] - OFFSET_NS, row["mono_ns"]) for row in rows] == [
        (at, at) for at in (5_000_000, 6_000_000)
    ]
    assert [tuple(row.values())[4:] for row in rows] == [
        ("deadbeef", 3, 7, "follower", "leader", 120, 118, 2, 1),
        ("deadbeef", 3, 8, "leader", "none", 120, 118, 2, None),
    ]


def test_only_those_of_the_time_asked_for(tmp_path):
    events = [RingGauge(at, 8, 1, 500, 1).pack(0) for at in (2_000_000, 4_000_000, 6_000_000)]
    _input(tmp_path, *events)
    part = open_input([tmp_path], from_ns=OFFSET_NS + 3_000_000, to_ns=OFFSET_NS + 6_000_000)
    assert [row["epoch_ns"] - OFFSET_NS for row in part.gauges().to_pylist()] == [4_000_000]


def test_a_trace_without_events_has_empty_tables(tmp_path):
    found = _input(tmp_path)
    for table in (
        found.gauges(),
        found.process_events(),
        found.connections(),
        found.role_changes(),
        found.markers(),
        found.raw_events(),
        found.losses(1000),
    ):
        assert table.num_rows == 0 and table.column_names


def test_numbers_that_only_damage_writes_are_left_out(tmp_path):
    good = ProcessGauge(4_000_000, 6, 1_000, None, 4711, 3, 1, 2)
    rows = _input(tmp_path, good._replace(cpu_ns=1 << 63).pack(0), good.pack(0)).gauges().to_pylist()
    assert [row["cpu_ns"] for row in rows] == [1_000]
