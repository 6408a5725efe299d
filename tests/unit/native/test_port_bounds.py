"""Ports at their bounds: the largest lengths, the last place of the memory, the latest stage, descriptor 0."""

import os
import struct
import time

import pytest

from mpbroker import _native
from mpbroker.channel.planes import DATA
from mpbroker.shm.counters import Counter
from mpbroker.shm.process_table import ProcessRow
from mpbroker.trace.record import STAGES, TICK_NS, unpack
from tests.harness.small_core import small_core
from tests.harness.unread_memory import unread_memory

FRAME = bytes.fromhex("0003 0001 00000007 0002") + b"me"
PROCESSOR_SLOT, HANDLER_SLOT, PART_BYTES, UNIT, SMALL_UNIT = 16, 48, 1 << 20, 16_384, 1024
MOST = (1 << 31) - 1


class Ends:
    """Both ends of one core, and a lane for what is traced."""

    def __init__(self, **plan) -> None:
        self.core = small_core(**plan).core
        self.lane_memory = bytearray(1 << 16)
        _native.trace_lane_format(self.lane_memory, 8, 0, 7)
        self.lane = _native.TraceLane(self.lane_memory)
        self.processor = _native.ProcessorPort(self.core, 0, -1, self.lane)
        self.handler = _native.HandlerPort(self.core, 0)
        self.row = ProcessRow(self.core, HANDLER_SLOT)

    def request(self, t0_ns=1):
        assert self.processor.submit(DATA, 5, 6, 7, FRAME, t0_ns) >= 0
        request = self.handler.serve_or_claim()
        assert request is not None
        return request

    def told(self):
        """The trace record of the one request that is answered."""
        [(entry, *_)] = self.processor.collect(9)
        self.processor.sent(entry)
        record = unpack(self.lane_memory, self.lane.peek(8)[0])
        self.lane.release(1)
        return record


@pytest.fixture
def ends():
    return Ends()


@pytest.fixture(scope="module")
def gigabytes():
    """Two of them: one byte too many."""
    with unread_memory(MOST + 1) as view:
        yield view


def test_the_longest_answer(ends, gigabytes):
    """A length is a number of 31 bits; there is no room for so many bytes, which is counted."""
    request = ends.request()
    with pytest.raises(ValueError, match=f"an answer has 1 to 2\\^31 - 1 bytes, not {MOST + 1}"):
        ends.handler.answer(request, gigabytes)
    assert ends.row.counter(Counter.NO_ANSWER_SPACE) == 0
    with gigabytes[:MOST] as most:
        assert ends.handler.answer(request, most) is False
        assert ends.row.counter(Counter.NO_ANSWER_SPACE) == 1
        ends.handler.answer_close(request, 5, most)
    assert ends.row.counter(Counter.NO_ANSWER_SPACE) == 2
    ends.handler.answer_close(other := ends.request(), 5, gigabytes)
    assert ends.row.counter(Counter.NO_ANSWER_SPACE) == 2 and other.entry == 1
    for _, _, _, kind, body in ends.processor.collect(9):
        assert (kind, body) == (_native.ANSWER_CLOSE, None)


def test_the_longest_frame(ends, gigabytes):
    row = ProcessRow(ends.core, PROCESSOR_SLOT)
    with pytest.raises(ValueError, match="a frame has 8 bytes to 2 GiB"):
        ends.processor.submit(DATA, 5, 6, 7, gigabytes, 1)
    assert row.counter(Counter.NO_ARENA_SPACE) == 0
    turn = _native.NetworkTurn(ends.processor, -1, 0, 0, 1000, -1, {0: (0, 8)})
    connection = _native.Connection(1 << 20, 5, 6, 7)
    turn.add(connection)
    with pytest.raises(ValueError, match=f"a frame of {MOST + 1} bytes"):
        turn.serves(connection, gigabytes)
    with gigabytes[:MOST] as most:
        assert ends.processor.submit(DATA, 5, 6, 7, most, 1) == _native.NO_SPACE
        assert turn.serves(connection, most) is True
    assert row.counter(Counter.NO_ARENA_SPACE) == 1


def test_an_answer_at_the_end_of_the_memory(ends):
    units = PART_BYTES // UNIT
    first, request = ends.request(), ends.request()
    _, most = ends.handler.allocate(PART_BYTES - UNIT)
    _, last = ends.handler.allocate(UNIT)
    assert (most, last) == (units - 1, units - 1 << 16 | 1)
    for beyond in (units << 16 | 1, units - 1 << 16 | 2, 1 << 16 | units):
        with pytest.raises(ValueError, match=f"5 bytes in extent {beyond}"):
            ends.handler.answer_extent(request, beyond, 5)
    with pytest.raises(ValueError, match="1 bytes in extent 0"):
        ends.handler.answer_extent(request, 0, 1)
    assert ends.handler.answer_extent(request, last, UNIT) is True
    ends.handler.release(most)
    for entry, *_ in ends.processor.collect(9):
        ends.processor.sent(entry)
    _, whole = ends.handler.allocate(PART_BYTES)
    assert whole == units and ends.handler.answer_extent(first, whole, PART_BYTES) is True


@pytest.mark.parametrize(("before", "given", "kept"), [(0, (), -1), (0, (0,), 0), (0, (7,), 7), (3, (7,), 3)])
def test_why_a_connection_was_closed(ends, before, given, kept):
    """What the answer would have said counts first."""
    request = ends.request()
    request.set_error(before)
    ends.handler.answer_close(request, *given)
    assert ends.told().error == kept


def test_a_stage_is_never_earlier_than_one_before_it(ends):
    """Once a request has waited, what is read again is part of the wait; later stages count on."""

    def shown(*names):
        """Which stamp of the row each stage has the time of; no two of them have the same tick."""
        t0_ns = time.monotonic_ns()
        request, stamps = ends.request(t0_ns), []
        for name in names:
            first = (time.monotonic_ns() - t0_ns) // TICK_NS
            request.stamp(STAGES.index(name))
            last = (time.monotonic_ns() - t0_ns) // TICK_NS
            stamps.append((name, first, last))
            while (time.monotonic_ns() - t0_ns) // TICK_NS == last:
                pass
        ends.handler.answer_none(request)
        times = dict(zip(STAGES, ends.told().stage, strict=True))
        return {name: at for at, (name, first, last) in enumerate(stamps) if first <= times[name] <= last}

    earlier = STAGES[STAGES.index("local_done") - 1]
    later = STAGES[STAGES.index("local_done") + 1]
    found = shown(earlier, earlier, "local_done", "local_done", earlier, later)
    assert found == {earlier: 1, "local_done": 2, later: 5}
    assert shown(earlier, earlier, "local_done", later, later) == {earlier: 1, "local_done": 2, later: 4}


def test_flags_of_a_request_add_up(ends):
    request = ends.request()
    request.set_trace(1, 2, 3, 0x0020)
    request.flag_timed_out()
    request.set_trace(1, 2, 3, 0x0040)
    ends.handler.answer_none(request)
    assert ends.told().flags & 0x00FF == 0x0068


def test_what_was_nothing_to_reserve(ends):
    row = ProcessRow(ends.core, PROCESSOR_SLOT)
    assert ends.processor.reserve(0) is None and row.counter(Counter.NO_ARENA_SPACE) == 1
    assert ends.processor.reserve(1)[0] == 0


def test_a_reserved_frame_that_is_shorter(ends):
    """What it does not need is free at once; it is no longer than what was reserved, and no shorter than a header."""
    offset, view = ends.processor.reserve(4 * SMALL_UNIT)
    view[: len(FRAME)] = FRAME
    for length in (7, 4 * SMALL_UNIT + 1):
        with pytest.raises(ValueError, match=f"{length} bytes of the {4 * SMALL_UNIT} reserved, plane 0"):
            ends.processor.submit_reserved(DATA, 5, 6, 7, offset, length, 1)
    with pytest.raises(ValueError, match="plane 2"):
        ends.processor.submit_reserved(2, 5, 6, 7, offset, 8, 1)
    assert ends.processor.submit_reserved(DATA, 5, 6, 7, offset, SMALL_UNIT + 1, 1) >= 0
    assert ends.processor.reserve(2 * SMALL_UNIT)[0] == 2 * SMALL_UNIT
    whole, view = ends.processor.reserve(SMALL_UNIT)
    view[: len(FRAME)] = FRAME
    assert ends.processor.submit_reserved(DATA, 5, 6, 7, whole, SMALL_UNIT, 1) >= 0
    assert ends.processor.reserve(1)[0] == 5 * SMALL_UNIT, "all of that one is held"


def test_a_reservation_stays_while_there_is_no_entry():
    ends = Ends(entries_per_processor=64)
    offset, view = ends.processor.reserve(SMALL_UNIT)
    view[: len(FRAME)] = FRAME
    while ends.processor.submit(DATA, 5, 6, 7, FRAME, 1) != _native.NO_ENTRY:
        pass
    assert ends.processor.submit_reserved(DATA, 5, 6, 7, offset, len(FRAME), 1) == _native.NO_ENTRY
    ends.processor.release_reserved(offset)


def test_a_reservation_goes_with_a_frame_that_found_its_plane_full():
    ends = Ends(data_requests=2)
    while ends.processor.submit(DATA, 5, 6, 7, FRAME, 1) != _native.PLANE_FULL:
        pass
    assert ends.processor.abandon(ends.processor.parked_entry)
    offset, view = ends.processor.reserve(SMALL_UNIT)
    view[: len(FRAME)] = FRAME
    assert ends.processor.submit_reserved(DATA, 5, 6, 7, offset, len(FRAME), 1) == _native.PLANE_FULL
    with pytest.raises(ValueError, match="nothing is reserved at 0"):
        ends.processor.release_reserved(offset)


def test_bytes_of_all_processors():
    small = small_core(processors=3)
    ports = [_native.ProcessorPort(small.core, number) for number in range(3)]
    for number, port in enumerate(ports):
        assert port.submit(DATA, 5, 6, 7, FRAME + bytes(100 * number), 1) >= 0
    assert [port.queued_bytes() for port in ports] == [3 * len(FRAME) + 300] * 3
    assert [(port.index, port.in_flight()) for port in ports] == [(0, 1), (1, 1), (2, 1)]


def test_which_keys_there_are(ends):
    """What a request is called is a number below 128; its versions are two."""

    def turn(versions):
        return _native.NetworkTurn(ends.processor, -1, 0, 0, 1000, -1, versions)

    for key in (128, 129, -1, 1 << 40):
        with pytest.raises(ValueError, match=f"^api key {key} is above 127$"):
            turn({3: (0, 1), key: (0, 1)})
    made, connection = turn({0: (0, 1), 127: (3, 4)}), _native.Connection(1 << 20, 5, 6, 7)
    made.add(connection)
    for key, version, served in ((0, 1, True), (127, 3, True), (127, 4, True), (127, 2, False), (126, 0, False)):
        frame = struct.pack(">hhi", key, version, 7) + FRAME[8:]
        assert made.serves(connection, frame) is served, (key, version)


def test_a_processor_is_woken_through_descriptor_0(ends):
    """Whoever was started without one has it; a connection may have it as well."""
    saved, bell, connection = os.dup(0), os.eventfd(0, os.EFD_NONBLOCK), None
    try:
        os.dup2(bell, 0)
        processor = _native.ProcessorPort(ends.core, 0, 0)
        assert processor.submit(DATA, 5, 6, 7, FRAME, 1) >= 0
        request = ends.handler.serve_or_claim()
        assert processor.prepare_sleep() is True
        ends.handler.answer_none(request)
        ends.handler.take_dirty()
        assert os.eventfd_read(bell) == 1
        connection = _native.Connection(0, 1, 2, 3)
        with pytest.raises(ValueError, match="a connection is made once"):
            connection.__init__(1 << 20, 4, 5, 6)
        assert (connection.fd, connection.number) == (0, 1)
    finally:
        connection = None  # closes it
        os.dup2(saved, 0)
        os.close(saved), os.close(bell)


def test_as_many_descriptors_as_processors():
    """Those that there can be are looked at, the one behind them is not."""
    parts = small_core().memory
    assert _native.Core(*parts, [-1] * 32 + ["x"]).processor_count == 1
    with pytest.raises(TypeError):
        _native.Core(*parts, [-1] * 31 + ["x"])
