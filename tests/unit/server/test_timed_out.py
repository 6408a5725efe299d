"""The trace record of a request whose time ran out while it waited says so, and so does a counter."""

import pytest

from mpbroker._native import NO_REQUEST, LogOptions
from mpbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from mpbroker.shm.counters import Counter
from mpbroker.shm.layout import SLOT_HANDLERS
from tests.harness.in_process_broker import InProcessBroker
from tests.unit.server.handlers.test_delete_records import deleting
from tests.unit.server.test_produce_fetch import batch, fetch, produce
from tests.unit.server.test_waiting_for_locks import holder

FLAG = "purgatory-timeout"
MESSAGES = {
    "fetch": (fetch(max_wait_ms=1000, min_bytes=1 << 20), 11),
    "produce": (produce(records=batch(b"a"), acks=-1), 7),
    "delete records": (deleting(("t", 0, 1), timeout_ms=1000), 2),
    "producer id": (InitProducerIdRequest(transactional_id=None), 1),
}


@pytest.fixture
def broker(tmp_path):
    broker = InProcessBroker(tmp_path, is_traced=True)
    broker.create_topic("t")
    broker.handler.context.log_manager.flush_on_commit = True
    assert broker.log.append(0, NO_REQUEST, 0, batch(b"a"), LogOptions(), broker.clock.wall_ms()).error == 0
    return broker


def expired(broker) -> int:
    return broker.core.row(SLOT_HANDLERS).counter(Counter.PURGATORY_EXPIRED)


@pytest.mark.parametrize("what", MESSAGES)
@pytest.mark.parametrize("is_python", [False, True])
def test_who_waits_too_long_is_marked(broker, what, is_python):
    message, version = MESSAGES[what]
    broker.handler.context.native_topics.fetch.parks = not is_python
    broker.send(message, version)
    broker.step()
    assert broker.collect() == []
    broker.clock.advance(10_000)
    broker.step()
    assert len(broker.collect()) == 1
    [record] = broker.traced()
    assert FLAG in record.flag_names() and expired(broker) == 1


def test_who_waits_for_a_lock_too_long_is_marked(broker, tmp_path):
    broker.handler.context.log_manager.flush_on_commit = False
    with holder(broker, tmp_path, "append.copy_half", lambda log: log.set_high_watermark(0, 1)):
        broker.send(produce(records=batch(b"a")), 7)
        broker.step()
        assert broker.collect() == []
        broker.clock.advance(10_000)
        broker.step()
        assert len(broker.collect()) == 1
    [record] = broker.traced()
    assert FLAG in record.flag_names() and expired(broker) == 1


def test_who_is_answered_in_time_is_not_marked(broker):
    for message, version in ((fetch(max_wait_ms=1000), 11), (deleting(("t", 0, -2)), 2)):
        broker.send(message, version)
        broker.step()
        assert len(broker.collect()) == 1
    assert [FLAG in record.flag_names() for record in broker.traced()] == [False, False] and expired(broker) == 0
