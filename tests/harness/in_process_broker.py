"""A request handler on real shared memory and real log files in one process, stepped by the test.

No supervisor, no sockets, no controller: topics are made by the test, requests enter through a real ProcessorPort and
leave through it. Time stands still until the test moves it.
"""

from __future__ import annotations

import os
import struct

from mpbroker import _native
from mpbroker.channel.fetch_session_table import FetchSessionTable
from mpbroker.channel.handler_port import HandlerPort
from mpbroker.channel.processor_port import ProcessorPort
from mpbroker.config.load_config import load_broker_config
from mpbroker.log.log_manager import Log, LogManager
from mpbroker.metadata.cluster_cache import ClusterCache
from mpbroker.metadata.metadata_cache import MetadataCache
from mpbroker.metadata.metadata_snapshot import MetadataSnapshot, TopicImage, encode_overrides
from mpbroker.metrics.event_log import EventLog
from mpbroker.protocol.codec import decode
from mpbroker.protocol.headers import decode_response_header, encode_request_frame
from mpbroker.protocol.messages_by_key import RESPONSES
from mpbroker.protocol.schema import schema_of
from mpbroker.server.api_table import API_TABLE
from mpbroker.server.controller_commands import ControllerCommands
from mpbroker.server.request_handler import RequestHandler
from mpbroker.server.server_context import ServerContext
from mpbroker.shm.clock import ManualClock
from mpbroker.shm.layout import SLOT_HANDLERS
from mpbroker.shm.process_context import BoundListener
from mpbroker.shm.process_table import ProcessRow
from mpbroker.shm.topic_table import partition_link, rows_raise
from mpbroker.trace.record import RECORD_BYTES, TraceRecord, unpack
from tests.harness.small_core import small_core

LANE_RECORDS = 64
CLUSTER_ID = "in-process-cluster-id"


class InProcessBroker:
    """`call` sends one request and steps the handler until its answer is there; `send` and `collect` are its halves."""

    def __init__(
        self,
        directory,
        *,
        is_traced: bool = False,
        fetch_sessions: int = 1000,
        session_units: int = 1024,
        replicated: bool = False,
        coordinator: bool = False,
        **overrides: str,
    ) -> None:
        self.directory = str(directory)
        settings = [f"{key}={value}" for key, value in {"log.dirs": str(directory), **overrides}.items()]
        self.replicated = replicated
        self.config = load_broker_config(overrides=settings, environ={})
        self.shared = small_core(
            arena_handler_bytes=64 << 20,
            arena_processor_bytes=64 << 20,
            topics=16,
            fetch_sessions=fetch_sessions,
            session_units=session_units,
            replicated=replicated,
            coordinator=coordinator,
        )
        self.core = self.shared.core
        self.clock = ManualClock()
        self.log = Log(self.core, [str(directory)], SLOT_HANDLERS)
        self.lane_memory = bytearray(_native.TRACE_LANE_HEADER_BYTES + LANE_RECORDS * RECORD_BYTES)
        _native.trace_lane_format(self.lane_memory, LANE_RECORDS, 0, 1)
        self.lane = _native.TraceLane(self.lane_memory) if is_traced else None
        self.processor = ProcessorPort(self.core, 0, os.eventfd(0), self.lane)
        self.handler = RequestHandler(self._context())
        self.snapshot = MetadataSnapshot(self.core)
        self._ordinals = 0
        self._correlation_id = 0

    def _context(self) -> ServerContext:
        port, metadata = HandlerPort(self.core, 0), MetadataCache(self.core, self.config)
        listener = BoundListener(0, "PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092, "broker.example", 19092, False)
        return ServerContext(
            config=self.config,
            port=port,
            log_manager=LogManager(self.log, self.clock, False),
            fetch_sessions=FetchSessionTable(self.core, SLOT_HANDLERS),
            metadata=metadata,
            commands=ControllerCommands(port, metadata, self.replicated),
            listeners=(listener,),
            clock=self.clock,
            log=EventLog("in-process"),
            row=ProcessRow(self.core, SLOT_HANDLERS),
            apis=API_TABLE,
            cluster_id=CLUSTER_ID,
            cluster=ClusterCache(self.core) if self.replicated else None,
        )

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        internal: bool = False,
        topic_id: bytes | None = None,
        **overrides: str,
    ) -> list[int]:
        """Makes partitions and shows the topic, as the controller would; returns the partitions' rows."""
        row, topic_id = self.snapshot.reserve(), topic_id or os.urandom(16)
        ordinals = list(range(self._ordinals, self._ordinals + partitions))
        self._ordinals += partitions
        rows_raise(self.core, 0, self._ordinals)
        for number, ordinal in enumerate(ordinals):
            error = self.log.create(
                ordinal=ordinal,
                topic_id=topic_id,
                topic_row=row,
                partition=number,
                log_dir=0,
                dir=f"{name}-{number}",
                leader_epoch=0,
                now_ms=self.clock.wall_ms(),
            )
            assert error == 0, error
        for ordinal in ordinals[:-1]:
            partition_link(self.core, ordinal, ordinal + 2)  # one more than the next row
        encoded = encode_overrides({key.replace("_", "."): value for key, value in overrides.items()})
        self.snapshot.publish(row, TopicImage(topic_id, name, partitions, ordinals[0], internal, encoded, 1))
        return ordinals

    def traced(self) -> list[TraceRecord]:
        """The trace records of the requests that ended since the last call."""
        at, size = self.lane.peek(LANE_RECORDS)
        records = [unpack(self.lane_memory, at + n) for n in range(0, size, RECORD_BYTES)]
        self.lane.release(len(records))
        return records

    def send(self, message, version: int, client_id: str = "test") -> int:
        """Queues a request; returns its entry."""
        self._correlation_id += 1
        frame = encode_request_frame(message, version, self._correlation_id, client_id)
        entry = self.processor.submit(0, 1, 1, 0, frame[4:], self.clock.monotonic_ns())
        assert entry >= 0, entry
        return entry

    def step(self) -> None:
        """One round of the handler that does not wait."""
        self.handler.context.native_topics.native.now_ms = self.clock.wall_ms()
        self.handler.context.native_topics.fetch.now_ms = self.clock.monotonic_ms()
        self.handler.do_work_now()

    def collect(self) -> list[tuple[int, int, bytes | None]]:
        """Answers that are there: (entry, kind, frame); their entries are freed."""
        found = []
        for entry, _connection, _generation, kind, view in self.processor.collect(100):
            found.append((entry, kind, None if view is None else bytes(view)))
            self.processor.sent(entry, self.clock.monotonic_ns())
        return found

    def call(self, message, version: int, client_id: str = "test"):
        """One request and its decoded response; None when nothing was sent (acks=0, close)."""
        self.send(message, version, client_id)
        self.step()
        answers = self.collect()
        assert len(answers) == 1, answers
        return self.decode(message, version, answers[0][2])

    def decode(self, message, version: int, frame: bytes | None):
        """The response in a whole frame."""
        if not frame:
            return None
        (length,) = struct.unpack_from(">i", frame)
        assert length == len(frame) - 4
        key = schema_of(type(message)).key
        correlation_id, offset = decode_response_header(key, version, frame[4:])
        assert correlation_id <= self._correlation_id
        return decode(RESPONSES[key], version, frame[4:], offset)
