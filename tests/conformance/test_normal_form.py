"""What the comparison with Kafka's recorded answers notices: each of these once passed unseen."""

import struct
import time

import pytest

from mpbroker.protocol.codec import encode
from mpbroker.protocol.messages.create_topics import CreatableTopicResult
from mpbroker.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from mpbroker.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
)
from mpbroker.protocol.messages.produce import PartitionProduceData, PartitionProduceResponse, TopicProduceData
from mpbroker.record.checksum import crc32c
from tests.conformance.corpus.case import Exchange
from tests.conformance.corpus.configs_cases import BROKER, describing
from tests.conformance.corpus.normal_form import asked_address, batches, normal
from tests.conformance.corpus.topic_cases import creating, one
from tests.harness.peer import batch, create_topic, produce_request

LOG_APPEND_TIME = 8


def _stamped(data: bytes, max_ms: int) -> bytes:
    """A batch as the broker stamps it, with the checksum that belongs to it."""
    changed = bytearray(data)
    changed[21:23] = struct.pack(">h", LOG_APPEND_TIME)
    changed[35:43] = struct.pack(">q", max_ms)
    changed[17:21] = struct.pack(">I", crc32c(changed[21:]))
    return bytes(changed)


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 9093), ("10.0.0.1", 9092), ("", 9092)])
def test_another_address_than_the_one_that_was_asked_is_seen(host, port):
    def seen(host, port):
        answer = MetadataResponse(brokers=[MetadataResponseBroker(node_id=0, host=host, port=port)])
        return asked_address(normal(answer, "p-", {}), "127.0.0.1", 9092)

    assert seen("127.0.0.1", 9092)["brokers"] == [{"host": "asked", "port": "asked"}]
    assert seen(host, port) != seen("127.0.0.1", 9092)


def test_the_order_of_partitions_is_seen():
    def seen(*partitions):
        found = [ListOffsetsPartitionResponse(partition_index=number) for number in partitions]
        return normal(ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=found)]), "p-", {})

    assert seen(0, 1) != seen(1, 0)


@pytest.mark.parametrize("stamp_ms", [1, 1000, -2, 2**62])
def test_a_stamp_that_is_not_now_is_seen(stamp_ms):
    now_ms = int(time.time() * 1000)

    def seen(at_ms):
        return normal(PartitionProduceResponse(log_append_time_ms=at_ms), "p-", {}), batches(
            _stamped(batch(b"a"), at_ms)
        )

    assert seen(now_ms) == seen(now_ms - 1500)
    assert all(mine != other for mine, other in zip(seen(stamp_ms), seen(now_ms), strict=True))


def test_contents_and_checksum_of_a_stamped_batch_are_seen():
    now_ms = int(time.time() * 1000)
    sound = _stamped(batch(b"a"), now_ms)
    damaged = sound[:17] + b"\0\0\0\0" + sound[21:]
    assert batches(_stamped(batch(b"b"), now_ms)) != batches(sound)
    assert batches(damaged) == [batches(sound)[0] + " CRC wrong"]


def test_bytes_behind_an_answer_are_seen():
    exchange = Exchange("127.0.0.1", 9092, "p-")
    payload = struct.pack(">i", 1) + bytes(encode(MetadataResponse(), 1))
    assert isinstance(exchange._decoded(3, 1, payload), MetadataResponse)
    assert "7 bytes behind the answer" in exchange._decoded(3, 1, payload + b"GARBAGE")


@pytest.mark.parametrize("words", ["no such topic", ""])
def test_whether_there_is_a_message_is_seen(words):
    assert normal(CreatableTopicResult(name="t", error_message=words), "p-", {}) != normal(
        CreatableTopicResult(name="t", error_message=None), "p-", {}
    )


# ---- where Kafka's order is that of a hash table, ours is the request's


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("order", [(2, 0, 1), (1, 9, 0, 2), (5, 2, 1)])
def test_produce_answers_in_the_order_of_the_request(peer, topic, acks, order):
    other = topic + "-other"
    create_topic(peer, other, 1)
    request = produce_request(topic, {number: batch(b"a") for number in order}, acks=acks)
    first = TopicProduceData(name=other, partition_data=[PartitionProduceData(index=0, records=batch(b"b"))])
    request.topic_data.insert(0, first)
    answer = peer.ask(request, 7)
    assert [each.name for each in answer.responses] == [other, topic]
    assert [each.index for each in answer.responses[1].partition_responses] == list(order)


def test_metadata_answers_in_the_order_of_the_request_and_partitions_by_number(peer, topic):
    others = [f"{topic}-{number}" for number in (3, 1, 2)]
    for name in others:
        create_topic(peer, name, 2)
    asked = [others[0], "no such topic!", topic, others[1], "nowhere", others[2]]
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in asked])
    answer = peer.ask(request, 8)
    assert [each.name for each in answer.topics] == asked
    assert [each.partition_index for each in answer.topics[2].partitions] == [0, 1, 2]


def test_changes_of_topics_are_answered_in_the_order_of_the_request(peer, topic):
    names = [f"{topic}-{number}" for number in (3, 1, 2)] + [topic, "bad name"]
    made = peer.ask(creating(*(one(name) for name in names)), 4)
    assert [each.name for each in made.topics] == names
    assert [each.error_code for each in made.topics] == [0, 0, 0, 36, 17]


def test_configs_are_answered_resource_for_resource(peer, topic):
    answer = peer.ask(describing((BROKER, "1", ["a"]), (2, topic, ["segment.ms"]), (2, "nowhere", None)), 1)
    assert [each.resource_name for each in answer.results] == ["1", topic, "nowhere"]
