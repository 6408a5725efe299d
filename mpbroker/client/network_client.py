"""NetworkClient: one connection to one broker, requests and responses in order.

Used by the CLI and by tests; imports nothing of the server. A response is bounded before it is allocated, every wait
has the request timeout. Not shared between processes.
"""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple, TypeVar

from mpbroker.errors import ErrorCode, KafkaError, MpbrokerError, ProtocolError
from mpbroker.protocol.codec import decode
from mpbroker.protocol.headers import decode_response_header, encode_request_frame
from mpbroker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from mpbroker.protocol.schema import schema_of
from mpbroker.protocol.types import Struct

RESPONSE_BYTES_MAX = 256 * 1024 * 1024
REQUEST_TIMEOUT_MS = 30_000
CONNECT_TIMEOUT_MS = 10_000

Answer = TypeVar("Answer", bound=Struct)


class ConnectionLost(MpbrokerError):
    """The broker closed the connection or does not answer; says which broker and what was asked.

    `may_pass`: a broker may answer there a moment later.
    """

    def __init__(self, sentence: str, may_pass: bool = True) -> None:
        super().__init__(sentence)
        self.may_pass = may_pass


class Asked(NamedTuple):
    """A request on its way."""

    request_class: type[Struct]
    version: int


class NetworkClient:
    """Versions are negotiated at connect: the highest one both sides speak, at most what a call asks for."""

    def __init__(
        self, host: str, port: int, client_id: str = "mpbroker-cli", timeout_ms: int = REQUEST_TIMEOUT_MS
    ) -> None:
        self.host, self.port = host, port
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.client_id = client_id
        self.timeout_ms = timeout_ms
        self._correlation_id = 0
        self._versions: dict[int, tuple[int, int]] = {}
        self._socket = self._connect()
        self._begin()

    def reconnect(self) -> None:
        """A new connection in place of the old one, whose answers nobody will read; ConnectionLost."""
        self._socket.close()
        self._socket = self._connect()
        self._begin()

    def _connect(self) -> socket.socket:
        limit_s = min(self.timeout_ms, CONNECT_TIMEOUT_MS) / 1000
        try:
            connected = socket.create_connection((self.host, self.port), timeout=limit_s)
        except OSError as error:
            passing = not isinstance(error, socket.gaierror) or error.errno == socket.EAI_AGAIN
            reason = f"no broker answers at {self.address}: {error.strerror or error}"
            raise ConnectionLost(reason, passing) from error
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connected

    def _begin(self) -> None:
        try:
            self._negotiate()
        except ProtocolError as error:
            self.close()
            raise ProtocolError(f"{self.address} does not speak Kafka's protocol ({error})") from error
        except MpbrokerError:
            self.close()
            raise

    def _negotiate(self) -> None:
        self.send_only(ApiVersionsRequest(), 0)
        response = self.answer_to(Asked(ApiVersionsRequest, 0), ApiVersionsResponse, self.timeout_ms)
        if response.error_code != ErrorCode.NONE:
            raise KafkaError(response.error_code, "version negotiation failed")
        self._versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}

    def version_for(self, request_class: type[Struct], highest: int) -> int:
        """The version a request of this class is sent in; KafkaError when there is none in common."""
        schema = schema_of(request_class)
        low, high = self._versions.get(schema.key, (0, -1))
        version = min(high, highest, schema.versions[1])
        if version < max(low, schema.versions[0]):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{self.address} does not serve {request_class.__name__}")
        return version

    def call(
        self, message: Struct, response_class: type[Answer], highest: int, timeout_ms: int | None = None
    ) -> Answer:
        """Sends one request and returns its decoded response."""
        return self.answer_to(self.ask(message, highest), response_class, timeout_ms or self.timeout_ms)

    def ask(self, message: Struct, highest: int) -> Asked:
        """Sends one request; `answer_to` reads its response, and nothing else is asked before that."""
        version = self.version_for(type(message), highest)
        self.send_only(message, version)
        return Asked(type(message), version)

    def answer_to(self, asked: Asked, response_class: type[Answer], timeout_ms: int) -> Answer:
        """Waits for the answer to the request sent last."""
        payload = self._receive_frame(timeout_ms, asked.request_class.__name__)
        correlation_id, offset = decode_response_header(schema_of(asked.request_class).key, asked.version, payload)
        if correlation_id != self._correlation_id:
            raise ProtocolError(f"answer {correlation_id} came for request {self._correlation_id}")
        answer: Answer = decode(response_class, asked.version, payload, offset)
        return answer

    def fileno(self) -> int:
        """The socket: readable when an answer comes."""
        return self._socket.fileno()

    def send_only(self, message: Struct, version: int) -> None:
        """Sends without waiting for an answer (Produce with acks=0 has none)."""
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        frame = encode_request_frame(message, version, self._correlation_id, self.client_id)
        try:
            self._socket.settimeout(self.timeout_ms / 1000)
            self._socket.sendall(frame)
        except OSError as error:
            raise ConnectionLost(
                f"{self.address} did not take {type(message).__name__}: {error.strerror or error}"
            ) from error

    def _receive_frame(self, timeout_ms: int, asked: str) -> bytearray:
        self._socket.settimeout(timeout_ms / 1000)
        (length,) = struct.unpack(">i", self._receive_exactly(4, asked))
        if not 0 <= length <= RESPONSE_BYTES_MAX:
            raise ProtocolError(f"it announces an answer of {length} bytes")
        return self._receive_exactly(length, asked)

    def _receive_exactly(self, length: int, asked: str) -> bytearray:
        buffer = bytearray(length)
        view, filled = memoryview(buffer), 0
        while filled < length:
            try:
                count = self._socket.recv_into(view[filled:])
            except OSError as error:
                raise ConnectionLost(f"{self.address} did not answer {asked}: {error.strerror or error}") from error
            if count == 0:
                raise ConnectionLost(f"{self.address} closed the connection instead of answering {asked}")
            filled += count
        return buffer

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> NetworkClient:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()
