"""InitProducerId: ids come from blocks that the controller hands out, one block for many requests."""

from types import SimpleNamespace

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import AllocateProducerIds, Failed, ProducerIds
from mpbroker.metadata.producer_ids import ProducerIds as ProducerIdBlock
from mpbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from mpbroker.server.apis import HANDED_OVER, PARKED
from mpbroker.server.controller_commands import ControllerCommands
from mpbroker.server.handlers import init_producer_id as handler
from mpbroker.server.handlers.init_producer_id import BLOCK_TIMEOUT_MS
from tests.harness.in_process_broker import InProcessBroker
from tests.harness.in_process_controller import InProcessController

MESSAGE = InitProducerIdRequest(transactional_id=None)


@pytest.fixture
def broker(tmp_path):
    return InProcessBroker(tmp_path)


@pytest.fixture
def controller(broker):
    return InProcessController(broker)


def answers(broker) -> list[tuple[int, int, int]]:
    decoded = [broker.decode(MESSAGE, 1, frame) for _, _, frame in broker.collect()]
    return [(one.error_code, one.producer_id, one.producer_epoch) for one in decoded]


def ask(broker) -> None:
    broker.send(MESSAGE, 1)
    broker.step()


def test_a_block_is_used_up_before_the_next_is_asked_for(broker, controller):
    ask(broker)
    assert broker.collect() == []
    assert controller.serve(ProducerIds(first_id=7000, count=2)) == [AllocateProducerIds()]
    assert answers(broker) == [(0, 7000, 0)]
    ask(broker)
    assert answers(broker) == [(0, 7001, 0)]
    assert controller.take() is None
    ask(broker)
    assert controller.serve(ProducerIds(first_id=9000, count=1)) == [AllocateProducerIds()]
    assert answers(broker) == [(0, 9000, 0)]


@pytest.mark.parametrize("answer", [ProducerIds(error_code=ErrorCode.UNKNOWN_SERVER_ERROR), Failed(-1)])
def test_an_error_of_the_controller_is_the_answer(broker, controller, answer):
    ask(broker)
    controller.serve(answer)
    assert answers(broker) == [(ErrorCode.UNKNOWN_SERVER_ERROR, -1, -1)]


def test_a_block_without_ids_is_an_error_and_no_id(broker, controller):
    ask(broker)
    controller.serve(ProducerIds(first_id=5, count=0))
    assert answers(broker) == [(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1, -1)]


def test_a_controller_that_does_not_answer_means_try_again(broker):
    ask(broker)
    broker.clock.advance(BLOCK_TIMEOUT_MS - 1)
    broker.step()
    assert broker.collect() == []
    broker.clock.advance(1)
    broker.step()
    assert answers(broker) == [(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1, -1)]


def test_an_empty_transactional_id_is_refused(broker, controller):
    answer = broker.call(InitProducerIdRequest(transactional_id=""), 1)
    assert (answer.error_code, answer.producer_id) == (ErrorCode.INVALID_REQUEST, -1)
    assert controller.take() is None


@pytest.mark.parametrize(("producer_id", "epoch", "code"), [(5, -1, 42), (-1, 5, 42), (5, 0, 0), (-2, -2, 0)])
def test_a_producer_names_both_its_id_and_its_epoch_or_neither(broker, controller, producer_id, epoch, code):
    message = InitProducerIdRequest(transactional_id=None, producer_id=producer_id, producer_epoch=epoch)
    broker.send(message, 3)
    broker.step()
    if not code:
        controller.serve(ProducerIds(first_id=7000, count=2))
    [(_, _, frame)] = broker.collect()
    answer = broker.decode(message, 3, frame)
    assert (answer.error_code, answer.producer_id) == (code, -1 if code else 7000)


def test_a_full_table_of_commands_means_try_again(broker, monkeypatch):
    monkeypatch.setattr(ControllerCommands, "send", lambda *_: False)
    ask(broker)
    assert answers(broker) == [(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1, -1)]


def test_a_transaction_is_the_coordinators_and_ids_are_this_brokers_own_controllers(monkeypatch):
    """In a cluster, too: each broker has blocks of its own."""
    given, parked = [], []
    monkeypatch.setattr(handler, "park_for_controller", lambda *words, local: parked.append(local) or True)
    context = SimpleNamespace(port=SimpleNamespace(give_to_coordinator=given.append), producer_ids=ProducerIdBlock())
    assert handler.handle(context, "request", InitProducerIdRequest(transactional_id="t")) is HANDED_OVER
    assert given == ["request"] and parked == []
    assert handler.handle(context, "request", MESSAGE) is PARKED and parked == [True] and len(given) == 1
