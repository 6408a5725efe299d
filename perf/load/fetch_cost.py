"""What fetching costs: broker CPU per fetch and per MB, beside a plain loop of pread and send over the same bytes.

    python -m perf.load.fetch_cost [--seconds S] [--kafka H:P --kafka-pid N]

Each of a few connections reads one partition from its begin again and again, one Fetch 12 at a time, with sessions or
without; and at the end of a log, where there is nothing. The plain loop answers the same requests with the same number
of bytes out of one file. Runs are interleaved, figures are medians.
"""

from __future__ import annotations

import argparse
import os
import select
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

from mpbroker.protocol.codec import decode
from mpbroker.protocol.headers import decode_response_header, encode_request_frame
from mpbroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from mpbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from mpbroker.record.batch_builder import encode_batch
from perf.load import targets
from perf.load.processes import usage
from perf.load.targets import Target
from tests.harness.peer import Peer
from tests.harness.raw_records import create_by_metadata

TOPIC, VERSION, CONNECTIONS = "fetched", 12, 4
BATCH_VALUES, BATCHES = 150, 200  # of 100 bytes: batches of 16 kB, 3.2 MB in all
_HEAD = 64  # bytes that our answer has around its records, about
SHAPES = {
    "1 MB": (1 << 20, False),
    "1 MB, session": (1 << 20, True),
    "64 kB": (1 << 16, False),
    "16 kB": (1 << 14, False),
    "16 kB, session": (1 << 14, True),
    "nothing, session": (0, True),
}


class Reader:
    """One connection that goes round in one log. `most`: bytes of a fetch; 0: from the log's end."""

    def __init__(self, target: Target, most: int, session: bool) -> None:
        self._socket = socket.create_connection((target.host, target.port))
        self._most, self._session = most, session
        self._id = self._epoch = self._offset = 0
        self.requests = self.bytes = 0
        if not most:
            self._offset = BATCHES * BATCH_VALUES

    def fileno(self) -> int:
        """Of the socket, for a poll."""
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def ask(self) -> None:
        """Send the next request."""
        asked = FetchPartition(fetch_offset=self._offset, partition_max_bytes=self._most or 1 << 20)
        same = self._session and self._epoch > 0 and not self._most
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=50 << 20,
            session_id=self._id,
            session_epoch=self._epoch if self._session else -1,
            topics=[] if same else [FetchTopic(topic=TOPIC, partitions=[asked])],
        )
        self._socket.sendall(encode_request_frame(request, VERSION, self.requests, "perf"))

    def take(self) -> None:
        """Receive its answer."""
        (length,) = struct.unpack(">i", self._receive(4))
        payload = self._receive(length)
        if self._session or self._most < 1 << 20:
            self._follow(payload)
        self.requests += 1
        self.bytes += length

    def _follow(self, payload: memoryview) -> None:
        _, at = decode_response_header(1, VERSION, payload)
        answer = decode(FetchResponse, VERSION, payload, at)
        assert answer.error_code == 0, answer.error_code
        self._id, self._epoch = answer.session_id, self._epoch + 1
        if self._most:
            self._offset = (self._offset + BATCH_VALUES) % (BATCHES * BATCH_VALUES // 2)

    def _receive(self, length: int) -> memoryview:
        buffer = memoryview(bytearray(length))
        got = 0
        while got < length:
            got += self._socket.recv_into(buffer[got:])
        return buffer


def fill(target: Target) -> None:
    """Records to be read."""
    create_by_metadata(target.host, target.port, TOPIC)
    now_ms = int(time.time() * 1000)  # else retention takes them
    records = encode_batch([(None, bytes([n]) * 100, now_ms) for n in range(BATCH_VALUES)])
    data = [TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=records)])]
    with Peer(target.port) as peer:
        appended, until = 0, time.monotonic() + 30
        while appended < BATCHES and time.monotonic() < until:
            answer = peer.ask(ProduceRequest(acks=1, timeout_ms=9000, topic_data=data), 7)
            appended += answer.responses[0].partition_responses[0].error_code == 0


def cost(target: Target, most: int, session: bool, seconds: float) -> tuple[float, float]:
    """Broker CPU in µs for a fetch, and for a MB."""
    readers = [Reader(target, most, session) for _ in range(CONNECTIONS)]
    try:
        _run(readers, seconds / 4)
        before, asked, read = usage(target.pid), _sum(readers, "requests"), _sum(readers, "bytes")
        _run(readers, seconds)
        used = usage(target.pid).since(before)
    finally:
        for reader in readers:
            reader.close()
    return used.total_us / (_sum(readers, "requests") - asked), used.total_us / ((_sum(readers, "bytes") - read) / 1e6)


def _sum(readers: list[Reader], what: str) -> int:
    return sum(getattr(reader, what) for reader in readers)


def _run(readers: list[Reader], seconds: float) -> None:
    poll = select.poll()
    by_number = {reader.fileno(): reader for reader in readers}
    for reader in readers:
        poll.register(reader.fileno(), select.POLLIN)
        reader.ask()
    until, waiting = time.monotonic() + seconds, len(readers)
    while waiting:
        for number, _ in poll.poll():
            by_number[number].take()
            if time.monotonic() < until:
                by_number[number].ask()
            else:
                waiting -= 1


@contextmanager
def plain_loop(bytes_of_answer: int) -> Iterator[Target]:
    """The loop as a target."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(bytes(4 << 20))
        file.flush()
        words = [sys.executable, "-m", "perf.load.fetch_cost", "--serve", file.name, str(bytes_of_answer)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                yield Target("plain loop", "127.0.0.1", int(process.stdout.readline()), process.pid)
            finally:
                process.kill()


def _serve(path: str, length: int) -> None:
    """Receive a frame, read, send; round and round in the file."""
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    file, buffer, position = os.open(path, os.O_RDONLY), bytearray(length + _HEAD), 0
    struct.pack_into(">i", buffer, 0, len(buffer) - 4)
    view = memoryview(buffer)
    connections, poll = {}, select.poll()
    poll.register(listener, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll():
            if descriptor == listener.fileno():
                connection = listener.accept()[0]
                connections[connection.fileno()] = connection
                poll.register(connection, select.POLLIN)
                continue
            if not connections[descriptor].recv(4096):
                poll.unregister(descriptor)
                connections.pop(descriptor).close()
                continue
            if length:
                os.preadv(file, [view[_HEAD:]], position)
                position = (position + length) % (2 << 20)
            connections[descriptor].sendall(buffer)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--kafka", metavar="H:P")
    parser.add_argument("--kafka-pid", type=int)
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        _serve(options.serve[0], int(options.serve[1]))
    with targets.ours() as ours:
        brokers = [ours]
        if options.kafka:
            brokers.append(targets.running("kafka", options.kafka, options.kafka_pid))
        for broker in brokers:
            fill(broker)
        for name, (most, session) in SHAPES.items():
            found: dict[str, list[tuple[float, float]]] = {broker.name: [] for broker in brokers} | {"plain loop": []}
            for _ in range(options.runs):
                for broker in brokers:
                    found[broker.name].append(cost(broker, most, session, options.seconds))
                with plain_loop(most) as plain:
                    found["plain loop"].append(cost_of_plain(plain, most, options.seconds))
            told = [
                f"{who} {median(one for one, _ in all_of):7.1f} us/fetch {median(mb for _, mb in all_of):7.0f} us/MB"
                for who, all_of in found.items()
            ]
            print(f"{name:18s}", " · ".join(told), flush=True)
    return 0


def cost_of_plain(target: Target, most: int, seconds: float) -> tuple[float, float]:
    """The same of the loop, whose answers are not looked at."""
    return cost(target, max(most, 1 << 20), False, seconds)


if __name__ == "__main__":
    sys.exit(main())
