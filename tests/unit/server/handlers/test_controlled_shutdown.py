"""ControlledShutdown: the elected controller's answer as it is, NOT_CONTROLLER where there is none."""

import zlib

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import ControlAnswer
from mpbroker.protocol.codec import encode
from mpbroker.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from mpbroker.shm.layout import SLOT_CLUSTER_CONTROLLER
from tests.harness.in_process_broker import InProcessBroker
from tests.harness.in_process_controller import InProcessController


def ask(broker, message, version, answer):
    controller = InProcessController(broker, SLOT_CLUSTER_CONTROLLER)
    broker.send(message, version)
    broker.step()
    number, _ = controller.take()
    controller.answer(number, answer)
    broker.step()
    [(_, _, frame)] = broker.collect()
    return broker.decode(message, version, frame)


@pytest.mark.parametrize("version", range(4))
def test_the_elected_controller_answers(tmp_path, version):
    broker, message = InProcessBroker(tmp_path, replicated=True), ControlledShutdownRequest(broker_id=2)
    left = ControlledShutdownResponse(remaining_partitions=[RemainingPartition("t", 3)])
    assert ask(broker, message, version, ControlAnswer(0, body=zlib.compress(encode(left, version)))) == left


def test_it_is_not_elected(tmp_path):
    broker, message = InProcessBroker(tmp_path, replicated=True), ControlledShutdownRequest(broker_id=2)
    assert ask(broker, message, 3, ControlAnswer(ErrorCode.NOT_CONTROLLER)).error_code == 41
