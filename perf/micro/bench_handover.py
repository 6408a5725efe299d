"""Cost of handing a connection from acceptor to processor: `python -m pytest perf/micro/bench_handover.py`.

The baseline is what plain Python reaches: 176,000 to 199,000 messages a second with one descriptor each, 0.9 to 1.3
million descriptors a second with sixteen. `socket.send_fds` beside it in the same run shows what our message costs on
top.
"""

from __future__ import annotations

import os
import socket

import pytest

from mpbroker.network.fd_passing import (
    HANDOVER,
    Message,
    Peer,
    address_bytes,
    close_all,
    handover_pair,
    receive_message,
    send_message,
)

COUNTS = (1, 16)


@pytest.fixture
def passed():
    """A descriptor to hand over."""
    left, right = socket.socketpair()
    yield left.fileno()
    left.close()
    right.close()


@pytest.mark.parametrize("count", COUNTS)
def test_handover_message(benchmark, passed, count):
    sending, receiving = handover_pair()
    peers = tuple(Peer(address_bytes("127.0.0.1"), 9092) for _ in range(count))
    message = Message(HANDOVER, 1, 1, 1, peers, (passed,) * count)

    def hand_over() -> int:
        assert send_message(sending, message)
        received = receive_message(receiving)
        close_all(received.sockets)
        return len(received.sockets)

    assert benchmark(hand_over) == count
    sending.close()
    receiving.close()


@pytest.mark.parametrize("count", COUNTS)
def test_plain_send_fds(benchmark, passed, count):
    sending, receiving = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def pass_on() -> int:
        socket.send_fds(sending, [b"x"], [passed] * count)
        _, descriptors, _, _ = socket.recv_fds(receiving, 1, count)
        for descriptor in descriptors:
            os.close(descriptor)
        return len(descriptors)

    assert benchmark(pass_on) == count
    sending.close()
    receiving.close()
