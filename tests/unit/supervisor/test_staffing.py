"""Which processors and handlers come and go when their numbers change."""

import pytest

from mpbroker.config.load_config import load_broker_config
from mpbroker.shm.process_context import BoundListener
from mpbroker.supervisor.process_types import plan_processes
from mpbroker.supervisor.staffing import Changes, Room, Staffing
from mpbroker.supervisor.workers import Workers

LISTENERS = tuple(
    BoundListener(index, name, "PLAINTEXT", "", 9092 + index, "h", 9092 + index, name == "CTL")
    for index, name in enumerate(("A", "B", "CTL"))
)
MAP = "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT,CTL:PLAINTEXT"
GIVEN = ("listeners=A://:1,B://:2,CTL://:3", MAP, "control.plane.listener.name=CTL", "inter.broker.listener.name=A")


def config(processors: int, handlers: int, *more: str):
    threads = (f"num.network.threads={processors}", f"num.io.threads={handlers}")
    return load_broker_config(overrides=[*GIVEN, *threads, *more], environ={}, cores=2)


class Staff:
    """Workers as they come and go; those that are told to go do so when `gone` is called."""

    def __init__(self, processors: int = 10, handlers: int = 10) -> None:
        self.workers = Workers(plan_processes(config(1, 1), LISTENERS))
        self.staffing = Staffing(self.workers, Room(processors, handlers))

    def want(self, *wanted, **how):
        self.changes = self.staffing.changes(config(*wanted), LISTENERS)
        for plan in self.changes.come:
            self.workers.add(plan)
        for worker in self.changes.stay:
            worker.leaving = False
        for worker in self.changes.go:
            worker.leaving = True
        return self

    def gone(self):
        for worker in [each for each in self.workers.all if each.leaving]:
            self.workers.remove(worker)

    def there(self, role: str, leaving: bool = False) -> list[tuple[int, int | None]]:
        return sorted(
            (worker.plan.index, worker.plan.listener)
            for worker in self.workers.all
            if worker.plan.type.role == role and worker.leaving == leaving
        )


def test_more_of_each_listener_and_of_handlers_and_fewer_again():
    staff = Staff()
    assert staff.there("processor") == [(0, 2), (1, 0), (2, 1)], "the control plane's first"
    assert staff.there("handler") == [(0, None), (1, None)], "one of them reserved"
    staff.want(2, 3)
    assert staff.there("processor") == [(0, 2), (1, 0), (2, 1), (3, 0), (4, 1)]
    assert staff.there("handler") == [(index, None) for index in range(4)]
    assert not staff.want(2, 3).changes
    staff.want(1, 1)
    assert staff.there("processor") == [(0, 2), (1, 0), (2, 1)]
    assert staff.there("handler") == [(0, None), (1, None)]
    assert staff.there("processor", leaving=True) == [(3, 0), (4, 1)]
    assert not staff.want(1, 1).changes


def test_a_place_goes_back_to_the_listener_it_was_left_by():
    staff = Staff(5, 10)
    staff.want(2, 1).want(1, 1).gone()
    staff.want(1, 1, "listener.name.b.num.network.threads=2")
    assert staff.there("processor")[3:] == [(4, 1)]
    staff.want(1, 1, "listener.name.b.num.network.threads=3")
    assert staff.changes.short == {"processor": 1} and not staff.changes.come, "index 3 was A's"


def test_those_that_leave_are_wanted_again_only_when_there_is_no_other_place():
    staff = Staff(4, 4)
    staff.want(1, 3).want(1, 1)
    assert staff.there("handler", leaving=True) == [(2, None), (3, None)]
    staff.want(1, 2)
    assert [worker.plan.index for worker in staff.changes.stay] == [2] and staff.changes.short == {}
    staff.gone()
    assert [plan.index for plan in staff.want(1, 3).changes.come] == [3]


def test_of_those_that_leave_only_as_many_stay_as_find_no_other_place():
    staff = Staff(4, 5)
    staff.want(1, 3).want(1, 1)
    staff.want(1, 3)
    assert [plan.index for plan in staff.changes.come] == [4]
    assert [worker.plan.index for worker in staff.changes.stay] == [2]


@pytest.mark.parametrize("room", [(3, 10), (10, 3)])
def test_what_finds_no_room_is_told(room):
    staff = Staff(*room).want(2, 4)
    assert set(staff.changes.short.values()) == {2}


def test_a_listener_that_comes_gets_processors_and_one_that_is_removed_loses_them():
    staff = Staff(3, 4)
    there = {role: staff.there(role) for role in ("processor", "handler")}
    without = (LISTENERS[0], LISTENERS[1]._replace(removed=True), LISTENERS[2])
    gone = staff.staffing.changes(config(1, 1), without)
    assert sorted(worker.plan.name for worker in gone.go) == ["processor 2"] and not gone.come
    for worker in gone.go:
        worker.leaving = True
    assert not staff.staffing.changes(config(1, 1), without), "they have been told"
    staff.gone()
    fresh = (*without, LISTENERS[1]._replace(index=3))
    assert staff.staffing.changes(config(1, 1), fresh).short == {"processor": 1}, "the place is still that of index 1"
    assert staff.staffing.forget(1) == [2] and staff.staffing.forget(1) == []
    come = staff.staffing.changes(config(1, 1), fresh).come
    assert [(plan.name, plan.listener) for plan in come] == [("processor 2", 3)]
    assert staff.there("handler") == there["handler"]


@pytest.mark.parametrize("kind", ["come", "go", "stay"])
def test_one_change_of_any_kind_is_a_change(kind):
    nothing = Changes([], [], [], {"handler": 1})
    assert not nothing and nothing._replace(**{kind: [object()]})


def test_the_places_of_each_listeners_processors_also_of_those_that_left():
    staff = Staff().want(2, 1)
    assert staff.staffing.processors() == {0: [1, 3], 1: [2, 4], 2: [0]}
    assert staff.staffing.left_places() == []
    staff.want(1, 1)
    staff.gone()
    assert staff.staffing.processors() == {0: [1, 3], 1: [2, 4], 2: [0]}
    assert staff.staffing.left_places() == [3, 4]
    assert staff.staffing.forget(1) == [2, 4]
    assert staff.staffing.processors() == {0: [1, 3], 2: [0]}


def test_a_listener_has_its_own_places_back_before_it_takes_anybodys():
    """What its last process passed back there may still lie in them."""
    staff = Staff(6, 10)
    staff.want(2, 1).want(1, 1).gone()
    assert staff.staffing.processors() == {0: [1, 3], 1: [2, 4], 2: [0]}
    for worker in [each for each in staff.workers.all if each.plan.listener == 0]:
        staff.workers.remove(worker)
    without = (LISTENERS[0]._replace(removed=True), *LISTENERS[1:])
    assert staff.staffing.forget(0) == [1, 3]
    changes = staff.staffing.changes(config(3, 1), without)
    assert [(plan.index, plan.listener) for plan in changes.come] == [(4, 1), (1, 1)]
