"""A connection that speaks our message classes in any version, and shows what a client library would hide: which answer
came to which request, and when the broker hung up instead."""

from __future__ import annotations

import socket
import struct
import sys
from collections import deque

from mpbroker.protocol.codec import decode, encoded_size
from mpbroker.protocol.headers import decode_response_header, encode_request_frame
from mpbroker.protocol.messages.api_versions import ApiVersionsRequest
from mpbroker.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from mpbroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from mpbroker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from mpbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from mpbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from mpbroker.protocol.schema import schema_of
from mpbroker.record.batch_builder import encode_batch

TIMEOUT_S = 15.0


class Closed(Exception):
    """The broker closed the connection."""


def response_class(message) -> type:
    """The response that belongs to a request, from the same module."""
    return getattr(sys.modules[type(message).__module__], type(message).__name__.removesuffix("Request") + "Response")


class Peer:
    """One connection. Requests may be pipelined: `send` several, then `receive` as many."""

    def __init__(self, port: int, client_id: str = "peer", timeout_s: float = TIMEOUT_S) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self.client_id = client_id
        self._next = 0
        self._sent: deque[tuple[int, object, int]] = deque()

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, message, version: int) -> int:
        """Send a request; returns its correlation id."""
        self._next += 1
        self._sent.append((self._next, message, version))
        self.socket.sendall(encode_request_frame(message, version, self._next, self.client_id))
        return self._next

    def receive_raw(self) -> bytes:
        """The next answer without its length; Closed at the end of the stream."""
        (length,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(length)

    def receive(self):
        """The answer to the oldest request without one, decoded; it must carry that request's correlation id, and end
        where its frame ends."""
        expected, message, version = self._sent.popleft()
        payload = self.receive_raw()
        correlation_id, offset = decode_response_header(schema_of(type(message)).key, version, payload)
        assert correlation_id == expected
        answer = decode(response_class(message), version, payload, offset)
        assert offset + encoded_size(answer, version) == len(payload), "bytes behind the answer"
        return answer

    def ask(self, message, version: int):
        """Send and receive."""
        self.send(message, version)
        return self.receive()

    def forget(self) -> None:
        """The request sent last gets no answer (acks=0)."""
        self._sent.pop()

    def is_closed(self) -> bool:
        """Whether the broker closes the connection without another byte."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def answers(self) -> bool:
        """Whether the connection still works."""
        try:
            return self.ask(ApiVersionsRequest(), 0).error_code == 0
        except (Closed, OSError):
            return False

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            try:
                more = self.socket.recv(count - len(data))
            except ConnectionResetError:
                raise Closed from None
            if not more:
                raise Closed
            data += more
        return data


def batch(*values: bytes, **settings: object) -> bytes:
    """A record batch of values without keys, at time 1000 and on; `settings` as RecordBatchBuilder takes them."""
    return encode_batch([(None, value, 1000 + n) for n, value in enumerate(values)], **settings)


def create_topic(peer: Peer, name: str, partitions: int = 1, **configs: str):
    """The result of creating one topic; `configs` with _ for dots."""
    settings = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=settings)
    return peer.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 4).topics[0]


def produce_request(topic: str, batches: dict[int, bytes | None], acks: int = 1, timeout_ms: int = 10_000):
    """A Produce request for partitions of one topic."""
    partitions = [PartitionProduceData(index=index, records=records) for index, records in batches.items()]
    return ProduceRequest(
        acks=acks, timeout_ms=timeout_ms, topic_data=[TopicProduceData(name=topic, partition_data=partitions)]
    )


def produce(
    peer: Peer,
    topic: str,
    records: bytes | None,
    partition: int = 0,
    acks: int = 1,
    version: int = 7,
    timeout_ms: int = 10_000,
):
    """The result of one partition."""
    answer = peer.ask(produce_request(topic, {partition: records}, acks, timeout_ms), version)
    return answer.responses[0].partition_responses[0]


def fetch_request(topic: str, offsets: dict[int, int], partition_max_bytes: int = 1 << 20, **fields):
    """A Fetch request for partitions of one topic; `fields` of the request, like min_bytes."""
    partitions = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=partition_max_bytes)
        for index, offset in offsets.items()
    ]
    return FetchRequest(
        **{"max_wait_ms": 0, "min_bytes": 1, "topics": [FetchTopic(topic=topic, partitions=partitions)]} | fields
    )


def fetch(peer: Peer, topic: str, offset: int = 0, partition: int = 0, version: int = 11, **fields):
    """The answer of one partition."""
    answer = peer.ask(fetch_request(topic, {partition: offset}, **fields), version)
    assert answer.error_code == 0
    return answer.responses[0].partitions[0]


def list_offset(peer: Peer, topic: str, timestamp: int, partition: int = 0, version: int = 5):
    """The answer of one partition."""
    asked = ListOffsetsTopic(
        name=topic, partitions=[ListOffsetsPartition(partition_index=partition, timestamp=timestamp)]
    )
    return peer.ask(ListOffsetsRequest(replica_id=-1, topics=[asked]), version).topics[0].partitions[0]


def metadata(peer: Peer, *names: str, version: int = 8, create: bool = False):
    """The whole answer about some topics."""
    topics = [MetadataRequestTopic(name=name) for name in names]
    return peer.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=create), version)
