"""Produce as clients of today send it beside the oldest way: processor time of the broker for each request.

    python -m perf.produce_shapes HOST:PORT=PID … [--requests 20000] [--rounds 5] [--in-flight 5] [--warm 0]

Version 7 with acks=1, uncompressed, stands beside version 11 of an idempotent producer with acks=all, uncompressed and
lz4: one record of 100 bytes, and batches of 16 kB on the wire (what `batch.size` counts) of 100-byte records that lz4
halves. Shapes and brokers take turns, so that a machine whose speed drifts is the same for all; medians and ratios. A
JVM needs some 300,000 requests before its figures settle: `--warm`.
"""

import argparse
import json
import random
import selectors
import socket
import statistics
import struct
import time
from typing import Final, NamedTuple

from mpbroker.analysis.bench.process_tree import usage
from mpbroker.protocol.headers import encode_request_frame
from mpbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from mpbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from mpbroker.record.batch_builder import encode_batch
from mpbroker.record.checksum import crc32c
from mpbroker.record.compression import LZ4, NONE
from perf.group_requests import targets_of
from tests.harness.peer import Peer, create_topic

CONNECTIONS: Final = 4
BATCH_BYTES: Final = 16_384
VALUE_BYTES: Final = 100
TOPIC: Final = "perf-produce-shapes"
FIRST_FLEXIBLE: Final = 9
SEQUENCE_AT, CRC_AT, CHECKED_AT = 53, 17, 21  # in a batch


class Shape(NamedTuple):
    """What is sent."""

    version: int
    is_idempotent: bool
    acks: int
    codec: int
    batch_bytes: int


SHAPES: Final = {
    "7 acks=1 100 B": Shape(7, False, 1, NONE, 0),
    "11 idempotent acks=all 100 B": Shape(11, True, -1, NONE, 0),
    "11 idempotent acks=all lz4 100 B": Shape(11, True, -1, LZ4, 0),
    "7 acks=1 16 kB": Shape(7, False, 1, NONE, BATCH_BYTES),
    "11 idempotent acks=all 16 kB": Shape(11, True, -1, NONE, BATCH_BYTES),
    "11 idempotent acks=all lz4 16 kB": Shape(11, True, -1, LZ4, BATCH_BYTES),
}
COMPARED: Final = {name: "7 acks=1 " + name.split(" ")[-2] + " " + name.split(" ")[-1] for name in SHAPES}


def records_of(shape: Shape) -> tuple[bytes, int]:
    """A batch of the shape, and how many records it has."""
    source, now_ms = random.Random(7), time.time_ns() // 1_000_000
    values = [source.randbytes(VALUE_BYTES // 2).hex().encode() for _ in range(2 * BATCH_BYTES // VALUE_BYTES)]
    settings = {"producer_id": 0, "producer_epoch": 0, "base_sequence": 0} if shape.is_idempotent else {}
    count = 1
    while True:
        data = encode_batch([(None, value, now_ms) for value in values[:count]], codec=shape.codec, **settings)
        if len(data) >= shape.batch_bytes or count == len(values):
            return data, count
        count += 1


class Sender:
    """One connection with a partition and a producer of its own."""

    def __init__(self, address: tuple[str, int], shape: Shape, partition: int) -> None:
        records, self._count = records_of(shape)
        self._shape, self._sequence = shape, 0
        data = [PartitionProduceData(index=partition, records=records)]
        request = ProduceRequest(
            acks=shape.acks, timeout_ms=30_000, topic_data=[TopicProduceData(name=TOPIC, partition_data=data)]
        )
        self._frame = bytearray(encode_request_frame(request, shape.version, 1, "perf"))
        self._at = self._frame.index(records)
        self._length = len(records)
        if shape.is_idempotent:
            with Peer(address[1]) as peer:
                answer = peer.ask(InitProducerIdRequest(None, 60_000), 4)
            struct.pack_into(">qh", self._frame, self._at + SEQUENCE_AT - 10, answer.producer_id, answer.producer_epoch)
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.held = b""
        self.waiting = 0
        # length, correlation id; array, topic, array, or the flexible form with tags behind the id; partition
        self._code_at = 8 + (4 if shape.version >= FIRST_FLEXIBLE else 10) + len(TOPIC) + 4

    def send(self) -> None:
        """One more request, in sequence."""
        if self._shape.is_idempotent:
            begin = self._at
            struct.pack_into(">i", self._frame, begin + SEQUENCE_AT, self._sequence)
            self._sequence += self._count
            checked = bytes(memoryview(self._frame)[begin + CHECKED_AT : begin + self._length])
            struct.pack_into(">I", self._frame, begin + CRC_AT, crc32c(checked))
        self.socket.sendall(self._frame)
        self.waiting += 1

    def receive(self) -> int:
        """How many answers came; each must be without an error."""
        data, answered = self.held + self.socket.recv(65_536), 0
        while len(data) >= 4 and len(data) >= (size := 4 + struct.unpack_from(">i", data)[0]):
            (code,) = struct.unpack_from(">h", data, self._code_at)
            assert code == 0, f"error {code}"
            data, answered = data[size:], answered + 1
        self.held = data
        self.waiting -= answered
        return answered


def flood(senders: list[Sender], requests: int, in_flight: int) -> float:
    """Keep some requests of each connection in flight; seconds."""
    selector, left = selectors.DefaultSelector(), requests
    began_s = time.monotonic()
    for sender in senders:
        selector.register(sender.socket, selectors.EVENT_READ, sender)
        for _ in range(in_flight):
            sender.send()
            left -= 1
    while any(sender.waiting for sender in senders):
        for key, _ in selector.select(30):
            for _ in range(min(key.data.receive(), left)):
                key.data.send()
                left -= 1
    selector.close()
    return time.monotonic() - began_s


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("brokers", nargs="+")
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--in-flight", type=int, default=5)
    parser.add_argument("--warm", type=int, default=0)
    told = parser.parse_args()
    loads = {}
    for where, (address, pid) in targets_of(told.brokers).items():
        with Peer(address[1]) as peer:
            create_topic(peer, TOPIC, CONNECTIONS)
        for name, shape in SHAPES.items():
            loads[where, name] = (pid, [Sender(address, shape, partition) for partition in range(CONNECTIONS)])
            flood(loads[where, name][1], told.warm or told.requests // 10, told.in_flight)
    found: dict[tuple[str, str], list[tuple[float, float]]] = {each: [] for each in loads}
    for _ in range(told.rounds):
        for each, (pid, senders) in loads.items():
            before, took_s = usage(pid), flood(senders, told.requests, told.in_flight)
            found[each].append((usage(pid).since(before).total_us / told.requests, told.requests / took_s))
    print(json.dumps(_table(found), indent=1))


def _table(found: dict[tuple[str, str], list[tuple[float, float]]]) -> dict[str, dict[str, dict[str, float]]]:
    """Of each broker and shape the medians, and of the rounds' ratios to version 7."""
    table: dict[str, dict[str, dict[str, float]]] = {}
    for (where, name), rows in found.items():
        beside = found[where, COMPARED[name]]
        table.setdefault(where, {})[name] = {
            "cpu_us": round(statistics.median(cpu for cpu, _ in rows), 1),
            "per_s": round(statistics.median(rate for _, rate in rows)),
            "to_version_7": round(statistics.median(a[0] / b[0] for a, b in zip(rows, beside, strict=True)), 2),
        }
    return table


if __name__ == "__main__":
    main()
