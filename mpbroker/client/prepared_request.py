"""Requests built once and sent many times: a load generator changes only the correlation id of a finished frame.

Any process; no state, no socket. The versions are old ones on purpose: every broker still speaks them, and their
answers carry the first error code at a place that is known before the answer comes.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from typing import NamedTuple

from mpbroker.protocol.headers import encode_request_frame
from mpbroker.protocol.messages.api_versions import ApiVersionsRequest
from mpbroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from mpbroker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from mpbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from mpbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from mpbroker.record.batch_builder import encode_batch
from mpbroker.record.checksum import crc32c

CORRELATION_ID_AT = 8
CORRELATION_ID = struct.Struct(">i")
PRODUCE_VERSION, FETCH_VERSION, LIST_OFFSETS_VERSION, METADATA_VERSION = 7, 4, 1, 4
_ANSWER_BODY_AT = 8


class PreparedRequest(NamedTuple):
    """A whole frame, and where its answer (from its length field on) has an int16 error code; None: nowhere fixed."""

    frame: bytes
    error_at: int | None


class Producer(NamedTuple):
    """Who writes in a transaction, and the sequence number of its next record."""

    transactional_id: str
    producer_id: int
    epoch: int
    sequence: int


def transactional(producer: Producer, topic: str, partition: int, values: Sequence[bytes]) -> ProduceRequest:
    """One batch of a transaction, for PRODUCE_VERSION; no two are alike, so there is no frame to prepare."""
    batch = encode_batch(
        [(None, value, time.time_ns() // 1_000_000) for value in values],
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=producer.sequence,
        transactional=True,
    )
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
    return ProduceRequest(transactional_id=producer.transactional_id, acks=-1, timeout_ms=30_000, topic_data=[data])


def produce(
    topic: str, partition: int, values: Sequence[bytes], acks: int, client_id: str, timeout_ms: int = 30_000
) -> PreparedRequest:
    """One batch for one partition; `acks` is −1 or 1 (0 has no answer to wait for)."""
    batch = encode_batch([(None, value, time.time_ns() // 1_000_000) for value in values])
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
    request = ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[data])
    return PreparedRequest(encode_request_frame(request, PRODUCE_VERSION, 0, client_id), _after_topic(topic, 0))


def fetch(topic: str, partition: int, offset: int, max_wait_ms: int, max_bytes: int, client_id: str) -> PreparedRequest:
    """One partition from an offset on; the broker may wait `max_wait_ms` for the first byte."""
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    request = FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=max_bytes, topics=[FetchTopic(topic=topic, partitions=[wanted])]
    )
    return PreparedRequest(encode_request_frame(request, FETCH_VERSION, 0, client_id), _after_topic(topic, 4))


def list_offsets(topic: str, partition: int, client_id: str) -> PreparedRequest:
    """The end of one partition."""
    wanted = ListOffsetsPartition(partition_index=partition, timestamp=-1)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])])
    return PreparedRequest(encode_request_frame(request, LIST_OFFSETS_VERSION, 0, client_id), _after_topic(topic, 0))


def metadata(topic: str, client_id: str) -> PreparedRequest:
    """One topic's leaders; never creates it."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    return PreparedRequest(encode_request_frame(request, METADATA_VERSION, 0, client_id), None)


def api_versions(client_id: str) -> PreparedRequest:
    """Which APIs the broker serves: the smallest question there is."""
    return PreparedRequest(encode_request_frame(ApiVersionsRequest(), 0, 0, client_id), _ANSWER_BODY_AT)


def client_hash(client_id: str) -> int:
    """What stands for a client id in the broker's trace records."""
    return crc32c(client_id.encode())


def _after_topic(topic: str, fields_before: int) -> int:
    """The error code after: array, topic name, array, partition (and `fields_before` bytes before all these)."""
    return _ANSWER_BODY_AT + fields_before + 4 + 2 + len(topic.encode()) + 4 + 4
