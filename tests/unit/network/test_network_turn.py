"""Answers are held only while more come, sent in order, settled exactly once, whatever the socket does."""

import os
import select
import struct
import threading

import pytest

from mpbroker._native import EVENT_CLOSE, EVENT_NO_ROOM, EVENT_PARKED, EVENT_STRAY, MAX_HELD_ANSWERS, MAX_HELD_TURNS
from mpbroker.channel.processor_port import ProcessorPort
from mpbroker.shm.layout import SLOT_PROCESSORS
from mpbroker.shm.process_table import ProcessRow
from tests.harness.network_turn import API, TurnSetting
from tests.harness.raw_client import frame

BODY = b"done"
ANSWER_BYTES = 12


@pytest.fixture
def make(tmp_path):
    made = []

    def build(**plan):
        made.append(TurnSetting(tmp_path, **plan))
        return made[-1]

    yield build
    for each in made:
        each.close()


def _numbers(received):
    """Correlation ids of answers that arrived."""
    return [struct.unpack_from(">i", received, at + 4)[0] for at in range(0, len(received), ANSWER_BYTES)]


def _hold(setting, channel, far, count):
    """The first `count` requests of more are answered; their answers are held."""
    far.send(b"".join(frame(API, 5, n) for n in range(count + 1)))
    for _ in range(count):
        assert setting.read() == []
        setting.answer(setting.claim())
        assert setting.turn.answer(10) == 1
    assert channel.out_count == count


def test_an_answer_nobody_waits_behind_goes_at_once(make):
    setting = make()
    channel, far = setting.connect()
    far.send(frame(API, 5, 7))
    setting.read()
    setting.answer(setting.claim())
    setting.turn.answer(10)
    assert _numbers(far.recv(100)) == [7] and setting.finished() == (1, ANSWER_BYTES)
    assert channel.out_count == 0 and not channel.in_flight


def test_held_answers_go_together_when_the_processor_sleeps(make):
    setting = make()
    channel, far = setting.connect()
    _hold(setting, channel, far, 3)
    assert setting.finished() == (0, 0)
    far.setblocking(False)
    with pytest.raises(BlockingIOError):
        far.recv(100)
    setting.turn.end(True)
    assert _numbers(far.recv(100)) == [0, 1, 2] and setting.finished() == (3, 3 * ANSWER_BYTES)


def test_a_connection_whose_held_answers_were_sent_may_hold_answers_again(make):
    setting = make()
    channel, far = setting.connect()
    for round_number in range(3):
        _hold(setting, channel, far, 2)
        setting.turn.end(True)
        assert _numbers(far.recv(100)) == [0, 1] and setting.finished()[0] == 3 * round_number + 2
        setting.read()
        setting.answer(setting.claim())
        setting.turn.answer(10)
        assert _numbers(far.recv(100)) == [2]


def test_held_answers_wait_at_most_some_turns(make):
    setting = make()
    channel, far = setting.connect()
    _hold(setting, channel, far, 1)
    for _ in range(MAX_HELD_TURNS - 1):
        setting.turn.end(False)
    assert setting.finished()[0] == 0
    setting.turn.end(False)
    assert setting.finished()[0] == 1


def test_turns_before_an_answer_was_held_do_not_count(make):
    setting = make()
    channel, far = setting.connect()
    _hold(setting, channel, far, 1)
    setting.turn.end(True)
    for _ in range(MAX_HELD_TURNS - 1):
        setting.turn.end(False)
    setting.read()
    setting.answer(setting.claim())
    assert setting.turn.answer(10) == 1 and setting.finished()[0] == 2
    _hold(setting, channel, far, 1)
    setting.turn.end(False)
    assert setting.finished()[0] == 2


def test_a_turn_that_finds_nothing_to_do_sends_what_is_held(make):
    setting = make()
    channel, far = setting.connect()
    far.settimeout(10)
    _hold(setting, channel, far, 2)
    assert not setting.turn.poll(0, 5, 10, 2**62, 0)
    assert setting.finished()[0] == 2 and _numbers(far.recv(100)) == [0, 1]


def test_held_answers_are_at_most_some(make):
    setting = make()
    channel, far = setting.connect()
    _hold(setting, channel, far, MAX_HELD_ANSWERS - 1)
    setting.read()
    far.send(frame(API, 5, 100))
    setting.read()
    setting.answer(setting.claim())
    setting.turn.answer(10)
    assert _numbers(far.recv(1000)) == list(range(MAX_HELD_ANSWERS)) and channel.out_count == 0


def test_an_answer_that_need_not_wait_takes_the_held_ones_along(make):
    setting = make()
    channel, far = setting.connect()
    _hold(setting, channel, far, 2)
    setting.read()
    setting.answer(setting.claim())
    setting.turn.answer(10)
    assert _numbers(far.recv(100)) == [0, 1, 2] and setting.finished()[0] == 3
    setting.turn.end(True)
    assert setting.finished()[0] == 3


def _drain(setting, far, size):
    received = b""
    while len(received) < size:
        received += far.recv(1 << 20)
        setting.turn.poll(0, 0, 0, 0, 0)
    return received


def test_what_the_kernel_does_not_take_is_kept_and_the_connection_waits(make):
    setting = make()
    channel, far = setting.connect(send_buffer_bytes=4096)
    _hold(setting, channel, far, 1)
    setting.read()
    large = bytes(range(256)) * 4096
    setting.answer(setting.claim(), large)
    setting.turn.answer(10)
    assert setting.finished()[0] == 1 and channel.out_count == 1 and channel.in_flight
    whole = ANSWER_BYTES + 8 + len(large)
    assert channel.blocked and channel.out_started_ns and 0 < setting.turn.untaken(channel) < whole
    assert channel.sent_bytes + setting.turn.untaken(channel) == whole
    far.send(frame(API, 5, 9))
    assert setting.read() == [] and setting.claim() is None, "not read before its answer is gone"
    received = _drain(setting, far, whole)
    assert not channel.blocked and channel.sent_bytes == whole and setting.turn.untaken(channel) == 0
    with pytest.raises(ValueError, match="not a connection of this processor"):
        setting.turn.untaken(object())
    assert received[ANSWER_BYTES + 8 :] == large and channel.out_count == 0 and setting.finished()[0] == 2
    setting.read()
    request = setting.claim()
    assert request.correlation_id == 9
    setting.answer(request)
    setting.turn.answer(10)
    assert _numbers(far.recv(100)) == [9], "it is not taken for full any more"


def test_an_answer_behind_an_unfinished_send_keeps_the_order(make):
    """Held answers were sent in part; the answer of the request in flight meanwhile must not overtake them."""
    setting = make()
    channel, far = setting.connect(send_buffer_bytes=4096)
    far.send(b"".join(frame(API, 5, n) for n in range(3)))
    setting.read()
    large = bytes(128 - 8)  # lies in its entry, so it may be held; the socket is made full beforehand
    sent = 0
    try:
        while True:
            sent += channel.socket.send(bytes(1024))
    except BlockingIOError:
        pass
    setting.answer(setting.claim(), large)
    setting.turn.answer(10)
    setting.turn.end(True)
    assert channel.out_count == 1, "the kernel took nothing"
    setting.read()
    setting.answer(setting.claim())
    setting.turn.answer(10)
    assert channel.out_count == 2 and channel.in_flight
    received = _drain(setting, far, sent + 128 + ANSWER_BYTES)[sent:]
    assert struct.unpack_from(">i", received, 4) == (0,) and _numbers(received[128:]) == [1]
    assert setting.finished() == (2, 128 + ANSWER_BYTES)


def test_a_close_sends_what_is_held_and_settles_the_rest_as_aborted(make):
    setting = make()
    channel, far = setting.connect()
    _hold(setting, channel, far, 1)
    setting.turn.forget(channel)
    assert _numbers(far.recv(100)) == [0] and setting.finished() == (1, ANSWER_BYTES) and channel.closed
    other, far = setting.connect(send_buffer_bytes=4096)
    far.send(frame(API, 5, 1))
    setting.read()
    setting.answer(setting.claim(), bytes(1 << 20))
    setting.turn.answer(10)
    setting.turn.forget(other)
    assert setting.finished() == (2, ANSWER_BYTES) and other.out_count == 0


def test_a_lost_connection_is_reported_and_its_entry_settled_with_the_close(make):
    setting = make()
    channel, far = setting.connect()
    far.send(frame(API, 5, 1))
    setting.read()
    far.close()
    setting.answer(setting.claim())
    setting.turn.answer(10)
    assert [(kind, each) for kind, each, _, _ in setting.turn.events()] == [(EVENT_CLOSE, channel)]
    setting.turn.forget(channel)
    assert setting.finished() == (1, 0)


def test_a_connection_lost_while_held_answers_are_sent_is_reported(make):
    setting = make()
    channel, far = setting.connect()
    _hold(setting, channel, far, 1)
    far.close()
    setting.turn.end(True)
    assert [(kind, each) for kind, each, _, _ in setting.turn.events()] == [(EVENT_CLOSE, channel)]
    setting.turn.forget(channel)
    assert setting.finished() == (1, 0)


def test_an_answer_for_a_connection_that_is_gone_is_dropped_and_reported(make):
    setting = make()
    channel, far = setting.connect()
    far.send(frame(API, 5, 1))
    setting.read()
    request = setting.claim()
    setting.turn.forget(channel)
    setting.answer(request)
    assert setting.turn.answer(10) == 1
    assert [event[0] for event in setting.turn.events()] == [EVENT_STRAY] and setting.finished() == (1, 0)


def test_a_connection_nobody_keeps_takes_itself_out(make):
    setting = make()
    channel, far = setting.connect()
    far.send(frame(API, 5, 1) + frame(API, 5, 2))
    setting.read()
    del channel
    assert setting.read() == []
    setting.answer(setting.claim())
    setting.turn.answer(10)
    assert [event[0] for event in setting.turn.events()] == [EVENT_STRAY]


def test_without_room_the_frame_stays_and_nobody_else_is_read(make):
    setting = make(entries_per_processor=1)
    connections = [setting.connect() for _ in range(3)]
    for n, (_, far) in enumerate(connections):
        far.send(frame(API, 5, n))
    (event,) = setting.read()
    assert event[0] == EVENT_NO_ROOM
    refused = event[1]
    before = refused.buffered()
    setting.answer(setting.claim())
    setting.turn.answer(10)
    assert before == refused.buffered() and setting.turn.submit(refused) and refused.buffered() == 0


def test_a_full_plane_parks_the_request_that_found_it(make):
    setting = make(data_requests=1)
    connections = [setting.connect() for _ in range(3)]
    for n, (_, far) in enumerate(connections):
        far.send(frame(API, 5, n))
    (event,) = setting.read()
    assert event[0] == EVENT_PARKED and event[2] == setting.port.parked_entry
    first = setting.claim()
    assert setting.port.retry(event[2]) == event[2]
    assert {first.correlation_id, setting.claim().correlation_id} < {0, 1, 2} and setting.claim() is None
    assert setting.turn.has_work(True), "the third stands in line"


def test_request_bytes_of_other_processors_count_too(make):
    setting = make(processors=2)
    ProcessRow(setting.memory.core, SLOT_PROCESSORS + 1).begin(os.getpid(), 2, 0, 0)
    other = ProcessorPort(setting.memory.core, 1)
    channel, far = setting.connect()
    setting.turn.queued_bytes_limit = 1000
    entry = other.submit(0, 1, 1, 0, bytes(1000), 1)
    assert entry >= 0 and setting.turn.over_limit()
    far.send(frame(API, 5, 1))
    assert [event[0] for event in setting.read()] == [EVENT_NO_ROOM] and channel.buffered() > 0
    setting.answer(setting.claim())
    assert [each[0] for each in other.collect(1)] == [entry]
    other.sent(entry)
    assert not setting.turn.over_limit() and setting.turn.submit(channel)
    assert setting.claim().correlation_id == 1


def test_whole_turns_without_python_while_all_is_ordinary(make):
    setting = make()
    _channel, far = setting.connect()
    far.send(frame(API, 5, 1))
    assert not setting.turn.poll(0, 5, 10, 2**62, 0)
    setting.answer(setting.claim())
    assert not setting.turn.poll(0, 5, 10, 2**62, 0) and _numbers(far.recv(100)) == [1]
    far.send(struct.pack(">i", -1))
    assert setting.turn.poll(0, 5, 10, 2**62, 0) and len(setting.turn.events()) == 1


def test_it_sleeps_and_goes_on_without_python_until_something_is_not_ordinary(make):
    setting = make(eventfd=True)
    _channel, far = setting.connect()
    far.send(frame(API, 5, 1))
    request = []

    def serve():
        while not request:
            request.extend(setting.claim_all())
        setting.answer(request[0])
        assert _numbers(far.recv(100)) == [1]
        assert select.select([setting.eventfd], [], [], 0)[0] == []  # the bell that woke it is empty again
        far.send(struct.pack(">i", -1))

    helper = threading.Thread(target=serve)
    helper.start()
    assert setting.turn.poll(0, 100, 10, 2**62, 5000) and len(setting.turn.events()) == 1
    helper.join(5)
    assert request and setting.finished()[0] == 1


def test_memory_nobody_touched_is_not_given_back(make):
    setting = make(arena_processor_bytes=64 << 20, arena_handler_bytes=64 << 20)
    assert setting.port.idle() == 0 and setting.handler.idle() == 0


def test_a_connection_belongs_to_one_turn_once(make):
    setting, other = make(), make()
    channel, far = setting.connect()
    foreign, _ = other.connect()
    gone, _ = setting.connect()
    setting.turn.forget(gone)
    assert gone.closed
    for wrong in (channel, foreign, gone, object(), None):
        with pytest.raises(ValueError, match="a new Connection"):
            setting.turn.add(wrong)
    setting.read()
    far.send(frame(API, 5, 7))
    assert setting.read() == [] and setting.claim().correlation_id == 7, "the one that is in it is served on"


def test_only_a_turns_own_connections_are_its(make):
    setting, other = make(), make()
    foreign, _ = other.connect()
    gone, _ = setting.connect()
    setting.turn.forget(gone)
    for wrong in (foreign, gone, object(), None):
        for call in (setting.turn.forget, setting.turn.schedule, setting.turn.submit):
            with pytest.raises(ValueError, match="not a connection of this processor"):
                call(wrong)
        with pytest.raises(ValueError, match="not a connection of this processor"):
            setting.turn.serves(wrong, bytes(8))
    assert not foreign.closed and other.turn.serves(foreign, frame(API, 5, 7)[4:])


@pytest.mark.parametrize("method", ["serves", "submitted"])
def test_a_frame_has_a_header(make, method):
    setting = make()
    channel, _ = setting.connect()
    more = () if method == "serves" else (-1, 1)
    call = getattr(setting.turn, method)
    for wrong in ((channel,), (channel, bytes(8), *more, 0), ()):
        with pytest.raises(TypeError, match=f"takes {2 + len(more)} arguments"):
            call(*wrong)
    with pytest.raises(ValueError, match="a frame of 7 bytes"):
        call(channel, bytes(7), *more)
    with pytest.raises(TypeError):
        call(channel, "a frame", *more)
    assert call(channel, frame(API, 5, 7)[4:], *more) is (method == "serves")
