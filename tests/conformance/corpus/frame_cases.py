"""Frames rather than requests: headers, lengths, every cut of every request, what follows a request."""

from __future__ import annotations

import struct
from itertools import groupby

from mpbroker.protocol.headers import encode_request_frame
from mpbroker.protocol.messages.api_versions import ApiVersionsRequest
from mpbroker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from mpbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from mpbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.conformance.corpus.case import Exchange, case
from tests.conformance.corpus.configs_cases import TOPIC, describing
from tests.conformance.corpus.fetch_cases import fetching
from tests.conformance.corpus.list_offsets_cases import asking
from tests.conformance.corpus.metadata_cases import MANY, about, shortened
from tests.conformance.corpus.produce_cases import produce
from tests.conformance.corpus.records import good
from tests.conformance.corpus.topic_cases import creating, one
from tests.conformance.corpus.topic_change_cases import growing

VERSIONS = {0: range(3, 12), 1: range(4, 18), 2: range(1, 10), 3: range(0, 13), 10: range(0, 3), 18: range(0, 5),
            19: range(0, 8), 20: range(0, 7), 22: range(0, 6), 32: range(0, 5), 37: range(0, 4)}
NEWER = {0: (12, 13), 2: (10,), 3: (13,)}
#: Times of which a changed byte makes none that a busy machine exceeds: it is below 0, or long. The second's least is 255
#: ms, because what another changed byte turns its first two into has to be 0.
LONG_MS, HALF_LONG_MS = 0x7F7F7F7F, 0x00007FFF
FLEXIBLE = {1: 12, 2: 6, 3: 9, 19: 5, 20: 4, 22: 2, 32: 4, 37: 2}


def _message(x: Exchange, key: int):
    """A request of each API that changes nothing."""
    name = x.name("nowhere")
    return {0: lambda: produce((name, [(0, good())])), 1: lambda: fetching((name, [(0, 0)])),
            2: lambda: asking(name, (0, -1)), 3: lambda: about("bad name"),
            10: lambda: FindCoordinatorRequest(key="g", key_type=9),
            18: lambda: ApiVersionsRequest(client_software_name="a b", client_software_version="1"),
            19: lambda: creating(one("bad name", configs=[("a", "b")], assignments={0: [0]}), timeout_ms=LONG_MS),
            20: lambda: DeleteTopicsRequest(topic_names=[name], topics=[DeleteTopicState(name=name)], timeout_ms=LONG_MS),
            22: lambda: InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1),
            32: lambda: describing((TOPIC, name, ["a"])), 37: lambda: growing(name, 3, [[0]], timeout_ms=HALF_LONG_MS)}[key]()


def _framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def _register_cuts(key: int) -> None:
    @case(f"cuts: key {key}", VERSIONS[key], NEWER.get(key, ()))
    def cuts(x: Exchange, version: int) -> None:
        payload = encode_request_frame(_message(x, key), version, 7, "corpus")[4:]
        outcomes = [x.outcome(key, version, _framed(payload[:end])) for end in range(len(payload))]
        prefix = len(x.prefix) if x.prefix.encode() in payload else 0  # its cuts differ in number only
        for outcome, group in groupby(outcomes):
            x.outcomes.append([outcome, len(list(group)) - prefix])

    @case(f"trailing bytes: key {key}", range(1, 3) if key == 10 else VERSIONS[key], NEWER.get(key, ()))
    def trailing(x: Exchange, version: int) -> None:
        payload = encode_request_frame(_message(x, key), version, 7, "corpus")[4:]
        for rest in (b"\0", b"\xff" * 100, b"x" * 5000):
            outcome = x.outcome(key, version, _framed(payload + rest))
            x.outcomes.append(outcome if key != 18 or isinstance(outcome, str) else outcome.get("error_code", 0))


def _register_changes(key: int) -> None:
    versions = [version for version in VERSIONS[key] if version >= FLEXIBLE[key]]

    @case(f"bytes changed: key {key}", versions, NEWER.get(key, ()))
    def changes(x: Exchange, version: int) -> None:
        """Each byte behind the header in turn: where lengths and tags are, a compact one of 0, -1 or far too much."""
        for number in range(MANY if key == 3 else 0):
            x.topic(f"m{number}")
        while key == 22 and x.quietly(InitProducerIdRequest(transactional_id=None), version).error_code:
            x.settle()  # the first one ever asks Kafka's controller for a block of ids, and is 0
        payload = encode_request_frame(_message(x, key), version, 7, "corpus")[4:]
        outcomes: list = []
        for at in range(8 + 2 + 6 + 1, len(payload)):
            if x.prefix.encode() in payload and payload.index(x.prefix.encode()) <= at < payload.index(x.prefix.encode()) + len(x.prefix):
                continue
            for value in (0, 1, 0xFF):
                data = _framed(payload[:at] + bytes((value,)) + payload[at + 1:])
                outcomes.append(shortened(x.outcome(key, version, data)))
        for outcome, group in groupby(outcomes):
            x.outcomes.append([outcome, len(list(group))])


for _key in VERSIONS:
    _register_cuts(_key)
for _key in FLEXIBLE:
    _register_changes(_key)


@case("frames: lengths", (0,))
def lengths(x: Exchange, version: int) -> None:
    probe = encode_request_frame(about("bad name"), 1, 7, "corpus")
    for length in (0, -1, -5, -2**31, 2**31 - 1, 104_857_601, 1, 7, 8, 9):
        data = struct.pack(">i", length) + b"\0" * max(0, min(length, 16))
        x.outcomes.append([length, x.outcome(3, 1, data + probe)])
    x.outcomes.append(x.outcome(3, 1, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"))


@case("frames: keys and versions", (0,))
def keys_and_versions(x: Exchange, version: int) -> None:
    for key, number in ((500, 0), (-1, 0), (32767, 0), (-32768, 0), (87, 0), (3, -1), (3, 99), (3, 32767), (0, 99), (0, -1),
                        (1, 18), (1, 3000), (2, 99), (4, 0), (5, 0), (6, 0), (7, 0), (10, 99), (19, 99), (20, 99),
                        (22, 99), (32, 99), (37, 99)):
        x.outcomes.append([key, number, x.outcome(3, 1, _framed(struct.pack(">hhih", key, number, 1, -1) + b"\0" * 40))])


@case("frames: client ids and correlation ids", range(0, 13), (13,))
def client_ids(x: Exchange, version: int) -> None:
    body = encode_request_frame(about("bad name"), version, 7, "")[4 + 10:]
    for client_id in (struct.pack(">h", -1), struct.pack(">h", 0), struct.pack(">h", 2) + b"\xff\xfe",
                      struct.pack(">h", 32767) + b"x" * 32767, struct.pack(">h", 3) + "\0ü".encode(), struct.pack(">h", -2),
                      struct.pack(">h", -32768)):
        for correlation_id in (0, -1, 2**31 - 1):
            data = _framed(struct.pack(">hhi", 3, version, correlation_id) + client_id + body)
            x.ask_frame(3, version, data)


