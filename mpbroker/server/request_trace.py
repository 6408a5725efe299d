"""What a request handler adds to a request's trace record: first topic, number of partitions, acks, one more number.

The record's working copy is part of the request entry; its other fields are written by whichever process owns the entry
at that moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from mpbroker.channel.handler_port import Request
from mpbroker.protocol.messages.fetch import FetchRequest
from mpbroker.protocol.messages.produce import ProduceRequest
from mpbroker.record.checksum import crc32c
from mpbroker.record.record_batch import claimed_records
from mpbroker.trace.record import STAGES

HANDLER_START, IO_DONE = STAGES.index("handler_start"), STAGES.index("io_done")
ACKS_MASK = 3
LARGEST = 2**32 - 1


@lru_cache(maxsize=4096)
def topic_hash(name: str) -> int:
    """How trace records name a topic; 0 means none."""
    return crc32c(name.encode())


def describe_produce(request: Request, message: ProduceRequest) -> None:
    """Partitions, acks and the number of records sent (as the batches say; they are not checked yet)."""
    topics = message.topic_data
    partitions = records = 0
    for topic in topics:
        for data in topic.partition_data:
            partitions += 1
            if data.records is not None:
                records += claimed_records(data.records)
    request.set_trace(
        partitions, topic_hash(topics[0].name) if topics else 0, min(records, LARGEST), message.acks & ACKS_MASK
    )


def describe_fetch(request: Request, message: FetchRequest, partitions: int, first: str) -> None:
    """Partitions and how long the client is ready to wait, in ms. `first`: the first topic's name."""
    request.set_trace(partitions, topic_hash(first) if first else 0, max(0, message.max_wait_ms), 0)


def describe_control(request: Request, controller_epoch: int, partitions: Sequence[tuple[str, int]]) -> None:
    """Of a request of a cluster's controller: how many partitions, the first one's topic, the controller's epoch."""
    first = topic_hash(partitions[0][0]) if partitions and partitions[0][0] else 0
    request.set_trace(len(partitions), first, max(0, controller_epoch), 0)
