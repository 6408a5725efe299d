"""The acceptor's side of the hand-over where something is missing, comes twice, or comes from the dead."""

import os
import socket

import pytest

from mpbroker.network import handover as handover_module
from mpbroker.network.fd_passing import (
    CONNECTIONS,
    HELLO,
    RETURNED,
    Message,
    Peer,
    address_bytes,
    receive_message,
    send_message,
)
from mpbroker.network.handover import WINDOW_SOCKETS, Accepted, Handover

LOCAL = address_bytes("127.0.0.1")


def pass_back(pair, incarnation: int, count: int = 1) -> None:
    """As a processor that leaves."""
    read, write = os.pipe()
    for port in range(count):
        assert send_message(pair[1], Message(RETURNED, incarnation, 1, 0, (Peer(LOCAL, port),), (read,)))
    os.close(read)
    os.close(write)


def close(found: list[Accepted]) -> None:
    for accepted in found:
        os.close(accepted.fd)


def test_one_that_nobody_has_followed_yet_has_nothing_and_gets_nothing(setting):
    handover = Handover(setting[0][0], 3, 1)
    assert (handover.processor, handover.incarnation) == (3, 0)
    assert (handover.room(), handover.unacknowledged()) == (0, 0)


def test_a_new_acceptor_finds_what_one_passed_back_that_is_leaving_by_now(setting):
    pair, quotas = setting
    pass_back(pair, 1)
    found = Handover(pair[0], 0, 2).leaves(quotas)
    assert len(found) == 1 and quotas.connections_from(LOCAL) == 1
    close(found)


def test_it_is_greeted_once(setting):
    pair, quotas = setting
    handover = Handover(pair[0], 0, 1)
    for _ in range(3):
        assert handover.follow(6, quotas) == []
    assert receive_message(pair[1]) == Message(HELLO, 6, 1, 0)
    assert receive_message(pair[1]) is None
    for _ in range(2):
        handover.follow(0, quotas)
    assert receive_message(pair[1]) is None, "nobody is there"


def test_what_is_in_a_window_that_is_given_up_is_closed_and_forgotten(setting):
    pair, quotas = setting
    handover = Handover(pair[0], 0, 1)
    handover.follow(1, quotas)
    client, server = socket.socketpair()
    accepted = Accepted(server.detach(), LOCAL, 1)
    assert handover.send([accepted])
    handover.close_window()
    with pytest.raises(OSError):
        os.fstat(accepted.fd)
    assert handover.follow(0, quotas) == [], "its descriptor may be somebody else's by now"
    client.close()


def test_a_socket_that_found_no_room_is_not_under_way(setting, monkeypatch):
    pair, quotas = setting
    handover = Handover(pair[0], 0, 1)
    handover.follow(1, quotas)
    monkeypatch.setattr(handover_module, "send_message", lambda channel, message: False)
    assert handover.send([Accepted(-1, LOCAL, 1)]) is False
    assert handover.unacknowledged() == 0 and handover.follow(2, quotas) == []


def test_at_most_a_window_of_what_is_passed_back_is_taken_at_a_time(setting):
    """As many as Kafka's queue of new connections holds."""
    pair, quotas = setting
    assert WINDOW_SOCKETS == 20
    handover = Handover(pair[0], 0, 1)
    handover.follow(1, quotas)
    pass_back(pair, 1, 41)
    found = []
    for expected in (20, 20, 1, 0):
        returned = handover.read_answers(quotas).returned
        assert len(returned) == expected
        found += returned
    assert [accepted.port for accepted in found] == list(range(41))
    close(found)


def test_what_no_processor_says_is_counted_and_nothing_else(setting):
    pair, quotas = setting
    handover = Handover(pair[0], 0, 1)
    handover.follow(1, quotas)
    for incarnation in (1, 2, 1):
        assert send_message(pair[1], Message(HELLO, incarnation, 1, 0))
    assert handover.read_answers(quotas) == (0, [], 2, [])


def test_what_the_dead_passed_back_takes_nothing_from_what_its_successor_has(setting):
    pair, quotas = setting
    handover = Handover(pair[0], 0, 1)
    handover.follow(2, quotas)
    assert send_message(pair[1], Message(CONNECTIONS, 2, 1, 0, (Peer(LOCAL, 5),)))
    handover.read_answers(quotas)
    for incarnation, count in ((1, 6), (2, 6), (1, 7)):
        pass_back(pair, incarnation)
        close(handover.read_answers(quotas).returned)
        assert quotas.connections_from(LOCAL) == count


def test_a_connection_whose_socket_got_lost_on_its_way_back_is_none(setting):
    """The acceptor's table of descriptors was full: the client sees a closed connection, and nobody else anything."""
    pair, quotas = setting
    handover = Handover(pair[0], 0, 1)
    handover.follow(1, quotas)
    assert send_message(pair[1], Message(RETURNED, 1, 1, 0, (Peer(LOCAL, 5),)))
    assert handover.read_answers(quotas) == (0, [], 0, [])
    assert quotas.connections_from(LOCAL) == 0
