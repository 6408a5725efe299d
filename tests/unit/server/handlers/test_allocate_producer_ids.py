"""AllocateProducerIds: a block from the controller process of the broker that was asked."""

import pytest

from mpbroker.metadata.commands import AllocateProducerIds, ProducerIds
from mpbroker.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from tests.harness.in_process_broker import InProcessBroker
from tests.harness.in_process_controller import InProcessController


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(ProducerIds(5000, 1000), (0, 5000, 1000)), (ProducerIds(error_code=14), (14, -1, 0))],
)
def test_a_block(tmp_path, answer, expected):
    broker = InProcessBroker(tmp_path, replicated=True)
    controller, message = InProcessController(broker), AllocateProducerIdsRequest(broker_id=2, broker_epoch=3)
    broker.send(message, 0)
    broker.step()
    number, command = controller.take()
    assert command == AllocateProducerIds()
    controller.answer(number, answer)
    broker.step()
    [(_, _, frame)] = broker.collect()
    found = broker.decode(message, 0, frame)
    assert (found.error_code, found.producer_id_start, found.producer_id_len) == expected
