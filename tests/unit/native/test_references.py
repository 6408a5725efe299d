"""The binding gives back what it takes: no request, look-up or object leaves a Python object or a reference behind."""

import gc
import os
import sys
from functools import partial

import pytest

from mpbroker import _native
from mpbroker.channel.planes import DATA
from mpbroker.errors import BufferTooSmall, ErrorCode, ProtocolError
from mpbroker.protocol.codec import encode_into
from mpbroker.protocol.headers import decode_request_header
from mpbroker.protocol.messages_by_key import REQUESTS
from mpbroker.record.batch_builder import encode_batch
from tests.harness.in_process_broker import InProcessBroker
from tests.harness.kept_blocks import ROUNDS, in_use, kept
from tests.harness.small_core import small_core
from tests.unit.server.test_produce_fetch import batch, fetch, produce


@pytest.fixture
def broker(tmp_path):
    broker = InProcessBroker(tmp_path)
    broker.create_topic("t")
    return broker


def _requests(broker):
    broker.call(produce(records=batch(b"a")), 7)
    broker.call(fetch(offset=0), 11)
    broker.call(REQUESTS[18](), 3)


def _named(broker):
    """Requests of clients of whom nobody has heard before."""
    name = os.urandom(8).hex().encode()
    frame = b"\0\x12\0\0\0\0\0\5" + len(name).to_bytes(2, "big") + name
    assert broker.processor.submit(DATA, 1, 1, 0, frame, 1) >= 0
    broker.step()
    assert len(broker.collect()) == 1


def _refused(broker):
    broker.call(fetch(offset=10**6), 11)
    with pytest.raises(ValueError, match="a frame has 8 bytes"):
        broker.processor.submit(DATA, 1, 1, 0, b"1234567", 1)


def _looked_up(broker):
    assert broker.log.find(0, 0, 100, 1000)[0] == 0
    assert broker.log.find(0, 10**6, 10**6, 1000)[0] == ErrorCode.OFFSET_OUT_OF_RANGE
    broker.log.state(0)


def _cut_off(_broker):
    """Headers that end behind their client id: where its tags should be."""
    client_id = os.urandom(40).hex().encode()
    with pytest.raises(ProtocolError):
        decode_request_header(b"\0\x12\0\3\0\0\0\5" + len(client_id).to_bytes(2, "big") + client_id)


@pytest.mark.parametrize("work", [_requests, _named, _refused, _looked_up, _cut_off])
def test_rounds_leave_nothing_behind(broker, work):
    broker.call(produce(records=batch(b"a")), 7)
    assert kept(lambda: work(broker)) < ROUNDS // 2


@pytest.mark.parametrize(
    "make",
    [
        lambda core: _native.KnownRows(core, True),
        lambda core: _native.Log(core, ["/tmp"], 60),
        lambda core: _native.HandlerPort(core, 0),
        lambda core: _native.ProcessorPort(core, 0, 0),
    ],
    ids=["KnownRows", "Log", "HandlerPort", "ProcessorPort"],
)
def test_an_object_lets_go_of_the_core(make):
    core = small_core().core
    native = getattr(core, "native", core)
    before = sys.getrefcount(native)
    for _ in range(10):
        make(native)
    assert sys.getrefcount(native) == before


OBJECTS = {
    "Connection": lambda core: _native.Connection(-1, 1, 1, 1),
    "ProcessRow": lambda core: _native.ProcessRow(core, 3),
    "FetchSessions": lambda core: _native.FetchSessions(core, 60),
    "KnownRows": lambda core: _native.KnownRows(core, True),
    "HandlerPort": lambda core: _native.HandlerPort(core, 0),
    "ProcessorPort": lambda core: _native.ProcessorPort(core, 0, 0),
    "CommandPort": lambda core: _native.CommandPort(core, 60),
    "Log": lambda core: _native.Log(core, ["/tmp"], 60),
    "LogOptions": lambda core: _native.LogOptions(),
    "KeyMap": lambda core: _native.KeyMap(1 << 20, 0.9, bytes(16)),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_the_memory_of_an_object_is_given_back_with_it(name):
    """Python's blocks for small objects, malloc's for large ones and for what they hold."""
    core = small_core().core
    native = getattr(core, "native", core)
    work = partial(OBJECTS[name], native)
    assert kept(work) < ROUNDS // 2
    kind = type(work())
    references = sys.getrefcount(kind)
    for _ in range(ROUNDS):
        work()
    assert sys.getrefcount(kind) == references
    before = in_use()
    for _ in range(ROUNDS):
        work()
    assert in_use() - before < 64 * ROUNDS


def test_the_type_of_requests_is_let_go_with_each(broker):
    before = sys.getrefcount(_native.Request)
    for _ in range(ROUNDS):
        _requests(broker)
    gc.collect()
    assert sys.getrefcount(_native.Request) - before < ROUNDS


def test_fetches_that_were_begun_are_given_back_with_their_object(tmp_path):
    log = _native.Log(small_core(replicated=True).core, [str(tmp_path)], 118)

    def work():
        fetches = _native.SteadyFetches(log, 1)
        assert all(fetches.begin(fd, "c", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, []) for fd in (1000, 1001, 1002))

    for _ in range(9):
        work()
    before, references = in_use(), sys.getrefcount(log)
    for _ in range(ROUNDS):
        work()
    assert in_use() - before < 64 * ROUNDS and sys.getrefcount(log) == references
    log.close()


class _Slotted:
    __slots__ = ("field",)


def test_a_plan_keeps_no_descriptor():
    descriptor = _Slotted.__dict__["field"]
    before = sys.getrefcount(descriptor)
    for _ in range(10):
        _native.Plan(_Slotted, False, (("field", 1, 0, None, 0, 0),), (), ())
    assert sys.getrefcount(descriptor) == before


def test_a_buffer_is_free_again_when_nothing_fits():
    """An export that was not given back would forbid to resize it."""
    target, message = bytearray(2), REQUESTS[18]()
    for work, error in (
        (lambda: encode_into(message, 3, target, 3), ValueError),
        (lambda: encode_into(message, 3, target, -1), ValueError),
        (lambda: encode_into(message, 3, target), BufferTooSmall),
    ):
        with pytest.raises(error):
            work()
        target.append(0)
        del target[2:]


def test_a_key_map_takes_one_key_at_least():
    """Room for two, of which a tenth is to be used."""
    keys = _native.KeyMap(48, 0.1, bytes(16))
    assert keys.count == 0
    keys.learn(encode_batch([(b"k", b"v", 1)]), 0, 1 << 40)
    assert keys.count == 1
    assert keys.learn(encode_batch([(b"l", b"v", 1)], base_offset=1), 0, 1 << 40) == (_native.COMPACT_FULL, 0)
    assert keys.count == 1
