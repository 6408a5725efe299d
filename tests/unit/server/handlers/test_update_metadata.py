"""UpdateMetadata: handed to the agent, answered with its code."""

import pytest

from mpbroker.metadata.commands import ControlAnswer
from mpbroker.protocol.messages.update_metadata import UpdateMetadataRequest
from tests.harness.in_process_broker import InProcessBroker
from tests.harness.in_process_controller import InProcessController


@pytest.mark.parametrize(("version", "code"), [(0, 0), (5, 77), (8, 11)])
def test_the_agent_answers(tmp_path, version, code):
    broker = InProcessBroker(tmp_path, replicated=True)
    controller, message = InProcessController(broker), UpdateMetadataRequest(controller_epoch=3)
    broker.send(message, version)
    broker.step()
    number, _ = controller.take()
    controller.answer(number, ControlAnswer(code))
    broker.step()
    [(_, _, frame)] = broker.collect()
    assert broker.decode(message, version, frame).error_code == code
