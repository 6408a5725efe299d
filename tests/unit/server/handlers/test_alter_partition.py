"""AlterPartition: the elected controller's answer as it is, NOT_CONTROLLER where there is none."""

import zlib

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import ControlAnswer, Failed
from mpbroker.protocol.codec import encode
from mpbroker.protocol.messages.alter_partition import (
    AlterPartitionPartitionResult,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopicResult,
)
from mpbroker.shm.layout import SLOT_CLUSTER_CONTROLLER
from tests.harness.in_process_broker import InProcessBroker
from tests.harness.in_process_controller import InProcessController


def ask(broker, version, answer):
    controller, message = InProcessController(broker, SLOT_CLUSTER_CONTROLLER), AlterPartitionRequest(broker_id=2)
    broker.send(message, version)
    broker.step()
    number, _ = controller.take()
    controller.answer(number, answer)
    broker.step()
    [(_, _, frame)] = broker.collect()
    return broker.decode(message, version, frame)


@pytest.mark.parametrize("version", range(4))
def test_the_elected_controller_answers(tmp_path, version):
    results = [AlterPartitionPartitionResult(0, 0, 1, 5, [1, 2], 0, 9)]
    topic = AlterPartitionTopicResult(topic_id=b"i" * 16 if version >= 2 else bytes(16), partitions=results)
    answer = AlterPartitionResponse(topics=[topic])
    body = zlib.compress(encode(answer, version))
    assert ask(InProcessBroker(tmp_path, replicated=True), version, ControlAnswer(0, body=body)) == answer


@pytest.mark.parametrize("answer", [ControlAnswer(ErrorCode.NOT_CONTROLLER), Failed(ErrorCode.NOT_CONTROLLER)])
def test_it_is_not_elected(tmp_path, answer):
    assert ask(InProcessBroker(tmp_path, replicated=True), 3, answer).error_code == 41
