"""Which processes began and died, told by two looks at the process table."""

from types import SimpleNamespace

from mpbroker.trace.process_event import DIED, STARTED, ProcessEvent
from mpbroker.trace.process_watch import ProcessWatch


def row(slot, pid, incarnation, restarts=0, last_exit=None):
    return SimpleNamespace(
        slot=slot, pid=pid, incarnation=incarnation, restarts=restarts, role=2, index=slot - 16, last_exit=last_exit,
        listener=1,
    )  # fmt: skip


def event(what, slot, pid, incarnation, restarts=0, last_exit=None):
    return ProcessEvent(9, what, slot, 2, slot - 16, pid, incarnation, last_exit, restarts, 1)


def test_a_start_is_told_once_and_of_each_slot():
    watch = ProcessWatch()
    assert watch.has_looked is False
    rows = [row(16, 70, 3), row(17, 0, 0), row(18, 71, 1)]
    assert watch.events(rows, 9) == [event(STARTED, 16, 70, 3), event(STARTED, 18, 71, 1)]
    assert watch.has_looked is True and watch.events(rows, 9) == []


def test_a_death_has_who_died_and_comes_before_the_start_of_the_successor():
    watch = ProcessWatch()
    watch.events([row(16, 70, 3)], 8)
    assert watch.events([row(16, 72, 4, 1, 9)], 9) == [
        event(DIED, 16, 70, 3, 1, 9),
        event(STARTED, 16, 72, 4, 1, 9),
    ]
    assert watch.events([row(16, 0, 4, 2, 11)], 9) == [event(DIED, 16, 72, 4, 2, 11)], "it has no successor yet"
    assert watch.events([row(16, 0, 4, 2, 11)], 9) == []
    assert watch.events([row(16, 73, 5, 2, 11)], 9) == [event(STARTED, 16, 73, 5, 2, 11)]


def test_a_number_that_the_system_uses_again_is_another_process():
    watch = ProcessWatch()
    watch.events([row(16, 70, 3)], 8)
    assert watch.events([row(16, 70, 4)], 9) == [event(STARTED, 16, 70, 4)]
    assert watch.events([row(16, 71, 4)], 9) == [event(STARTED, 16, 71, 4)]


def test_the_first_look_tells_the_last_death_of_a_slot_without_who_it_was():
    assert ProcessWatch().events([row(16, 70, 3, 1, 9)], 9) == [
        event(DIED, 16, 0, 0, 1, 9),
        event(STARTED, 16, 70, 3, 1, 9),
    ]
