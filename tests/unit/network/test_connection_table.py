"""Numbers are used again, generations are not; idle and standing connections are found."""

import socket

import pytest

from mpbroker.network.connection_table import FAIR_PROGRESS_BYTES, ConnectionTable

S = 1_000_000_000


@pytest.fixture
def sockets():
    opened = []

    def make():
        pair = socket.socketpair()
        opened.extend(pair)
        return pair[0]

    yield make
    for each in opened:
        each.close()


def test_a_number_comes_back_with_another_generation(sockets):
    table = ConnectionTable()
    first = table.add(sockets(), 8, bytes(16), 0)
    table.remove(first)
    second = table.add(sockets(), 9, bytes(16), 0)
    assert second.number == first.number and (first.generation, second.generation) == (8, 9)
    assert table.find(first.number, first.generation) is None
    assert table.find(second.number, second.generation) is second
    assert table.find(7, 0) is None and len(table) == 1


def test_overdue(sockets):
    table = ConnectionTable()
    busy, idle, slow, steady = (table.add(sockets(), n, bytes(16), 0) for n in range(4))
    for channel in (busy, slow, steady):
        channel.last_active_ns = 100 * S
    slow.frame_started_ns = steady.frame_started_ns = 60 * S
    for channel, arrived in ((slow, 100), (steady, FAIR_PROGRESS_BYTES)):
        channel.large_view, channel.large_filled = memoryview(bytearray(1 << 20)), arrived
    found = {(each.channel, each.reason) for each in table.overdue(101 * S, 50 * S, 30 * S)}
    assert found == {(idle, "idle"), (slow, "frame-timeout")}
    assert not table.overdue(150 * S, 50 * S, 100 * S)[1:], "a request may take its time"
    assert [each.channel for each in table.overdue(132 * S, 50 * S, 30 * S) if each.channel is steady] == [steady]


def test_least_recently_used(sockets):
    table = ConnectionTable()
    assert table.least_recently_used() is None
    channels = [table.add(sockets(), n, bytes(16), 0) for n in range(3)]
    for age, channel in zip((5, 2, 9), channels, strict=True):
        channel.last_active_ns = age
    assert table.least_recently_used() is channels[1]


def test_what_is_allowed_is_not_overdue(sockets):
    table = ConnectionTable()
    idle, slow = (table.add(sockets(), n, bytes(16), 0) for n in range(2))
    idle.last_active_ns, slow.last_active_ns, slow.frame_started_ns = 50 * S, 100 * S, 70 * S
    assert table.overdue(100 * S, 50 * S, 30 * S) == []
    assert [each.channel for each in table.overdue(100 * S + 1, 50 * S, 30 * S)] == [idle, slow]


def test_who_is_gone_is_not_found_and_numbers_that_nobody_had_are_nobodys(sockets):
    table = ConnectionTable()
    assert table.find(0, 0) is None
    channel = table.add(sockets(), 0, bytes(16), 0)
    assert table.find(0, 0) is channel and table.find(1, 0) is None
    table.remove(channel)
    assert table.find(0, 0) is None and table.by_number == [None] and len(table) == 0


@pytest.mark.parametrize(("counted", "generation"), [(2**32 - 1, 2**32 - 1), (2**32, 0), (2**33 + 7, 7)])
def test_a_generation_is_what_fits_into_the_word_of_a_request_entry(sockets, counted, generation):
    assert ConnectionTable().add(sockets(), counted, bytes(16), 0).generation == generation
