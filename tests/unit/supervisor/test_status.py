"""What `status` judges and shows: who seems to hang is looked at twice."""

import os
from types import SimpleNamespace

import pytest

from mpbroker.shm.process_table import ProcessInfo, ProcessState
from mpbroker.supervisor import health, status


@pytest.mark.parametrize(
    ("levels", "looks"),
    [([[]], 1), ([["DEGRADED"]], 1), ([["HUNG"], []], 2), ([["SILENT"], ["SILENT"]], 2)],
)
def test_who_seems_to_hang_is_looked_at_again_after_a_while(monkeypatch, levels, looks):
    done = []
    found = [[SimpleNamespace(level=getattr(health, name)) for name in names] for names in levels]
    answers = iter(found)

    def judge(said, page):
        done.append("look")
        return next(answers)

    monkeypatch.setattr(status, "_judge", judge)
    monkeypatch.setattr(status.time, "sleep", lambda seconds: done.append(seconds))
    assert status._judge_twice(None, None) == found[-1]
    assert done == ["look", status.SECOND_LOOK_S, "look"][: 2 * looks - 1]


def row(**how):
    usual = {"slot": 4, "pid": 4711, "incarnation": 2, "role": 1, "index": 3, "listener": None, "wait": "none"}
    usual |= {"state": ProcessState.RUNNING, "restarts": 1, "last_exit": None, "heartbeat_ns": 5_000_000}
    usual |= {"entry": None, "api_key": None, "api_version": None, "request_since_ns": 0, "busy_ns": 0, "idle_ns": 0}
    usual |= {"connections": 0, "troubles": 0, "troubled_since_ns": 0, "unsteady_since_ns": 0}
    return ProcessInfo(**usual | how)


@pytest.mark.parametrize(
    "state, alive",
    [
        (ProcessState.RUNNING, True),
        (ProcessState.STOPPING, True),
        (ProcessState.DEAD, False),
        (ProcessState.EMPTY, False),
    ],
)
def test_of_the_dead_no_pid_and_no_request_is_shown(state, alive):
    request = {"api_key": 18, "api_version": 3, "request_since_ns": 2_000_000}
    said = status._process(row(state=state, **request), {}, 9_000_000, None)
    assert (said["pid"], said["state"]) == (4711 if alive else 0, state.name.lower())
    assert said["request"] == ({"api": "ApiVersions", "version": 3, "age_ms": 7} if alive else None)
    assert said["heartbeat_age_ms"] == 4


def test_what_else_a_process_shows():
    said = status._process(row(listener=1, role=99, last_exit=9), {0: "A", 1: "B"}, 1, "HUNG")
    assert (said["listener"], said["role"], said["state"], said["last_exit"]) == ("B", "99", "HUNG", "signal 9")
    assert said["heartbeat_age_ms"] == 0 and said["request"] is None, "the clock was read before the heartbeat"
    assert status._process(row(listener=7), {0: "A"}, 1, None)["listener"] is None
    unknown = status._request(row(api_key=999, api_version=0, request_since_ns=50), 10)
    assert unknown == {"api": "999", "version": 0, "age_ms": 0}


def test_since_when_something_is_not_well(monkeypatch):
    clock = {"monotonic_ns": lambda: 100_000_000_000, "time_ns": lambda: 1_700_000_000_000_000_000}
    monkeypatch.setattr(status, "time", SimpleNamespace(**clock))
    found = [
        health.Finding(health.HUNG, 4, "handler 1", 4711, since_ns, "s")
        for since_ns in (97_500_000_000, 200_000_000_000)
    ]
    said = status._health(found)
    assert said["state"] == health.state_of(found)
    assert [(one["for_s"], one["since_ms"]) for one in said["findings"]] == [
        (2, 1_700_000_000_000 - 2500),
        (0, 1_700_000_000_000 + 100_000),
    ]
    assert status._seconds_since(98_999_999_999) == 1 and status._seconds_since(200_000_000_000) == 0
    assert status._seconds_since(99_000_000_000) == 1 and status._seconds_since(99_000_000_001) == 0
    exact = [health.Finding(health.HUNG, 4, "handler 1", 4711, 97_000_000_000, "s")]
    assert status._health(exact)["findings"][0]["for_s"] == 3


def test_free_space_where_records_and_traces_go(monkeypatch, tmp_path):
    disk = SimpleNamespace(f_bavail=3, f_frsize=4096, f_blocks=10)
    real = os.statvfs
    monkeypatch.setattr(status.os, "statvfs", lambda path: real(path) and disk)
    found = status._disks(str(tmp_path), str(tmp_path / "gone"))
    assert found == [{"for": "records", "path": str(tmp_path), "free_bytes": 12288, "total_bytes": 40960}]
    assert [one["for"] for one in status._disks(str(tmp_path), str(tmp_path))] == ["records", "traces"]


def test_the_document_tells_of_each_process_the_worst_that_was_found(monkeypatch):
    """Findings come worst first. What only degrades is no state of a process, and an index no name of a listener."""
    page = SimpleNamespace(
        state=SimpleNamespace(name="RUNNING"),
        counters=lambda: dict.fromkeys(status.COUNTERS, 5),
        processes=lambda: [row(slot=slot, listener=7) for slot in (1, 2, 3, 4)],
        rings=lambda: [SimpleNamespace(name="data", depth=1, capacity=2, peak=3)],
    )
    listener = {"name": "A", "host": "h", "port": 9, "index": 7}
    said = SimpleNamespace(
        listeners=(listener,), version="v", pid=3, node_id=4, cluster_id="c", started_ms=5, started_ns=6, admin=None,
        trace_dir="/t",
    )  # fmt: skip
    levels = [(health.HUNG, 1), (health.SILENT, 1), (health.SILENT, 2), (health.DEGRADED, 2), (health.DEGRADED, 3)]
    findings = [health.Finding(level, slot, "p", 1, 0, "s") for level, slot in levels]
    monkeypatch.setattr(status, "_judge_twice", lambda *_: findings)
    monkeypatch.setattr(status, "_topics", lambda pid: ["topics of", pid])
    monkeypatch.setattr(status, "_disks", lambda *where: ["disks", *where])
    found = status._document("/d", said, page)
    states = [(one["slot"], one["state"]) for one in found["processes"]]
    assert states == [(1, "hung"), (2, "silent"), (3, "running"), (4, "running")]
    assert found["listeners"] == [{"name": "A", "host": "h", "port": 9}]
    assert {one["listener"] for one in found["processes"]} == {"A"} and found["state"] == "running"
    assert found["rings"] == [{"name": "data", "depth": 1, "capacity": 2, "peak": 3}]
    assert found["topics"] == ["topics of", 3] and found["disks"] == ["disks", "/d", "/t"]
    assert len(found["counters"]) == len(status.COUNTERS) and set(found["counters"].values()) == {5}
    who = {"pid": 3, "node_id": 4, "cluster_id": "c", "started_ms": 5, "admin": None, "version": "v", "schema": 2}
    assert who.items() <= found.items() and len(found["health"]["findings"]) == 5
