"""A processor's turns and frames: whose connection, how often it waits and for how long, what is said of a frame."""

import select
import time

import pytest

from mpbroker import _native
from mpbroker.channel.planes import DATA
from mpbroker.shm.counters import Counter
from mpbroker.shm.process_table import ProcessRow
from mpbroker.trace.record import STAGES, TICK_NS, unpack
from tests.harness.small_core import small_core

FRAME = bytes.fromhex("0003 0001 00000007 0002") + b"me"
PROCESSOR_SLOT, UNIT = 16, 1024
EARLY_NS = 1 + 1000 * TICK_NS


class World:
    """A processor with a lane and a turn, and a handler."""

    def __init__(self) -> None:
        self.core, self.epoll = small_core(processors=2).core, select.epoll()
        self.lane_memory = bytearray(1 << 16)
        _native.trace_lane_format(self.lane_memory, 8, 0, 7)
        self.lane = _native.TraceLane(self.lane_memory)
        self.processor = _native.ProcessorPort(self.core, 0, -1, self.lane)
        self.handler = _native.HandlerPort(self.core, 0)
        self.row = ProcessRow(self.core, PROCESSOR_SLOT)
        self.turn = self.another_turn()

    def another_turn(self):
        return _native.NetworkTurn(self.processor, self.epoll.fileno(), 0, 0, 1000, -1, {3: (0, 8)})

    def told(self):
        """The trace record of the one request that there is."""
        self.handler.answer_none(self.handler.serve_or_claim())
        [(entry, *_)] = self.processor.collect(9)
        self.processor.sent(entry)
        record = unpack(self.lane_memory, self.lane.peek(8)[0])
        self.lane.release(1)
        return record


@pytest.fixture
def world():
    made = World()
    yield made
    made.epoll.close()


def test_a_connection_is_of_one_turn(world):
    connection, other = _native.Connection(1 << 20, 1, 2, 3), world.another_turn()
    for wrong in (object(), None, world.turn):
        with pytest.raises(ValueError, match="a new Connection is needed"):
            world.turn.add(wrong)
    world.turn.add(connection)
    for turn in (world.turn, other):
        with pytest.raises(ValueError, match="a new Connection is needed"):
            turn.add(connection)
    for call in (other.schedule, other.forget, other.submit):
        with pytest.raises(ValueError, match="not a connection of this processor"):
            call(connection)
    world.turn.schedule(connection)
    assert world.turn.has_work(True) is True and other.has_work(True) is False
    world.turn.forget(connection)
    assert world.turn.has_work(True) is False
    with pytest.raises(ValueError, match="not a connection of this processor"):
        world.turn.forget(connection)


def test_who_does_not_wait_is_not_asleep(world):
    """Nothing is written down of a sleep that is none; one of a millisecond is one."""
    world.row.idle_ns = world.row.busy_ns = 0
    assert world.turn.poll(0, 0, 1, 0, 0) is world.turn.poll(-1, 0, 1, 0, 0) is False
    assert (world.row.idle_ns, world.row.busy_ns) == (0, 0)
    assert world.turn.poll(1, 0, 1, 0, 0) is False
    assert world.row.idle_ns >= 900_000 and world.row.busy_ns > 0 and world.row.wait == 0


def test_a_look_at_the_sockets_costs_no_time(world):
    """The least of many: the machine may be busy, but not every time."""
    spent_ns = []
    for _ in range(50):
        begun_ns = time.monotonic_ns()
        world.turn.poll(0, 0, 1, 0, 0)
        spent_ns.append(time.monotonic_ns() - begun_ns)
    assert min(spent_ns) < 900_000


@pytest.mark.parametrize(
    ("turns", "idle_ms", "least_ms"), [(2, 50, 50), (5, 20, 80), (41, 1, 40), (1, 50, 0), (5, 0, 0)]
)
def test_how_often_an_idle_processor_waits(world, turns, idle_ms, least_ms):
    """After each of its turns but the last one."""
    far_ns = time.monotonic_ns() + (1 << 40)
    world.row.idle_ns = 0
    assert world.turn.poll(0, turns, 1, far_ns, idle_ms) is False
    if least_ms == 0:
        assert world.row.idle_ns == 0
    else:
        assert world.row.idle_ns >= 0.9 * least_ms * 1_000_000


def test_one_event_is_one(world):
    connection = _native.Connection(1 << 20, 1, 2, 3)
    world.turn.add(connection)
    assert world.turn.poll(0, 1, 1, 0, 0) is False
    assert world.turn.submitted(connection, FRAME, _native.POISON, 1) is False
    assert world.turn.poll(0, 1, 1, 0, 0) is True
    assert len(world.turn.events()) == 1 and world.turn.poll(0, 1, 1, 0, 0) is False


def test_times_of_a_frame_that_nobody_told(world):
    """It was whole with its first byte, came with none before it, and nobody knows when the kernel had it."""
    assert world.processor.submit(DATA, 5, 6, 7, FRAME, EARLY_NS) >= 0
    submitted = world.told()
    offset, view = world.processor.reserve(UNIT)
    view[: len(FRAME)] = FRAME
    assert world.processor.submit_reserved(DATA, 5, 6, 7, offset, len(FRAME), EARLY_NS) >= 0
    reserved = world.told()
    for record in (submitted, reserved):
        stages = [record.stage[STAGES.index(name)] for name in ("frame_done", "parsed")]
        assert (record.t0_ns, stages) == (EARLY_NS, [0, 0]), "so small a frame is looked at in no time"
    assert (reserved.inflight, reserved.rx_wait) == (submitted.inflight, submitted.rx_wait)
    offset, view = world.processor.reserve(UNIT)
    view[: len(FRAME)] = FRAME
    later_ns = EARLY_NS + 300 * TICK_NS
    arrived = {"arrival_ns": EARLY_NS - 200 * TICK_NS, "inflight": 7}
    assert world.processor.submit_reserved(DATA, 5, 6, 7, offset, len(FRAME), EARLY_NS, later_ns, **arrived) >= 0
    told = world.told()
    assert (told.stage[STAGES.index("frame_done")], told.rx_wait, told.inflight) == (300, 200, 7)


def test_a_reserved_frame_that_killed_is_refused(world):
    """Wherever it lies; it is still the one who reserved it that lets it go."""
    world.processor.submit(DATA, 5, 6, 7, FRAME, 1)
    request = world.handler.serve_or_claim()
    digest, _ = world.core.frame_in_hand(0)
    world.handler.answer_none(request)
    world.core.add_killer(digest, int(time.time() * 1000), 2)
    places = [world.processor.reserve(UNIT) for _ in range(3)]
    for offset, view in places:
        view[: len(FRAME)] = FRAME
        assert world.processor.submit_reserved(DATA, 5, 6, 7, offset, len(FRAME), 1) == _native.POISON
        view[3] += 1
        assert world.processor.submit_reserved(DATA, 5, 6, 7, offset, len(FRAME), 1) >= 0
        with pytest.raises(ValueError, match=f"nothing is reserved at {offset}"):
            world.processor.release_reserved(offset)


def test_bytes_of_processors_that_there_are_not(world):
    """Whatever stands in the row behind the last one."""
    ProcessRow(world.core, PROCESSOR_SLOT + 2).set_counter(Counter.QUEUED_BYTES, 5000)
    ProcessRow(world.core, PROCESSOR_SLOT - 1).set_counter(Counter.QUEUED_BYTES, 7000)
    assert world.processor.queued_bytes() == 0
    ProcessRow(world.core, PROCESSOR_SLOT + 1).set_counter(Counter.QUEUED_BYTES, 11)
    assert world.processor.queued_bytes() == 11


def test_what_a_predecessor_left_is_given_back():
    """All but 16 MiB of a processor's memory and 8 of a handler's, once; it is counted by whose it was."""
    core = small_core(arena_processor_bytes=20 << 20, arena_handler_bytes=11 << 20).core
    for make, slot, more in ((_native.ProcessorPort, PROCESSOR_SLOT, 4 << 20), (_native.HandlerPort, 48, 3 << 20)):
        row = ProcessRow(core, slot)
        for incarnation in (1, 2):
            row.begin(incarnation, 2, 0, 0)
        port = make(core, 0)
        assert [port.idle(), port.idle()] == [more, 0]
        assert row.counter(Counter.PUNCHED_BYTES) == more


class _NeitherNor:
    def __bool__(self):
        raise KeyError("neither")


def test_yes_no_and_neither_in_a_turn(world):
    """Whether there is room to read, and whether it will sleep: what is neither is told, and nothing is done."""
    connection = _native.Connection(1 << 20, 1, 2, 3)
    world.turn.add(connection)
    world.turn.schedule(connection)
    for call in (world.turn.receive, world.turn.end, world.turn.has_work):
        with pytest.raises(KeyError, match="neither"):
            call(_NeitherNor())
    assert world.turn.receive(False) is world.turn.end(False) is world.turn.end(True) is None
    assert world.turn.has_work(True) is True and world.turn.has_work(False) is False
    assert world.turn.events() == []
    assert world.turn.receive(True) is None
    assert [(kind, of) for kind, of, *_ in world.turn.events()] == [(_native.EVENT_CLOSE, connection)]
    assert world.turn.over_limit() is False


def test_a_lane_that_a_killed_predecessor_left(world):
    """It had written a record and not yet counted that it was finished."""
    for _ in range(3):
        assert world.processor.submit(DATA, 5, 6, 7, FRAME, EARLY_NS) >= 0
        world.told()
    counted = world.lane.counters()
    assert counted[:2] == (3, 3)
    for at in range(0, _native.TRACE_LANE_HEADER_BYTES, 8):
        if int.from_bytes(world.lane_memory[at : at + 8], "little") != 3:
            continue
        world.lane_memory[at : at + 8] = (2).to_bytes(8, "little")
        if world.lane.counters()[0] == 2:
            break
        world.lane_memory[at : at + 8] = (3).to_bytes(8, "little")
    assert world.lane.counters()[:2] == (2, 3)
    _native.ProcessorPort(world.core, 0)
    assert world.lane.counters()[:2] == (2, 3), "it has none"
    _native.ProcessorPort(world.core, 0, -1, world.lane)
    assert world.lane.counters() == counted
