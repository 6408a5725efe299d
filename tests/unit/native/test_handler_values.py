"""What a handler's port says and does at the bounds of its arguments: room, cells, partitions that moved, recovery."""

import pytest

from mpbroker import _native
from mpbroker.channel.planes import CONTROL, DATA
from mpbroker.shm.counters import Counter
from mpbroker.shm.process_table import ProcessRow
from tests.harness.small_core import small_core

FRAME = bytes.fromhex("0003 0001 00000007 0002") + b"me"
HANDLER_SLOT, PART_BYTES, UNIT = 48, 1 << 20, 16_384
U32, U64 = (1 << 32) - 1, (1 << 64) - 1


class Ends:
    """Both ends of one core."""

    def __init__(self, **plan) -> None:
        self.core = small_core(**plan).core
        self.processor, self.handler = _native.ProcessorPort(self.core, 0), _native.HandlerPort(self.core, 0)
        self.row = ProcessRow(self.core, HANDLER_SLOT)

    def request(self, plane=DATA, frame=FRAME):
        assert self.processor.submit(plane, 5, 6, 7, frame, 1) >= 0
        request = self.handler.serve_or_claim()
        assert request is not None
        return request


@pytest.fixture
def ends():
    return Ends()


def test_partitions_that_moved():
    """The watched ones among them, in the order of their rows, each once."""
    ends = Ends(partitions=300)
    watched = [0, 1, 62, 63, 64, 65, 127, 128, 255, 256, 298, 299]
    assert ends.handler.take_dirty() == (False, [])
    for row in watched:
        ends.handler.watch(row)
    for row in (*reversed(range(300)), 64):
        ends.core.notify_partition(row)
    assert ends.handler.take_dirty() == (False, watched)
    assert ends.handler.take_dirty() == (False, [])
    ends.handler.watch(5)
    ends.core.ring_handler(0), ends.core.notify_partition(5)
    assert ends.handler.take_dirty() == (True, [5])
    for wrong in (300, U32, U64):
        with pytest.raises(IndexError, match=f"no partition row {wrong}"):
            ends.handler.watch(wrong)


def test_rows_of_as_many_partitions_as_one_number_stands_for():
    """4096 of them are told apart."""
    ends = Ends(partitions=4100)
    for row in (1, 4095, 4096):
        ends.handler.watch(row), ends.core.notify_partition(row)
    assert ends.handler.take_dirty() == (False, [0, 1, 4095])


def test_room_for_an_answer(ends):
    room = ends.handler.room
    assert [room(wanted) for wanted in (0, 1, PART_BYTES // 4, PART_BYTES // 4 + 1, U64)] == [
        0, 1, PART_BYTES // 4, PART_BYTES // 4, PART_BYTES // 4
    ]  # fmt: skip
    views = [ends.handler.allocate(UNIT) for _ in range(PART_BYTES // UNIT // 2)]
    assert all(len(view) == UNIT for view, _ in views) and not ends.handler.crowded()
    view, token = ends.handler.allocate(1)
    assert len(view) == 1 and ends.handler.crowded()
    ends.handler.release(token)
    assert not ends.handler.crowded()
    for wrong, error in ((-1, OverflowError), (U64 + 1, OverflowError), ("x", TypeError)):
        for call in (ends.handler.room, ends.handler.allocate, ends.handler.release, ends.handler.watch):
            with pytest.raises(error):
                call(wrong)
    for _, each in views:
        ends.handler.release(each)
        with pytest.raises(ValueError, match=f"extent {each} is not allocated"):
            ends.handler.release(each)
    assert ends.handler.allocate(PART_BYTES) is not None and ends.handler.allocate(1) is None
    assert ends.row.counter(Counter.NO_ANSWER_SPACE) == 1


@pytest.mark.parametrize("length", [1, UNIT - 1, UNIT])
def test_an_answer_in_an_extent(ends, length):
    request = ends.request()
    view, token = ends.handler.allocate(UNIT)
    view[:] = b"z" * UNIT
    for wrong in (0, UNIT + 1, U32):
        with pytest.raises(ValueError, match=f"^{wrong} bytes in extent {token}$"):
            ends.handler.answer_extent(request, token, wrong)
    assert ends.handler.answer_extent(request, token, length) is True
    [(entry, _, _, kind, body)] = ends.processor.collect(9)
    assert (kind, bytes(body)) == (_native.ANSWER_EXTENT, b"z" * length)
    ends.processor.sent(entry)
    assert ends.handler.allocate(PART_BYTES) is not None, "it is free again"


def test_cells(ends):
    request = ends.request()
    for wrong in (0, 65_537, U32):
        assert ends.handler.ensure_cells(request, wrong) is False
    assert ends.row.counter(Counter.NO_ANSWER_SPACE) == 3 and request.cell_count == 0
    assert ends.handler.cell(request, 0) is None
    assert ends.handler.ensure_cells(request, 3) is True and request.cell_count == 3
    assert ends.handler.ensure_cells(request, 3) is True
    assert ends.row.counter(Counter.NO_ANSWER_SPACE) == 3
    assert [ends.handler.cell(request, number) for number in (0, 2, 3, U32)] == [None] * 4


@pytest.mark.parametrize("kind", range(7))
def test_how_a_request_is_parked(ends, kind):
    request = ends.request()
    assert request.parked_kind == 0 and request.phase == 0
    if not 1 <= kind <= 4:
        with pytest.raises(ValueError, match=f"no parked kind {kind}"):
            ends.handler.park(request, kind)
        assert request.parked_kind == 0
        return
    ends.handler.set_phase(request, kind)
    ends.handler.park(request, kind)
    assert (request.parked_kind, request.phase, request.attempts) == (kind, kind, 0)
    assert ends.core.frame_in_hand(0) is None
    ends.handler.resume(request)
    assert ends.core.frame_in_hand(0)[1] == FRAME
    ends.handler.answer_none(request)
    reads = (lambda: request.phase, lambda: request.payload, lambda: request.client_address)
    for call in (*reads, request.flag_timed_out):
        with pytest.raises(ValueError, match=f"request {request.entry} is answered already"):
            call()


def test_what_a_successor_finds(ends):
    """Every request that was not answered comes again; the one in hand counts one attempt more, a parked one none."""
    taken, parked = ends.request(), ends.request(frame=FRAME + b"x")
    ends.handler.park(parked, 1)
    ends.handler.resume(taken)
    number, generation = taken.fill_number, taken.generation
    successor = _native.HandlerPort(ends.core, 0)
    done = successor.recover()
    assert sorted(done) == ["closed", "hinted", "requeued"] and done["requeued"] == 2 and done["closed"] == 0
    again = {}
    for _ in range(9):
        if (request := successor.serve_or_claim()) is not None:
            again[request.entry] = request
        successor.take_dirty()
    assert sorted(again) == [taken.entry, parked.entry]
    assert again[taken.entry].fill_number == number and again[taken.entry].generation != generation
    assert (again[taken.entry].attempts, again[parked.entry].attempts) == (1, 0)


def test_which_requests_are_control(ends):
    data, control = ends.request(), ends.request(CONTROL)
    assert (data.plane, control.plane) == (DATA, CONTROL)
    ends.processor.submit(DATA, 5, 6, 7, FRAME, 1)
    assert ends.handler.serve_or_claim(control_only=True) is None
    ends.processor.submit(CONTROL, 5, 6, 7, FRAME, 1)
    assert ends.handler.serve_or_claim(control_only=True).plane == CONTROL
    assert ends.handler.serve_or_claim().plane == DATA
    for wrong in ({"wait_ms": "x"}, {"nothing": 1}, {"wait_ms": None}):
        with pytest.raises(TypeError):
            ends.handler.serve_or_claim(**wrong)


def test_a_clients_name_is_a_text(ends):
    request = ends.request()
    assert request.client_id == "" and request.client_address is None
    for name in ("me", "", "é" * 300):
        request.client_id = name
        assert request.client_id == name
    for wrong in (b"me", None, 5):
        with pytest.raises(TypeError, match="a client id is a str"):
            request.client_id = wrong
    with pytest.raises(TypeError, match="a client id is a str"):
        del request.client_id
    assert request.client_id == "é" * 300
    ends.processor.set_address(5, 6, bytes(range(16)))
    assert request.client_address == bytes(range(16))
    ends.processor.set_address(5, 7, bytes(16))
    assert request.client_address is None, "another connection's"
    ends.handler.answer_none(request)
    assert request.client_id == "é" * 300 and request.entry == 0


def test_a_payload_is_a_window_on_shared_memory(ends):
    for frame in (FRAME, FRAME + bytes(5000)):
        request = ends.request(frame=frame)
        view = request.payload
        assert bytes(view) == frame == bytes(memoryview(request)) and view.readonly and len(view) == len(frame)
        with pytest.raises((TypeError, BufferError)):
            view[0] = 1
        ends.handler.answer_none(request)


def test_what_is_idle():
    """What is above 8 MiB and was used, nothing twice, and nothing that somebody holds."""
    ends = Ends(arena_handler_bytes=16 << 20)
    _, token = ends.handler.allocate(12 << 20)
    ends.handler.release(token)
    assert [ends.handler.idle() for _ in range(3)] == [4 << 20, 0, 0]
    ends.handler.allocate(12 << 20)
    assert ends.handler.idle() == 0 and ends.row.counter(Counter.PUNCHED_BYTES) == 4 << 20
