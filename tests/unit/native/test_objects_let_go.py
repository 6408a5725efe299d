"""What an object of the extension holds is let go of with it, and what it refuses to be made of is not held at all."""

import select

import pytest

from mpbroker import _native
from mpbroker.record.batch_builder import encode_batch
from tests.harness.no_memory import leaves_nothing
from tests.harness.small_core import small_core
from tests.unit.trace.traces import full_request

NOBODYS = 1 << 20  # a descriptor that is none: who opened one closes it
LANE_BYTES = _native.TRACE_LANE_HEADER_BYTES + 64 * 128


class World:
    """One of each that others are made of."""

    def __init__(self, path) -> None:
        self.small = small_core(replicated=True)
        self.core = self.small.core
        self.log = _native.Log(self.core, [str(path)], 118)
        self.handler, self.processor = _native.HandlerPort(self.core, 0), _native.ProcessorPort(self.core, 0)
        self.calls = (lambda *_: (0, b""), lambda: None)
        self.produce = _native.NativeProduce(self.handler, self.log, 0, *self.calls)
        self.epoll = select.epoll()
        self.turn = _native.NetworkTurn(self.processor, self.epoll.fileno(), 0, 0, 100, -1, {})
        self.lane_memory = bytearray(LANE_BYTES)
        _native.trace_lane_format(self.lane_memory, 64, 0, 1)
        self.lane = _native.TraceLane(self.lane_memory)
        self.fds, self.paths, self.versions = [300, 301], [str(path)], {3: (0, 300)}
        self.batch = encode_batch([(b"k", b"v", 1)], producer_id=5, producer_epoch=0, base_sequence=0)

    def held(self):
        return [one for one in vars(self).values() if not isinstance(one, int)] + [*self.calls, None, (), True, False]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    made = World(tmp_path_factory.mktemp("log"))
    yield made
    made.log.close()
    made.epoll.close()


def a_connection_of_a_turn(world):
    connection = _native.Connection(NOBODYS, 1, 1, 1)
    world.turn.add(connection)
    connection.preload(bytes(5000), 1)
    return connection


def a_map_that_learnt(world):
    keys = _native.KeyMap(1 << 16, 0.9, bytes(16))
    keys.set_aborted(bytes(9600)), keys.set_aborted(bytes(24000))
    keys.learn(world.batch, 0, 1 << 40)
    keys.apply(world.batch, bytearray(1000), 1, 1, (5).to_bytes(8, "little"))
    return keys


def a_native_topic(world):
    made = _native.NativeProduce(world.handler, world.log, 0, *world.calls)
    assert made.add("topic" * 9, bytes(16), [0, 1], _native.LogOptions(), True, False)
    made.reset(5)
    assert made.add("topic" * 9, bytes(16), [0, 1], _native.LogOptions(), True, False)
    return made


def steady_fetches(world):
    made = _native.SteadyFetches(world.log, world.epoll.fileno())
    assert made.begin(1000, "c", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, [])
    return made


MADE = {
    "Core": lambda w: _native.Core(*w.small.memory, w.fds),
    "ProcessRow": lambda w: _native.ProcessRow(w.core, 3),
    "row": lambda w: w.core.row(3),
    "FetchSessions": lambda w: _native.FetchSessions(w.core, 60),
    "KnownRows": lambda w: _native.KnownRows(w.core, False),
    "HandlerPort": lambda w: _native.HandlerPort(w.core, 0),
    "ProcessorPort": lambda w: _native.ProcessorPort(w.core, 0, 5, w.lane),
    "CommandPort": lambda w: _native.CommandPort(w.core, 60),
    "Log": lambda w: _native.Log(w.core, w.paths, 60),
    "closed Log": lambda w: _native.Log(w.core, w.paths, 60).close(),
    "LogOptions": lambda w: _native.LogOptions(segment_bytes=1 << 20),
    "AppendResult": lambda w: w.log.refuse(0, _native.NO_REQUEST, 0, 1, None),
    "ReadPlan": lambda w: w.log.find(0, 0, 0, 1),
    "Connection": a_connection_of_a_turn,
    "NetworkTurn": lambda w: _native.NetworkTurn(w.processor, -1, 0, 0, 100, -1, w.versions),
    "NativeProduce": a_native_topic,
    "NativeFetch": lambda w: _native.NativeFetch(w.handler, w.log, w.produce, 0),
    "SteadyFetches": steady_fetches,
    "KeyMap": a_map_that_learnt,
    "TraceLane": lambda w: _native.TraceLane(w.lane_memory),
    "TraceTally": lambda w: _native.TraceTally(1 << 40).add(full_request(1).pack()),
}
NOT_MADE = {
    "Core": lambda w: _native.Core(w.small.memory[1], w.small.memory[1], w.small.memory[2]),
    "Core's page": lambda w: _native.Core(w.small.memory[0], bytes(9), w.small.memory[2]),
    "Core's arena": lambda w: _native.Core(w.small.memory[0], w.small.memory[1], None),
    "Core's descriptors": lambda w: _native.Core(*w.small.memory, [5, "x"]),
    "Core's descriptors' list": lambda w: _native.Core(*w.small.memory, 5),
    "ProcessRow": lambda w: _native.ProcessRow(w.core, 128),
    "FetchSessions": lambda w: _native.FetchSessions(w.core, 128),
    "KnownRows": lambda w: _native.KnownRows(None, False),
    "HandlerPort": lambda w: _native.HandlerPort(w.core, 2),
    "ProcessorPort": lambda w: _native.ProcessorPort(w.core, 1),
    "ProcessorPort's lane": lambda w: _native.ProcessorPort(w.core, 0, -1, w.core),
    "CommandPort": lambda w: _native.CommandPort(w.core, 3),
    "Log": lambda w: _native.Log(w.core, ["/no/such", *w.paths], 60),
    "Log's paths": lambda w: _native.Log(w.core, [*w.paths, None], 60),
    "Log's core": lambda w: _native.Log(None, w.paths, 60),
    "Log's many paths": lambda w: _native.Log(w.core, w.paths * 99, 60),
    "Log's segments": lambda w: _native.Log(w.core, w.paths, 60, 65537),
    "LogOptions": lambda w: _native.LogOptions(segment_bytes="x"),
    "Connection": lambda w: _native.Connection(-1, 1, 1, "x"),
    "Connection twice": lambda w: a_connection_of_a_turn(w).__init__(5, 1, 1, 1),
    "NetworkTurn": lambda w: _native.NetworkTurn(w.processor, -1, 0, 0, 100, -1, {3: 5}),
    "NetworkTurn's plane": lambda w: _native.NetworkTurn(w.processor, -1, 2, 0, 100, -1, w.versions),
    "NetworkTurn's port": lambda w: _native.NetworkTurn(w.handler, -1, 0, 0, 100, -1, w.versions),
    "NativeProduce": lambda w: _native.NativeProduce(w.handler, None, 0, *w.calls),
    "NativeProduce's port": lambda w: _native.NativeProduce(w.processor, w.log, 0, *w.calls),
    "NativeProduce's counter": lambda w: _native.NativeProduce(w.handler, w.log, 1 << 20, *w.calls),
    "NativeFetch": lambda w: _native.NativeFetch(w.handler, w.log, w.log, 0),
    "NativeFetch's log": lambda w: _native.NativeFetch(w.handler, w.core, w.produce, 0),
    "NativeFetch's port": lambda w: _native.NativeFetch(None, w.log, w.produce, 0),
    "NativeFetch's counter": lambda w: _native.NativeFetch(w.handler, w.log, w.produce, 1 << 20),
    "SteadyFetches": lambda w: _native.SteadyFetches(w.core, 5),
    "KeyMap": lambda w: _native.KeyMap(1 << 16, 0.9, bytes(15)),
    "TraceLane": lambda w: _native.TraceLane(bytes(LANE_BYTES)),
    "TraceLane's header": lambda w: _native.TraceLane(bytearray(LANE_BYTES)),
    "TraceTally": lambda w: _native.TraceTally(-1),
}


@pytest.mark.parametrize("name", MADE)
def test_what_was_made(world, name):
    leaves_nothing(lambda: MADE[name](world), [*world.held(), type(MADE[name](world))])


@pytest.mark.parametrize("name", NOT_MADE)
def test_what_was_not_made(world, name):
    def work():
        with pytest.raises((TypeError, ValueError, OverflowError, OSError, IndexError, BufferError)):
            NOT_MADE[name](world)

    leaves_nothing(work, world.held())


def test_memory_can_be_closed_behind_its_core():
    """All three parts: an export that was kept would forbid it."""
    small = small_core()
    parts = small.memory
    small.core = None
    for part in parts:
        part.close()
    assert all(part.closed for part in parts)


def test_a_turn_knows_nothing_of_a_connection_that_is_gone(tmp_path):
    world = World(tmp_path)
    connection = a_connection_of_a_turn(world)
    world.turn.schedule(connection)
    del connection
    assert world.turn.has_work(True) is False and world.turn.events() == []
    world.log.close()


def test_a_port_forgets_who_served_natively(tmp_path):
    """A NativeProduce and a NativeFetch that are gone are asked nothing; one that came after them stays."""
    world = World(tmp_path)
    fetch = _native.NativeFetch(world.handler, world.log, world.produce, 0)
    newer = _native.NativeFetch(world.handler, world.log, world.produce, 0)
    del fetch
    newest = _native.NativeProduce(world.handler, world.log, 0, *world.calls)
    del newer, newest
    world.produce = None
    frame = bytes.fromhex("0001 000b 00000007 0001 63") + bytes(60)
    for key in (b"\0\0", b"\0\1"):
        assert world.processor.submit(0, 1, 1, 0, key + frame[2:], 1) >= 0
        request = world.handler.serve_or_claim()
        assert request is not None and request.api_key == key[1]
        world.handler.answer_none(request)
    assert world.handler.take_dirty() == (False, [])
    world.log.close()
