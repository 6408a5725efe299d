"""Framing over a real socket: every cut of the stream, hostile lengths, large frames that reserve little."""

import socket
import struct

import pytest

from mpbroker.network.kafka_channel import (
    ARRIVED_BEFORE_RESERVE_BYTES,
    RECEIVE_BYTES,
    SMALL_FRAME_BYTES,
    ConnectionLost,
    InvalidReceive,
    KafkaChannel,
)

MAX_BYTES = 100 * 1024 * 1024


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@pytest.fixture
def ends():
    near, far = socket.socketpair()
    near.setblocking(False)
    yield KafkaChannel(near, 0, 1, bytes(16), 0), far
    near.close()
    far.close()


def test_frames_cut_at_every_byte(ends):
    channel, far = ends
    bodies = [b"header-1", b"header-2 and more", b"x" * 300]
    stream = b"".join(map(framed, bodies))
    found = []
    for position in range(len(stream)):
        far.send(stream[position : position + 1])
        channel.receive()
        while (frame := channel.take_frame(MAX_BYTES)) is not None:
            found.append((position, frame))
    ends_at = [len(b"".join(map(framed, bodies[: n + 1]))) - 1 for n in range(3)]
    assert found == list(zip(ends_at, bodies, strict=True))
    assert channel.buffered() == 0


def test_many_frames_of_one_receive(ends):
    channel, far = ends
    bodies = [b"%08d" % n for n in range(200)]
    far.send(b"".join(map(framed, bodies)) + framed(b"unfinished")[:7])
    channel.receive()
    assert [channel.take_frame(MAX_BYTES) for _ in range(200)] == bodies
    assert channel.take_frame(MAX_BYTES) is None and channel.buffered() == 7


@pytest.mark.parametrize("length", [-1, -(2**31), 0, 1, 7, MAX_BYTES + 1, 2**31 - 1])
def test_impossible_lengths_are_refused_at_once(ends, length):
    channel, far = ends
    far.send(struct.pack(">i", length))
    channel.receive()
    with pytest.raises(InvalidReceive):
        channel.take_frame(MAX_BYTES)


def test_a_short_read_means_empty_and_end_of_stream_is_lost(ends):
    channel, far = ends
    far.send(b"123")
    channel.receive()
    assert not channel.readable
    channel.receive()
    assert not channel.readable
    far.close()
    with pytest.raises(ConnectionLost):
        channel.receive()


def test_data_before_a_hang_up_is_not_lost(ends):
    """FIN with the data: the short read must not hide that there is an end of stream still to be read."""
    channel, far = ends
    far.send(framed(b"the last"))
    far.close()
    channel.readable = channel.hung_up = True
    channel.receive()
    assert channel.readable and channel.take_frame(MAX_BYTES) == b"the last"
    with pytest.raises(ConnectionLost):
        channel.receive()


def test_an_announced_length_reserves_nothing(ends):
    channel, far = ends
    for length in (SMALL_FRAME_BYTES + 1, 1 << 20, MAX_BYTES):
        channel.buffer, channel.position = b"", 0
        far.send(struct.pack(">i", length) + bytes(8))
        channel.receive()
        assert channel.take_frame(MAX_BYTES) is None
        assert channel.wants_arena_bytes() == 0


@pytest.mark.parametrize(("length", "needed"), [(SMALL_FRAME_BYTES + 8, 2049), (1 << 20, 1 << 17), (1 << 23, 1 << 20),
                                                (MAX_BYTES, ARRIVED_BEFORE_RESERVE_BYTES)])
def test_the_arena_is_wanted_when_enough_has_arrived(ends, length, needed):
    channel, _ = ends
    for have in (needed - 1, needed):
        channel.buffer, channel.position = struct.pack(">i", length) + bytes(have), 0
        assert channel.wants_arena_bytes() == (length if have == needed else 0)


def test_small_frames_never_want_the_arena(ends):
    channel, _ = ends
    channel.buffer = struct.pack(">i", SMALL_FRAME_BYTES) + bytes(SMALL_FRAME_BYTES - 1)
    assert channel.wants_arena_bytes() == 0


def test_a_large_frame_moves_to_the_arena_and_leaves_the_next_one_alone(ends):
    channel, far = ends
    body = bytes(range(256)) * 1024
    arena = bytearray(len(body))
    far.setblocking(False)
    stream = memoryview(b"12345678" * 0 + framed(body) + framed(b"the next"))
    sent = far.send(stream)
    channel.receive()
    assert len(channel.buffer) == RECEIVE_BYTES and channel.take_frame(MAX_BYTES) is None
    assert channel.wants_arena_bytes() == len(body)
    channel.begin_large(4096, memoryview(arena))
    complete = channel.receive_large()
    while sent < len(stream):
        sent += far.send(stream[sent:])
        complete = complete or channel.receive_large()
    assert complete and arena == body
    assert channel.end_large() == 4096 and channel.large_view is None
    channel.receive()
    assert channel.take_frame(MAX_BYTES) == b"the next"


def test_a_large_frame_takes_turns(ends):
    """One call brings at most 1 MiB, so that other connections have their turn."""
    channel, far = ends
    length = 3 << 20
    channel.begin_large(0, memoryview(bytearray(length))) if channel.buffer else None
    channel.buffer = struct.pack(">i", length)
    channel.begin_large(0, memoryview(bytearray(length)))
    far.setblocking(False)
    calls, sent, chunk = 0, 0, bytes(1 << 20)
    while not channel.receive_large():
        assert channel.large_filled <= (calls + 1) << 20
        calls += 1
        try:
            sent += far.send(chunk[: length - sent])
        except BlockingIOError:
            pass
    assert channel.large_filled == length
    channel.end_large()


def test_send_tells_what_the_kernel_took(ends):
    channel, far = ends
    payload = memoryview(bytes(1 << 22))
    taken = channel.send(payload)
    assert 0 < taken < len(payload)
    while channel.send(payload):
        pass
    far.close()
    with pytest.raises(ConnectionLost):
        channel.send(payload)
