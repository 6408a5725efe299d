"""Answers are held only while more come, sent in order, settled exactly once, whatever the socket does."""

import socket

import pytest

from mpbroker.network.answer_sender import MAX_HELD_ANSWERS, MAX_HELD_TURNS, AnswerSender
from mpbroker.network.kafka_channel import ConnectionLost, KafkaChannel


class Port:
    """Notes what was settled: entry → aborted."""

    def __init__(self):
        self.settled = {}

    def sent(self, entry, started_ns, aborted=False):
        assert entry not in self.settled, "settled twice"
        self.settled[entry] = aborted


@pytest.fixture
def setting():
    near, far = socket.socketpair()
    near.setblocking(False)
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    port, lost = Port(), []
    yield AnswerSender(port, lost.append), KafkaChannel(near, 0, 1, bytes(16), 0), far, port, lost
    near.close()
    far.close()


def _receive_all(far, size):
    received = b""
    while len(received) < size:
        received += far.recv(1 << 20)
    return received


def test_an_answer_nobody_waits_behind_goes_at_once(setting):
    sender, channel, far, port, _ = setting
    assert sender.answer(channel, 5, b"answer", hold=False)
    assert far.recv(100) == b"answer" and port.settled == {5: False}


def test_held_answers_go_together_when_the_processor_sleeps(setting):
    sender, channel, far, port, _ = setting
    far.setblocking(False)
    for entry in range(3):
        assert sender.answer(channel, entry, b"answer%d" % entry, hold=True)
    with pytest.raises(BlockingIOError):
        far.recv(100)
    assert port.settled == {}
    sender.end_turn(will_sleep=True)
    assert far.recv(100) == b"answer0answer1answer2" and port.settled == dict.fromkeys(range(3), False)


def test_held_answers_wait_at_most_some_turns(setting):
    sender, channel, _, port, _ = setting
    sender.answer(channel, 1, b"answer", hold=True)
    for _ in range(MAX_HELD_TURNS - 1):
        sender.end_turn(will_sleep=False)
    assert port.settled == {}
    sender.end_turn(will_sleep=False)
    assert port.settled == {1: False}


def test_held_answers_are_at_most_some(setting):
    sender, channel, far, port, _ = setting
    for entry in range(MAX_HELD_ANSWERS):
        assert sender.answer(channel, entry, b"%d" % entry, hold=True)
    assert far.recv(100) == b"01234567" and len(port.settled) == MAX_HELD_ANSWERS


def test_an_answer_that_need_not_wait_takes_the_held_ones_along(setting):
    sender, channel, far, port, _ = setting
    sender.answer(channel, 1, b"one", hold=True)
    assert sender.answer(channel, 2, memoryview(b"two"), hold=False)
    assert far.recv(100) == b"onetwo" and port.settled == {1: False, 2: False}
    sender.end_turn(will_sleep=True)
    assert port.settled == {1: False, 2: False}


def test_what_the_kernel_does_not_take_is_kept_and_the_connection_waits(setting):
    sender, channel, far, port, _ = setting
    large = bytes(range(256)) * 4096
    assert sender.answer(channel, 1, b"small", hold=True)
    assert not sender.answer(channel, 2, memoryview(large), hold=False)
    assert port.settled == {1: False}
    received = b""
    while True:
        received += far.recv(1 << 20)
        if sender.go_on(channel):
            break
    received += _receive_all(far, len(large) + 5 - len(received)) if len(received) < len(large) + 5 else b""
    assert received == b"small" + large and port.settled == {1: False, 2: False}
    assert channel.out_view is None and not channel.out_entries


def test_an_answer_behind_an_unfinished_send_keeps_the_order(setting):
    """Held answers were sent in part; the answer of the request in flight meanwhile must not overtake them."""
    sender, channel, far, port, _ = setting
    large = bytes(1 << 20)
    assert not sender.answer(channel, 1, large, hold=False)
    assert not sender.answer(channel, 2, b"behind", hold=False)
    received = b""
    while not sender.go_on(channel):
        received += far.recv(1 << 20)
    received += _receive_all(far, len(large) + 6 - len(received))
    assert received == large + b"behind" and port.settled == {1: False, 2: False}


def test_a_close_sends_what_is_held_and_settles_the_rest_as_aborted(setting):
    sender, channel, far, port, _ = setting
    sender.answer(channel, 1, b"held", hold=True)
    sender.give_up(channel)
    assert far.recv(100) == b"held" and port.settled == {1: False}
    assert not sender.answer(channel, 2, bytes(1 << 20), hold=False)
    sender.give_up(channel)
    assert port.settled == {1: False, 2: True} and not channel.out_entries and channel.out_view is None


def test_a_lost_connection_settles_its_entry_with_the_close(setting):
    sender, channel, far, port, lost = setting
    far.close()
    with pytest.raises(ConnectionLost):
        sender.answer(channel, 1, b"nobody", hold=False)
    sender.give_up(channel)
    assert port.settled == {1: True} and lost == []


def test_a_connection_lost_while_held_answers_are_sent_is_reported(setting):
    sender, channel, far, port, lost = setting
    sender.answer(channel, 1, b"held", hold=True)
    far.close()
    sender.end_turn(will_sleep=True)
    assert lost == [channel]
    sender.give_up(channel)
    assert port.settled == {1: True}
