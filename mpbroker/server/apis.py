"""The table of served APIs. Runs in request handlers; the table is fixed at import.

A handler module declares one `Api` row: its key, the versions it serves, its messages and two functions. What
ApiVersions advertises, and what processors let through, is computed from these rows; those of seldom used APIs are read
when one is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from mpbroker.channel.handler_port import Request
from mpbroker.protocol.codec import decode
from mpbroker.protocol.headers import decode_request_header
from mpbroker.protocol.types import Struct
from mpbroker.server.server_context import ServerContext


class NoResponse(Enum):
    """What a handler returns when there is no response to send now."""

    PARKED = 1
    NO_ANSWER = 2
    CLOSE = 3
    HANDED_OVER = 4
    MALFORMED = 5


PARKED: Final = NoResponse.PARKED  # a delayed operation holds the request and answers later
NO_ANSWER: Final = NoResponse.NO_ANSWER  # acks=0: nothing is sent, the connection goes on
HANDED_OVER: Final = NoResponse.HANDED_OVER  # the coordinator answers
CLOSE: Final = NoResponse.CLOSE  # the only way to tell an acks=0 producer of an error

MALFORMED: Final = NoResponse.MALFORMED  # as a body that cannot be decoded: Kafka finds it odd while it reads it

#: What became of a request: a response message, or why there is none.
Outcome: TypeAlias = Struct | NoResponse
M = TypeVar("M", bound=Struct)


class Api(msgspec.Struct, Generic[M], frozen=True):
    """One API this broker serves; `M` is the class of its requests.

    `handle(context, request, message)` executes a request. `failed(message, version, code)` builds the response Kafka
    gives when the whole request fails with one code (an exception in a handler is −1). `served_from` is the lowest
    version that is really executed: below it the connection is closed, although the version is advertised (Produce 0
    to 2, which old librdkafka needs to see).
    """

    key: int
    versions: tuple[int, int]
    request: type[M]
    handle: Callable[[ServerContext, Request, M], Outcome]
    failed: Callable[[M, int, int], Struct]
    served_from: int = 0


class ApiTable:
    """The registry: key → Api. Registering a key twice is a mistake in the source and ends the start.

    `apis`: those that clients ask for all the time. `seldom`: the versions of others, whose handlers are imported by
    `load(key)` at the first request for them, in the process that has it. `handed_over`: the versions of APIs whose
    requests go to the coordinator, unseen by request handlers. `between_brokers`: those that only brokers of a cluster
    send, on the listeners that are theirs; elsewhere nobody serves them.
    """

    def __init__(
        self,
        apis: tuple[Api[Any], ...],
        handed_over: Mapping[int, tuple[int, int]],
        seldom: Mapping[int, tuple[int, int]] | None = None,
        load: Callable[[int], Api[Any]] | None = None,
        between_brokers: Mapping[int, tuple[int, int]] | None = None,
    ) -> None:
        self.by_key: dict[int, Api[Any]] = {api.key: api for api in apis}
        self.between_brokers = between_brokers or {}
        self.seldom = {**(seldom or {}), **self.between_brokers}
        self.handed_over = handed_over
        self._load = load
        keys = [*(api.key for api in apis), *self.seldom, *handed_over]
        if len(set(keys)) < len(keys):
            raise AssertionError("an API key is registered twice")

    def get(self, key: int) -> Api[Any] | None:
        """The row of an API that request handlers execute; None for any other."""
        api = self.by_key.get(key)
        if api is None and key in self.seldom and self._load is not None:
            api = self.by_key[key] = self._load(key)
        return api

    def versions(self, for_brokers: bool = False) -> dict[int, tuple[int, int]]:
        """Key → (lowest, highest) advertised version, in key order. `for_brokers`: on one of their listeners."""
        loaded = {key: api.versions for key, api in self.by_key.items()}
        served = {**loaded, **self.seldom, **self.handed_over}
        hidden = () if for_brokers else self.between_brokers
        return {key: served[key] for key in sorted(served) if key not in hidden}

    def failure(self, request: Request, code: int, message: Struct | None = None) -> Struct:
        """The response when all of a request fails with one code. `message`: the request's body if it is decoded
        already. ProtocolError: it cannot be read."""
        api = self.get(request.api_key)
        if api is None:
            raise KeyError(request.api_key)
        if message is None:
            header = decode_request_header(request.payload)
            message = decode(api.request, request.api_version, request.payload, header.body_offset)
        return api.failed(message, request.api_version, code)
