"""What an object of the extension works with lives as long as it does: one reference each, for as long."""

import sys

import pytest

from mpbroker import _native
from tests.harness.in_process_broker import InProcessBroker
from tests.harness.small_core import small_core
from tests.unit.server.test_produce_fetch import batch, fetch, part, produce


class World:
    """What objects are made of."""

    def __init__(self, path) -> None:
        self.core = small_core(replicated=True).core
        self.handler, self.processor = _native.HandlerPort(self.core, 0), _native.ProcessorPort(self.core, 0)
        self.log = _native.Log(self.core, [str(path)], 118)
        self.lane_memory = bytearray(1 << 16)
        _native.trace_lane_format(self.lane_memory, 8, 0, 7)
        self.lane = _native.TraceLane(self.lane_memory)
        self.decompress, self.release = (lambda *_: (0, b"")), (lambda: None)
        self.produce = _native.NativeProduce(self.handler, self.log, 0, self.decompress, self.release)
        self.turn = _native.NetworkTurn(self.processor, -1, 0, 0, 100, -1, {})

    def connection(self):
        made = _native.Connection(1 << 20, 1, 2, 3)
        self.turn.add(made)
        return made


#: What is made, and what of.
MADE = {
    "HandlerPort": (lambda w: _native.HandlerPort(w.core, 1), ("core",)),
    "ProcessorPort": (lambda w: _native.ProcessorPort(w.core, 0, -1, w.lane), ("core", "lane")),
    "ProcessRow": (lambda w: w.core.row(5), ("core",)),
    "CommandPort": (lambda w: _native.CommandPort(w.core, 48), ("core",)),
    "FetchSessions": (lambda w: _native.FetchSessions(w.core, 48), ("core",)),
    "NativeProduce": (
        lambda w: _native.NativeProduce(w.handler, w.log, 0, w.decompress, w.release),
        ("handler", "log", "decompress", "release"),
    ),
    "NativeFetch": (lambda w: _native.NativeFetch(w.handler, w.log, w.produce, 0), ("handler", "log", "produce")),
    "NetworkTurn": (lambda w: _native.NetworkTurn(w.processor, -1, 0, 0, 100, -1, {}), ("processor",)),
    "Connection": (World.connection, ("turn",)),
    "SteadyFetches": (lambda w: _native.SteadyFetches(w.log, 5), ("log",)),
    "TraceLane": (lambda w: _native.TraceLane(w.lane_memory), ()),
}


@pytest.mark.parametrize("name", MADE)
def test_what_it_is_made_of_is_kept(tmp_path, name):
    world = World(tmp_path)
    make, parts = MADE[name]
    before = {part: sys.getrefcount(getattr(world, part)) for part in parts}
    made = make(world)
    assert {part: sys.getrefcount(getattr(world, part)) - before[part] for part in parts} == dict.fromkeys(parts, 1)
    del made
    assert {part: sys.getrefcount(getattr(world, part)) for part in parts} == before
    world.log.close()


def test_a_request_keeps_its_handler(tmp_path):
    world = World(tmp_path)
    world.processor.submit(0, 5, 6, 7, bytes.fromhex("0003 0001 00000007 0002") + b"me", 1)
    before = sys.getrefcount(world.handler)
    request = world.handler.serve_or_claim()
    counts = [sys.getrefcount(world.handler)]
    view = request.payload
    del request
    counts.append(sys.getrefcount(world.handler))
    assert bytes(view)[8:] == b"\0\2me"
    del view
    counts.append(sys.getrefcount(world.handler))
    assert counts == [before + 1, before + 1, before], "a view keeps its request"
    world.log.close()


def test_the_newest_of_several_serves(tmp_path):
    """One that goes takes nothing from the one that came after it."""
    broker = InProcessBroker(tmp_path)
    broker.create_topic("t")
    context = broker.handler.context
    context.metadata.refresh()
    context.native_topics.learn(context.metadata.topic("t"))
    assert part(broker.call(produce(records=batch(b"a")), 7)).error_code == 0
    topics = context.native_topics
    old = topics.fetch
    newer = _native.NativeFetch(context.port, broker.log, topics.native, 0)
    for name in ("max_bytes", "now_ms", "parks", "serves_followers"):
        setattr(newer, name, getattr(old, name))
    del old
    topics.fetch = newer
    assert part(broker.call(fetch(offset=0), 11)).error_code == 0
    assert newer.served == 1
