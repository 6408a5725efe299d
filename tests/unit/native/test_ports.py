"""The objects of a process's end of shared memory: what they say, and what they refuse at each bound of an argument."""

import pytest

from mpbroker import _native
from mpbroker.channel.planes import CONTROL, DATA
from mpbroker.shm.counters import Counter
from mpbroker.shm.process_table import ProcessRow
from mpbroker.trace.record import ABORTED, NOT_REACHED, STAGES, TICK_NS, unpack
from tests.harness.small_core import small_core

PARTITIONS, ENTRIES, PART_BYTES = 16, 64, 1 << 20
FRAME = bytes.fromhex("0003 0001 00000007 0002") + b"me"
PROCESSOR_SLOT, HANDLER_SLOT = 16, 48
ANSWER_NONE, ANSWER_INLINE, ANSWER_EXTENT, ANSWER_CLOSE = range(4)


@pytest.fixture
def core():
    made = small_core()
    ProcessRow(made.core, PROCESSOR_SLOT).begin(1, 2, 0, 0)
    ProcessRow(made.core, HANDLER_SLOT).begin(1, 3, 0, 255)
    yield made.core


@pytest.fixture
def processor(core):
    return _native.ProcessorPort(core, 0)


@pytest.fixture
def handler(core):
    return _native.HandlerPort(core, 0)


def request(processor, handler, frame: bytes = FRAME, plane: int = DATA):
    assert processor.submit(plane, 5, 6, 7, frame, 1) >= 0
    claimed = handler.serve_or_claim()
    assert claimed is not None
    return claimed


# ------------------------------------------------------------------ the core
#: (method, what is just right, what is one too many)
BOUNDS = [
    ("notify_partition", (PARTITIONS - 1,), (PARTITIONS,)),
    ("notify_partition", (0, 127), (0, 128)),
    ("ring_handler", (63,), (64,)),
    ("ring_service", (127,), (128,)),
    ("wait_service", (127, 0.0), (128, 0.0)),
    ("frame_in_hand", (63,), (64,)),
    ("row", (127,), (128,)),
]


@pytest.mark.parametrize(("method", "right", "wrong"), BOUNDS)
def test_numbers_of_the_core_have_bounds(core, method, right, wrong):
    call = getattr(core, method)
    call(*right)
    with pytest.raises((IndexError, ValueError)):
        call(*wrong)
    with pytest.raises(TypeError):
        call("x", *right[1:])
    with pytest.raises(TypeError):
        call()


def test_handlers_have_slots(core):
    assert [core.handler_slot(number) for number in range(2)] == [HANDLER_SLOT, HANDLER_SLOT + 1]
    assert (core.handler_count, core.coordinator) == (2, -1)
    with pytest.raises(IndexError):
        core.handler_slot(core.handler_count)


def test_what_the_core_says(core):
    assert (core.processor_count, core.entry_count, core.partition_count) == (1, ENTRIES, PARTITIONS)
    assert (core.reserved_handlers, core.boot_id, core.arena_handler_bytes) == (0, 0x1234, PART_BYTES)
    assert (core.metadata_generation, core.moves, core.sleepers, core.coordinator_wanted) == (0, 0, 0, False)
    assert (core.unique(), core.unique()) == (1, 2)


@pytest.mark.parametrize(("name", "most"), [("state", 2**32 - 1), ("features", 2**64 - 1), ("transactions_ready", 1)])
def test_words_that_are_set(core, name, most):
    for value in (3, most, 0):
        setattr(core, name, value)
        assert getattr(core, name) == value
    for wrong, error in (("x", TypeError), (-1, (OverflowError, TypeError))):
        with pytest.raises(error):
            setattr(core, name, wrong)
    setattr(core, name, 1)
    delattr(core, name)
    assert getattr(core, name) == 0


def test_frames_that_killed(core):
    assert core.killers() == []
    core.add_killer(0, 5)
    assert core.killers() == []
    core.add_killer(9, 77)
    core.add_killer(2**64 - 1, 2**48 - 1, 3)
    assert sorted(core.killers()) == [(9, 77, 1), (2**64 - 1, 2**48 - 1, 3)]
    for wrong in ((), (1,), ("x", 1), (1, 2, "x")):
        with pytest.raises(TypeError):
            core.add_killer(*wrong)


def test_who_waits_is_rung(core):
    row = ProcessRow(core, 120)
    assert core.wait_service(120, 0.0) is False
    core.ring_service(120)
    core.ring_service(121)
    assert core.wait_service(120, 0.0) is True and core.wait_service(120, 0.0) is False
    core.ring_everybody()
    assert core.wait_service(120, 0.0) is True
    assert row.heartbeat_ns > 0


def test_what_is_in_use_and_in_hand(core, processor, handler):
    assert core.entry_states() == [] and core.frame_in_hand(0) is None
    taken = request(processor, handler)
    assert processor.submit(DATA, 5, 6, 7, FRAME, 1) == 1
    assert [row[0] for row in core.entry_states()] == [0, 1]
    assert {row[2:] for row in core.entry_states()} == {(3, HANDLER_SLOT), (2, PROCESSOR_SLOT)}
    assert core.frame_in_hand(0)[1] == FRAME and core.frame_in_hand(1) is None
    handler.park(taken, 1)
    assert core.frame_in_hand(0) is None
    handler.resume(taken)
    handler.answer_none(taken)
    assert core.frame_in_hand(0) is None and core.entry_states()[0][2] == 5


def test_a_core_that_is_none():
    bare = _native.Core.__new__(_native.Core)
    for call in (
        bare.killers,
        bare.entry_states,
        bare.unique,
        bare.ring_everybody,
        bare.disarm,
        lambda: bare.ring_handler(0),
        lambda: bare.ring_service(0),
        lambda: bare.notify_partition(0),
        lambda: bare.wait_service(0, 0.0),
        lambda: bare.frame_in_hand(0),
        lambda: bare.handler_slot(0),
        lambda: bare.fail_log_dir(0),
        lambda: bare.add_killer(1, 1),
        lambda: bare.hits("x"),
        lambda: bare.arm("x"),
        lambda: bare.crash_point("x"),
        lambda: bare.state,
        lambda: setattr(bare, "state", 1),
        lambda: setattr(bare, "features", 1),
        lambda: setattr(bare, "transactions_ready", 1),
        lambda: _native.HandlerPort(bare, 0),
        lambda: _native.ProcessorPort(bare, 0),
        lambda: _native.HandlerPort(None, 0),
        lambda: _native.ProcessorPort(None, 0),
    ):
        with pytest.raises(TypeError):
            call()


def test_memory_is_attached_once_and_is_of_this_version():
    made = small_core()
    with pytest.raises(RuntimeError, match="attached already"):
        made.core.__init__(*made.memory)
    first, page, arena = made.memory
    for wrong in ((first, page), (first, page, None), (bytes(8192), page, arena)):
        with pytest.raises((TypeError, BufferError)):
            _native.Core(*wrong)
    with pytest.raises(ValueError, match="magic"):
        _native.Core(page, page, arena)
    with pytest.raises(ValueError, match="missing or too long"):
        _native.Core(memoryview(first)[:-4096], page, arena)
    with pytest.raises(ValueError, match="missing or too long"):
        _native.Core(first, page, memoryview(arena)[:-1])
    saved = first[8:12]
    first[8:12] = b"\xff\xff\xff\xff"
    with pytest.raises(ValueError, match="version"):
        _native.Core(first, page, arena)
    first[8:12] = saved
    assert _native.Core(first, page, arena, [-1, 7]).processor_count == 1
    with pytest.raises(TypeError):
        _native.Core(first, page, arena, ["x"])


# ------------------------------------------------------------------ the processor's end
def test_there_is_one_processor(core):
    with pytest.raises(IndexError, match="no processor 1"):
        _native.ProcessorPort(core, 1)
    for wrong in ((), (core,), (core, "x"), (core, 0, "x"), (core, 0, -1, object())):
        with pytest.raises(TypeError):
            _native.ProcessorPort(*wrong)
    assert _native.ProcessorPort(core, 0).index == 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((), TypeError),
        ((0, 1, 1, 0, FRAME), TypeError),
        ((0, 1, 1, 0, FRAME, 1, 2, 3, 4), TypeError),
        (("x", 1, 1, 0, FRAME, 1), TypeError),
        ((0, 1, 1, 0, "frame", 1), TypeError),
        ((0, 1, 1, 0, FRAME, "x"), TypeError),
        ((0, 1, 1, 0, FRAME, 1, 2, "x"), TypeError),
        ((2, 1, 1, 0, FRAME, 1), ValueError),
        ((0, 1, 1, 0, FRAME[:7], 1), ValueError),
        ((0, 1, 1, 0, FRAME[:8], 1), None),
        ((1, 1, 1, 0, FRAME, 1), None),
        ((0, 1, 1, 0, FRAME, 1, 2, 3), None),
    ],
)
def test_what_is_submitted(processor, arguments, error):
    if error is None:
        assert processor.submit(*arguments) == 0 and processor.in_flight() == 1
        return
    with pytest.raises(error):
        processor.submit(*arguments)
    assert processor.in_flight() == 0


def test_room_for_large_frames(core, processor, handler):
    row = ProcessRow(core, PROCESSOR_SLOT)
    assert processor.reserve(0) is processor.reserve(PART_BYTES + 1) is None
    assert row.counter(Counter.NO_ARENA_SPACE) == 2
    offset, view = processor.reserve(100_000)
    other, _ = processor.reserve(5000)
    view[: len(FRAME)] = FRAME
    assert (len(view), other) == (100_000, 98 * 1024)
    told = {"plane": DATA, "connection": 1, "connection_generation": 2, "listener": 3}
    told |= {"offset": offset, "length": 50_000, "t0_ns": 1}
    for wrong in ({"offset": offset + 1024}, {"length": 7}, {"length": 100_001}, {"plane": 2}):
        with pytest.raises(ValueError, match="reserved"):
            processor.submit_reserved(**(told | wrong))
    for bad in ({"plane": "x"}, {"length": "x"}, {"offset": None}, {"client_hash": "x"}):
        with pytest.raises(TypeError):
            processor.submit_reserved(**(told | bad))
    assert processor.submit_reserved(CONTROL, 1, 2, 3, offset, 50_000, 1) == 0
    assert processor.reserve(50_000)[0] == 49 * 1024, "what the frame did not need is free again"
    taken = handler.serve_or_claim()
    assert len(taken.payload) == 50_000 and bytes(taken.payload[: len(FRAME)]) == FRAME and taken.plane == CONTROL
    with pytest.raises(ValueError, match="nothing is reserved"):
        processor.release_reserved(offset)
    processor.release_reserved(other)
    with pytest.raises(ValueError, match="nothing is reserved"):
        processor.release_reserved(other)
    with pytest.raises(TypeError):
        processor.release_reserved("x")
    with pytest.raises(TypeError):
        processor.reserve("x")
    processor.release_reserved(49 * 1024)
    handler.answer_none(taken)
    [(entry, *_)] = processor.collect(1)
    processor.sent(entry)
    assert processor.reserve(PART_BYTES)[0] == 0, "everything came back"


@pytest.mark.parametrize("length", [8, 50_000, 99_328, 99_329, 100_000])
def test_what_a_reserved_frame_does_not_need_is_free_at_once(processor, length):
    offset, _ = processor.reserve(100_000)
    assert processor.submit_reserved(DATA, 1, 2, 3, offset, length, 1) == 0
    assert processor.reserve(1)[0] == (length + 1023) // 1024 * 1024


def test_answers_come_with_their_connection(processor, handler):
    for number, body in enumerate((b"", b"a" * 128, b"b" * 129)):
        taken = request(processor, handler)
        if body:
            assert handler.answer(taken, body)
        else:
            handler.answer_none(taken)
        assert processor.in_flight() == number + 1
    assert processor.collect(0) == []
    found = processor.collect(2) + processor.collect(9)
    assert [(row[0], row[1], row[2]) for row in found] == [(0, 5, 6), (1, 5, 6), (2, 5, 6)]
    assert [None if row[4] is None else bytes(row[4]) for row in found] == [None, b"a" * 128, b"b" * 129]
    assert [row[3] for row in found] == [ANSWER_NONE, ANSWER_INLINE, ANSWER_EXTENT]
    for wrong, error in (((), TypeError), ((0, 1, 0, 0), TypeError), (("x",), TypeError), ((3,), ValueError)):
        with pytest.raises(error):
            processor.sent(*wrong)
    processor.sent(0)
    processor.sent(1, 5)
    processor.sent(2, 5, 1)
    with pytest.raises(ValueError, match="not being sent"):
        processor.sent(2)
    with pytest.raises(TypeError):
        processor.collect("x")
    assert processor.in_flight() == 0


@pytest.mark.parametrize("method", ["retry", "abandon"])
def test_only_what_is_parked_is_tried_again(processor, method):
    assert processor.submit(DATA, 1, 1, 0, FRAME, 1) == 0
    with pytest.raises(TypeError):
        getattr(processor, method)("x")
    if method == "retry":
        with pytest.raises(ValueError, match="entry 0 is not parked"):
            processor.retry(0)
    else:
        assert processor.abandon(0) is False


def test_an_address_has_16_bytes(processor, handler):
    for wrong, error in (
        ((1, 2, bytes(15)), ValueError),
        ((1, 2, bytes(17)), ValueError),
        ((1, 2, "x" * 16), TypeError),
        ((1, 2), TypeError),
        (("x", 2, bytes(16)), TypeError),
    ):
        with pytest.raises(error):
            processor.set_address(*wrong)
    processor.set_address(5, 6, bytes(range(16)))
    assert request(processor, handler).client_address == bytes(range(16))


# ------------------------------------------------------------------ the handler's end
def test_there_are_some_handlers(core):
    with pytest.raises(IndexError, match="no handler"):
        _native.HandlerPort(core, core.handler_count)
    for wrong in ((), (core,), (core, "x")):
        with pytest.raises(TypeError):
            _native.HandlerPort(*wrong)
    assert _native.HandlerPort(core, core.handler_count - 1).index == core.handler_count - 1


def test_a_request_is_its_own_handlers(core, processor, handler):
    """Another one's, one that was answered, or none at all: nothing happens to it."""
    other = _native.HandlerPort(core, 1)
    taken, gone = request(processor, handler), request(processor, handler)
    handler.answer_none(gone)
    calls = {
        "answer": (b"x",),
        "answer_extent": (0, 1),
        "answer_none": (),
        "answer_close": (),
        "set_phase": (1,),
        "ensure_cells": (1,),
        "cell": (0,),
        "park": (1,),
        "resume": (),
        "intended_row": (),
        "give_to_coordinator": (),
        "give_back": (),
    }
    for name, more in calls.items():
        for port, wrong in ((other, taken), (handler, gone), (handler, object()), (handler, None)):
            with pytest.raises((ValueError, TypeError)):
                getattr(port, name)(wrong, *more)
        for place in range(len(more)):
            with pytest.raises(TypeError):
                getattr(handler, name)(taken, *more[:place], object(), *more[place + 1 :])
        with pytest.raises(TypeError):
            getattr(handler, name)()
    assert handler.answer(taken, b"answer")
    assert [row[0] for row in processor.collect(9)] == [1, 0]


def test_the_room_for_answers(core, processor, handler):
    row = ProcessRow(core, HANDLER_SLOT)
    taken = request(processor, handler)
    assert handler.room(1000) == 1000 and handler.room(1 << 40) == PART_BYTES // 4 and not handler.crowded()
    assert handler.allocate(0) is handler.allocate(PART_BYTES + 1) is None
    assert row.counter(Counter.NO_ANSWER_SPACE) == 2
    view, token = handler.allocate(20_000)
    assert len(view) == 20_000 and token & 0xFFFF == 2
    view[:5] = b"hello"
    for wrong in ((token, 0), (token, 2 * 16384 + 1), (token + (63 << 16), 5), (token + (1 << 24), 5)):
        with pytest.raises(ValueError, match="in extent"):
            handler.answer_extent(taken, *wrong)
    with pytest.raises(ValueError, match="is not allocated"):
        handler.release(token + (2 << 16))
    for call in (handler.allocate, handler.room, handler.release, handler.watch, handler.hand_over):
        with pytest.raises(TypeError):
            call(None)
    spare, second = handler.allocate(20_000)
    handler.release(second)
    with pytest.raises(ValueError, match="is not allocated"):
        handler.release(second)
    assert handler.answer_extent(taken, token, 2 * 16384)
    assert bytes(processor.collect(1)[0][4][:5]) == b"hello"
    with pytest.raises(ValueError, match="1 to 2"):
        handler.answer(request(processor, handler), b"")
    assert len(spare) == 20_000


@pytest.mark.parametrize(("kind", "right"), [(0, False), (1, True), (4, True), (5, False)])
def test_kinds_of_waiting(processor, handler, kind, right):
    taken = request(processor, handler)
    if right:
        handler.park(taken, kind)
        assert taken.parked_kind == kind
        return
    with pytest.raises(ValueError, match=f"no parked kind {kind}"):
        handler.park(taken, kind)


def test_cells_of_a_request(core, processor, handler):
    taken = request(processor, handler)
    row = ProcessRow(core, HANDLER_SLOT)
    assert handler.ensure_cells(taken, 0) is False and handler.ensure_cells(taken, 65_537) is False
    assert row.counter(Counter.NO_ANSWER_SPACE) == 2
    assert handler.ensure_cells(taken, 3) is True and taken.cell_count == 3
    assert [handler.cell(taken, place) for place in (0, 2, 3)] == [None] * 3, "nobody has filled them"


def test_what_a_handler_watches_and_hands_over(handler):
    handler.watch(PARTITIONS - 1)
    with pytest.raises(IndexError, match="no partition row 16"):
        handler.watch(PARTITIONS)
    handler.hand_over([0, 127])
    for wrong, error in (([128], IndexError), ([-1], OverflowError), (["x"], TypeError), (5, TypeError)):
        with pytest.raises(error):
            handler.hand_over(wrong)


def test_an_error_of_the_answer_counts_before_that_of_the_end(core, handler):
    memory = bytearray(1 << 16)
    _native.trace_lane_format(memory, 8, 0, 7)
    lane = _native.TraceLane(memory)
    processor = _native.ProcessorPort(core, 0, -1, lane)
    place, size = _native.trace_layout()["error"]
    for own, given, told in ((0, 7, 7), (3, 7, 3)):
        taken = request(processor, handler)
        taken.set_error(own)
        handler.answer_close(taken, given, b"last words")
        [(entry, _, _, kind, answer)] = processor.collect(1)
        assert bytes(answer) == b"last words" and kind == ANSWER_CLOSE
        processor.sent(entry)
        first, length = lane.peek(8)
        record = memory[first : first + length]
        assert length == 128 and int.from_bytes(record[place : place + size], "little", signed=True) == told
        lane.release(1)
    taken = request(processor, handler)
    handler.answer_close(taken)
    assert processor.collect(1)[0][3:] == (ANSWER_CLOSE, None)
    for wrong in ((taken, "x"), (taken, 1, "x"), ()):
        with pytest.raises(TypeError):
            handler.answer_close(*wrong)


@pytest.mark.parametrize("aborted", [False, True])
def test_the_trace_has_when_the_sending_began(core, handler, aborted):
    """Also of an answer that was given up in the middle: that one has no end, and says so."""
    memory = bytearray(1 << 16)
    _native.trace_lane_format(memory, 8, 0, 7)
    lane = _native.TraceLane(memory)
    processor = _native.ProcessorPort(core, 0, -1, lane)
    handler.answer(request(processor, handler), b"answer")
    [(entry, *_)] = processor.collect(1)
    processor.sent(entry, 1 + 1000 * TICK_NS, aborted)  # the frame came at 1
    told = unpack(memory, lane.peek(8)[0])
    assert told.stage[STAGES.index("send_start")] == 1000
    assert (told.stage[STAGES.index("send_done")] == NOT_REACHED, told.flags & ABORTED != 0) == (aborted, aborted)


def test_whether_requests_wait_in_python_is_what_was_said_last(handler):
    assert handler.python_waits is True
    for value, said in ((False, False), (1, True), ([], False), (True, True)):
        handler.python_waits = value
        assert handler.python_waits is said
    del handler.python_waits
    assert handler.python_waits is False

    class Broken:
        def __bool__(self):
            raise KeyError

    with pytest.raises(KeyError):
        handler.python_waits = Broken()
    assert handler.python_waits is False
