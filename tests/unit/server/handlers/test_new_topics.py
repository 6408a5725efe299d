"""What was made since a handler's last request is there for the next one, whichever asks first."""

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from mpbroker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from mpbroker.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from mpbroker.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from mpbroker.protocol.messages.describe_topic_partitions import TopicRequest as DescribedTopic
from mpbroker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from mpbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from mpbroker.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.harness.in_process_broker import InProcessBroker
from tests.unit.server.test_produce_fetch import batch, fetch, produce

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
TOPIC = 2  # the kind of a resource


def of_partition(answer):
    return answer.topics[0].partitions[0].error_code


def of_topic(answer):
    return answer.topics[0].error_code


ASKED = [
    (lambda: produce(records=batch(b"a")), 7, lambda answer: answer.responses[0].partition_responses[0].error_code),
    (lambda: fetch(), 11, lambda answer: answer.responses[0].partitions[0].error_code),
    (
        lambda: ListOffsetsRequest(topics=[ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=-1)])]),
        7,
        of_partition,
    ),
    (
        lambda: OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic("t", [OffsetForLeaderPartition(0)])]),
        4,
        of_partition,
    ),
    (
        lambda: DeleteRecordsRequest(topics=[DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 0)])], timeout_ms=1000),
        2,
        of_partition,
    ),
    (lambda: DescribeProducersRequest([TopicRequest("t", [0])]), 0, of_partition),
    (lambda: DescribeTopicPartitionsRequest([DescribedTopic("t")]), 0, of_topic),
    (lambda: MetadataRequest([MetadataRequestTopic(name="t")], allow_auto_topic_creation=False), 9, of_topic),
    (
        lambda: DescribeConfigsRequest([DescribeConfigsResource(TOPIC, "t")]),
        4,
        lambda answer: answer.results[0].error_code,
    ),
]


@pytest.mark.parametrize(("ask", "version", "code_of"), ASKED, ids=[type(ask()).__name__ for ask, *_ in ASKED])
def test_a_topic_is_there_from_the_next_request_on(tmp_path, ask, version, code_of):
    broker = InProcessBroker(tmp_path)
    assert code_of(broker.call(ask(), version)) == UNKNOWN
    broker.create_topic("t")
    assert code_of(broker.call(ask(), version)) == ErrorCode.NONE
