"""Produce requests that are appended and not acknowledged yet, with the records' sync as what they wait for."""

from types import SimpleNamespace

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.server.request_handler import RequestHandler
from tests.harness.in_process_broker import InProcessBroker
from tests.unit.server.test_produce_fetch import batch, part, produce


@pytest.fixture
def broker(tmp_path):
    broker = InProcessBroker(tmp_path)
    broker.create_topic("t")
    broker.handler.context.log_manager.flush_on_commit = True
    return broker


def park(broker):
    message = produce(records=batch(b"a", b"b"))
    broker.send(message, 7)
    broker.step()
    assert broker.collect() == []
    return message


def answer(broker, message):
    [(_, _, frame)] = broker.collect()
    return part(broker.decode(message, 7, frame))


def succeed(broker) -> None:
    """The handler dies and is followed by another in its slot, which takes what it had parked."""
    broker.handler = RequestHandler(broker._context())
    broker.handler.context.log_manager.flush_on_commit = True
    broker.handler.port.recover()
    broker.step()  # the bell of the recovery
    broker.step()


@pytest.mark.parametrize("dies", [False, True])
def test_it_is_acknowledged_once_synced_with_the_offset_it_has(broker, dies):
    message = park(broker)
    if dies:
        succeed(broker)
        assert broker.collect() == []
    assert broker.log.flush(0) == (0, 2)
    broker.core.ring_handler(0)
    broker.step()
    found = answer(broker, message)
    assert (found.error_code, found.base_offset) == (0, 0)
    assert broker.log.state(0).leo == 2


@pytest.mark.parametrize("acks", [1, -1])
def test_only_acks_all_waits_for_the_high_watermark(broker, acks):
    broker.send(produce(records=batch(b"a"), acks=acks), 7)
    broker.step()
    assert broker.log.flush(0) == (0, 1)
    manager = broker.handler.context.log_manager
    state = manager.state(0)
    behind = SimpleNamespace(leader_epoch=state.leader_epoch, hw=0, flushed_offset=state.flushed_offset)
    manager.state = lambda _: behind
    broker.core.ring_handler(0)
    broker.step()
    assert len(broker.collect()) == (1 if acks == 1 else 0)


@pytest.mark.parametrize("dies", [False, True])
def test_under_another_leader_epoch_it_is_no_longer_ours_to_acknowledge(broker, dies):
    message = park(broker)
    assert broker.log.set_leader_epoch(0, 1) == 0
    assert broker.log.flush(0) == (0, 2)
    if dies:
        succeed(broker)
    else:
        broker.core.ring_handler(0)
        broker.step()
    assert answer(broker, message).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert broker.log.state(0).leo == 2


@pytest.mark.parametrize(("version", "leader"), [(9, None), (10, (0, 1)), (12, (0, 1))])
def test_who_leads_now_is_told_from_version_10_on(broker, version, leader):
    message = produce(records=batch(b"a"))
    broker.send(message, version)
    broker.step()
    assert broker.log.set_leader_epoch(0, 1) == 0
    assert broker.log.flush(0) == (0, 1)
    broker.core.ring_handler(0)
    broker.step()
    [(_, _, frame)] = broker.collect()
    response = broker.decode(message, version, frame)
    found = part(response)
    assert found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    told = found.current_leader
    assert (told and (told.leader_id, told.leader_epoch)) == leader
    endpoints = [(one.node_id, one.host, one.port) for one in response.node_endpoints]
    assert endpoints == ([(0, "broker.example", 19092)] if leader else [])
