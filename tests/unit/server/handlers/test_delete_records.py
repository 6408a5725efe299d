"""DeleteRecords: the log start moves at once, and is told when the log keeper has written it down."""

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.harness.in_process_broker import InProcessBroker
from tests.unit.server.test_produce_fetch import batch, produce

HIGH_WATERMARK = -1


@pytest.fixture
def broker(tmp_path):
    return InProcessBroker(tmp_path)


def filled(broker, name="t", records=10, **settings):
    ordinals = broker.create_topic(name, **settings)
    if records:
        broker.call(produce(name, batch(*[b"x"] * records)), 7)
    return ordinals[0]


def deleting(*asked, timeout_ms=5000):
    topics = [
        DeleteRecordsTopic(name=name, partitions=[DeleteRecordsPartition(number, offset)])
        for name, number, offset in asked
    ]
    return DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms)


def told(answer):
    return [
        (topic.name, part.partition_index, part.low_watermark, part.error_code)
        for topic in answer.topics
        for part in topic.partitions
    ]


def begun(broker, *asked, **options):
    broker.send(deleting(*asked, **options), 2)
    broker.step()
    return broker.collect()


def written_down(broker, ordinal, offset):
    assert broker.log.start_written(ordinal, offset, None) == 0
    broker.step()
    return told(broker.decode(deleting(), 2, broker.collect()[0][2]))


def test_it_moves_at_once_and_is_answered_when_it_is_written_down(broker):
    ordinal = filled(broker)
    assert begun(broker, ("t", 0, 4)) == []
    assert broker.log.state(ordinal).log_start == 4 and broker.log.starts_asked() == [ordinal]
    assert written_down(broker, ordinal, 4) == [("t", 0, 4, 0)]
    assert broker.log.starts_asked() == []


def test_a_start_that_is_written_down_already_is_answered_at_once(broker):
    ordinal = filled(broker)
    begun(broker, ("t", 0, 4))
    written_down(broker, ordinal, 4)
    assert told(broker.call(deleting(("t", 0, 2)), 2)) == [("t", 0, 4, 0)]


def test_a_start_that_retention_moved_is_told_when_it_is_written_down_too(broker):
    ordinal = filled(broker)
    broker.log.set_log_start(ordinal, 6)
    assert begun(broker, ("t", 0, 2)) == []
    assert written_down(broker, ordinal, 6) == [("t", 0, 6, 0)]


def test_minus_one_is_the_high_watermark(broker):
    ordinal = filled(broker)
    begun(broker, ("t", 0, HIGH_WATERMARK))
    assert written_down(broker, ordinal, 10) == [("t", 0, 10, 0)]
    assert broker.log.state(ordinal).leo == 10


def test_what_it_refuses_as_kafka_does(broker):
    filled(broker)
    filled(broker, "keeps", cleanup_policy="compact")
    filled(broker, "__consumer_offsets", records=0, internal=True)
    refused = [
        ("t", 0, 11, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("t", 0, -2, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("t", 1, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("nowhere", 0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("keeps", 0, 0, ErrorCode.POLICY_VIOLATION),
        ("__consumer_offsets", 0, 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]
    for name, number, offset, code in refused:
        assert told(broker.call(deleting((name, number, offset)), 2)) == [(name, number, -1, code)]


def test_what_nobody_writes_down_is_timed_out_and_stays_deleted(broker):
    ordinal = filled(broker)
    assert begun(broker, ("t", 0, 4), timeout_ms=0) == []
    broker.clock.advance(1001)
    broker.step()
    answer = broker.decode(deleting(), 2, broker.collect()[0][2])
    assert told(answer) == [("t", 0, 4, ErrorCode.REQUEST_TIMED_OUT)]
    assert broker.log.state(ordinal).log_start == 4


def test_a_partition_that_goes_offline_meanwhile_says_so(broker):
    ordinal = filled(broker)
    begun(broker, ("t", 0, 4))
    broker.log.set_flags(ordinal, 0, 2)
    broker.step()
    answer = broker.decode(deleting(), 2, broker.collect()[0][2])
    assert told(answer) == [("t", 0, -1, ErrorCode.KAFKA_STORAGE_ERROR)]
