"""1 MB Produce requests: CPU per GB of a broker beside a plain loop that receives, checks CRC-32C, and writes.

The plain loop is the least anyone must do with such a request on this machine: it runs in a child process, takes the
same frames from the same driver, and answers with the same number of bytes.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from crc32c import crc32c

from perf.load.processes import usage
from perf.load.produce_load import ProduceLoad
from perf.load.targets import Target
from tests.harness.raw_records import create_by_metadata

RECORDS, RECORD_BYTES = 120, 8192  # just below the default message.max.bytes
TOPIC = "large"
_PIECE = 64 * 1024


def values() -> list[bytes]:
    """The records of one request."""
    return [bytes([number]) * RECORD_BYTES for number in range(RECORDS)]


def cpu_seconds_per_gb(target: Target, seconds: float, partitions: int = 4) -> float:
    """CPU seconds of the target's process tree for a gigabyte (10**9 bytes) of record values."""
    load = ProduceLoad(
        target.host, target.port, TOPIC, connections=4, in_flight=2, partitions=partitions, values=values()
    )
    try:
        load.run(seconds / 4)
        before = usage(target.pid)
        result = load.run(seconds)
        used = usage(target.pid).since(before)
    finally:
        load.close()
    if result.errors or not result.requests:
        raise RuntimeError(f"{result.errors} of {result.requests} large requests failed at {target.name}")
    return used.total_us / 1e6 / (result.requests * RECORDS * RECORD_BYTES / 1e9)


def prepare(target: Target) -> None:
    """Make the topic."""
    create_by_metadata(target.host, target.port, TOPIC)


@contextmanager
def plain_loop() -> Iterator[Target]:
    """The loop as a target."""
    with tempfile.TemporaryDirectory(prefix="mpbroker-bench-") as directory:
        process = subprocess.Popen(
            [sys.executable, "-m", "perf.load.large_batches", directory],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None and process.stdout is not None
        try:
            yield Target("plain loop", "127.0.0.1", int(process.stdout.readline()), process.pid)
        finally:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()


def _serve(directory: str) -> None:
    """One process, blocking reads by poll; ends when standard input does."""
    import select

    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    poll.register(sys.stdin, select.POLLIN)
    connections: dict[int, socket.socket] = {}
    log, buffer = os.open(os.path.join(directory, "log"), os.O_RDWR | os.O_CREAT), bytearray(2 << 20)
    position = 0
    while True:
        for descriptor, _ in poll.poll():
            if descriptor == sys.stdin.fileno():
                return
            if descriptor == listener.fileno():
                connection = listener.accept()[0]
                connections[connection.fileno()] = connection
                poll.register(connection, select.POLLIN)
                continue
            position = _request(connections[descriptor], buffer, log, position)
            if position < 0:
                poll.unregister(descriptor)
                connections.pop(descriptor).close()
                position = os.fstat(log).st_size


def _request(connection: socket.socket, buffer: bytearray, log: int, position: int) -> int:
    """Receive a frame, check and write its batch, answer; the new end of the file, or -1 when the connection ended."""
    view = memoryview(buffer)
    if not _receive(connection, view[:4]):
        return -1
    (length,) = struct.unpack_from(">i", buffer)
    if not _receive(connection, view[4 : 4 + length]):
        return -1
    name_bytes = len(TOPIC)
    records = view[4 + 8 + 2 + 3 + 2 + 2 + 4 + 4 + 2 + name_bytes + 4 + 4 + 4 : 4 + length]
    (crc,) = struct.unpack_from(">I", records, 17)
    error = 0 if crc32c(records[21:]) == crc else 2
    position += os.pwrite(log, records, position)
    if position > 1 << 30:
        os.ftruncate(log, 0)
        position = 0
    topic = struct.pack(">ih", 1, name_bytes) + TOPIC.encode()
    body = buffer[8:12] + topic + struct.pack(">iihqqq", 1, 0, error, 0, -1, 0) + struct.pack(">i", 0)
    connection.sendall(struct.pack(">i", len(body)) + body)
    return position


def _receive(connection: socket.socket, view: memoryview) -> bool:
    while len(view):
        received = connection.recv_into(view[:_PIECE])
        if not received:
            return False
        view = view[received:]
    return True


if __name__ == "__main__":
    _serve(sys.argv[1])
