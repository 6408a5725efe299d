"""Sockets through a socketpair: whole, in order, and a dropped descriptor is never silent."""

import array
import os
import resource
import socket

import pytest

from mpbroker.network.fd_passing import (
    _HEADER,
    ACK,
    CLOSED,
    CONNECTIONS,
    CONNECTIONS_END,
    HANDOVER,
    HELLO,
    MAX_PEERS_PER_MESSAGE,
    MAX_RECEIVED_BYTES,
    MAX_SOCKETS_PER_MESSAGE,
    REFUSED,
    RETURNED,
    Message,
    Peer,
    _descriptors,
    accept_stamp,
    accepted_ns,
    address_bytes,
    address_text,
    close_all,
    receive_message,
    send_message,
)

LOCAL = address_bytes("127.0.0.1")


def _handover(descriptors, sequence=1):
    return Message(HANDOVER, 3, 2, sequence, tuple(Peer(LOCAL, 1000 + n) for n in range(len(descriptors))), descriptors)


def test_a_socket_arrives_and_works(pair):
    near, far = socket.socketpair()
    assert send_message(pair[0], _handover((far.fileno(),)))
    far.close()
    message = receive_message(pair[1])
    assert (message.kind, message.processor_incarnation, message.acceptor_incarnation) == (HANDOVER, 3, 2)
    assert message.peers == (Peer(LOCAL, 1000),) and not message.truncated
    with socket.socket(fileno=message.sockets[0]) as arrived:
        near.send(b"through")
        assert arrived.recv(10) == b"through"
        assert not os.get_inheritable(arrived.fileno())
    near.close()


def test_a_full_batch_keeps_its_order(pair):
    pipes = [os.pipe() for _ in range(MAX_SOCKETS_PER_MESSAGE)]
    assert send_message(pair[0], _handover(tuple(read for read, _ in pipes)))
    message = receive_message(pair[1])
    for (read, write), received in zip(pipes, message.sockets, strict=True):
        os.write(write, b"%d" % read)
        assert os.read(received, 10) == b"%d" % read
    for read, write in pipes:
        close_all((read, write))
    close_all(message.sockets)


def test_nothing_there_is_none(pair):
    assert receive_message(pair[1]) is None


def test_a_full_channel_refuses_without_losing(pair):
    sent = 0
    while send_message(pair[0], Message(CLOSED, 1, 1, sent, (Peer(LOCAL, 1),))):
        sent += 1
        assert sent < 100_000
    assert [receive_message(pair[1]).sequence for _ in range(sent)] == list(range(sent))
    assert send_message(pair[0], Message(ACK, 1, 1, sent))


def test_descriptors_the_kernel_drops_are_noticed(pair):
    """At the descriptor limit the kernel delivers the bytes and drops the socket: the message counts as truncated."""
    pipes = [os.pipe() for _ in range(4)]
    assert send_message(pair[0], _handover(tuple(read for read, _ in pipes)))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free + 2, limits[1]))
        message = receive_message(pair[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert message.truncated and message.sockets == () and len(message.peers) == 4
    assert os.dup(0) == lowest_free, "descriptors that did arrive are closed again"
    os.close(lowest_free)
    for ends in pipes:
        close_all(ends)


@pytest.mark.parametrize("body", [b"x", bytes(24)[:-1], bytes([HANDOVER, 9]) + bytes(22)])
def test_bytes_of_nobody_are_kind_zero(pair, body):
    pair[0].send(body)
    assert receive_message(pair[1]).kind == 0


def test_sockets_without_peers_are_closed(pair):
    read, write = os.pipe()
    assert send_message(pair[0], Message(ACK, 1, 1, 1, (), (read,)))
    os.close(read)
    message = receive_message(pair[1])
    assert message.truncated and message.sockets == ()
    with pytest.raises(BrokenPipeError):
        os.write(write, b"x")
    os.close(write)


@pytest.mark.parametrize("text", ["127.0.0.1", "10.1.2.3", "::1", "2001:db8::7"])
def test_addresses_round_trip(text):
    assert address_text(address_bytes(text)) == text


def test_a_mapped_address_is_the_ipv4_one():
    assert address_bytes("::ffff:10.1.2.3") == address_bytes("10.1.2.3")


@pytest.mark.parametrize("now_ns", [5_000, 4_294_967_295_000, 4_294_967_296_000, 9 * 2**60 + 7])
def test_the_time_of_an_accept_survives_in_half_a_word(now_ns):
    later_ns = now_ns + 3_599_000_000_321
    assert accepted_ns(accept_stamp(now_ns), later_ns) - now_ns in range(-1000, 2001)
    assert accepted_ns(0, later_ns) == later_ns


def test_what_is_reserved_is_zero(pair):
    assert send_message(pair[0], Message(CLOSED, 3, 2, 7, (Peer(LOCAL, 9),)))
    header = _HEADER.unpack_from(pair[1].recv(4096))
    assert header == (CLOSED, 1, 0, 3, 2, 0, 7)


def test_neither_end_of_a_pair_waits(pair):
    assert [end.getblocking() for end in pair] == [False, False]


def test_the_layout_of_a_message(pair):
    """As the module describes it. Kinds are different, and none is the kind of what nobody of ours sent."""
    for number, kind in enumerate((HANDOVER, ACK, REFUSED, CLOSED, HELLO, CONNECTIONS, CONNECTIONS_END, RETURNED), 1):
        assert kind == number
        assert send_message(pair[0], Message(kind, 0x01020304, 5, 2**40, (Peer(LOCAL, 9, 0xA0B0C0D0), Peer(LOCAL, 10))))
        header = bytes([kind, 2, 0, 0, 4, 3, 2, 1, 5, 0, 0, 0, 0, 0, 0, 0]) + (2**40).to_bytes(8, "little")
        first = bytes(10) + b"\xff\xff\x7f\0\0\1" + bytes([9, 0, 0, 0, 0xD0, 0xC0, 0xB0, 0xA0])
        assert pair[1].recv(4096) == header + first + LOCAL + bytes([10, 0, 0, 0]) + bytes(4)


@pytest.mark.parametrize("message", [Message(CLOSED, 1, 2, 3), Message(ACK, 1, 2, 3, (Peer(LOCAL, 4),))])
def test_what_is_not_said_of_a_message_is_not_there(pair, message):
    assert send_message(pair[0], message)
    assert receive_message(pair[1]) == message
    assert (message.sockets, message.truncated, message.received) == ((), False, b"")


def test_the_largest_messages_arrive_whole(pair):
    peers = tuple(Peer(LOCAL, number) for number in range(MAX_PEERS_PER_MESSAGE))
    assert send_message(pair[0], Message(CONNECTIONS, 1, 1, 1, peers))
    assert receive_message(pair[1]).peers == peers
    received = os.urandom(MAX_RECEIVED_BYTES)
    read, write = os.pipe()
    assert send_message(pair[0], Message(RETURNED, 1, 1, 0, (Peer(LOCAL, 1),), (read,), received=received))
    message = receive_message(pair[1])
    assert message.received == received and not message.truncated
    close_all((read, write, *message.sockets))


@pytest.mark.parametrize("kind", [HANDOVER, CLOSED, RETURNED])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_bytes_behind_the_peers_belong_to_one_connection_or_the_message_is_nobodys(pair, kind, count):
    """And what came with it is closed."""
    read, write = os.pipe()
    body = _HEADER.pack(kind, count, 0, 3, 2, 0, 7) + (LOCAL + bytes(8)) * count + b"more"
    pair[0].sendmsg([body], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [read]))])
    os.close(read)
    message = receive_message(pair[1])
    if kind != CLOSED and count == 1:
        assert (message.kind, message.received) == (kind, b"more")
        close_all(message.sockets)
    else:
        assert message == Message(0, 0, 0, 0)
    with pytest.raises(BrokenPipeError):
        os.write(write, b"x")
    os.close(write)


def test_only_descriptors_are_taken_for_descriptors():
    """What else the kernel may tell of a sender is none, nor is half of one."""
    two = array.array("i", [7, 9]).tobytes()
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, two)
    assert _descriptors([rights]) == (7, 9)
    assert _descriptors([(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, two), rights]) == (7, 9)
    assert _descriptors([(socket.IPPROTO_IP, socket.SCM_RIGHTS, two)]) == ()
    assert _descriptors([(socket.SOL_SOCKET, socket.SCM_RIGHTS, two[:-2])]) == (7,)
