"""LeaderAndIsr: handed to the agent by reference to its entry, answered with its codes, by topic or by name."""

import zlib
from array import array

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import ControlAnswer, ControlRequest
from mpbroker.protocol.codec import decode
from mpbroker.protocol.headers import decode_request_header
from mpbroker.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from mpbroker.shm.cluster_table import held_payload
from tests.harness.in_process_broker import InProcessBroker
from tests.harness.in_process_controller import InProcessController


def codes_of(*codes):
    return zlib.compress(array("h", codes).tobytes())


@pytest.fixture
def broker(tmp_path):
    return InProcessBroker(tmp_path, replicated=True)


def a_request(version):
    states = [LeaderAndIsrPartitionState(partition_index=n, leader=1, isr=[1], replicas=[1]) for n in range(3)]
    if version < 2:
        for state in states:
            state.topic_name = "t"
        return LeaderAndIsrRequest(controller_epoch=4, ungrouped_partition_states=states)
    topic = LeaderAndIsrTopicState(
        topic_name="t", topic_id=b"i" * 16 if version >= 5 else bytes(16), partition_states=states
    )
    return LeaderAndIsrRequest(controller_epoch=4, broker_epoch=7, topic_states=[topic])


@pytest.mark.parametrize("version", [0, 1, 2, 4, 5, 7])
def test_the_agent_reads_it_where_it_lies(broker, version):
    controller, message = InProcessController(broker), a_request(version)
    broker.send(message, version)
    broker.step()
    number, command = controller.take()
    assert isinstance(command, ControlRequest)
    payload = held_payload(broker.core, command.entry, command.fill_number)
    header = decode_request_header(payload)
    assert decode(LeaderAndIsrRequest, version, payload, header.body_offset) == message
    controller.answer(number, ControlAnswer(0, codes_of(0, ErrorCode.STALE_CONTROLLER_EPOCH, 3)))
    broker.step()
    [(_, _, frame)] = broker.collect()
    response = broker.decode(message, version, frame)
    errors = response.partition_errors if version < 5 else response.topics[0].partition_errors
    assert [(one.partition_index, one.error_code) for one in errors] == [(0, 0), (1, 11), (2, 3)]
    assert version < 5 or response.topics[0].topic_id == b"i" * 16


def test_a_request_that_is_refused_as_a_whole(broker):
    controller, message = InProcessController(broker), a_request(7)
    broker.send(message, 7)
    broker.step()
    number, _ = controller.take()
    controller.answer(number, ControlAnswer(77, codes_of(77, 77, 77)))
    broker.step()
    [(_, _, frame)] = broker.collect()
    response = broker.decode(message, 7, frame)
    assert response.error_code == 77
    assert [one.error_code for one in response.topics[0].partition_errors] == [77, 77, 77]
