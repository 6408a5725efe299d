"""Attributes of the extension's objects that may be set: every value of their range comes back, others are refused and
change nothing."""

import select

import pytest

from mpbroker import _native
from tests.harness.small_core import small_core

U32, U64, I64 = (1 << 32) - 1, (1 << 64) - 1, (1 << 63) - 1
LANE_BYTES = _native.TRACE_LANE_HEADER_BYTES + 64 * 128


class World:
    """One object of each type that has such attributes."""

    def __init__(self, path) -> None:
        self.core = core = small_core().core
        self.row = _native.ProcessRow(core, 60)
        self.log = _native.Log(core, [str(path)], 60)
        self.handler, self.processor = _native.HandlerPort(core, 0), _native.ProcessorPort(core, 0)
        self.produce = _native.NativeProduce(self.handler, self.log, 0, lambda *_: (0, b""), lambda: None)
        self.fetch = _native.NativeFetch(self.handler, self.log, self.produce, 0)
        self.epoll = select.epoll()
        self.turn = _native.NetworkTurn(self.processor, self.epoll.fileno(), 0, 0, 100, 900, {})
        self.connection = _native.Connection(1 << 20, 5, 6, 7)
        memory = bytearray(LANE_BYTES)
        _native.trace_lane_format(memory, 64, 900, 901)
        self.lane = _native.TraceLane(memory)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    made = World(tmp_path_factory.mktemp("log"))
    yield made
    made.log.close()
    made.epoll.close()


ROW_32 = ("pid", "incarnation", "state", "wait", "restarts", "last_exit", "connections", "log_errno", "log_errno_row")
ROW_64 = ("heartbeat_ns", "request", "request_since_ns", "busy_ns", "idle_ns", "troubled_since_ns", "unsteady_since_ns")
TIMES = ("requests", "last_active_ns", "first_ns", "later_ns", "first_arrival_ns", "frame_started_ns")
BOOLS = [("connection", name) for name in ("readable", "large", "waits")]
#: (object, attribute) → values that come back as they are, and what deleting leaves (None: it cannot be deleted).
NUMBERS = {
    ("core", "state"): ((0, 1, U32), 0),
    ("core", "features"): ((0, 1, U64), 0),
    ("core", "transactions_ready"): ((0, 1, U32), 0),
    **{("row", name): ((0, 1, U32), 0) for name in (*ROW_32, "troubles")},
    **{("row", name): ((0, 1, U64), 0) for name in ROW_64},
    **{("connection", name): ((0, 1, U64), None) for name in (*TIMES, "frame_bytes_seen")},
    ("turn", "queued_bytes_limit"): ((-I64 - 1, -1, 0, I64), None),
    ("produce", "now_ms"): ((-I64 - 1, -2, -1, 0, 1, I64), -1),
    ("produce", "monotonic_ms"): ((-I64 - 1, -2, -1, 0, 1, I64), -1),
    ("fetch", "now_ms"): ((-I64 - 1, -2, -1, 0, 1, I64), -1),
    ("fetch", "max_bytes"): ((0, 1, U32 - 1, U32), 0),
    ("handler", "discipline"): (tuple(range(6)), None),
    ("processor", "discipline"): (tuple(range(_native.DEADLINE_REST + 1)), None),
    ("lane", "sample_shift"): ((0, 1, 14, 15), None),
    ("lane", "slow_ns"): ((-1, 0, 64, 128, 1 << 20), 0),
    ("lane", "bell_fd"): ((-1, 0, 1, (1 << 31) - 1), -1),
}


@pytest.mark.parametrize(("place", "name"), NUMBERS)
def test_a_number(world, place, name):
    thing, (values, deleted) = getattr(world, place), NUMBERS[place, name]
    for value in values:
        setattr(thing, name, value)
        assert getattr(thing, name) == value
    setattr(thing, name, values[1])
    for wrong in ("5", b"5", 5.0, None, [], object()):
        with pytest.raises(TypeError):
            setattr(thing, name, wrong)
        if place == "connection":  # CPython's own members are set before they refuse
            setattr(thing, name, values[1])
        assert getattr(thing, name) == values[1]
    if deleted is None:
        with pytest.raises((TypeError, ValueError)):
            delattr(thing, name)
        assert getattr(thing, name) == values[1]
    else:
        delattr(thing, name)
        assert getattr(thing, name) == deleted


@pytest.mark.parametrize(
    ("place", "name", "wrong"),
    [
        ("handler", "discipline", 6),
        ("handler", "discipline", -1),
        ("handler", "discipline", 1 << 64),
        ("processor", "discipline", _native.DEADLINE_REST + 1),
        ("processor", "discipline", -1),
        ("lane", "sample_shift", 16),
        ("lane", "sample_shift", -1),
        ("lane", "sample_shift", 1 << 64),
        ("lane", "slow_ns", 1 << 63),
        ("lane", "bell_fd", 1 << 64),
        ("produce", "now_ms", 1 << 63),
        ("produce", "monotonic_ms", -(1 << 63) - 1),
        ("fetch", "now_ms", 1 << 63),
        ("fetch", "max_bytes", 1 << 63),
        ("core", "state", -1),
        ("core", "state", 1 << 64),
        ("core", "features", 1 << 64),
        ("core", "transactions_ready", -1),
    ],
)
def test_a_number_out_of_range(world, place, name, wrong):
    thing = getattr(world, place)
    before = getattr(thing, name)
    with pytest.raises((IndexError, ValueError, OverflowError)):
        setattr(thing, name, wrong)
    assert getattr(thing, name) == before


def test_what_is_cut_to_its_range(world):
    """No limit is lower than nothing, none is higher than a row can hold, and no descriptor is below 0."""
    for value, kept in ((-1, 0), (0, 0), (1, 1), (-I64, 0), (U32 - 1, U32 - 1), (U32, U32), (U32 + 1, U32), (I64, U32)):
        world.fetch.max_bytes = value
        assert world.fetch.max_bytes == kept
    for value, kept in ((-5, -1), (1 << 31, -1), (7, 7)):
        world.lane.bell_fd = value
        assert world.lane.bell_fd == kept
    for value, kept in ((63, 0), (127, 64), (-I64, -1)):
        world.lane.slow_ns = value
        assert world.lane.slow_ns == kept
    world.lane.slow_ns = I64
    highest = world.lane.slow_ns
    world.lane.slow_ns = highest - 64
    assert world.lane.slow_ns == highest - 64
    world.lane.slow_ns = highest
    assert world.lane.slow_ns == highest


@pytest.mark.parametrize(
    ("place", "name"),
    [
        *BOOLS,
        ("produce", "parks"),
        ("fetch", "parks"),
        ("fetch", "off"),
        ("fetch", "serves_followers"),
        ("processor", "batching"),
        ("handler", "python_waits"),
    ],
)
def test_yes_or_no(world, place, name):
    thing = getattr(world, place)
    for value in (True, False, True, False):
        setattr(thing, name, value)
        assert getattr(thing, name) is value


class _NeitherNor:
    def __bool__(self):
        raise KeyError("neither")


@pytest.mark.parametrize(
    ("place", "name"), [("produce", "parks"), ("processor", "batching"), ("handler", "python_waits")]
)
def test_neither_yes_nor_no(world, place, name):
    thing = getattr(world, place)
    for value in (True, False):
        setattr(thing, name, value)
        with pytest.raises(KeyError):
            setattr(thing, name, _NeitherNor())
        assert getattr(thing, name) is value
    setattr(thing, name, True)
    delattr(thing, name)
    assert getattr(thing, name) is False


def test_numbers_of_a_native_path_are_its_own(world):
    """Each attribute has a place of its own."""
    world.produce.now_ms, world.produce.monotonic_ms, world.fetch.now_ms, world.fetch.max_bytes = 11, 12, 13, 14
    world.produce.parks, world.fetch.parks, world.fetch.off, world.fetch.serves_followers = True, False, True, False
    assert (world.produce.now_ms, world.produce.monotonic_ms) == (11, 12)
    assert (world.fetch.now_ms, world.fetch.max_bytes) == (13, 14)
    assert (world.produce.parks, world.fetch.parks, world.fetch.off, world.fetch.serves_followers) == (True, False) * 2
    assert (world.produce.served, world.produce.waiting, world.produce.due_ms) == (0, 0, I64)
    assert (world.fetch.served, world.fetch.waiting, world.fetch.due_ms) == (0, 0, I64)
    for native in (world.produce, world.fetch):
        assert native.take_over(-1) is native.take_over(I64) is None
        for wrong, error in (("x", TypeError), (None, TypeError), (1 << 63, OverflowError)):
            with pytest.raises(error):
                native.take_over(wrong)


def test_what_nobody_told_yet(tmp_path):
    """No clock of a test's own, nothing parks, and a follower is not served."""
    fresh = World(tmp_path)
    assert (fresh.produce.now_ms, fresh.produce.monotonic_ms, fresh.fetch.now_ms) == (-1, -1, -1)
    assert not any((fresh.produce.parks, fresh.fetch.parks, fresh.fetch.off, fresh.fetch.serves_followers))
    c = fresh.connection
    assert (c.number, c.generation, c.last_active_ns, c.first_ns, c.later_ns) == (5, 6, 7, 7, 7)
    assert (c.readable, c.closed, c.large, c.waits, c.in_flight, c.requests, c.out_count) == (True, *(False,) * 4, 0, 0)
    assert (c.blocked, c.out_started_ns, c.sent_bytes) == (False, 0, 0)
    assert (fresh.lane.processor, fresh.lane.boot_id, fresh.lane.capacity) == (900, 901, 64)
    assert (fresh.turn.queued_bytes_limit, fresh.turn.traced) == (900, False)
    assert (fresh.handler.index, fresh.processor.index, fresh.row.slot) == (0, 0, 60)
    fresh.log.close()
