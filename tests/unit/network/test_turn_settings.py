"""What turns and connections are made of, and what they refuse to be made of."""

import struct
import sys

import pytest

from mpbroker import _native
from mpbroker._native import EVENT_NO_ROOM
from tests.harness.network_turn import API, TurnSetting
from tests.harness.raw_client import frame


@pytest.fixture
def make(tmp_path):
    made = []

    def build():
        made.append(TurnSetting(tmp_path))
        return made[-1]

    yield build
    for each in made:
        each.close()


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({}, None),
        ({"plane": 1}, None),
        ({"plane": 2}, "plane is 0"),
        ({"versions": {0: (0, 1), 127: (0, 1)}}, None),
        ({"versions": {128: (0, 1)}}, "api key 128 is above 127"),
        ({"versions": {-1: (0, 1)}}, "api key -1"),
    ],
)
def test_what_a_turn_is_made_of(make, changed, error):
    setting = make()
    made = {"port": setting.port, "epoll": setting.epoll.fileno(), "plane": 0, "listener": 0}
    made |= {"max_request_bytes": 100, "queued_bytes_limit": -1, "versions": {API: (0, 8)}} | changed
    if error is None:
        assert _native.NetworkTurn(**made).events() == []
        return
    with pytest.raises(ValueError, match=error):
        _native.NetworkTurn(**made)


def turned(setting, **changed):
    """The setting with a turn of these settings."""
    made = {"port": setting.port, "epoll": setting.epoll.fileno(), "plane": 0, "listener": 0}
    made |= {"max_request_bytes": 1000, "queued_bytes_limit": -1, "versions": {API: (0, 8), 4: (0, 8)}}
    setting.turn = _native.NetworkTurn(**(made | changed))
    return setting


@pytest.mark.parametrize(
    ("plane", "classifies", "key", "found"),
    [(0, False, 4, 0), (0, True, 4, 1), (0, True, API, 0), (1, False, API, 1), (1, True, 4, 1)],
)
def test_what_a_turn_was_made_of_holds(make, plane, classifies, key, found):
    setting = turned(make(), plane=plane, listener=3, classifies=classifies)
    _, far = setting.connect()
    far.send(frame(key, 5, 7))
    assert setting.read() == []
    request = setting.claim()
    assert (request.plane, request.listener, request.api_key) == (found, 3, key)


def test_a_turn_keeps_its_port_as_long_as_it_lives(make):
    setting = make()
    before = sys.getrefcount(setting.port)
    turn = _native.NetworkTurn(setting.port, 1, 0, 0, 100, -1, {})
    meanwhile = sys.getrefcount(setting.port)
    del turn
    afterwards = sys.getrefcount(setting.port)
    assert (meanwhile, afterwards) == (before + 1, before)


@pytest.mark.parametrize(("limit", "event"), [(-1, None), (0, None), (1000, None), (1, EVENT_NO_ROOM)])
def test_the_limit_of_bytes_that_wait_holds(make, limit, event):
    setting = turned(make(), queued_bytes_limit=limit)
    for number in range(2):
        _, far = setting.connect()
        far.send(frame(API, 5, number))
        events = setting.read()
        assert [kind for kind, *_ in events] == ([event] if number and event is not None else [])
    assert setting.turn.over_limit() is (event is not None) and setting.turn.queued_bytes_limit == limit


@pytest.mark.parametrize(("over", "invalid"), [(0, False), (1, True)])
def test_the_longest_request_is_taken(make, over, invalid):
    setting = turned(make())
    _, far = setting.connect()
    far.send(struct.pack(">i", 1000 + over) + frame(API, 5, 7)[4:] + bytes(1000))
    events = setting.read()
    assert [event[0] for event in events] == ([_native.EVENT_INVALID] if invalid else [])
    assert (setting.claim() is None) is invalid


@pytest.mark.parametrize(
    "changed", [{"port": None}, {"epoll": "x"}, {"versions": []}, {"versions": {"x": (0, 1)}}, {"versions": {3: (0,)}}]
)
def test_what_a_turn_is_not_made_of(make, changed):
    setting = make()
    made = {"port": setting.port, "epoll": 1, "plane": 0, "listener": 0, "max_request_bytes": 100}
    with pytest.raises(TypeError):
        _native.NetworkTurn(**(made | {"queued_bytes_limit": -1, "versions": {}} | changed))


def test_a_connection_is_made_once_of_whole_numbers():
    made = _native.Connection(5, 7, 9, 11)
    assert (made.fd, made.number, made.generation, made.readable, made.closed) == (5, 7, 9, True, False)
    assert (made.last_active_ns, made.first_ns, made.later_ns, made.requests) == (11, 11, 11, 0)
    with pytest.raises(ValueError, match="made once"):
        made.__init__(6, 7, 9, 11)
    assert made.fd == 5
    for wrong in ((), (1, 2, 3), (1, "2", 3, 4), (1, -2, 3, 4.0)):
        with pytest.raises(TypeError):
            _native.Connection(*wrong)
    zero = _native.Connection(0, 1, 1, 1)
    with pytest.raises(ValueError, match="made once"):
        zero.__init__(6, 7, 9, 11)


def test_bytes_that_are_there_already_are_seen_and_moved():
    made = _native.Connection(5, 7, 9, 11)
    assert (made.peek(10), made.buffered(), made.take_introduction()) == (b"", 0, b"")
    with pytest.raises(ValueError, match="no unfinished frame"):
        made.move_to(bytearray(10))
    made.preload(b"\0\0\0\x63abc", 12)
    for most in (0, 5, 7, 8):
        assert made.peek(most) == b"\0\0\0\x63abc"[:most]
    assert made.buffered() == 7
    with pytest.raises(ValueError, match="unfinished frame of 2 bytes"):
        made.move_to(bytearray(2))
    with pytest.raises(TypeError):
        made.peek("x")
    with pytest.raises(BufferError):
        made.move_to(bytes(10))
    view = bytearray(b"-----")
    assert made.move_to(view) == 3 and view == b"abc--" and made.buffered() == 0
    exact = _native.Connection(5, 7, 9, 11)
    exact.preload(b"\0\0\0\x63abc", 12)
    assert exact.move_to(bytearray(3)) == 3
    bare = _native.Connection(5, 7, 9, 11)
    bare.preload(b"\0\0\0", 12)
    with pytest.raises(ValueError, match="no unfinished frame"):
        bare.move_to(bytearray(10))
    bare = _native.Connection(5, 7, 9, 11)
    bare.preload(b"\0\0\0\x63", 12)
    assert bare.move_to(bytearray(0)) == 0 and bare.buffered() == 0


def test_what_is_moved_stands_behind_the_frames_before(make):
    """A request was taken out of the buffer: what is left begins where it ended."""
    setting = make()
    channel, far = setting.connect()
    far.send(frame(API, 5, 1) + b"\0\0\0\x63abc")
    assert setting.read() == [] and setting.claim().correlation_id == 1
    assert channel.buffered() == 7 and channel.peek(99) == b"\0\0\0\x63abc"
    view = bytearray(b"-----")
    assert channel.move_to(view) == 3 and view == b"abc--" and channel.buffered() == 0


def test_a_poll_takes_five_whole_numbers(make):
    setting = make()
    for wrong in ((), (0, 0, 0, 0), (0, 0, 0, 0, 0, 0), (0, 0, "x", 0, 0)):
        with pytest.raises(TypeError):
            setting.turn.poll(*wrong)
    with pytest.raises(TypeError):
        setting.turn.answer("x")
    with pytest.raises(OverflowError):
        setting.turn.answer(-1)
    assert setting.turn.poll(0, 0, 0, 0, 0) is False
