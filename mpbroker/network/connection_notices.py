"""What a processor reports to the tracer about its connections: opened, closed, and who the client says it is
(trace/notice.py).

One per processor. It is called when a connection comes or goes, and when the first request of a connection or one with
another client id has arrived: never for every request.
"""

import time
from struct import Struct

from mpbroker.network.fd_passing import address_text
from mpbroker.network.kafka_channel import KafkaChannel
from mpbroker.shm.counters import Counter
from mpbroker.shm.process_table import ProcessRow
from mpbroker.trace.notice import (
    ClientNamed,
    CloseReason,
    ConnectionClosed,
    ConnectionOpened,
    Notice,
    NoticeWriter,
    ProcessorBegan,
    SoftwareNamed,
)

CONNECTION_BITS = 27
API_VERSIONS_KEY = 18
SOFTWARE_VERSION = 3  # of ApiVersions: from here on it names the client's software (KIP-511)

HEADER_BYTES = 10

_unpack_header = Struct(">hhih").unpack_from


class ConnectionNotices:
    """`fd` -1: nothing is reported, and every call returns at once."""

    def __init__(self, fd: int, processor: int, listener: int, row: ProcessRow) -> None:
        self.wanted = fd >= 0
        self._writer = NoticeWriter(fd, processor)
        self._processor = processor
        self._listener = listener
        self._row = row

    def began(self) -> None:
        """Before any connection: those of a predecessor that was killed are gone."""
        if self.wanted:
            self._tell(ProcessorBegan(time.monotonic_ns(), self._processor))

    def opened(self, channel: KafkaChannel, port: int, accepted_ns: int) -> None:
        """A connection was taken over from the acceptor, who accepted it a moment before."""
        if self.wanted:
            host = address_text(channel.address)
            peer = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            self._tell(ConnectionOpened(accepted_ns, self._id(channel), self._processor, self._listener, peer))

    def closed(self, channel: KafkaChannel, reason: CloseReason, now_ns: int) -> None:
        """A connection ended."""
        if self.wanted:
            self._tell(
                ConnectionClosed(now_ns, self._id(channel), self._processor, self._listener, channel.requests, reason)
            )

    def introduced(self, channel: KafkaChannel, client_hash: int) -> None:
        """A request said who the client is."""
        frame = channel.take_introduction()
        if not self.wanted or not frame:
            return
        client_id, software = names_in(frame)
        if client_id:
            self._tell(ClientNamed(self._id(channel), client_hash, client_id))
        if software is not None:
            self._tell(SoftwareNamed(self._id(channel), *software))

    def _id(self, channel: KafkaChannel) -> int:
        """conn_id of its records, as native/trace/trace_lane.h puts it together."""
        return self._processor << CONNECTION_BITS | channel.generation & ((1 << CONNECTION_BITS) - 1)

    def _tell(self, notice: Notice) -> None:
        if not self._writer.tell(notice):
            self._row.count(Counter.TRACE_NOTICES_DROPPED)


def names_in(frame: bytes) -> tuple[str, tuple[str, str] | None]:
    """Client id, and name and version of the software if there is one, in the beginning of a request frame.

    What is cut off or malformed is simply not there: the handler judges the request, this only looks for names.
    """
    if len(frame) < HEADER_BYTES:
        return "", None
    key, version, _, client_bytes = _unpack_header(frame)
    end = HEADER_BYTES + max(client_bytes, 0)
    client_id = frame[HEADER_BYTES:end].decode(errors="replace")
    if key != API_VERSIONS_KEY or version < SOFTWARE_VERSION:
        return client_id, None
    if frame[end : end + 1] != b"\0":  # tagged fields of the header: no client sends any
        return client_id, None
    name, end = _compact_string(frame, end + 1)
    software_version, _ = _compact_string(frame, end)
    return client_id, (name, software_version) if name else None


def _compact_string(frame: bytes, at: int) -> tuple[str, int]:
    """A string of a flexible version that is shorter than 127 bytes, and where it ends; empty if there is none."""
    length = frame[at] if at < len(frame) else 0
    if not 0 < length < 128 or at + length > len(frame):
        return "", len(frame)
    return frame[at + 1 : at + length].decode(errors="replace"), at + length
