"""Framing over a real socket: every cut of the stream, hostile lengths, large frames that reserve little."""

import contextlib
import socket
import struct
from types import SimpleNamespace

import pytest

from mpbroker._native import EVENT_CLOSE, EVENT_INVALID, EVENT_LARGE, EVENT_UNSUPPORTED
from mpbroker.network.kafka_channel import LARGE_BYTES_PER_TURN, SMALL_FRAME_BYTES, ConnectionLost, KafkaChannel
from tests.harness.network_turn import API, MAX_BYTES, TurnSetting
from tests.harness.raw_client import frame


@pytest.fixture
def setting(tmp_path):
    made = TurnSetting(tmp_path, entries_per_processor=256, data_requests=256)
    yield made
    made.close()


def _answer_all(setting):
    """Claims what was submitted and answers it; the requests' frames."""
    found = []
    for request in setting.claim_all():
        found.append(bytes(request.payload))
        setting.answer(request)
    setting.turn.answer(1000)
    return found


def test_frames_cut_at_every_byte(setting):
    _channel, far = setting.connect()
    frames = [frame(API, 5, 1), frame(API, 5, 2, b"and more"), frame(API, 5, 3, b"x" * 300)]
    stream, found = b"".join(frames), []
    for position in range(len(stream)):
        far.send(stream[position : position + 1])
        assert setting.read() == []
        found += [(position, each) for each in _answer_all(setting)]
    ends_at = [len(b"".join(frames[: n + 1])) - 1 for n in range(3)]
    assert found == list(zip(ends_at, [each[4:] for each in frames], strict=True))


def test_many_frames_of_one_receive(setting):
    channel, far = setting.connect()
    frames = [frame(API, 5, n) for n in range(200)]
    far.send(b"".join(frames) + frame(API, 5, 0)[:7])
    found = []
    for _ in range(200):
        assert setting.read() == []
        found += _answer_all(setting)
    assert found == [each[4:] for each in frames] and channel.buffered() == 7


@pytest.mark.parametrize("length", [-1, -(2**31), 0, 1, 7, MAX_BYTES + 1, 2**31 - 1])
def test_impossible_lengths_are_refused_at_once(setting, length):
    channel, far = setting.connect()
    far.send(struct.pack(">i", length))
    assert setting.read() == [(EVENT_INVALID, channel, length, 0)]


@pytest.mark.parametrize(("key", "version"), [(-1, 0), (API, 9), (API, -1), (77, 0), (127, 0), (128, 0), (32767, 0)])
def test_what_is_not_served_is_not_submitted(setting, key, version):
    channel, far = setting.connect()
    far.send(struct.pack(">ihhi", 8, key, version, 1))
    assert setting.read() == [(EVENT_UNSUPPORTED, channel, key, version)] and setting.claim() is None


def test_a_short_read_means_empty_and_end_of_stream_is_lost(setting):
    channel, far = setting.connect()
    far.send(b"123")
    setting.read()
    assert not channel.readable and channel.buffered() == 3
    far.close()
    assert [event[:2] for event in setting.read()] == [(EVENT_CLOSE, channel)]


def test_data_before_a_hang_up_is_not_lost(setting):
    """FIN with the data: the short read must not hide that there is an end of stream still to be read."""
    channel, far = setting.connect()
    far.send(frame(API, 5, 1))
    far.shutdown(socket.SHUT_WR)
    assert setting.read() == [] and channel.readable
    setting.answer(setting.claim())
    setting.turn.answer(10)
    assert far.recv(100)[8:] == b"done"
    assert [event[:2] for event in setting.read()] == [(EVENT_CLOSE, channel)]


def test_an_announced_length_reserves_nothing(setting):
    for length in (SMALL_FRAME_BYTES + 1, 1 << 20, MAX_BYTES):
        channel, far = setting.connect()
        far.send(struct.pack(">i", length) + bytes(8))
        assert setting.read() == []
        assert channel.buffered() == 12 and channel.wants_arena_bytes() == 0 and channel.frame_started_ns


@pytest.mark.parametrize(
    ("length", "needed"), [(SMALL_FRAME_BYTES + 8, 2049), (1 << 20, 1 << 17), (1 << 23, 1 << 20), (MAX_BYTES, 1 << 20)]
)
def test_the_arena_is_wanted_when_enough_has_arrived(setting, length, needed):
    channel, far = setting.connect()
    stream = memoryview(struct.pack(">i", length) + bytes(needed))
    far.setblocking(False)
    sent, events = 0, []
    while sent < len(stream) - 1:
        with contextlib.suppress(BlockingIOError):
            sent += far.send(stream[sent:-1])
        events += setting.read()
    while channel.buffered() < len(stream) - 1:
        events += setting.read()
    assert events == [] and channel.wants_arena_bytes() == 0
    far.send(stream[-1:])
    assert setting.read() == [(EVENT_LARGE, channel, length, 0)] and channel.wants_arena_bytes() == length


def test_small_frames_never_want_the_arena(setting):
    channel, far = setting.connect()
    far.send(struct.pack(">i", SMALL_FRAME_BYTES) + bytes(SMALL_FRAME_BYTES - 1))
    assert setting.read() == [] and channel.wants_arena_bytes() == 0


def test_a_large_frame_moves_to_the_arena_and_leaves_the_next_one_alone(setting):
    channel, far = setting.connect()
    body = bytes(range(256)) * 1024
    arena = bytearray(len(body))
    stream = memoryview(struct.pack(">i", len(body)) + body + frame(API, 5, 9))
    far.setblocking(False)
    sent, events = far.send(stream), []
    while not events:
        events = setting.read()
    assert events == [(EVENT_LARGE, channel, len(body), 0)]
    view = memoryview(arena)
    channel.begin_large(4096, view)
    complete = channel.receive_large()
    while sent < len(stream) or not complete:
        if sent < len(stream):
            sent += far.send(stream[sent:])
        complete = complete or channel.receive_large()
    assert complete and arena == body and channel.buffered() == 0 and channel.large
    assert channel.end_large() == 4096 and channel.large_view is None and not channel.large
    with pytest.raises(ValueError, match="released"):
        bytes(view)  # the bytes are somebody else's now
    setting.read()
    assert setting.claim().correlation_id == 9


def test_a_large_frame_takes_turns(setting):
    """One call brings at most 1 MiB, so that other connections have their turn."""
    channel, far = setting.connect()
    length = 3 << 20
    far.send(struct.pack(">i", length))
    setting.read()
    channel.begin_large(0, memoryview(bytearray(length)))
    far.setblocking(False)
    calls, sent, chunk = 0, 0, bytes(1 << 20)
    while not channel.receive_large():
        assert channel.large_filled <= (calls + 1) << 20
        calls += 1
        with contextlib.suppress(BlockingIOError):
            sent += far.send(chunk[: length - sent])
    assert channel.large_filled == length
    channel.end_large()


def test_a_frame_is_moved_only_where_it_fits(setting):
    channel, far = setting.connect()
    far.send(struct.pack(">i", 1 << 20) + bytes(100))
    setting.read()
    with pytest.raises(ValueError):
        channel.move_to(bytearray(99))
    assert channel.buffered() == 104


def test_the_beginning_of_a_frame_wherever_it_is(setting):
    """The header of a request that is refused is read off it."""
    channel, far = setting.connect()
    length = SMALL_FRAME_BYTES + 5000
    body = bytes(n % 251 for n in range(length))
    far.send(struct.pack(">i", length) + body[:10])
    assert setting.read() == [] and channel.beginning(4) == body[:4] and channel.beginning(100) == body[:10]
    assert channel.large_offset == -1
    channel.begin_large(4096, memoryview(bytearray(length)))
    assert channel.beginning(4) == body[:4] and channel.beginning(100) == body[:10]
    assert channel.large_offset == 4096
    channel.end_large()
    assert channel.large_offset == -1, "no arena bytes are its own any more"


class Wire:
    """A socket that gives what it is told to: a number of bytes, or an error."""

    def __init__(self, *gives):
        self.gives, self.asked = list(gives), []

    def fileno(self):
        return -1

    def recv_into(self, view):
        self.asked.append(len(view))
        given = self.gives.pop(0)
        if isinstance(given, Exception):
            raise given
        view[:given] = b"x" * given
        return given


def large(length, *gives):
    """A connection whose large frame is under way."""
    channel = KafkaChannel(Wire(*gives), 1, 2, b"address", 5)
    channel.readable, channel.large_view, channel.large = True, memoryview(bytearray(length)), True
    return channel


def test_a_new_connection_has_no_frame_under_way():
    channel = KafkaChannel(Wire(), 3, 4, b"address", 5)
    assert (channel.number, channel.generation, channel.address, channel.port) == (3, 4, b"address", 0)
    assert channel.large_view is None and channel.large_offset == -1 and channel.progress_bytes() == 0


def test_an_empty_socket_is_read_again_when_it_says_so():
    channel = large(100, 30, 20, BlockingIOError(), 50)
    assert channel.receive_large() is False
    assert channel.socket.asked == [100, 70, 50] and channel.large_filled == channel.progress_bytes() == 50
    assert channel.readable is False
    channel.readable = True
    assert channel.receive_large() is True
    assert channel.socket.asked[3:] == [50] and channel.readable and channel.progress_bytes() == 100
    assert bytes(channel.large_view) == b"x" * 100


def test_at_most_so_much_is_received_in_one_call():
    channel = large(LARGE_BYTES_PER_TURN + 7, 5, LARGE_BYTES_PER_TURN - 5, 7)
    assert channel.receive_large() is False and channel.large_filled == LARGE_BYTES_PER_TURN
    assert channel.socket.asked == [LARGE_BYTES_PER_TURN, LARGE_BYTES_PER_TURN - 5] and channel.readable
    assert channel.receive_large() is True and channel.socket.asked[2:] == [7]


@pytest.mark.parametrize("ends", [0, ConnectionResetError("reset")])
def test_a_sender_that_goes_in_the_middle_is_lost(ends):
    channel = large(100, 30, ends)
    with pytest.raises(ConnectionLost) as lost:
        channel.receive_large()
    assert lost.value.__cause__ is (ends or None) and channel.large_filled == 0


def test_one_call_brings_a_mebibyte_and_no_more_of_a_large_frame(setting):
    channel, _far = setting.connect()
    real, channel.socket = channel.socket, SimpleNamespace(recv_into=lambda place: len(place))
    channel.large_view, channel.large_filled = memoryview(bytearray(5 << 19)), 0
    for filled, complete in ((1 << 20, False), (2 << 20, False), (5 << 19, True)):
        assert channel.receive_large() is complete and channel.large_filled == filled
    channel.socket, channel.large_view = real, None
