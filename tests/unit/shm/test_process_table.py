"""Rows of the process table, counters and waits."""

import pytest

from mpbroker import _native
from mpbroker.shm.counters import COUNTERS, NATIVE_COUNTERS, Counter, counter_id
from mpbroker.shm.layout import MAX_COUNTERS
from mpbroker.shm.process_table import ProcessRow, ProcessState, WaitName, unpack_process
from mpbroker.shm.waits import SENTENCES, wait_name
from tests.harness.small_core import small_core


def test_counters_are_the_c_cores():
    assert [counter.name for counter in Counter if counter < NATIVE_COUNTERS] == [row[0] for row in _native.COUNTERS]


def test_what_the_c_core_counts_is_said_there():
    assert COUNTERS[Counter.LOG_ROLLS] == ("log_rolls", "segments", "New active segments.", False)
    assert COUNTERS[Counter.QUEUED_BYTES][1:] == ("bytes", "Request bytes processors hold at the moment.", True)
    assert {counter for counter, info in COUNTERS.items() if info.gauge and counter < NATIVE_COUNTERS} == {
        Counter.QUEUED_BYTES,
        Counter.ENTRIES_IN_USE,
    }


def test_every_counter_has_a_row_of_its_own_and_fits():
    assert set(COUNTERS) == set(Counter)
    assert len({info.name for info in COUNTERS.values()}) == len(COUNTERS)
    assert all(counter < MAX_COUNTERS for counter in Counter)
    assert all(counter < NATIVE_COUNTERS or counter >= 128 for counter in Counter)
    assert all(info.sentence.endswith(".") for info in COUNTERS.values())


def test_names_may_have_dashes():
    assert counter_id("bytes-sent") is counter_id("bytes_sent") is Counter.BYTES_SENT
    with pytest.raises(KeyError):
        counter_id("no such counter")


def test_every_wait_has_a_sentence():
    assert set(SENTENCES) == set(WaitName)
    assert wait_name(WaitName.CONTROL_REQUEST) == "control-request"
    assert wait_name(9999) == "wait-9999"


def test_begin_raises_the_incarnation_and_forgets_the_request():
    row = ProcessRow(small_core().core, 50)
    row.begin(1, 3, 2, 255)
    row.request = 77 << 32
    row.wait = WaitName.REQUEST
    row.begin(2, 3, 2, 255)
    assert (row.pid, row.incarnation, row.state, row.request, row.wait) == (2, 2, ProcessState.STARTING, 0, 0)


def test_set_state_and_wait_beat():
    row = ProcessRow(small_core().core, 50)
    row.set_wait(WaitName.EPOLL)
    first = row.heartbeat_ns
    row.running()
    assert row.heartbeat_ns >= first > 0
    assert (row.wait, row.state) == (WaitName.EPOLL, ProcessState.RUNNING)


def test_counting_by_id_and_by_name():
    row = ProcessRow(small_core().core, 50)
    row.count(Counter.BYTES_SENT)
    row.count("bytes-sent", 4)
    row.set_counter(Counter.QUEUED_BYTES, 9)
    assert (row.counter(Counter.BYTES_SENT), row.counter(Counter.QUEUED_BYTES)) == (5, 9)
    with pytest.raises(IndexError):
        row.count(MAX_COUNTERS)


def test_slots_are_bounded():
    with pytest.raises(IndexError):
        ProcessRow(small_core().core, 128)


def test_unpack_survives_a_state_of_another_version():
    row = bytearray(256)
    row[12:16] = (99).to_bytes(4, "little")
    assert unpack_process(3, row).state is ProcessState.DEAD
