"""Which process is ended because it was stopped: a log keeper, by a signal, for long."""

import signal

import pytest

from mpbroker.supervisor import health_watch
from mpbroker.supervisor.health import HUNG, SILENT, Finding
from mpbroker.supervisor.health_watch import HealthWatch
from mpbroker.supervisor.stopped_keeper import STOPPED_NS, end_stopped_keepers
from tests.harness.controller_world import Lines

SINCE_NS = 5
KEEPER = Finding(HUNG, 3, "log-keeper 1", 71, SINCE_NS, "it is in the middle of its work")


def ended(finding, later_ns=STOPPED_NS, state="T"):
    lines, killed = Lines(), []
    end_stopped_keepers(
        [finding], SINCE_NS + later_ns, lines, {finding.pid: state}.get, lambda *words: killed.append(words)
    )
    assert lines.named("stopped_log_keeper_ended") == [
        {"process": finding.process, "pid": finding.pid, "for_s": later_ns // 10**9} for _ in killed
    ]
    return killed


@pytest.mark.parametrize("level", [HUNG, SILENT])
def test_a_log_keeper_that_was_stopped_for_long_is_ended(level):
    assert ended(KEEPER._replace(level=level)) == [(71, signal.SIGKILL)]
    assert ended(KEEPER, later_ns=3 * STOPPED_NS) == [(71, signal.SIGKILL)]
    assert ended(KEEPER, later_ns=STOPPED_NS - 1) == []


@pytest.mark.parametrize("state", ["t", "D", "S", "R", "Z", ""])
def test_one_that_a_debugger_holds_or_the_disk_is_left_alone(state):
    assert ended(KEEPER, state=state) == []


@pytest.mark.parametrize("process", ["handler 1", "processor 0", "controller 0", "tracer 0", "acceptor 0"])
def test_no_other_process_is(process):
    assert ended(KEEPER._replace(process=process)) == []


def test_only_what_two_looks_found_counts(monkeypatch):
    now, looks = [0], []
    monkeypatch.setattr(health_watch.time, "monotonic_ns", lambda: now[0])
    monkeypatch.setattr(health_watch, "end_stopped_keepers", lambda *words: looks.append(words))
    lines = Lines()
    watch = HealthWatch("/no-page", dict, lines, lambda: -(1 << 62))
    for since_ns in (1, 2, 2, 2):
        now[0] += health_watch.LOOK_EVERY_NS
        watch._find = lambda now_ns, since_ns=since_ns: {3: KEEPER._replace(since_ns=since_ns)}
        watch.look()
    assert [[one.since_ns for one in found] for found, *_ in looks] == [[], [], [2], [2]]
    assert [words[1:] for words in looks] == [(number * health_watch.LOOK_EVERY_NS, lines) for number in range(1, 5)]
