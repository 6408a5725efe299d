"""DescribeTopicPartitions: pages in the order of names, and where the next one begins."""

from types import SimpleNamespace

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from mpbroker.server.handlers import describe_topic_partitions as handler
from tests.harness.in_process_broker import InProcessBroker


@pytest.fixture
def broker(tmp_path):
    made = InProcessBroker(tmp_path)
    made.create_topic("b", partitions=2)
    made.create_topic("a", partitions=3)
    return made


def ask(broker, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None):
    where = None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1])
    topics = [TopicRequest(name=name) for name in names]
    answer = broker.call(DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit, cursor=where), 0)
    shown = [(topic.error_code, topic.name, [p.partition_index for p in topic.partitions]) for topic in answer.topics]
    following = answer.next_cursor
    return shown, following and (following.topic_name, following.partition_index)


def test_no_names_mean_all_and_pages_follow_each_other(broker):
    everything = [(0, "a", [0, 1, 2]), (0, "b", [0, 1])]
    assert ask(broker) == (everything, None)
    assert ask(broker, limit=2) == ([(0, "a", [0, 1])], ("a", 2))
    assert ask(broker, limit=2, cursor=("a", 2)) == ([(0, "a", [2]), (0, "b", [0])], ("b", 1))
    assert ask(broker, limit=3) == ([(0, "a", [0, 1, 2])], ("b", 0))
    assert ask(broker, limit=2, cursor=("a", 0)) == ([(0, "a", [0, 1])], ("a", 2))
    assert ask(broker, limit=0) == ([(0, "a", [0])], ("a", 1)), "one is the least"
    assert ask(broker, limit=-5, cursor=("b", 0)) == ([(0, "b", [0])], ("b", 1))
    assert ask(broker, limit=0, cursor=("b", 1)) == ([(0, "b", [1])], None)


@pytest.mark.parametrize(("asked", "limit"), [(1999, 1999), (2000, 2000), (2001, 2000), (2**31 - 1, 2000)])
def test_a_page_has_two_thousand_partitions_at_most(monkeypatch, asked, limit):
    """Kafka's max.request.partition.size.limit."""
    metadata = SimpleNamespace(refresh=lambda: None, topics=list)
    monkeypatch.setattr(handler, "_page", lambda context, request, names, cursor, most: most)
    message = DescribeTopicPartitionsRequest(topics=[], response_partition_limit=asked)
    assert handler.handle(SimpleNamespace(metadata=metadata, cluster=None), "request", message) == limit


def test_what_is_not_there_and_cursors_that_point_nowhere(broker):
    unknown, illegal = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION
    assert ask(broker, "nope", "b c", "b")[0] == [(0, "b", [0, 1]), (illegal, "b c", []), (unknown, "nope", [])]
    for cursor in (("a", -1), ("nope", 0)):
        assert ask(broker, "a", cursor=cursor)[0] == [(ErrorCode.INVALID_REQUEST, "a", [])]
    assert ask(broker, "a", "")[0] == [(ErrorCode.UNKNOWN_SERVER_ERROR, name, []) for name in ("a", "")]
