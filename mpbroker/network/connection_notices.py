"""What a processor tells the tracer about its connections: opened, closed, and who the client says it is (trace/notice.py).

One per processor. It is called when a connection comes or goes, and when the first request of a connection or one with another
client id has arrived: never for every request.
"""

from mpbroker.network.fd_passing import address_text
from mpbroker.network.kafka_channel import KafkaChannel
from mpbroker.shm.counters import Counter
from mpbroker.shm.process_table import ProcessRow
from mpbroker.trace.notice import CloseReason, ConnectionClosed, ConnectionOpened, Notice, NoticeWriter

CONNECTION_BITS = 27


class ConnectionNotices:
    """`fd` -1: tells nobody, and everything here returns at once."""

    def __init__(self, fd: int, processor: int, listener: int, row: ProcessRow) -> None:
        self.wanted = fd >= 0
        self._writer = NoticeWriter(fd, processor)
        self._processor = processor
        self._listener = listener
        self._row = row

    def opened(self, channel: KafkaChannel, port: int, now_ns: int) -> None:
        """A connection was taken over from the acceptor."""
        if self.wanted:
            host = address_text(channel.address)
            peer = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            self._tell(ConnectionOpened(now_ns, self._id(channel), self._processor, self._listener, peer))

    def closed(self, channel: KafkaChannel, reason: CloseReason, now_ns: int) -> None:
        """A connection ended."""
        if self.wanted:
            self._tell(ConnectionClosed(now_ns, self._id(channel), self._processor, self._listener, channel.requests, reason))

    def _id(self, channel: KafkaChannel) -> int:
        """conn_id of its records, as native/trace_lane.h puts it together."""
        return self._processor << CONNECTION_BITS | channel.generation & ((1 << CONNECTION_BITS) - 1)

    def _tell(self, notice: Notice) -> None:
        if not self._writer.tell(notice):
            self._row.count(Counter.TRACE_NOTICES_DROPPED)
