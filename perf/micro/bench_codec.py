"""Codec times per message, ours beside kafka-python's: `pytest perf/micro/bench_codec.py`.

To hold (µs of CPU on a two-core virtual machine): decode of a Produce request with one partition 0.6, of twenty
partitions 3, encode of its response 0.4 and 3; Fetch request with twenty partitions 2.5; Metadata response with a
hundred partitions 20 either way. Nothing here asserts a time.
"""

import pytest

from mpbroker.protocol.codec import decode, encode, encode_reserving
from mpbroker.protocol.headers import decode_request_header, encode_request_frame, encode_response_frame
from mpbroker.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from mpbroker.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from mpbroker.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from tests.conformance.kafka_python_peer import peer_class, to_peer


def _produce(partitions):
    data = [PartitionProduceData(index=i, records=b"r" * 1000) for i in range(partitions)]
    return ProduceRequest(acks=1, timeout_ms=30000, topic_data=[TopicProduceData(name="orders", partition_data=data)])


def _produced(partitions):
    data = [PartitionProduceResponse(index=i, base_offset=123456) for i in range(partitions)]
    return ProduceResponse(responses=[TopicProduceResponse(name="orders", partition_responses=data)])


def _fetch(partitions):
    data = [FetchPartition(partition=i, fetch_offset=10**9, partition_max_bytes=1 << 20) for i in range(partitions)]
    return FetchRequest(max_wait_ms=500, min_bytes=1, topics=[FetchTopic(topic="orders", partitions=data)])


def _fetched(partitions):
    data = [PartitionData(partition_index=i, high_watermark=10**9, records=b"") for i in range(partitions)]
    return FetchResponse(responses=[FetchableTopicResponse(topic="orders", partitions=data)])


def _metadata(topics, partitions):
    rows = [
        MetadataResponseTopic(
            name=f"topic-{t}",
            partitions=[MetadataResponsePartition(0, p, 1, 5, [1, 2, 3], [1, 2, 3], []) for p in range(partitions)],
        )
        for t in range(topics)
    ]
    brokers = [MetadataResponseBroker(i, f"broker-{i}.example.org", 9092) for i in range(3)]
    return MetadataResponse(brokers=brokers, cluster_id="cluster", controller_id=1, topics=rows)


CASES = {
    "produce_request_1_v7": (_produce(1), 7),
    "produce_request_20_v7": (_produce(20), 7),
    "produce_request_20_v9": (_produce(20), 9),
    "produce_response_1_v7": (_produced(1), 7),
    "produce_response_20_v9": (_produced(20), 9),
    "fetch_request_0_v11": (FetchRequest(), 11),
    "fetch_request_20_v11": (_fetch(20), 11),
    "fetch_response_20_v11": (_fetched(20), 11),
    "metadata_response_100_v8": (_metadata(10, 10), 8),
    "metadata_response_100_v9": (_metadata(10, 10), 9),
}
cases = pytest.mark.parametrize("name", CASES)


@cases
def test_decode(benchmark, name):
    message, version = CASES[name]
    raw = memoryview(encode(message, version))
    assert benchmark(decode, type(message), version, raw) == message


@cases
def test_encode(benchmark, name):
    message, version = CASES[name]
    assert len(benchmark(encode, message, version)) > 0


@cases
def test_decode_kafka_python(benchmark, name):
    message, version = CASES[name]
    peer, raw = peer_class(type(message).__name__), encode(message, version)
    benchmark(peer.decode, raw, version=version)


@cases
def test_encode_kafka_python(benchmark, name):
    message, version = CASES[name]
    peer = to_peer(message, version, peer_class(type(message).__name__))
    assert bytes(benchmark(peer.encode, version=version)) == encode(message, version)


def test_request_header(benchmark):
    frame = memoryview(encode_request_frame(_produce(1), 7, 5, "producer-1"))
    assert benchmark(decode_request_header, frame, 4).client_id == "producer-1"


def test_whole_response_frame(benchmark):
    assert len(benchmark(encode_response_frame, 0, 7, 5, _produced(1))) > 40


def test_fetch_response_reserving_20(benchmark):
    message, buffer = _fetched(20), bytearray(1 << 20)
    for partition in message.responses[0].partitions:
        partition.records = 1000
    assert len(benchmark(encode_reserving, message, 11, buffer, 8)[1]) == 20
