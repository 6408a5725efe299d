"""What the incident's tables make of records: the window of two leaders, what was doomed in it, what was lost."""

import numpy as np
import pytest

from mpbroker.analysis.lab.incident import incident_plan
from mpbroker.analysis.lab.incident.incident_report import study
from mpbroker.analysis.lab.incident.incident_run import A, B, Election, IncidentResult
from mpbroker.analysis.lab.incident.incident_tables import (
    LEADER_AND_ISR,
    RECORDS,
    BrokerTrace,
    election_rows,
    probe_row,
    quantile,
    variant_row,
)
from mpbroker.analysis.lab.toml_fields import ScenarioError
from mpbroker.client.prepared_request import client_hash
from mpbroker.trace import record
from mpbroker.trace.record import NOT_REACHED, TICK_NS, TraceRecord
from mpbroker.trace.role_change import RoleChange

MS = 1_000_000
HOT = client_hash("hot")
LEADER, FOLLOWER = 0, 1


def ticks(**at_ms):
    """Stages, by milliseconds since t0."""
    return tuple(int(at_ms[name] * MS) // TICK_NS if name in at_ms else NOT_REACHED for name in record.STAGES)


def rows(*records):
    return np.frombuffer(b"".join(one.pack() for one in records), RECORDS)


def role(at_ms, epoch, old, new):
    return RoleChange(at_ms * MS, HOT, 0, epoch, old, new, 10, 10, 1, 2)


def produced(at_ms, appended_ms, error, acks=3, left_ms=200.0):
    stage = ticks(io_done=appended_ms, purg_enter=appended_ms, purg_leave=left_ms, resp_enq=left_ms, send_done=left_ms)
    return TraceRecord(t0_ns=at_ms * MS, error=error, flags=acks, topic_hash=HOT, stage=stage)


def result(probes=(), log=None):
    plan = incident_plan.load("kafka-4453")
    elections = [Election(B, 100 * MS, 130 * MS), Election(A, 900 * MS, 920 * MS)]
    return IncidentResult(plan.variants[1], None, elections, list(probes), log or {}, (0, 2000 * MS))


def traces():
    """B leads at 120, A gives up at 170; back: A gives up first."""
    control = TraceRecord(
        t0_ns=118 * MS,
        api_key=LEADER_AND_ISR,
        stage=ticks(enqueued=1, dequeued=50, send_done=60),
    )
    hot = rows(
        produced(110, 5, 0),  # before the window
        produced(120, 10, 6, left_ms=55),
        produced(121, 20, 6, left_ms=60),
        produced(130, 20, 0, acks=1),  # acks=1 waits for nobody
        produced(160, 15, 6),  # behind it
    )
    at_a = [role(50, 1, LEADER, LEADER), role(170, 2, LEADER, FOLLOWER), role(950, 4, FOLLOWER, LEADER)]
    at_b = [role(120, 2, FOLLOWER, LEADER), role(910, 4, LEADER, FOLLOWER)]
    return {A: BrokerTrace(hot, rows(control), at_a, 3000, 0), B: BrokerTrace(rows(), rows(), at_b, 0, 2)}


def test_the_window_and_what_was_doomed_in_it():
    away, back = election_rows(result(), traces())
    assert (away["to"], away["leader_epoch"], away["double_ms"], away["leaderless_ms"]) == ("B", 2, 50, 0)
    assert (away["asked_to_led_ms"], away["asked_to_given_up_ms"], away["asked_to_read_ms"]) == (20, 70, 18)
    assert (away["read_ms"], away["queue_ms"], away["work_ms"], away["plane"]) == (1, 49, 2, 0)
    assert (away["doomed"], away["doomed_codes"]) == (2, "6:2")
    assert away["doomed_purgatory_ms"] == pytest.approx(45, abs=0.01)
    assert away["given_up_to_answered_ms"] == pytest.approx(11, abs=0.01)
    assert (back["to"], back["double_ms"], back["leaderless_ms"], back["doomed"]) == ("A", 0, 40, 0)


def test_the_longest_time_without_an_acknowledgement():
    def probe(done_ms, error=0, acks=-1):
        return ["x", acks, 0, 0, 0, done_ms * MS, error, 0]

    probes = [probe(90), probe(150), probe(155, error=6), probe(260, acks=1), probe(300), probe(310), probe(2000)]
    away, back = election_rows(result(probes), traces())
    assert away["gap_ms"] == 150 and back["gap_ms"] == 1100


def test_what_became_of_the_probes():
    def probe(name, acks, error):
        return [name, acks, 0, 0, 0, 1, error, 0]

    probes = [probe("a", -1, 0), probe("b", -1, 0), probe("c", -1, 6), probe("d", -1, 7), probe("e", -1, -1)]
    probes += [probe("f", 1, 0), probe("g", 1, 0), probe("h", 1, 6), probe("i", -1, 0), probe("j", 1, 0)]
    found = probe_row(result(probes, {0: "a", 1: "f", 2: "f", 3: "i"}))
    del found["variant"]
    assert list(found.values()) == [6, 3, 1, 1, 1, 1, 4, 3, 2, 1]


def test_a_variant_in_a_line():
    found = variant_row(result(), traces(), election_rows(result(), traces()))
    assert (found["elections"], found["double_p50_ms"], found["double_p99_ms"]) == (1, 50, 50)
    assert (found["doomed"], found["flood_per_s"], found["records_dropped"]) == (2, 1500.0, 2)
    assert quantile([3, 1, 2], 0.5) == 2 and quantile([1, 2, 3], 0.99) == 3


def test_the_answer_holds_the_control_plane_to_its_bars(monkeypatch):
    plan = incident_plan.load("kafka-4453")
    windows = {"one listener": 50.0, "control-plane listener": 10.1}
    results = [result()._replace(variant=one) for one in plan.variants if one.name in windows]
    module = "mpbroker.analysis.lab.incident.incident_report"
    monkeypatch.setattr(f"{module}.read_traces", lambda one: traces())
    real = variant_row
    monkeypatch.setattr(
        f"{module}.variant_row",
        lambda one, *more: real(one, *more) | {"double_p99_ms": windows[one.variant.name], "flood_per_s": 100.0},
    )
    assert "That is NOT at most 0.2" in study(plan, results).answer[1]
    windows["control-plane listener"] = 9.9
    found = study(plan, results)
    assert "That is at most 0.2" in found.answer[1] and "within 10%" in found.answer[2]
    assert set(found.tables) == {"variants", "elections", "probes"}


def test_mistakes_in_a_file_name_their_place():
    with pytest.raises(ScenarioError, match="question"):
        incident_plan.parse("x", {})
    good = {
        "question": "?",
        "elections": 1,
        "settle_ms": 20,
        "flood": {"connections": 1, "in_flight": 1, "value_bytes": 1},
        "probes": {"connections": 1, "rate_per_s": 10.0, "timeout_ms": 1000},
        "variant": [{"name": "a"}, {"name": "a"}],
    }
    with pytest.raises(ScenarioError, match="two of the variants"):
        incident_plan.parse("x", good)
    assert incident_plan.names() == ["kafka-4453", "kafka-4453-heavy", "one-queue-or-planes"]
    assert incident_plan.load("kafka-4453-heavy").noise == {"flush.messages": 1}
