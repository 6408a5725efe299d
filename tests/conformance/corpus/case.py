"""What a case is, and how one is run against a broker.

A case is a function that gets an `Exchange` and sends requests through it; every answer, or the closed connection, is
written down in normal form. Topics carry a prefix of their own in every run, which the normal form takes out again, so
that a case may run any number of times against one broker.
"""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from mpbroker.errors import ProtocolError
from mpbroker.protocol.codec import decode, encoded_size
from mpbroker.protocol.headers import decode_response_header, encode_request_frame
from mpbroker.protocol.messages_by_key import RESPONSES
from mpbroker.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from mpbroker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from mpbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from mpbroker.protocol.schema import schema_of
from mpbroker.protocol.types import ZERO_UUID
from tests.conformance.corpus.normal_form import asked_address, normal
from tests.harness.raw_client import RawConnection, api_versions, frame

CLOSED, NO_ANSWER, SILENCE = "closed", "no answer", "silence"
SILENCE_S = 6.0
CLIENT_ID = "corpus"
FOREVER = {"retention.ms": "-1"}  # the records of the corpus are old, and nobody's retention shall end them
PATIENCE_S = 10.0
BY_ID = {0: 13, 1: 13}  # the versions of Produce and Fetch that name topics by id
_PROBE = 0x7FFFFFF0  # correlation id of the request that shows whether another one was answered


class Case(NamedTuple):
    """`run(exchange, version)` sends the requests; `name` says what is special about them, `kafka` whose answers are on
    record: versions that 3.9 does not know are 4.3's."""

    name: str
    version: int
    run: Callable[[Exchange, int], None]
    kafka: str = "3.9"

    @property
    def title(self) -> str:
        return f"{self.name} v{self.version}"


CASES: list[Case] = []


def case(name: str, versions: Iterable[int], newer: Iterable[int] = ()):
    """Puts a function into the corpus, once per version of the API it is about. `newer`: those that Kafka 3.9 lacks."""
    def register(run: Callable[[Exchange, int], None]) -> Callable[[Exchange, int], None]:
        CASES.extend(Case(name, version, run) for version in versions)
        CASES.extend(Case(name, version, run, "4.3") for version in newer)
        return run
    return register


class Exchange:
    """One case's connection to a broker. A closed connection is opened again for the next request."""

    def __init__(self, host: str, port: int, prefix: str, settle_s: float = 0.0) -> None:
        self._host, self._port, self.prefix, self._settle_s = host, port, prefix, settle_s
        self._connection: RawConnection | None = None
        self._next = 0
        self._silent = False
        self._names: dict[bytes, str] = {}  # of the ids that were asked for
        self.outcomes: list[Any] = []

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def name(self, text: str) -> str:
        """A topic name of this run."""
        return self.prefix + text

    def topic(self, text: str = "t", partitions: int = 1, **configs: str) -> str:
        """A fresh topic, `configs` with _ for dots; answers its name."""
        settings = FOREVER | {key.replace("_", "."): value for key, value in configs.items()}
        topic = CreatableTopic(name=self.name(text), num_partitions=partitions, replication_factor=1,
                               configs=[CreatableTopicConfig(name=key, value=value) for key, value in settings.items()])
        answer = self.quietly(CreateTopicsRequest(topics=[topic], timeout_ms=15_000), 4)
        assert answer is not None and answer.topics[0].error_code == 0, answer
        self._wait_for_leaders(topic.name, partitions)
        return topic.name

    def id_of(self, name: str) -> bytes:
        """The id of a topic of this run, or one made up."""
        topic = MetadataRequestTopic(name=name)
        found = self.quietly(MetadataRequest(topics=[topic], allow_auto_topic_creation=False), 12).topics[0].topic_id
        topic_id = found if any(found) else b"nowhere" + zlib.crc32(name.encode()).to_bytes(9, "big")
        self._names[topic_id] = name
        return topic_id

    def _naming(self, message, version: int):
        """The message with ids in place of names, where the version wants them."""
        if version >= BY_ID.get(schema_of(type(message)).key, version + 1):
            for field in ("topic_data", "topics", "forgotten_topics_data"):
                for topic in getattr(message, field, ()):
                    name = getattr(topic, "name", None) or getattr(topic, "topic", "")
                    topic.topic_id = self.id_of(name) if name else ZERO_UUID
        return message

    def settle(self) -> None:
        """Before a question about what was just changed: Kafka answers a change before every broker knows of it."""
        time.sleep(self._settle_s)

    def _wait_for_leaders(self, name: str, partitions: int) -> None:
        """Kafka answers CreateTopics before a partition can be written to."""
        asked = [ListOffsetsPartition(partition_index=number, timestamp=-1) for number in range(partitions)]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=asked)])
        deadline = time.monotonic() + PATIENCE_S
        while any(found.error_code for found in self.quietly(request, 5).topics[0].partitions):
            assert time.monotonic() < deadline, f"{name} has no leaders"
            time.sleep(0.01)

    def quietly(self, message, version: int):
        """Send and decode without writing anything down."""
        self._next += 1
        key = schema_of(type(message)).key
        payload = self._exchange(encode_request_frame(message, version, self._next, CLIENT_ID))
        return None if payload is None else self._decoded(key, version, payload)

    def ask(self, message, version: int, answered: bool = True):
        """Send a request and write down its answer; `answered=False`: it should get none (acks=0)."""
        message = self._naming(message, version)
        self._next += 1
        data = encode_request_frame(message, version, self._next, CLIENT_ID)
        return self.ask_frame(schema_of(type(message)).key, version, data, answered)

    def ask_body(self, key: int, version: int, body: bytes, answered: bool = True):
        """The same with a body made by hand."""
        self._next += 1
        return self.ask_frame(key, version, frame(key, version, self._next, body, CLIENT_ID.encode()), answered)

    def ask_frame(self, key: int, version: int, data: bytes, answered: bool = True):
        """The same with a whole frame made by hand, its length included; answers the decoded message or None."""
        if not answered:
            self._write_down(self._without_answer(data))
            return None
        payload = self._exchange(data)
        if payload is None:
            self._write_down(self._ending())
            return None
        message = self._decoded(key, version, payload)
        self._write_down(self._normal(message))
        return message

    def outcome(self, key: int, version: int, data: bytes) -> Any:
        """What became of a frame, not written down: for cases that send thousands."""
        payload = self._exchange(data)
        return self._ending() if payload is None else self._normal(self._decoded(key, version, payload))

    def _normal(self, message: Any) -> Any:
        return asked_address(normal(message, self.prefix, self._names), self._host, self._port)

    def _write_down(self, outcome: Any) -> None:
        self.outcomes.append(outcome)

    def _ending(self) -> str:
        silent, self._silent = self._silent, False
        return SILENCE if silent else CLOSED

    def _decoded(self, key: int, version: int, payload: bytes):
        try:
            _, offset = decode_response_header(key, version, payload)
            answer = decode(RESPONSES[key], version, payload, offset)
            rest = len(payload) - offset - encoded_size(answer, version)
            return answer if rest == 0 else f"{rest} bytes behind the answer: {payload.hex()}"
        except ProtocolError as error:
            return f"{error}: {payload.hex()}"

    def _connected(self) -> RawConnection:
        if self._connection is None:
            self._connection = RawConnection(self._port, self._host, timeout_s=SILENCE_S)
        return self._connection

    def _exchange(self, data: bytes) -> bytes | None:
        try:
            self._connected().send(data)
            answer = self._connected().receive()
        except (BrokenPipeError, ConnectionResetError):
            answer = None
        except TimeoutError:
            self._silent = True
            answer = None
        if answer is None:
            self.close()
            return None
        return struct.pack(">i", answer[0]) + answer[1]

    def _without_answer(self, data: bytes) -> str:
        payload = self._exchange(data + api_versions(_PROBE))
        if payload is None:
            return self._ending()
        if payload[:4] == struct.pack(">i", _PROBE):
            return NO_ANSWER
        self.close()
        return "answered"


def run_case(one: Case, host: str, port: int, run: str, settle_s: float = 0.0) -> list[Any]:
    """The outcomes of one case, in order. `run` tells this run's topics from those of others."""
    exchange = Exchange(host, port, f"{run}{CASES.index(one):05d}-", settle_s)
    try:
        one.run(exchange, one.version)
    finally:
        exchange.close()
    return exchange.outcomes
