"""Acceptor's and processor's side together: acknowledged, counted, sent again after a death, refused when truncated."""

import os
import socket

import pytest

from mpbroker.network import handover as handover_module
from mpbroker.network import handover_receiver as receiver_module
from mpbroker.network.connection_quotas import ConnectionQuotas, Limits
from mpbroker.network.fd_passing import (
    ACK,
    CLOSED,
    CONNECTIONS,
    CONNECTIONS_END,
    MAX_RECEIVED_BYTES,
    REFUSED,
    Message,
    Peer,
    address_bytes,
    handover_pair,
    receive_message,
    send_message,
)
from mpbroker.network.handover import WINDOW_SOCKETS, Accepted, Handover
from mpbroker.network.handover_receiver import HandoverReceiver

LOCAL = address_bytes("127.0.0.1")


def _accepted(quotas):
    """A connection: (Accepted, the client's end)."""
    client, server = socket.socketpair()
    quotas.admit(LOCAL, 0)
    return Accepted(server.detach(), LOCAL, 1), client


def _started(pair, quotas, incarnation=1, acceptor=1):
    handover = Handover(pair[0], 0, acceptor)
    assert handover.follow(incarnation, quotas) == []
    return handover


def test_a_socket_is_ours_until_acknowledged(setting):
    pair, quotas = setting
    handover, receiver = _started(pair, quotas), HandoverReceiver(pair[1], 1)
    accepted, client = _accepted(quotas)
    assert handover.send([accepted]) and handover.unacknowledged() == 1
    os.fstat(accepted.fd)
    (received,) = receiver.receive(20)
    answers = handover.read_answers(quotas)
    assert (answers.taken, answers.refused, handover.unacknowledged()) == (1, [], 0)
    with pytest.raises(OSError):
        os.fstat(accepted.fd)
    os.write(received.fd, b"hello")
    assert client.recv(10) == b"hello"
    os.close(received.fd)
    assert client.recv(10) == b""


def test_an_acceptor_that_knows_nothing_is_told_of_every_connection(setting):
    """In messages of its incarnation, of which none is one of a window."""
    pair, _ = setting
    receiver, other = HandoverReceiver(pair[1], 4), address_bytes("10.0.0.1")
    receiver.open_connections.update({LOCAL: 3, other: 1})
    assert send_message(pair[0], Message(receiver_module.HELLO, 4, 7, 0))
    assert receiver.receive(20) == []
    told = [receive_message(pair[0]) for _ in range(2)]
    assert [(one.kind, one.processor_incarnation, one.acceptor_incarnation, one.sequence) for one in told] == [
        (CONNECTIONS, 4, 7, 0),
        (CONNECTIONS_END, 4, 7, 0),
    ]
    assert [one.peers for one in told] == [(Peer(LOCAL, 3), Peer(other, 1)), ()]


def test_the_window_is_bounded(setting):
    pair, quotas = setting
    handover = _started(pair, quotas)
    clients = []
    while handover.room():
        accepted, client = _accepted(quotas)
        clients.append(client)
        assert handover.send([accepted])
    assert handover.unacknowledged() == WINDOW_SOCKETS


def test_a_dead_processors_sockets_come_back_and_its_successor_ignores_the_old_messages(setting):
    pair, quotas = setting
    handover = _started(pair, quotas, incarnation=1)
    sent = [_accepted(quotas) for _ in range(3)]
    assert handover.send([accepted for accepted, _ in sent])
    lost = handover.follow(2, quotas)
    assert lost == [accepted for accepted, _ in sent]
    successor = HandoverReceiver(pair[1], 2)
    assert handover.send(lost)
    received = successor.receive(20)
    assert len(received) == 3 and successor.stale == 3
    assert handover.read_answers(quotas).taken == 3
    for new in received:
        os.write(new.fd, b"x")
    assert all(client.recv(5) == b"x" for _, client in sent)


def test_what_a_processor_acknowledged_before_it_died_is_not_sent_again(setting):
    pair, quotas = setting
    handover, receiver = _started(pair, quotas), HandoverReceiver(pair[1], 1)
    accepted, _client = _accepted(quotas)
    handover.send([accepted])
    receiver.receive(20)
    assert quotas.connections_from(LOCAL) == 1
    assert handover.follow(2, quotas) == []
    assert quotas.connections_from(LOCAL) == 0


def test_closed_connections_reach_the_quota(setting):
    pair, quotas = setting
    handover, receiver = _started(pair, quotas), HandoverReceiver(pair[1], 1)
    handover.send([_accepted(quotas)[0] for _ in range(4)])
    receiver.receive(20)
    receiver.closed(LOCAL)
    receiver.closed(LOCAL)
    receiver.flush()
    handover.read_answers(quotas)
    assert quotas.connections_from(LOCAL) == 2
    assert receiver.open_connections[LOCAL] == 2


def test_a_new_acceptor_is_told_and_counts_each_connection_once(setting):
    pair, quotas = setting
    handover, receiver = _started(pair, quotas), HandoverReceiver(pair[1], 1)
    handover.send([_accepted(quotas)[0] for _ in range(5)])
    receiver.receive(20)
    receiver.closed(LOCAL)
    receiver.flush()  # told the old acceptor, which is dead by now
    fresh = ConnectionQuotas(Limits())
    successor = _started(pair, fresh, acceptor=2)
    receiver.closed(LOCAL)  # not told yet when the question comes
    receiver.receive(20)
    successor.read_answers(fresh)
    assert fresh.connections_from(LOCAL) == 3
    receiver.closed(LOCAL)
    receiver.flush()
    successor.read_answers(fresh)
    assert fresh.connections_from(LOCAL) == 2


def test_a_refused_message_returns_its_sockets(setting, monkeypatch):
    pair, quotas = setting
    handover, receiver = _started(pair, quotas), HandoverReceiver(pair[1], 1)
    accepted, _client = _accepted(quotas)
    handover.send([accepted])
    from mpbroker.network import handover_receiver
    from mpbroker.network.fd_passing import close_all, receive_message

    def truncating(channel):
        message = receive_message(channel)
        if message is not None and message.sockets:
            close_all(message.sockets)
            message = message._replace(sockets=(), truncated=True)
        return message

    monkeypatch.setattr(handover_receiver, "receive_message", truncating)
    assert receiver.receive(20) == [] and receiver.truncated == 1
    answers = handover.read_answers(quotas)
    assert answers.refused == [accepted] and handover.unacknowledged() == 0
    os.fstat(accepted.fd)
    os.close(accepted.fd)


def test_nothing_is_sent_to_a_dead_processor(setting):
    pair, quotas = setting
    handover = _started(pair, quotas)
    handover.follow(0, quotas)
    assert handover.room() == 0


def test_what_a_processor_refused_just_before_its_death_is_not_lost(setting):
    pair, quotas = setting
    handover = _started(pair, quotas)
    refused, first = _accepted(quotas)
    unanswered, second = _accepted(quotas)
    assert handover.send([refused]) and handover.send([unanswered])
    assert send_message(pair[1], Message(REFUSED, 1, 1, 1))
    assert handover.follow(2, quotas) == [refused, unanswered]
    for accepted, client in ((refused, first), (unanswered, second)):
        os.close(accepted.fd)
        client.close()


@pytest.mark.parametrize(("processor", "acceptor"), [(1, 1), (2, 7)])
def test_an_acknowledgement_of_the_dead_is_not_believed(setting, processor, acceptor):
    """Of a processor's predecessor, or meant for another acceptor: it names a number that is somebody else's by now."""
    pair, quotas = setting
    handover = _started(pair, quotas)
    handover.follow(2, quotas)
    accepted, client = _accepted(quotas)
    assert handover.send([accepted])
    for kind in (ACK, REFUSED):
        assert send_message(pair[1], Message(kind, processor, acceptor, 1))
    assert handover.read_answers(quotas) == (0, [], 0, []) and handover.unacknowledged() == 1
    os.fstat(accepted.fd)  # still ours
    assert send_message(pair[1], Message(ACK, 2, 1, 1))
    assert handover.read_answers(quotas).taken == 1
    client.close()


@pytest.mark.parametrize(("processor", "acceptor"), [(1, 1), (2, 7)])
def test_connections_of_the_dead_are_not_counted(setting, processor, acceptor):
    pair, quotas = setting
    handover = _started(pair, quotas)
    handover.follow(2, quotas)
    for kind, peers in ((CONNECTIONS, (Peer(LOCAL, 5),)), (CONNECTIONS_END, ()), (CLOSED, (Peer(LOCAL, 1),))):
        assert send_message(pair[1], Message(kind, processor, acceptor, 0, peers))
    assert handover.read_answers(quotas) == (0, [], 0, [])
    assert quotas.connections_from(LOCAL) == 0
    assert send_message(pair[1], Message(CONNECTIONS, 2, 1, 0, (Peer(LOCAL, 5),)))
    handover.read_answers(quotas)
    assert send_message(pair[1], Message(CLOSED, 1, 1, 0, (Peer(LOCAL, 1),)))
    handover.read_answers(quotas)
    assert quotas.connections_from(LOCAL) == 5


def _taken(pair, handover, receiver, quotas):
    """A connection that its processor has: (what it has of it, the client's end)."""
    accepted, client = _accepted(quotas)
    assert handover.send([accepted])
    (received,) = receiver.receive(20)
    handover.read_answers(quotas)
    return received, client


def _pass_back(receiver, received, request=b""):
    assert receiver.pass_back(received.fd, Peer(received.address, received.port), request)
    os.close(received.fd)


def test_a_connection_passed_back_goes_to_another_with_what_was_received(setting):
    pair, quotas = setting
    handover, receiver = _started(pair, quotas), HandoverReceiver(pair[1], 1)
    receiver.receive(20)  # the greeting
    handover.read_answers(quotas)
    other = handover_pair()
    next_one, next_receiver = _started(other, quotas), HandoverReceiver(other[1], 1)
    for request in (b"", b"\0\0\1\2half", bytes(MAX_RECEIVED_BYTES)):
        received, client = _taken(pair, handover, receiver, quotas)
        _pass_back(receiver, received, request)
        (returned,) = handover.read_answers(quotas).returned
        assert (returned.received, returned.port) == (request, received.port)
        assert quotas.connections_from(LOCAL) == 1, "it is one connection all the while"
        assert next_one.send([returned])
        (again,) = next_receiver.receive(20)
        next_one.read_answers(quotas)
        assert again.received == request
        os.write(again.fd, b"answer")
        assert client.recv(10) == b"answer"
        os.close(again.fd)
        assert client.recv(10) == b""
        next_receiver.closed(LOCAL)
        next_receiver.flush()
        next_one.read_answers(quotas)
        assert quotas.connections_from(LOCAL) == 0
    for end in other:
        end.close()


def test_one_that_leaves_takes_nothing_and_nothing_is_lost(setting):
    pair, quotas = setting
    handover, receiver = _started(pair, quotas), HandoverReceiver(pair[1], 1)
    received, first = _taken(pair, handover, receiver, quotas)
    (late, second), (acknowledged, third) = _accepted(quotas), _accepted(quotas)
    assert handover.send([acknowledged])
    (kept,) = receiver.receive(20)  # acknowledged, and the acceptor has not read that yet
    assert handover.send([late])
    receiver.leaving = True
    assert receiver.receive(20) == []
    assert handover.leaves(quotas) == [late], "what was acknowledged before is not sent again"
    assert handover.room() == 0 and handover.leaves(quotas) == []
    os.fstat(late.fd)
    _pass_back(receiver, received)
    assert len(handover.read_answers(quotas).returned) == 1
    assert handover.follow(2, quotas) == [] and handover.room() > 0, "a successor is as good as any"
    for fd in (late.fd, kept.fd):
        os.close(fd)
    for client in (first, second, third):
        client.close()


def test_what_it_passed_back_is_there_after_its_death_and_for_a_new_acceptor(setting):
    pair, quotas = setting
    handover, receiver = _started(pair, quotas), HandoverReceiver(pair[1], 1)
    taken = [_taken(pair, handover, receiver, quotas) for _ in range(3)]
    clients = [client for _, client in taken]
    for received, _ in taken:
        _pass_back(receiver, received)
    found = handover.follow(0, quotas)  # dead
    assert len(found) == 3 and quotas.connections_from(LOCAL) == 3
    for accepted in found[:2]:
        os.close(accepted.fd)
    received = HandoverReceiver(pair[1], 1)
    received.open_connections[LOCAL] += 1
    assert received.pass_back(found[2].fd, Peer(LOCAL, 5), b"x")
    fresh = ConnectionQuotas(Limits())
    (again,) = Handover(pair[0], 0, 2).read_answers(fresh).returned
    assert (again.port, again.received, fresh.connections_from(LOCAL)) == (5, b"x", 1)
    os.close(again.fd)
    os.close(found[2].fd)
    for client in clients:
        client.close()


def test_what_is_passed_back_is_one_connection_less(setting):
    pair, quotas = setting
    handover, receiver = _started(pair, quotas), HandoverReceiver(pair[1], 1)
    first, second = (_taken(pair, handover, receiver, quotas)[0] for _ in range(2))
    _pass_back(receiver, first)
    assert receiver.open_connections == {LOCAL: 1}
    _pass_back(receiver, second)
    assert receiver.open_connections == {}
    for returned in handover.read_answers(quotas).returned:
        os.close(returned.fd)


def test_what_is_no_handover_has_no_number(setting):
    """Only what is to be acknowledged is counted."""
    pair, quotas = setting
    handover, receiver = _started(pair, quotas), HandoverReceiver(pair[1], 1)
    received, _client = _taken(pair, handover, receiver, quotas)
    os.close(received.fd)
    receiver.closed(LOCAL)
    receiver.flush()
    assert receive_message(pair[0]) == Message(CLOSED, 1, 1, 0, (Peer(LOCAL, 1),), ())


def test_a_successor_has_all_the_room(setting):
    pair, quotas = setting
    handover, receiver = _started(pair, quotas), HandoverReceiver(pair[1], 1)
    receiver.receive(20)
    handover.read_answers(quotas)
    whole = handover.room()
    accepted = [_accepted(quotas)[0] for _ in range(8)]
    assert handover.send(accepted) and handover.room() == WINDOW_SOCKETS - 8 and handover.unacknowledged() == 8
    lost = handover.follow(2, quotas)
    assert lost == accepted and handover.unacknowledged() == 0
    HandoverReceiver(pair[1], 2).receive(20)
    handover.read_answers(quotas)
    assert handover.room() == whole
    assert handover.send(accepted[:1])
    handover.close_window()
    assert handover.unacknowledged() == 0 and handover.room() == whole
    for one in accepted[1:]:
        os.close(one.fd)


def test_who_was_not_greeted_gets_no_sockets(setting, monkeypatch):
    """Its greeting found no room: it would take what follows for a predecessor's."""
    pair, quotas = setting
    room = [False, True]
    real = handover_module.send_message
    monkeypatch.setattr(handover_module, "send_message", lambda *words: room.pop(0) and real(*words))
    handover = Handover(pair[0], 0, 1)
    assert handover.room() == 0
    handover.follow(1, quotas)
    assert handover.room() == 0
    handover.follow(1, quotas)
    assert handover.room() > 0 and room == []
    handover.follow(0, quotas)
    assert handover.room() == 0


def test_what_found_no_room_is_said_before_anything_new_is_taken(setting, monkeypatch):
    pair, quotas = setting
    handover, receiver = _started(pair, quotas), HandoverReceiver(pair[1], 1)
    receiver.receive(20)
    handover.read_answers(quotas)
    has_room, sent = [False], []
    real = receiver_module.send_message
    send = lambda channel, one: has_room[0] and (sent.append(one.kind), real(channel, one))  # noqa: E731
    monkeypatch.setattr(receiver_module, "send_message", send)
    assert handover.send([_accepted(quotas)[0]]) and handover.send([_accepted(quotas)[0]])
    (first,) = receiver.receive(20)
    assert receiver.owes_answers() and receiver.receive(20) == [], "its acknowledgement is still here"
    receiver.closed(LOCAL)
    receiver.flush()
    assert sent == []
    has_room[0] = True
    (second,) = receiver.receive(20)
    assert sent == [ACK, CLOSED, ACK] and not receiver.owes_answers()
    handover.read_answers(quotas)
    assert handover.unacknowledged() == 0 and quotas.connections_from(LOCAL) == 1
    receiver.flush()
    assert sent == [ACK, CLOSED, ACK], "an end is reported once"
    os.close(first.fd)
    os.close(second.fd)


def test_what_goes_back_is_no_handover_either_and_a_dead_ones_window_is_empty(setting):
    pair, quotas = setting
    handover, receiver = _started(pair, quotas), HandoverReceiver(pair[1], 1)
    received, client = _taken(pair, handover, receiver, quotas)
    assert receiver.pass_back(received.fd, Peer(LOCAL, 5), b"x")
    message = receive_message(pair[0])
    assert (message.sequence, message.peers, message.received) == (0, (Peer(LOCAL, 5),), b"x")
    for one in message.sockets:
        os.close(one)
    waiting, other = _accepted(quotas)
    assert handover.send([waiting]) and handover.unacknowledged() == 1
    assert handover.follow(0, quotas) == [waiting]
    assert handover.unacknowledged() == 0
    assert handover.follow(2, quotas) == [], "nobody gets it twice"
    for fd in (waiting.fd, received.fd):
        os.close(fd)
    for end in (client, other):
        end.close()
