"""The least that can serve a consumer: one partition's records from one file, a blocking pread and send for each Fetch.

A process of its own, so that the same client takes from it as from a broker, in the same pace: what a broker's Fetch
costs is held against what this costs. Only the time of pread and send is counted, by the thread's clock; to read
requests and to make an answer's head is not. It answers Fetch, ApiVersions, Metadata, ListOffsets, and that there is no
coordinator.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import socket
import tempfile
import threading
import time
from multiprocessing.connection import Connection
from typing import Any, Final, NamedTuple

from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.codec import decode
from mpbroker.protocol.headers import RequestHeader, decode_request_header, encode_response_frame
from mpbroker.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from mpbroker.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from mpbroker.protocol.messages.find_coordinator import FindCoordinatorResponse
from mpbroker.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from mpbroker.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.harness.peer import Peer, fetch

PIECE_BYTES: Final = 1 << 20  # what clients ask for by default
SERVED: Final = {
    ApiKey.PRODUCE: (0, 7),  # never asked for: without it a client takes the broker for one of old record formats
    ApiKey.FETCH: (4, 11),
    ApiKey.LIST_OFFSETS: (1, 2),
    ApiKey.METADATA: (1, 4),
    ApiKey.FIND_COORDINATOR: (0, 0),
    ApiKey.API_VERSIONS: (0, 0),
}
UNSUPPORTED_VERSION: Final = 35
COORDINATOR_NOT_AVAILABLE: Final = 15


class Piece(NamedTuple):
    """Whole batches that one Fetch is answered with."""

    position: int
    length: int
    next_offset: int


def copy_of(port: int, topic: str, file: int) -> dict[int, Piece]:
    """All records of partition 0, in the file as a broker gave them; by their first offset."""
    pieces, offset, position = {}, 0, 0
    with Peer(port) as peer:
        while True:
            part = fetch(peer, topic, offset, partition_max_bytes=PIECE_BYTES)
            records = bytes(part.records or b"")
            if not records:
                return pieces
            length, next_offset = _whole(records)
            pieces[offset] = Piece(position, length, next_offset)
            os.pwrite(file, records[:length], position)
            position, offset = position + length, next_offset


def _whole(records: bytes) -> tuple[int, int]:
    """Bytes of the whole batches, and the offset after them: a broker may cut the last one."""
    at = next_offset = 0
    while at + 61 <= len(records):
        after = at + 12 + int.from_bytes(records[at + 8 : at + 12])
        if after > len(records):
            break
        next_offset = int.from_bytes(records[at : at + 8]) + int.from_bytes(records[at + 23 : at + 27]) + 1
        at = after
    return at, next_offset


class PlainLoop:
    """One thread for each connection."""

    def __init__(self, topic: str, file: int, pieces: dict[int, Piece]) -> None:
        self._topic, self._file, self._pieces = topic, file, pieces
        self._end = max(piece.next_offset for piece in pieces.values())
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.busy_s = 0.0

    def serve(self) -> None:
        """For ever."""
        while True:
            connection, _ = self._listening.accept()
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(ConnectionError), connection:
            self._serve_until_closed(connection)

    def _serve_until_closed(self, connection: socket.socket) -> None:
        stream = connection.makefile("rb")
        while len(head := stream.read(4)) == 4:
            frame = stream.read(int.from_bytes(head))
            header = decode_request_header(frame)
            if header.api_key == ApiKey.FETCH:
                request = decode(FetchRequest, header.api_version, frame, header.body_offset)
                self._fetch(connection, request, header)
            else:
                version = min(header.api_version, SERVED[header.api_key][1])
                message = self._message(header.api_key, header.api_version)
                frame = encode_response_frame(header.api_key, version, header.correlation_id, message)
                connection.sendall(frame)

    def _message(self, key: int, version: int) -> Any:
        if key == ApiKey.API_VERSIONS:
            rows = [ApiVersion(int(one), low, high) for one, (low, high) in SERVED.items()]
            return ApiVersionsResponse(UNSUPPORTED_VERSION if version > 0 else 0, rows)
        if key == ApiKey.METADATA:
            part = MetadataResponsePartition(replica_nodes=[0], isr_nodes=[0])
            return MetadataResponse(
                brokers=[MetadataResponseBroker(0, "127.0.0.1", self.port)],
                controller_id=0,
                topics=[MetadataResponseTopic(name=self._topic, partitions=[part])],
            )
        if key == ApiKey.LIST_OFFSETS:
            rows_of_topic = [ListOffsetsPartitionResponse(offset=0, timestamp=-1)]
            return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(self._topic, rows_of_topic)])
        return FindCoordinatorResponse(error_code=COORDINATOR_NOT_AVAILABLE)

    def _fetch(self, connection: socket.socket, request: FetchRequest, header: RequestHeader) -> None:
        offset = request.topics[0].partitions[0].fetch_offset if request.topics else self._end
        piece = self._pieces.get(offset)
        length = 0 if piece is None else piece.length
        if piece is None:
            time.sleep(request.max_wait_ms / 1000)
        part = PartitionData(0, 0, self._end, self._end, 0, aborted_transactions=None, records=b"")
        answer = FetchResponse(responses=[FetchableTopicResponse(topic=self._topic, partitions=[part])])
        frame = encode_response_frame(header.api_key, header.api_version, header.correlation_id, answer)
        head = (len(frame) - 4 + length).to_bytes(4) + frame[4:-4] + length.to_bytes(4)  # its length is the last field
        began_s = time.thread_time()
        connection.sendall(head)
        if piece is not None:
            connection.sendall(os.pread(self._file, piece.length, piece.position))
        self.busy_s += time.thread_time() - began_s


class LoopProcess:
    """A `PlainLoop` in a process of its own, with a copy of a topic; a context manager."""

    def __init__(self, port: int, topic: str) -> None:
        self._pipe, theirs = multiprocessing.Pipe()
        arguments = (port, topic, theirs)
        self._process = multiprocessing.get_context("spawn").Process(target=_run, args=arguments, daemon=True)
        self._process.start()
        self.where = f"127.0.0.1:{self._pipe.recv()}"

    def busy_us(self) -> float:
        """Of pread and send so far."""
        self._pipe.send(None)
        return float(self._pipe.recv()) * 1e6

    def __enter__(self) -> LoopProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.join()


def _run(port: int, topic: str, pipe: Connection) -> None:
    with tempfile.TemporaryFile() as file:
        loop = PlainLoop(topic, file.fileno(), copy_of(port, topic, file.fileno()))
        threading.Thread(target=loop.serve, daemon=True).start()
        pipe.send(loop.port)
        while True:
            pipe.recv()
            pipe.send(loop.busy_s)
