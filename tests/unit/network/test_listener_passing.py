"""Listening sockets on their way from the supervisor to the acceptor."""

import array
import os
import resource
import socket
from types import SimpleNamespace

import pytest

from mpbroker.network.listener_passing import channel_pair, let_go, let_go_of, pass_on, receive


@pytest.fixture
def pair():
    made = channel_pair()
    yield made
    for end in made:
        end.close()


def test_a_socket_arrives_with_its_index_and_listens_on(pair):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()
        assert pass_on(pair[0], 14, listening)
    passed = receive(pair[1])
    assert passed.index == 14 and receive(pair[1]) is None
    with passed.listening, socket.create_connection(address):
        accepted, _ = passed.listening.accept()
        accepted.close()
        with pytest.raises(BlockingIOError):
            passed.listening.accept()
        assert not os.get_inheritable(passed.listening.fileno())


def test_without_a_free_descriptor_the_index_arrives_alone(pair):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        pass_on(pair[0], 3, listening)
        lowest_free = os.dup(0)
        os.close(lowest_free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, limits[1]))
        try:
            passed = receive(pair[1])
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert passed == (3, None)


def test_what_was_let_go_of_is_told_once(pair):
    assert let_go(pair[1], 1) and let_go(pair[1], 2)
    assert let_go_of(pair[0]) == [1, 2] and let_go_of(pair[0]) == []


def test_a_full_channel_takes_nothing_more_for_now(pair):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        passed = 0
        while pass_on(pair[0], 1, listening):
            passed += 1
        told = 0
        while let_go(pair[1], 1):
            told += 1
    for _ in range(passed):
        receive(pair[1]).listening.close()
    assert passed > 15 and receive(pair[1]) is None and len(let_go_of(pair[0])) == told > 15


def test_neither_end_of_a_pair_waits(pair):
    assert [end.getblocking() for end in pair] == [False, False]


def test_only_a_descriptor_is_taken_for_a_socket():
    """What else the kernel may tell of a sender is none."""
    told = array.array("i", [2**30, 2**30 + 1, 2**30 + 2]).tobytes()
    for level, kind in ((socket.SOL_SOCKET, socket.SCM_CREDENTIALS), (socket.IPPROTO_IP, socket.SCM_RIGHTS)):
        channel = SimpleNamespace(recvmsg=lambda *_, found=(level, kind, told): (b"\3", [found], 0, None))
        assert receive(channel) == (3, None)
