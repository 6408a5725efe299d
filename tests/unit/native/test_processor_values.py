"""What a processor's port hands out and takes back: reservations, parked frames, answers; what a turn is told."""

import select

import pytest

from mpbroker import _native
from mpbroker.channel.planes import CONTROL, DATA
from mpbroker.shm.counters import Counter
from mpbroker.shm.process_table import ProcessRow
from tests.harness.small_core import small_core

FRAME = bytes.fromhex("0003 0001 00000007 0002") + b"me"
U64 = (1 << 64) - 1
UNIT = 1024


@pytest.fixture
def core():
    return small_core().core


@pytest.fixture
def processor(core):
    return _native.ProcessorPort(core, 0)


def test_what_is_reserved_is_its_own_until_it_is_released(processor):
    """In any order; the last one takes the place of the one that went."""
    places = [processor.reserve(UNIT)[0] for _ in range(4)]
    assert places == [0, UNIT, 2 * UNIT, 3 * UNIT]
    for offset in (places[1], places[0]):
        processor.release_reserved(offset)
        with pytest.raises(ValueError, match=f"nothing is reserved at {offset}$"):
            processor.release_reserved(offset)
    for offset in (1, 4 * UNIT, U64):
        with pytest.raises(ValueError, match=f"nothing is reserved at {offset}$"):
            processor.release_reserved(offset)
    assert processor.submit_reserved(DATA, 1, 2, 3, places[3], 8, 1) >= 0
    processor.release_reserved(places[2])
    for offset in places:
        with pytest.raises(ValueError, match="nothing is reserved"):
            processor.release_reserved(offset)
    assert processor.reserve(3 * UNIT)[0] == 0
    for call in (processor.reserve, processor.release_reserved):
        for wrong in (-1, 1 << 64):
            with pytest.raises(OverflowError):
                call(wrong)


def test_there_are_4096_reservations_at_most():
    core = small_core(arena_processor_bytes=8 << 20).core
    processor, row = _native.ProcessorPort(core, 0), ProcessRow(core, 16)
    row.begin(1, 2, 0, 0)
    for _ in range(4096):
        assert processor.reserve(1) is not None
    assert processor.reserve(1) is None and row.counter(Counter.NO_ARENA_SPACE) == 1
    processor.release_reserved(0)
    assert processor.reserve(1)[0] == 0 and processor.reserve(1) is None


@pytest.mark.parametrize("plane", [DATA, CONTROL])
def test_what_is_said_of_a_reserved_frame(core, plane):
    memory = bytearray(1 << 16)
    _native.trace_lane_format(memory, 8, 0, 7)
    processor = _native.ProcessorPort(core, 0, -1, _native.TraceLane(memory))
    handler = _native.HandlerPort(core, 0)
    offset, view = processor.reserve(5000)
    view[: len(FRAME)] = FRAME
    entry = processor.submit_reserved(plane, 5, 6, 7, offset, 5000, 1, client_hash=77, inflight=9)
    request = handler.serve_or_claim()
    assert request is not None and request.entry == entry
    said = (request.plane, request.connection, request.connection_generation, request.listener, request.correlation_id)
    assert said == (plane, 5, 6, 7, 7) and len(request.payload) == 5000
    handler.answer_none(request)
    processor.collect(1), processor.sent(entry)
    layout = _native.trace_layout()
    lane_offset, length = _native.TraceLane(memory).peek(1)
    record = memory[lane_offset : lane_offset + length]
    whole = 4 + 5000  # with the bytes of its length
    for name, value in (("client_hash", 77), ("inflight", 9), ("req_bytes", whole), ("listener", 7), ("t0_ns", 1)):
        at, size = layout[name]
        assert int.from_bytes(record[at : at + size], "little") == value, name


def test_a_frame_that_found_its_plane_full_waits_for_its_turn():
    small = small_core(entries_per_processor=64, data_requests=2)
    processor, handler = _native.ProcessorPort(small.core, 0), _native.HandlerPort(small.core, 0)
    results = []
    while not results or results[-1] >= 0:
        results.append(processor.submit(DATA, 1, 1, 0, FRAME, 1))
    assert results[-1] == _native.PLANE_FULL and len(results) > 1
    parked = processor.parked_entry
    assert parked == len(results) - 1
    assert processor.retry(parked) == _native.PLANE_FULL
    for wrong in (0, parked + 1, 1 << 33):
        with pytest.raises(ValueError, match=f"entry {wrong} is not parked"):
            processor.retry(wrong)
    handler.answer_none(handler.serve_or_claim())
    for entry, *_ in processor.collect(9):
        processor.sent(entry)
    assert processor.retry(parked) == parked
    with pytest.raises(ValueError, match="is not parked"):
        processor.retry(parked)
    assert processor.abandon(parked) is False


def test_a_parked_frame_can_be_given_up():
    small = small_core(entries_per_processor=64, data_requests=2)
    processor = _native.ProcessorPort(small.core, 0)
    while processor.submit(DATA, 1, 1, 0, FRAME, 1) >= 0:
        pass
    held = processor.in_flight()
    assert processor.abandon(processor.parked_entry) is True
    assert processor.in_flight() == held - 1


def test_answers_are_collected_as_many_as_asked(core, processor):
    handler = _native.HandlerPort(core, 0)
    for number in range(5):
        processor.submit(DATA, number, 1, 0, FRAME, 1)
        assert handler.answer(handler.serve_or_claim(), b"x" * (number + 1)) is True
    assert processor.collect(0) == processor.collect(-1) == []
    first, rest = processor.collect(2), processor.collect(1 << 40)
    assert [row[1] for row in first + rest] == [0, 1, 2, 3, 4] and len(first) == 2
    for entry, *_ in first + rest:
        processor.sent(entry, 0, False)
        with pytest.raises(ValueError, match=f"entry {entry} is not being sent"):
            processor.sent(entry)
    with pytest.raises(ValueError, match="is not being sent"):
        processor.sent(1 << 20)
    assert processor.in_flight() == 0 and processor.recover() == 0


def test_an_answer_of_one_byte_and_of_the_largest_inline(core, processor):
    handler = _native.HandlerPort(core, 0)
    for length in (1, 127, 128, 129, 16_384):
        processor.submit(DATA, 1, 1, 0, FRAME, 1)
        assert handler.answer(handler.serve_or_claim(), bytearray(b"y" * length)) is True
        [(entry, _, _, kind, body)] = processor.collect(9)
        assert bytes(body) == b"y" * length and isinstance(body, bytes if length <= 128 else memoryview)
        assert kind == (_native.ANSWER_INLINE if length <= 128 else _native.ANSWER_EXTENT)
        processor.sent(entry)
    processor.submit(DATA, 1, 1, 0, FRAME, 1)
    request = handler.serve_or_claim()
    with pytest.raises(ValueError, match=r"an answer has 1 to 2\^31 - 1 bytes, not 0"):
        handler.answer(request, b"")
    handler.answer_close(request, -1, b"z")
    assert bytes(processor.collect(1)[0][4]) == b"z"


def test_what_is_counted_once(core, processor):
    """Bytes of all processors; entries in flight."""
    assert processor.queued_bytes() == processor.in_flight() == 0
    processor.submit(DATA, 1, 1, 0, FRAME, 1), processor.submit(CONTROL, 1, 1, 0, FRAME + FRAME, 1)
    assert processor.in_flight() == 2
    assert processor.prepare_sleep() is True
    processor.cancel_sleep()
    handler = _native.HandlerPort(core, 0)
    handler.answer_none(handler.serve_or_claim())
    assert processor.prepare_sleep() is False, "an answer waits"


def test_what_is_idle():
    """What is above 16 MiB and was used, once."""
    core = small_core(arena_processor_bytes=32 << 20).core
    processor, row = _native.ProcessorPort(core, 0), ProcessRow(core, 16)
    processor.release_reserved(processor.reserve(20 << 20)[0])
    assert [processor.idle() for _ in range(3)] == [4 << 20, 0, 0]
    assert row.counter(Counter.PUNCHED_BYTES) == 4 << 20


def test_a_port_takes_the_descriptor_that_it_is_told():
    """0 is one; none is kept of those below."""
    for eventfd in (-1, 0, 5):
        assert _native.ProcessorPort(small_core().core, 0, eventfd).index == 0


class Turn:
    """A turn with one connection that has no socket."""

    def __init__(self, core) -> None:
        self.processor, self.epoll = _native.ProcessorPort(core, 0), select.epoll()
        self.turn = _native.NetworkTurn(self.processor, self.epoll.fileno(), 0, 0, 1000, -1, {3: (2, 8)})
        self.connection = _native.Connection(1 << 20, 5, 6, 7)
        self.turn.add(self.connection)


@pytest.fixture
def turn(core):
    made = Turn(core)
    yield made
    made.epoll.close()


@pytest.mark.parametrize("version", [1, 2, 8, 9])
def test_which_versions_are_served(turn, version):
    frame = b"\0\3" + version.to_bytes(2, "big") + bytes(8)
    served = 2 <= version <= 8
    assert turn.turn.serves(turn.connection, frame) is served
    events = turn.turn.events()
    assert events == ([] if served else [(_native.EVENT_UNSUPPORTED, turn.connection, events[0][2], events[0][3])])
    assert turn.turn.events() == [], "they are told once"


@pytest.mark.parametrize(
    ("result", "taken", "kind"),
    [
        (0, True, None),
        (_native.PLANE_FULL, True, _native.EVENT_PARKED),
        (_native.POISON, False, _native.EVENT_POISON),
        (_native.NO_ENTRY, False, _native.EVENT_NO_ROOM),
        (_native.NO_SPACE, False, _native.EVENT_NO_ROOM),
    ],
)
def test_what_becomes_of_a_submission(turn, result, taken, kind):
    requests = turn.connection.requests
    assert turn.turn.submitted(turn.connection, FRAME, result, 1 << 40) is taken
    assert [(event[0], event[1]) for event in turn.turn.events()] == ([] if kind is None else [(kind, turn.connection)])
    assert turn.connection.requests - requests == taken
    for wrong in (("x", 1), (0, "x"), (1 << 63, 1), (0, -1)):
        with pytest.raises(TypeError if "x" in wrong else OverflowError):
            turn.turn.submitted(turn.connection, FRAME, *wrong)
    assert turn.turn.events() == []


@pytest.mark.parametrize("length", [0, 7, 8, 9])
def test_a_frame_has_at_least_a_header(turn, length):
    frame = bytearray((b"\0\3\0\3" + bytes(20))[:length])
    for call in (
        lambda: turn.turn.serves(turn.connection, frame),
        lambda: turn.turn.submitted(turn.connection, frame, 0, 1),
    ):
        if length >= 8:
            assert call() is True
        else:
            with pytest.raises(ValueError, match=f"a frame of {length} bytes"):
                call()
        frame.append(0)
        del frame[-1:]
    for count in (0, 1, 3, 5):
        with pytest.raises(TypeError, match=f"takes 2 arguments, .* not {count}"):
            turn.turn.serves(*[turn.connection, frame, 0, 1, 2][:count])
        with pytest.raises(TypeError, match=f"takes 4 arguments, .* not {count}"):
            turn.turn.submitted(*[turn.connection, frame, 0, 1, 2][:count])
    for count in (0, 4, 6):
        with pytest.raises(TypeError, match=f"poll takes 5 arguments, not {count}"):
            turn.turn.poll(*[0] * count)


def test_how_much_is_looked_at(turn):
    connection = _native.Connection(1 << 20, 1, 1, 1)
    assert (connection.peek(5), connection.buffered(), connection.wants_arena_bytes()) == (b"", 0, 0)
    connection.preload(b"\0\0\x10\0abcdef", 9)
    assert [connection.peek(most) for most in (0, 1, 9, 10, 11, U64)] == [
        b"", b"\0", b"\0\0\x10\0abcde", *[b"\0\0\x10\0abcdef"] * 3
    ]  # fmt: skip
    assert connection.buffered() == 10 and connection.first_ns == 9
    for length in (0, 5):
        with pytest.raises(ValueError, match=f"no unfinished frame of {length} bytes is in the buffer"):
            connection.move_to(bytearray(length))
    room = bytearray(6)
    assert connection.move_to(room) == 6 and room == b"abcdef" and connection.buffered() == 0
    for few in (b"", b"abc"):
        other = _native.Connection(1 << 20, 1, 1, 1)
        other.preload(few, 9) if few else None
        with pytest.raises(ValueError, match="no unfinished frame of 9 bytes"):
            other.move_to(bytearray(9))
    four = _native.Connection(1 << 20, 1, 1, 1)
    four.preload(b"\0\0\0\5", 9)
    assert four.move_to(bytearray(0)) == 0 and four.buffered() == 0
    assert four.take_introduction() == b""
    for wrong in ("x", None):
        with pytest.raises(TypeError):
            connection.peek(wrong)
    with pytest.raises(OverflowError):
        connection.peek(-1)
