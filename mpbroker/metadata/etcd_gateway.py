"""Requests to an etcd cluster through its JSON gateway: endpoints in turn, deadlines, what an error means.

Only what etcd_store.py needs; one instance belongs to the process that made it. A request that only reads is sent to
the next endpoint when one does not answer. One that writes is not, once it may have arrived: nobody knows then whether
it was carried out, and the caller has to look (OutcomeUnknown).
"""

import base64
import http.client
import json
import socket
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from mpbroker.metadata.meta_store import Entry, StoreError, StoreTimeout

ATTEMPT_S: Final = 1.0
"""Longest wait for one endpoint: a stopped member keeps its connections open and answers nothing."""
WRITE_S: Final = 3.0
LEAST_S: Final = 0.05  # an attempt of less would tell nothing
PAUSE_S: Final = 0.02
MAX_ANSWER_BYTES: Final = 64 << 20
_NOT_FOUND, _RESOURCE_EXHAUSTED, _OUT_OF_RANGE, _UNKNOWN = 5, 8, 11, 2
_PASSING: Final = frozenset({1, 4, 10, 13, 14})
"""gRPC codes after which another member may answer: cancelled, deadline, aborted, internal, unavailable."""


class OutcomeUnknown(Exception):
    """The request was sent, and no answer says what became of it."""


class EtcdRefused(StoreError):
    """etcd's answer is an error that no repetition cures."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"etcd: {text}")
        self.code = code

    @property
    def not_found(self) -> bool:
        """What it was about (a lease) is not there."""
        return self.code == _NOT_FOUND

    @property
    def out_of_range(self) -> bool:
        """A revision that has been compacted, or is yet to come."""
        return self.code == _OUT_OF_RANGE


class _Passing(Exception):
    """This endpoint cannot answer now."""


class EndPoint(NamedTuple):
    """A member's client address."""

    host: str
    port: int

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class EtcdGateway:
    """`timeout_ms` bounds every request, over all endpoints together."""

    def __init__(self, end_points: Iterable[EndPoint], timeout_ms: int) -> None:
        self.end_points = tuple(end_points)
        self.timeout_ms = timeout_ms
        self._at = 0
        self._connections: dict[EndPoint, http.client.HTTPConnection] = {}

    @property
    def end_point(self) -> EndPoint:
        """The one that is asked first."""
        return self.end_points[self._at]

    def next_end_point(self) -> EndPoint:
        """Go on to the next one."""
        self._at = (self._at + 1) % len(self.end_points)
        return self.end_point

    def read(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request that may be sent twice. StoreTimeout, EtcdRefused."""
        deadline = time.monotonic() + self.timeout_ms / 1000
        problem: Exception | None = None
        while (left_s := deadline - time.monotonic()) > LEAST_S or problem is None:
            try:
                return self._exchange(self.end_point, path, body, max(LEAST_S, min(left_s, ATTEMPT_S)))
            except _Passing as error:
                problem = error
                self.next_end_point()
                time.sleep(PAUSE_S)
        raise StoreTimeout(f"no member of etcd answers in {self.timeout_ms} ms: {problem}")

    def write(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request that must not be carried out twice. OutcomeUnknown, StoreTimeout (it was not
        sent), EtcdRefused."""
        deadline = time.monotonic() + self.timeout_ms / 1000
        problem: Exception | None = None
        while (left_s := deadline - time.monotonic()) > LEAST_S or problem is None:
            end_point = self.end_point
            try:
                self._connect(end_point, max(LEAST_S, min(left_s, ATTEMPT_S)))
            except OSError as error:
                problem = error
                self.next_end_point()
                time.sleep(PAUSE_S)
                continue
            try:
                return self._exchange(end_point, path, body, max(LEAST_S, min(left_s, WRITE_S)))
            except _Passing as error:
                self.next_end_point()
                raise OutcomeUnknown(str(error)) from error
        raise StoreTimeout(f"no member of etcd can be reached in {self.timeout_ms} ms: {problem}")

    def ask(self, end_point: EndPoint, path: str, body: dict[str, Any], timeout_s: float) -> dict[str, Any] | None:
        """What one member answers; None: nothing."""
        try:
            return self._exchange(end_point, path, body, timeout_s)
        except _Passing:
            return None

    def _connect(self, end_point: EndPoint, timeout_s: float) -> http.client.HTTPConnection:
        """A connection that is open as far as anybody can see. OSError."""
        connection = self._connections.get(end_point)
        if connection is not None and connection.sock is not None:
            connection.sock.settimeout(timeout_s)
            if _is_quiet(connection.sock):
                return connection
            self._drop(end_point)  # closed by its end, or out of step
        connection = http.client.HTTPConnection(end_point.host, end_point.port, timeout=timeout_s)
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections[end_point] = connection
        return connection

    def _exchange(self, end_point: EndPoint, path: str, body: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        try:
            connection = self._connect(end_point, timeout_s)
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            content = response.read(MAX_ANSWER_BYTES + 1)
        except (OSError, http.client.HTTPException) as error:
            self._drop(end_point)
            raise _Passing(f"{end_point.address}: {error or type(error).__name__}") from error
        if len(content) > MAX_ANSWER_BYTES:
            self._drop(end_point)
            raise StoreError(f"{end_point.address} answers with more than {MAX_ANSWER_BYTES} bytes")
        return _understood(end_point, response.status, content)

    def _drop(self, end_point: EndPoint) -> None:
        connection = self._connections.pop(end_point, None)
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Close all connections."""
        for end_point in list(self._connections):
            self._drop(end_point)


def _is_quiet(connected: socket.socket) -> bool:
    """Whether nothing has come, not even the end."""
    timeout = connected.gettimeout()
    connected.setblocking(False)
    try:
        connected.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        with suppress(OSError):
            connected.settimeout(timeout)
    return False


def _understood(end_point: EndPoint, status: int, content: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(content.split(b"\n", 1)[0] if status == 200 else content)
        if not isinstance(answer, dict):
            raise ValueError("no object")
    except ValueError as error:
        raise _Passing(f"{end_point.address} does not speak etcd's JSON (HTTP {status}): {error}") from error
    problem = answer if status != 200 else answer.get("error")
    if problem is None:
        return answer
    raise_error(end_point, problem)
    raise AssertionError("an error was raised")


def raise_error(end_point: EndPoint, problem: Any) -> None:
    """What an error object of the gateway means. EtcdRefused; _Passing when another member may do better."""
    if not isinstance(problem, dict):
        problem = {"message": str(problem)}
    code = int(problem.get("code", problem.get("grpc_code", _UNKNOWN)))
    text = str(problem.get("message", problem.get("error", "")))
    if code in _PASSING or "lessor" in text:  # a member that has just ceased to lead reports that as Unknown
        raise _Passing(f"{end_point.address}: {text}")
    if code == _RESOURCE_EXHAUSTED:
        text = f"{text}: it has no space left; compact and defragment it, and disarm its alarm"
    raise EtcdRefused(code, text)


def encode(text: str | bytes) -> str:
    """A key or value as the gateway takes it."""
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode("ascii")


def decode(text: str) -> bytes:
    """A key or value as the gateway gives it."""
    return base64.b64decode(text)


def entry_of(kv: dict[str, Any]) -> Entry:
    """An entry of the gateway's answer, in which zeros are left out and numbers are texts."""
    lease = int(kv.get("lease", 0))
    return Entry(
        decode(kv["key"]).decode(),
        decode(kv.get("value", "")),
        int(kv.get("version", 0)),
        int(kv.get("create_revision", 0)),
        int(kv.get("mod_revision", 0)),
        lease or None,
    )
