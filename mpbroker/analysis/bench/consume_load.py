"""`python -m mpbroker.analysis.bench.consume_load HOST PORT TOPIC SECONDS`: reads every partition to its end; prints a
line of JSON.

Records are counted from the batches' headers and not decoded: the figure is the broker's, as far as a client can make
it.
"""

from __future__ import annotations

import json
import struct
import sys
import time
from typing import Any

from mpbroker.client.consumer import EARLIEST, LATEST, PARTITION_BYTES_MAX, offset_for
from mpbroker.client.network_client import NetworkClient
from mpbroker.client.partition_leaders import PartitionLeaders
from mpbroker.client.topic_admin import describe_topic
from mpbroker.errors import KafkaError
from mpbroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

FETCH_VERSION = 11
MAX_WAIT_MS = 500
FETCH_BYTES_MAX = 50 * 1024 * 1024
_BATCH = struct.Struct(">qi")
_LAST_OFFSET_DELTA, _RECORD_COUNT = 23, 57
_INT = struct.Struct(">i")


def main() -> int:
    """Read, measure, print."""
    host, port, topic, seconds = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
    with NetworkClient(host, port, client_id="W2") as client:
        partitions = [row["id"] for row in describe_topic(client, topic).partitions]
        leaders = PartitionLeaders(client)
        ends = {number: offset_for(leaders, topic, number, LATEST) for number in partitions}
        positions = {number: offset_for(leaders, topic, number, EARLIEST) for number in partitions}
        print(json.dumps(read(client, topic, positions, ends, seconds)))
    return 0


def read(
    client: NetworkClient, topic: str, positions: dict[int, int], ends: dict[int, int], seconds: float
) -> dict[str, Any]:
    """records, bytes, requests, seconds, latencies_us of every request; `positions` move to where reading stopped."""
    records = size = 0
    latencies_us: list[int] = []
    begun_ns, cpu_ns = time.monotonic_ns(), time.process_time_ns()
    while open_partitions := [number for number in positions if positions[number] < ends[number]]:
        asked_ns = time.monotonic_ns()
        if asked_ns - begun_ns > seconds * 1e9:
            break
        answer = client.call(_request(topic, positions, open_partitions), FetchResponse, FETCH_VERSION)
        latencies_us.append((time.monotonic_ns() - asked_ns) // 1000)
        for part in (part for row in answer.responses for part in row.partitions):
            if part.error_code:
                raise KafkaError(part.error_code, about=f"{topic}-{part.partition_index}")
            piece = memoryview(part.records or b"")  # type: ignore[arg-type]  # never the int that reserves room
            count, next_offset = count_records(piece)
            records, size = records + count, size + len(piece)
            positions[part.partition_index] = max(positions[part.partition_index], next_offset)
    return {
        "records": records,
        "bytes": size,
        "requests": len(latencies_us),
        "latencies_us": latencies_us,
        "seconds": (time.monotonic_ns() - begun_ns) / 1e9,
        "client_cpu_us": (time.process_time_ns() - cpu_ns) // 1000,
    }


def count_records(data: memoryview) -> tuple[int, int]:
    """(records in the whole batches of a Fetch answer, the offset after them; 0 of nothing)."""
    at = count = next_offset = 0
    while at + _RECORD_COUNT + _INT.size <= len(data):
        base_offset, length = _BATCH.unpack_from(data, at)
        end = at + _BATCH.size + length
        if length <= 0 or end > len(data):
            break
        count += _INT.unpack_from(data, at + _RECORD_COUNT)[0]
        next_offset = base_offset + _INT.unpack_from(data, at + _LAST_OFFSET_DELTA)[0] + 1
        at = end
    return count, next_offset


def _request(topic: str, positions: dict[int, int], partitions: list[int]) -> FetchRequest:
    wanted = [
        FetchPartition(partition=number, fetch_offset=positions[number], partition_max_bytes=PARTITION_BYTES_MAX)
        for number in partitions
    ]
    return FetchRequest(
        max_wait_ms=MAX_WAIT_MS,
        min_bytes=1,
        max_bytes=FETCH_BYTES_MAX,
        topics=[FetchTopic(topic=topic, partitions=wanted)],
    )


if __name__ == "__main__":
    sys.exit(main())
