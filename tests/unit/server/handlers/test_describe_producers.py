"""DescribeProducers: what a partition knows of its producers, and what is refused."""

import pytest

from mpbroker._native import LogOptions
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from tests.harness.in_process_broker import InProcessBroker
from tests.unit.server.test_produce_fetch import batch, produce

TIME_MS = 1_700_000_000_000


@pytest.fixture
def broker(tmp_path):
    made = InProcessBroker(tmp_path)
    made.create_topic("t")
    return made


def ask(broker, topic: str = "t", partition: int = 0):
    message = DescribeProducersRequest([TopicRequest(topic, [partition])])
    [found] = broker.call(message, 0).topics[0].partitions
    return found


def rows(broker) -> list[tuple[int, ...]]:
    return [
        (p.producer_id, p.producer_epoch, p.last_sequence, p.coordinator_epoch, p.current_txn_start_offset)
        for p in ask(broker).active_producers
    ]


def write(broker, producer: int, sequence: int, transactional: bool) -> None:
    records = batch(
        b"a", b"b", producer_id=producer, producer_epoch=1, base_sequence=sequence, transactional=transactional
    )
    answer = broker.call(produce(records=records, transactional_id="tx" if transactional else None), 7)
    assert answer.responses[0].partition_responses[0].error_code == 0


def test_producers_and_their_open_transactions(broker):
    assert rows(broker) == []
    write(broker, 4, 0, transactional=False)
    log = broker.handler.context.log_manager.log
    [row] = broker.handler.context.metadata.topic("t").partitions
    assert log.verify(row, 5, 1) == 0
    assert rows(broker) == [(4, 1, 1, -1, -1)]  # who may write, and has not, is no producer yet
    write(broker, 5, 0, transactional=True)
    assert rows(broker) == [(4, 1, 1, -1, -1), (5, 1, 1, -1, 2)]
    assert log.append_marker(row, 5, 2, 3, False, LogOptions(), TIME_MS).error == 0
    assert rows(broker) == [(4, 1, 1, -1, -1), (5, 2, -1, 3, -1)]  # fenced by a higher epoch: nothing is known of it


@pytest.mark.parametrize("asked", [{"topic": "nowhere"}, {"partition": 1}, {"partition": -1}])
def test_what_is_not_there_is_refused(broker, asked):
    found = ask(broker, **asked)
    assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and found.active_producers == []
