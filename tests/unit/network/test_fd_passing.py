"""Sockets through a socketpair: whole, in order, and a dropped descriptor is never silent."""

import os
import resource
import socket

import pytest

from mpbroker.network.fd_passing import (
    _HEADER,
    ACK,
    CLOSED,
    HANDOVER,
    MAX_SOCKETS_PER_MESSAGE,
    Message,
    Peer,
    accept_stamp,
    accepted_ns,
    address_bytes,
    address_text,
    close_all,
    handover_pair,
    receive_message,
    send_message,
)

LOCAL = address_bytes("127.0.0.1")


@pytest.fixture
def pair():
    ends = handover_pair()
    yield ends
    for end in ends:
        end.close()


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
