"""When the supervisor says that a process hangs, and that it is over: once each, and never after a single look."""

from types import SimpleNamespace

import pytest

from mpbroker.shm.process_table import BrokerState
from mpbroker.supervisor import health, health_watch
from mpbroker.supervisor.health import HUNG, SILENT, SILENT_NS, Finding
from mpbroker.supervisor.health_watch import LOOK_EVERY_NS, HealthWatch
from mpbroker.supervisor.process_types import SUPERVISOR_SLOT
from tests.harness.controller_world import Lines


def long_ago_ns():
    """Of processes that beat last before the clock began: everything is looked at."""
    return -(1 << 62)


@pytest.fixture
def world(monkeypatch):
    """(look, lines): `look(findings…)` a second later; what was logged."""
    lines, now = Lines(), [0]
    monkeypatch.setattr(health_watch.time, "monotonic_ns", lambda: now[0])
    watch = HealthWatch("/no-page", dict, lines, long_ago_ns)

    def look(*findings):
        now[0] += LOOK_EVERY_NS
        watch._find = lambda now_ns: {one.slot: one for one in findings}
        assert watch.look() and not watch.look(), "once a second"

    return look, lines


@pytest.mark.parametrize(("age_ns", "looked"), [(0, 0), (SILENT_NS - 1, 0), (SILENT_NS, 1), (3 * SILENT_NS, 1)])
def test_while_all_processes_beat_nothing_more_is_read(monkeypatch, age_ns, looked):
    monkeypatch.setattr(health_watch.time, "monotonic_ns", lambda: now_ns)
    now_ns, looks = 0, []
    watch = HealthWatch("/no-page", dict, Lines(), lambda: now_ns - age_ns)
    watch._find = lambda when_ns: looks.append(when_ns) or {}
    now_ns = 100 * LOOK_EVERY_NS
    assert watch.look() and len(looks) == looked


def test_what_was_said_is_over_once_all_beat_again(monkeypatch):
    monkeypatch.setattr(health_watch.time, "monotonic_ns", lambda: now_ns)
    now_ns, beat_ns, lines = 20 * LOOK_EVERY_NS, 5, Lines()
    watch = HealthWatch("/no-page", dict, lines, lambda: beat_ns)
    watch._find = lambda when_ns: {48: _finding()}
    watch._due_ns = now_ns
    watch.look()
    now_ns += LOOK_EVERY_NS
    watch.look()
    assert _said(lines) == ["process_hung"]
    beat_ns, now_ns = 21 * LOOK_EVERY_NS, 22 * LOOK_EVERY_NS
    watch.look()
    assert _said(lines) == ["process_hung", "process_no_longer_hung"]


def _finding(level=HUNG, since_ns=5, slot=48):
    return Finding(level, slot, f"handler {slot - 48}", 7, since_ns, "1 request waiting for it")


def _said(lines):
    return [event for event, _ in lines.events]


def test_one_line_when_it_begins_and_one_when_it_is_over(world):
    look, lines = world
    look()
    look(_finding())
    assert _said(lines) == []
    for _ in range(3):
        look(_finding())
    assert _said(lines) == ["process_hung"]
    (told,) = lines.named("process_hung")
    assert (told["process"], told["pid"], told["reason"]) == ("handler 0", 7, "1 request waiting for it")
    look()
    look()
    assert _said(lines) == ["process_hung", "process_no_longer_hung"]


def test_a_heartbeat_that_was_old_at_one_look_only_is_nothing(world):
    look, lines = world
    for since_ns in (1, 2, 3, 4):  # it moves, and is old each time: a machine that is frozen again and again
        look(_finding(since_ns=since_ns))
    assert _said(lines) == []


def test_a_silent_process_that_gets_work_is_said_to_hang(world):
    look, lines = world
    for level in (SILENT, SILENT, HUNG, HUNG, SILENT):
        look(_finding(level))
    assert _said(lines) == ["process_silent", "process_hung"]
    look()
    assert _said(lines)[2:] == ["process_no_longer_hung"]


def test_an_episode_each(world):
    look, lines = world
    for since_ns in (1, 1, 9, 9):
        look(_finding(since_ns=since_ns), _finding(slot=49))
    assert _said(lines) == ["process_hung", "process_hung", "process_no_longer_hung", "process_hung"]


def test_a_page_that_somebody_removed_is_said_once(monkeypatch):
    lines, now = Lines(), [0]
    monkeypatch.setattr(health_watch.time, "monotonic_ns", lambda: now[0])
    watch = HealthWatch("/mpbroker-no-such-page", dict, lines, long_ago_ns)
    for _ in range(3):
        now[0] += LOOK_EVERY_NS
        watch.look()
    assert _said(lines) == ["health_not_watched"]


@pytest.mark.parametrize(("state", "looks"), [("RUNNING", True), ("DRAINING", False), ("STARTING", False)])
def test_only_a_broker_that_runs_is_judged(monkeypatch, state, looks):
    judged = []
    watch = HealthWatch.__new__(HealthWatch)
    watch._held = None
    watch._page = SimpleNamespace(state=BrokerState[state], processes=list, rings=list, reserved_handlers=0)
    one = SimpleNamespace(slot=3, level=health.HUNG)
    others = [SimpleNamespace(slot=SUPERVISOR_SLOT, level=health.HUNG), SimpleNamespace(slot=4, level="slow")]
    monkeypatch.setattr(health_watch.health, "judge", lambda facts, now_ns: judged.append(now_ns) or [one, *others])
    assert watch._find(7) == ({3: one} if looks else {}) and judged == [7] * looks


def test_the_first_look_is_a_second_after_the_start(monkeypatch):
    """The page is mapped then: after the first forks, each of which would have a copy of the mapping."""
    now, looks = [50], []
    monkeypatch.setattr(health_watch.time, "monotonic_ns", lambda: now[0])
    watch = HealthWatch("/no-page", dict, Lines(), long_ago_ns)
    watch._find = lambda now_ns: looks.append(now_ns) or {}
    for later, looked in ((0, False), (LOOK_EVERY_NS - 1, False), (1, True), (LOOK_EVERY_NS - 1, False), (1, True)):
        now[0] += later
        assert watch.look() is looked
    assert looks == [50 + LOOK_EVERY_NS, 50 + 2 * LOOK_EVERY_NS]


def test_what_is_judged_knows_what_handlers_hold(monkeypatch):
    seen, held = [], lambda: {48: 2}
    page = SimpleNamespace(state=BrokerState.RUNNING, processes=list, rings=list, reserved_handlers=3)
    monkeypatch.setattr(health_watch, "PageView", lambda name: seen.append(name) or page)
    monkeypatch.setattr(health_watch.health, "judge", lambda facts, now_ns: seen.append((facts, now_ns)) or [])
    watch = HealthWatch("/page", held, Lines(), long_ago_ns)
    assert watch._find(7) == watch._find(8) == {} and seen[0] == "/page" and len(seen) == 3, "mapped once"
    assert seen[1] == (health.Facts(BrokerState.RUNNING, 7, [], [], 3, held), 7)
