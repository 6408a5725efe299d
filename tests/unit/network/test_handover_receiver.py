"""The processor's side of the hand-over, message by message: what it takes, what it closes, what it says and when."""

import os
import socket

import pytest

from mpbroker.network import handover_receiver as receiver_module
from mpbroker.network.fd_passing import (
    ACK,
    CLOSED,
    CONNECTIONS,
    CONNECTIONS_END,
    HANDOVER,
    HELLO,
    RETURNED,
    Message,
    Peer,
    address_bytes,
    receive_message,
    send_message,
)
from mpbroker.network.handover_receiver import HandoverReceiver
from tests.harness.raw_client import is_closed

LOCAL, OTHER = address_bytes("127.0.0.1"), address_bytes("10.0.0.1")
INCARNATION, ACCEPTOR = 4, 7


def hand_over(pair, sequence=1, incarnation=INCARNATION, acceptor=ACCEPTOR, address=LOCAL) -> socket.socket:
    """The client's end of a connection of which the acceptor keeps no copy."""
    client, server = socket.socketpair()
    with server:
        message = Message(HANDOVER, incarnation, acceptor, sequence, (Peer(address, 1),), (server.fileno(),))
        assert send_message(pair[0], message)
    return client


def said(pair) -> list[Message]:
    """All that the acceptor hears."""
    found = []
    while (message := receive_message(pair[0])) is not None:
        found.append(message)
    return found


def test_it_takes_as_many_as_it_was_asked_for(pair):
    receiver = HandoverReceiver(pair[1], INCARNATION)
    clients = [hand_over(pair, sequence) for sequence in range(1, 4)]
    assert receiver.receive(0) == []
    for most, count in ((2, 2), (2, 1), (2, 0)):
        for received in (found := receiver.receive(most)):
            os.close(received.fd)
        assert len(found) == count
    assert [(one.kind, one.sequence) for one in said(pair)] == [(ACK, 1), (ACK, 2), (ACK, 3)]
    for client in clients:
        client.close()


@pytest.mark.parametrize("leaving", [False, True])
def test_what_it_does_not_take_it_closes_and_does_not_acknowledge(pair, leaving):
    """Meant for a predecessor, or come when it leaves: the acceptor has its own copy and sends it to another one."""
    receiver = HandoverReceiver(pair[1], INCARNATION)
    receiver.leaving = leaving
    client = hand_over(pair, incarnation=INCARNATION if leaving else INCARNATION - 1)
    assert not is_closed(client)
    assert receiver.receive(20) == [] and said(pair) == []
    assert is_closed(client) and receiver.open_connections == {}
    assert receiver.stale == (0 if leaving else 1)
    client.close()


def test_open_connections_are_those_that_are_open(pair):
    receiver = HandoverReceiver(pair[1], INCARNATION)
    clients = [hand_over(pair, address=address) for address in (LOCAL, LOCAL, OTHER)]
    for received in receiver.receive(20):
        os.close(received.fd)
    assert receiver.open_connections == {LOCAL: 2, OTHER: 1}
    receiver.closed(LOCAL)
    assert receiver.open_connections == {LOCAL: 1, OTHER: 1}
    receiver.closed(OTHER)
    assert receiver.open_connections == {LOCAL: 1} and OTHER not in receiver.open_connections
    receiver.closed(LOCAL)
    assert list(receiver.open_connections) == []
    for client in clients:
        client.close()


@pytest.mark.parametrize("greeted", [False, True])
def test_what_it_says_is_for_the_acceptor_that_spoke_last(pair, greeted):
    """A new one may hand over before it greets."""
    receiver = HandoverReceiver(pair[1], INCARNATION)
    assert send_message(pair[0], Message(HELLO, INCARNATION, ACCEPTOR - 1, 0))
    if greeted:
        assert send_message(pair[0], Message(HELLO, INCARNATION, ACCEPTOR, 0))
        client = None
    else:
        client = hand_over(pair)
    for received in receiver.receive(20):
        os.close(received.fd)
    said(pair)
    receiver.open_connections.update({OTHER: 2})
    receiver.closed(OTHER)
    receiver.flush()
    read, write = os.pipe()
    assert receiver.pass_back(read, Peer(OTHER, 9), b"")
    end, back = said(pair)
    assert end == Message(CLOSED, INCARNATION, ACCEPTOR, 0, (Peer(OTHER, 1),))
    assert back == Message(RETURNED, INCARNATION, ACCEPTOR, 0, (Peer(OTHER, 9),), back.sockets)
    for fd in (read, write, *back.sockets):
        os.close(fd)
    if client is not None:
        client.close()


def test_to_whom_it_speaks_first_is_nobodys_number(pair):
    """No acceptor has incarnation 0. Ends of connections count whoever is named."""
    receiver = HandoverReceiver(pair[1], INCARNATION)
    receiver.closed(LOCAL)
    receiver.flush()
    assert said(pair) == [Message(CLOSED, INCARNATION, 0, 0, (Peer(LOCAL, 1),))]


def test_a_connection_that_finds_no_room_to_go_back_is_still_here(pair, monkeypatch):
    receiver = HandoverReceiver(pair[1], INCARNATION)
    receiver.open_connections[LOCAL] = 1
    monkeypatch.setattr(receiver_module, "send_message", lambda channel, message: False)
    assert receiver.pass_back(-1, Peer(LOCAL, 1), b"") is False
    assert receiver.open_connections == {LOCAL: 1}


def test_ends_that_found_no_room_are_told_in_one_message_later(pair, monkeypatch):
    """However many turns go by: what waits is bounded."""
    receiver, room = HandoverReceiver(pair[1], INCARNATION), [True]
    real = receiver_module.send_message
    monkeypatch.setattr(receiver_module, "send_message", lambda *words: room[0] and real(*words))
    receiver.open_connections[LOCAL] = 9
    room[0] = False
    for _ in range(5):
        receiver.closed(LOCAL)
        receiver.flush()
    assert receiver.owes_answers()
    room[0] = True
    receiver.flush()
    assert not receiver.owes_answers()
    assert [one.peers for one in said(pair)] == [(Peer(LOCAL, 1),), (Peer(LOCAL, 4),)]
    receiver.flush()
    assert said(pair) == []


def test_more_addresses_than_a_message_holds_are_told_in_several(pair):
    receiver = HandoverReceiver(pair[1], INCARNATION)
    all_peers = {bytes(12) + number.to_bytes(4, "big"): number + 1 for number in range(600)}
    receiver.open_connections.update(all_peers)
    assert send_message(pair[0], Message(HELLO, INCARNATION, ACCEPTOR, 0))
    assert receiver.receive(20) == [] and not receiver.owes_answers()
    told = said(pair)
    assert [(one.kind, len(one.peers)) for one in told] == [
        (CONNECTIONS, 255),
        (CONNECTIONS, 255),
        (CONNECTIONS, 90),
        (CONNECTIONS_END, 0),
    ]
    assert {peer.address: peer.number for one in told for peer in one.peers} == all_peers
