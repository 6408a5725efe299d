"""The agent's reports of roles: from a change to the record in the trace; what finds no room is counted."""

import os
from types import SimpleNamespace

from mpbroker.controller import role_trace
from mpbroker.controller.role_trace import RoleTrace
from mpbroker.record.checksum import crc32c
from mpbroker.shm.cluster_table import NOBODY
from mpbroker.shm.counters import Counter
from mpbroker.shm.layout import ReplicaRole
from mpbroker.supervisor.shared_state import trace_notices_pipe
from mpbroker.trace import role_change
from mpbroker.trace.dictionary_writer import DictionaryWriter
from mpbroker.trace.notice_intake import NoticeIntake

STATE = SimpleNamespace(role=0, leader=1, leader_epoch=7, leo=120, hw=118)


def test_a_change_becomes_a_record(tmp_path):
    reading, writing = trace_notices_pipe()
    found = []
    intake = NoticeIntake(reading, DictionaryWriter(tmp_path, 1, 2), lambda processor, data: found.append(data))
    trace = RoleTrace(writing, lambda ordinal: STATE, lambda counter: None)
    trace.changed("hot", 3, 9, 1, 2)
    assert intake.take() == 0, "told later"
    trace.tell()
    trace.tell()
    assert intake.take() == 1
    (one,) = map(role_change.unpack, found)
    assert one[1:] == (crc32c(b"hot"), 3, 7, 1, 0, 120, 118, 2, 1) and one.t0_ns > 0
    for descriptor in (reading, writing):
        os.close(descriptor)


def test_what_is_not_known_yet_is_nothing():
    """An empty log ends at 0, epochs that were never told count as 0, and nobody is no leader."""
    told = []
    for fields, wanted in (
        ({"leader_epoch": 0, "leo": 0, "hw": 0}, (0, 0, 0, 0, 1)),
        ({"leader_epoch": -1, "leo": -1, "hw": -1, "leader": NOBODY}, (0, 0, 0, 0, role_trace.NO_LEADER)),
        ({"leader_epoch": 1, "leo": 1, "hw": 1}, (1, 1, 1, 0, 1)),
    ):
        state = SimpleNamespace(**vars(STATE) | fields)
        trace = RoleTrace(0, lambda ordinal, state=state: state, lambda counter: None)
        assert trace.role_of(9) == 0
        trace._writer = SimpleNamespace(tell=lambda one: told.append(one) or True)
        trace.changed("hot", 3, 9, 1, -1)
        trace.tell()
        one = told.pop()
        assert (one.leader_epoch, one.log_end, one.high_watermark, one.controller_epoch, one.leader) == wanted


def test_nobody_wants_to_know():
    trace = RoleTrace(-1, lambda ordinal: 1 / 0, lambda counter: 1 / 0)
    assert trace.role_of(1) == 0
    trace.changed("hot", 0, 1, 0, 1)
    trace.tell()


def test_bounds(monkeypatch):
    reading, writing = trace_notices_pipe()
    os.close(reading)
    counted = []
    monkeypatch.setattr(role_trace, "MAX_NOTED", 2)
    trace = RoleTrace(writing, lambda ordinal: STATE, counted.append)
    for _ in range(3):
        trace.changed("hot", 0, 1, 0, 1)
    assert counted == [Counter.TRACE_NOTICES_DROPPED]
    trace.tell()
    assert len(counted) == 3
    os.close(writing)


def test_roles_are_numbered_as_in_shared_memory():
    assert {role.value: role.name.lower() for role in ReplicaRole} == role_change.ROLE_NAMES
