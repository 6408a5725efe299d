"""Rows of the process table: each of its fields has its own place, counters are added to and set, a new process begins
anew."""

import time

import pytest

from mpbroker import _native
from mpbroker.shm.layout import MAX_COUNTERS
from mpbroker.shm.process_table import ProcessState
from tests.harness.small_core import small_core

U32, U64 = (1 << 32) - 1, (1 << 64) - 1
FIELDS = ("pid", "incarnation", "state", "wait", "restarts", "last_exit", "connections", "log_errno", "log_errno_row")
FIELDS += ("heartbeat_ns", "request", "request_since_ns", "busy_ns", "idle_ns", "troubles", "troubled_since_ns")
FIELDS += ("unsteady_since_ns",)


@pytest.fixture
def core():
    return small_core().core


def test_each_field_has_its_own_place(core):
    """And each slot its own row, that every view of it shows."""
    rows = {slot: _native.ProcessRow(core, slot) for slot in (0, 1, 127)}
    for slot, row in rows.items():
        for number, name in enumerate(FIELDS):
            setattr(row, name, 1000 * slot + number)
    for slot in rows:
        shown = core.row(slot)
        assert (shown.slot, [getattr(shown, name) for name in FIELDS]) == (
            slot, [1000 * slot + number for number in range(len(FIELDS))]
        )  # fmt: skip


def test_a_number_that_does_not_fit_is_cut(core):
    row = _native.ProcessRow(core, 3)
    row.pid, row.busy_ns = U32 + 6, U64 + 7
    assert (row.pid, row.busy_ns) == (5, 6)
    row.pid = row.busy_ns = -1
    assert (row.pid, row.busy_ns) == (U32, U64)


def test_a_process_that_begins(core):
    """What its predecessor was doing is forgotten, what it was counted for stays."""
    row = _native.ProcessRow(core, 3)
    for name in FIELDS:
        setattr(row, name, 77)
    row.count(5, 9)
    begun_ns = time.monotonic_ns()
    row.begin(4321, 2, 7, 255)
    assert (row.pid, row.incarnation, row.state) == (4321, 78, ProcessState.STARTING)
    assert [getattr(row, name) for name in ("wait", "request", "connections", "troubles")] == [0] * 4
    assert begun_ns <= row.heartbeat_ns <= time.monotonic_ns()
    kept = set(FIELDS) - {"pid", "incarnation", "state", "wait", "request", "connections", "troubles", "heartbeat_ns"}
    assert {getattr(row, name) for name in kept} == {77} and row.counter(5) == 9
    row.heartbeat_ns = 0
    row.beat()
    assert begun_ns <= row.heartbeat_ns <= time.monotonic_ns()
    for wrong in ((), (1, 2, 3), (1, 2, 3, 4, 5), ("x", 2, 3, 4), (1, 2, 3, None)):
        with pytest.raises(TypeError):
            row.begin(*wrong)


@pytest.mark.parametrize("counter", [0, 1, MAX_COUNTERS - 1])
def test_a_counter(core, counter):
    row, other = _native.ProcessRow(core, 3), _native.ProcessRow(core, 4)
    row.count(counter), row.count(counter, 1), row.count(counter, 40), row.count(counter, 0)
    assert row.counter(counter) == 42 == core.row(3).counter(counter) and other.counter(counter) == 0
    row.count(counter, -2)
    assert row.counter(counter) == 40
    row.set_counter(counter, 7)
    assert row.counter(counter) == 7
    row.set_counter(counter, U64)
    row.count(counter, 2)
    assert row.counter(counter) == 1, "it goes round"
    assert [row.counter(each) for each in range(MAX_COUNTERS) if each != counter] == [0] * (MAX_COUNTERS - 1)
    for call in (row.count, row.set_counter):
        for wrong in ("x", None, 1.5):
            with pytest.raises(TypeError):
                call(counter, wrong)
            with pytest.raises(TypeError):
                call(wrong, 1)
    assert row.counter(counter) == 1


def test_a_counter_that_there_is_not(core):
    row = _native.ProcessRow(core, 3)
    for wrong, error in ((MAX_COUNTERS, IndexError), (U64, IndexError), (-1, OverflowError), (1 << 64, OverflowError)):
        for call, more in ((row.counter, ()), (row.count, ()), (row.count, (1,)), (row.set_counter, (1,))):
            with pytest.raises(error):
                call(wrong, *more)
    for count in (0, 3, 4):
        with pytest.raises(TypeError, match=r"^count\(counter, n=1\)$"):
            row.count(*[1, 2, 3, 4][:count])
    for count in (0, 1, 3):
        with pytest.raises(TypeError, match=r"^set_counter\(counter, value\)$"):
            row.set_counter(*[1, 2, 3][:count])


def test_a_core_says_what_it_was_made_of():
    core = small_core(processors=2, handlers=3, partitions=20, topics=9, entries_per_processor=64).core
    told = (core.processor_count, core.handler_count, core.partition_count, core.entry_count, _native.topic_count(core))
    assert told == (2, 3, 20, 128, 9)
    assert (core.boot_id, core.arena_handler_bytes, core.reserved_handlers, core.moves) == (0x1234, 1 << 20, 0, 0)
    core.state, core.features, core.transactions_ready = 3, U64, 5
    assert (core.state, core.features, core.transactions_ready) == (3, U64, 5)
    for name, most in (("notify_partition", 19), ("ring_handler", 63), ("ring_service", 127), ("frame_in_hand", 63)):
        getattr(core, name)(most)
        for wrong in (most + 1, U32):
            with pytest.raises(IndexError):
                getattr(core, name)(wrong)
    assert [core.handler_slot(handler) for handler in range(3)] == [48, 49, 50]
    core.notify_partition(0, 127)
    with pytest.raises(IndexError, match="no partition row 0 or slot 128"):
        core.notify_partition(0, 128)


def test_the_shared_state_is_in_both_headers():
    """Other programs see the one, the broker's processes the other."""
    small = small_core()
    small.core.state = 0x51525354
    place = _native.LAYOUT["header.state"]
    for part in small.memory[:2]:
        assert part[place : place + 4] == (0x51525354).to_bytes(4, "little")
    assert small.memory[0][place : place + 4] == small.memory[1][place : place + 4]


def test_descriptors_that_a_core_is_told():
    """A list of whole numbers, of any sequence; not more are looked at than there can be processors."""
    parts = small_core().memory
    for fds in ([], (), [5], range(3), [-1] * 99, [0] * 33 + ["x"]):
        assert _native.Core(*parts, fds).processor_count == 1
    for wrong in (["x"], [None], [1 << 70], 5):
        with pytest.raises((TypeError, OverflowError)):
            _native.Core(*parts, wrong)
