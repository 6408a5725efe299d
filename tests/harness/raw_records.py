"""Produce and Fetch requests built and read byte by byte, and record batches with them: no code of ours, no client
library.

Versions: Produce 7, Fetch 4. Used where a test must know exactly what was sent and that nothing was sent twice.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from tests.harness.raw_client import RawConnection, frame

PRODUCE, FETCH = 0, 1
PRODUCE_VERSION, FETCH_VERSION = 7, 4
_BATCH_AFTER_CRC = struct.Struct(">hiqqqhii")  # attributes .. record count
_HEADER_BYTES = 61


def zigzag(number: int) -> bytes:
    """A signed varint."""
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def batch(values: list[bytes], timestamp_ms: int | None = None, producer: tuple[int, int, int] = (-1, -1, -1)) -> bytes:
    """A record batch without compression; `producer` is id, epoch, first sequence."""
    if timestamp_ms is None:
        timestamp_ms = time.time_ns() // 1_000_000
    records = b""
    for delta, value in enumerate(values):
        body = b"\0" + zigzag(0) + zigzag(delta) + zigzag(-1) + zigzag(len(value)) + value + zigzag(0)
        records += zigzag(len(body)) + body
    rest = _BATCH_AFTER_CRC.pack(0, len(values) - 1, timestamp_ms, timestamp_ms, *producer, len(values)) + records
    return struct.pack(">qiibI", 0, 9 + len(rest), -1, 2, crc32c(rest)) + rest


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def produce_request(
    correlation_id: int, topic: str, partition: int, records: bytes, acks: int = -1, timeout_ms: int = 30_000
) -> bytes:
    """A frame with one partition."""
    body = (
        struct.pack(">hhii", -1, acks, timeout_ms, 1)
        + _string(topic)
        + struct.pack(">iii", 1, partition, len(records))
        + records
    )
    return frame(PRODUCE, PRODUCE_VERSION, correlation_id, body, b"raw")


def create_by_metadata(host: str, port: int, topic: str, within_s: float = 15.0) -> None:
    """Have the broker make a topic: asks for its Metadata (4) with auto-creation until that names it without an error:
    the first answer comes before the topic is there."""
    body, there = struct.pack(">i", 1) + _string(topic) + b"\1", b"\0\0" + _string(topic)
    until = time.monotonic() + within_s
    with RawConnection(port, host) as connection:
        while there not in (connection.ask(frame(3, 4, 1, body)) or (0, b""))[1]:
            if time.monotonic() > until:
                raise TimeoutError(f"{topic} was not created within {within_s} s")
            time.sleep(0.005)


class Produced(NamedTuple):
    """The answer for one partition."""

    error: int
    base_offset: int


def produced(body: bytes) -> Produced:
    """The first partition of a Produce 7 response (without its correlation id)."""
    (name_bytes,) = struct.unpack_from(">h", body, 4)
    return Produced(*struct.unpack_from(">hq", body, 4 + 2 + name_bytes + 4 + 4))


def fetch_request(
    correlation_id: int, topic: str, partition: int, offset: int, max_wait_ms: int = 100, max_bytes: int = 1 << 20
) -> bytes:
    """A frame that asks for one partition."""
    body = (
        struct.pack(">iiiibi", -1, max_wait_ms, 1, max_bytes, 0, 1)
        + _string(topic)
        + struct.pack(">iiqi", 1, partition, offset, max_bytes)
    )
    return frame(FETCH, FETCH_VERSION, correlation_id, body, b"raw")


class Fetched(NamedTuple):
    """The answer for one partition; `records` are batches, the last one may be cut."""

    error: int
    high_watermark: int
    records: bytes


def fetched(body: bytes) -> Fetched:
    """The first partition of a Fetch 4 response."""
    (name_bytes,) = struct.unpack_from(">h", body, 8)
    at = 8 + 2 + name_bytes + 4 + 4
    error, high_watermark, _last_stable, aborted = struct.unpack_from(">hqqi", body, at)
    at += 22 + 16 * max(aborted, 0)
    (size,) = struct.unpack_from(">i", body, at)
    return Fetched(error, high_watermark, body[at + 4 : at + 4 + max(size, 0)])


def records_in(data: bytes, first_offset: int = 0) -> Iterator[tuple[int, bytes | None]]:
    """(offset, value) of every record from `first_offset` on; a batch that is cut off, or was changed, ends the
    walk."""
    at = 0
    while at + _HEADER_BYTES <= len(data):
        base_offset, size, _epoch, magic, crc = struct.unpack_from(">qiibI", data, at)
        end = at + 12 + size
        if end > len(data):
            return
        assert magic == 2 and crc == crc32c(data[at + 21 : end]), f"a damaged batch at offset {base_offset} was served"
        count = struct.unpack_from(">i", data, at + 57)[0]
        place = at + _HEADER_BYTES
        for _ in range(count):
            delta, value, place = _record(data, place)
            if base_offset + delta >= first_offset:
                yield base_offset + delta, value
        at = end


def _varint(data: bytes, at: int) -> tuple[int, int]:
    result, shift = 0, 0
    while True:
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (result >> 1) ^ -(result & 1), at
        shift += 7


def _record(data: bytes, at: int) -> tuple[int, bytes | None, int]:
    """(offset delta, value, where the next record begins)."""
    size, at = _varint(data, at)
    end = at + size
    _timestamp, place = _varint(data, at + 1)
    delta, place = _varint(data, place)
    key_bytes, place = _varint(data, place)
    place += max(key_bytes, 0)
    value_bytes, place = _varint(data, place)
    return delta, None if value_bytes < 0 else data[place : place + value_bytes], end


class _Asker:
    """Asks one thing at a time, never twice; after a lost connection the next question makes a new one."""

    def __init__(self, host: str, port: int, topic: str, timeout_s: float = 30.0) -> None:
        self._address = (port, host, timeout_s)
        self._topic = topic
        self._connection: RawConnection | None = None
        self._correlation_id = 0
        self.connections = 0

    def _ask(self, request: bytes) -> bytes | None:
        """The body of the answer, or None when none came."""
        try:
            if self._connection is None:
                self._connection = RawConnection(*self._address)
                self.connections += 1
            answer = self._connection.ask(request)
        except OSError:
            answer = None
        if answer is None:
            self.close()
            return None
        assert answer[0] == self._correlation_id, f"answer {answer[0]} to request {self._correlation_id}"
        return answer[1]

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class RawProducer(_Asker):
    """Writes to one topic."""

    def produce(self, partition: int, values: list[bytes], acks: int = -1) -> Produced | None:
        """None: the connection ended, or could not be made, before an answer; the records may be in the log."""
        self._correlation_id += 1
        body = self._ask(produce_request(self._correlation_id, self._topic, partition, batch(values), acks))
        return None if body is None else produced(body)


class RawFetcher(_Asker):
    """Reads one topic."""

    def fetch(self, partition: int, offset: int, max_wait_ms: int = 100, max_bytes: int = 1 << 20) -> Fetched | None:
        """The answer, or None when none came."""
        self._correlation_id += 1
        body = self._ask(fetch_request(self._correlation_id, self._topic, partition, offset, max_wait_ms, max_bytes))
        return None if body is None else fetched(body)
