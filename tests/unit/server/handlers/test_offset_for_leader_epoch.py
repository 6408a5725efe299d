"""OffsetForLeaderEpoch: the end of the one epoch, of those that Kafka left behind, and what is refused."""

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.harness.in_process_broker import InProcessBroker
from tests.unit.server.test_produce_fetch import batch, produce


@pytest.fixture
def broker(tmp_path):
    made = InProcessBroker(tmp_path)
    made.create_topic("t")
    made.call(produce(records=batch(b"a", b"b")), 7)
    return made


def ask(broker, epoch: int, current: int = -1, partition: int = 0, topic: str = "t", version: int = 4):
    asked = OffsetForLeaderPartition(partition=partition, leader_epoch=epoch, current_leader_epoch=current)
    message = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic, partitions=[asked])])
    [found] = broker.call(message, version).topics[0].partitions
    return found.error_code, found.leader_epoch, found.end_offset


def test_the_latest_epoch_ends_where_the_log_ends(broker):
    assert ask(broker, 0) == (0, 0, 2)
    assert ask(broker, 0, version=0) == (0, -1, 2)
    assert ask(broker, 1) == (0, -1, -1)


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"current": 1}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"current": -2}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"partition": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"topic": "nowhere"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_what_is_refused(broker, asked, code):
    assert ask(broker, 0, **asked) == (code, -1, -1)


def test_epochs_of_a_log_that_kafka_wrote(broker, tmp_path):
    broker.handler.context.log_manager.data_dirs = (str(tmp_path),)
    (tmp_path / "t-0" / "leader-epoch-checkpoint").write_text("0\n2\n3 0\n5 1\n")
    assert [ask(broker, epoch) for epoch in (2, 3, 4, 5)] == [(0, 2, 0), (0, 3, 1), (0, 3, 1), (0, 5, 2)]
