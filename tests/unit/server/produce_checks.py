"""The checks of a Produce request as test data: the rows of docs/produce-checks.md in their order, with cases for each.

Wherever that can be, a case also fails checks that come later, so that the order is tested too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import NamedTuple

from mpbroker.errors import ErrorCode
from mpbroker.protocol.headers import encode_request_frame
from mpbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from mpbroker.record import compression
from tests.conformance.corpus.records import TIME_MS, changed, good, numbered, of_records, record
from tests.harness.in_process_broker import InProcessBroker

MAX_MESSAGE_BYTES, SEGMENT_BYTES = 300, 1000
REQUEST, PARTITION, CONNECTION = "request", "partition", "connection"
Change = Callable[[InProcessBroker], Callable[[], None]]


def id_of(name: str) -> bytes:
    """The id of a topic of these names, the same in every broker."""
    return hashlib.md5(name.encode()).digest()


def make_topics(broker: InProcessBroker) -> None:
    """What the cases name; each is known to the native path afterwards, if its settings allow that."""
    plain: dict[str, dict[str, str]] = {
        "t": {},
        "stamped": {"message_timestamp_type": "LogAppendTime"},
        "compacted": {"cleanup_policy": "compact"},
        "small": {"max_message_bytes": str(MAX_MESSAGE_BYTES)},
        "segment": {"segment_bytes": str(SEGMENT_BYTES)},
        "bounded": {"message_timestamp_after_max_ms": "3600000"},
        "gone": {},
        "offline": {},
        "tx": {},
    }
    for name, settings in plain.items():
        broker.create_topic(name, partitions=3 if name == "t" else 1, topic_id=id_of(name), **settings)
    broker.create_topic("internal", internal=True, topic_id=id_of("internal"))
    for name in (*plain, "internal"):
        broker.call(ask((name, [(0, good())])), 7, client_id="__admin_client")
    broker.call(ask(("t", [(2, numbered(0, 2, epoch=1))])), 7)
    broker.core.transactions_ready = 1
    context = broker.handler.context
    assert context.log_manager.log.verify(context.metadata.topic("tx").partitions[0], 7, 0) == 0
    broker.call(ask(("tx", [(0, OPEN_TX)]), tx="tx"), 7)
    for name, flags in (("gone", 1 | 4), ("offline", 1)):  # deleted, but still in the metadata; its directory broken
        broker.shared.set_flags(broker.handler.context.metadata.topic(name).partitions[0], flags)


def ask(*topics: tuple[str, list[tuple[int, bytes | None]]], acks: int = 1, tx: str | None = None) -> ProduceRequest:
    """A request of (topic, [(partition, records)]) pairs."""
    data = [
        TopicProduceData(
            name=name,
            topic_id=id_of(name),
            partition_data=[PartitionProduceData(index=i, records=r) for i, r in partitions],
        )
        for name, partitions in topics
    ]
    return ProduceRequest(acks=acks, timeout_ms=1000, transactional_id=tx, topic_data=data)


class Case(NamedTuple):
    """A frame without its length, and the error of each partition in the order of the answer; none: no answer."""

    frame: bytes
    codes: tuple[int, ...]
    change: Change | None = None
    request: ProduceRequest | None = None

    @property
    def version(self) -> int:
        return int.from_bytes(self.frame[2:4], "big")

    def at(self, version: int) -> Case:
        """The same request in another version; for those that are not about one."""
        assert self.request is not None
        return self._replace(frame=encode_request_frame(self.request, version, 1, "client")[4:])


def case(
    request: ProduceRequest,
    *codes: int,
    version: int = 7,
    sent_as: int | None = None,
    cut: int | None = None,
    change: Change | None = None,
) -> Case:
    """`sent_as` overwrites the version; `cut` leaves out what follows that byte."""
    frame = encode_request_frame(request, version, 1, "client")[4:]
    if sent_as is not None:
        frame = frame[:2] + sent_as.to_bytes(2, "big") + frame[4:]
    ordinary = version == 7 and sent_as is None and cut is None
    return Case(frame[:cut], codes, change, request if ordinary else None)


class Check(NamedTuple):
    """One row of the page. `code` None: the connection is closed; `log_start`: told with the error; `native`: who."""

    name: str
    code: int | None
    whom: str
    log_start: bool
    native: bool
    cases: tuple[Case, ...]


def one(records: bytes | None, code: int, topic: str = "t", **settings: object) -> Case:
    """A request for partition 0 of a topic."""
    return case(ask((topic, [(0, records)])), code, **settings)


def no_room_for_cells(broker: InProcessBroker) -> Callable[[], None]:
    """Takes all memory for answers, and returns what gives it back."""
    port, tokens = broker.handler.port, []
    while (room := port.allocate(16384)) is not None:
        tokens.append(room[1])
    return lambda: [port.release(token) for token in tokens] and None


E = ErrorCode
GOOD, DAMAGED, LARGE = good(), good()[:-1] + b"!", good(b"x" * 2000)
MARKER = good(control=True, producer_id=5, producer_epoch=0)
TX = good(transactional=True, producer_id=5, producer_epoch=0, base_sequence=0)
OTHER_TX = good(transactional=True, producer_id=6, producer_epoch=0, base_sequence=0)
NEWER_TX = good(transactional=True, producer_id=5, producer_epoch=1, base_sequence=0)
OPEN_TX = good(transactional=True, producer_id=7, producer_epoch=0, base_sequence=0)
UNREADABLE = changed(GOOD, length=3)
ODD_CODEC = changed(GOOD, attributes=5)
ZSTD = good(b"a" * 99, codec=compression.ZSTD)

CHECKS = (
    Check(
        "versions 3 to 13 are served",
        None,
        CONNECTION,
        False,
        False,
        (case(ask(("t", [(0, GOOD)])), version=3, sent_as=2), case(ask(("t", [(0, GOOD)])), version=3, sent_as=0)),
    ),
    Check(
        "the frame can be read to its end",
        None,
        CONNECTION,
        False,
        False,
        tuple(case(ask(("t", [(0, GOOD)])), cut=cut) for cut in (12, 20, 40, -1)),
    ),
    Check(
        "each partition's first batch can be found",
        E.CORRUPT_MESSAGE,
        REQUEST,
        False,
        False,
        (
            case(ask(("t", [(0, TX), (9, UNREADABLE)])), 2, 2),
            case(ask(("t", [(0, changed(GOOD, magic=7))]), acks=9), 2),
        ),
    ),
    Check(
        "its length is one that can be",
        E.UNKNOWN_SERVER_ERROR,
        REQUEST,
        False,
        False,
        (one(changed(GOOD, length=2**31 - 1), -1),),
    ),
    Check(
        "a transactional batch comes with a transactional id",
        E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        REQUEST,
        False,
        False,
        (
            case(ask(("t", [(0, TX), (9, GOOD)])), 53, 53),
            case(ask(("t", [(0, TX), (1, ODD_CODEC)])), 53, 53, version=6),
        ),
    ),
    Check(
        "before version 7, the codec is one of 0 to 4",
        E.UNKNOWN_SERVER_ERROR,
        REQUEST,
        False,
        False,
        (case(ask(("t", [(0, ODD_CODEC), (9, b"")])), -1, -1, version=6),),
    ),
    Check(
        "its transactional batches are of one producer",
        E.INVALID_PRODUCER_ID_MAPPING,
        REQUEST,
        False,
        False,
        (
            case(ask(("t", [(0, TX), (1, OTHER_TX)]), tx="tx"), 49, 49),
            case(ask(("t", [(0, TX), (1, NEWER_TX), (9, GOOD)]), acks=9, tx="tx"), 49, 49, 49),
        ),
    ),
    Check(
        "there is memory for the request's result cells",
        E.REQUEST_TIMED_OUT,
        REQUEST,
        False,
        False,
        (
            case(ask(("t", [(0, GOOD), (1, DAMAGED)])), 7, 7, change=no_room_for_cells),
            case(ask(("t", [(0, GOOD), (9, GOOD)])), 7, 7, change=no_room_for_cells),
        ),
    ),
    Check(
        "topic and partition are known",
        E.UNKNOWN_TOPIC_OR_PARTITION,
        PARTITION,
        False,
        False,
        (
            one(b"", 3, "nowhere"),
            case(ask(("t", [(0, GOOD), (3, DAMAGED), (-1, GOOD)]), acks=9), 21, 3, 3),
            case(ask(("t", [(0, GOOD)]), ("nowhere", [(0, GOOD)])), 0, 3),
        ),
    ),
    Check(
        "there is exactly one batch, of format 2",
        E.INVALID_RECORD,
        PARTITION,
        False,
        False,
        (
            one(b"", 87),
            one(None, 87),
            one(GOOD + GOOD, 87),
            one(changed(GOOD, magic=1), 87),
            case(ask(("t", [(0, GOOD), (1, GOOD[:60])]), acks=9), 21, 87),
        ),
    ),
    Check(
        "before version 7, the codec is not zstd",
        E.UNSUPPORTED_COMPRESSION_TYPE,
        PARTITION,
        False,
        False,
        (one(ZSTD, 76, version=6), one(ZSTD + GOOD, 76, version=3)),
    ),
    Check(
        "acks is 0, 1 or -1",
        E.INVALID_REQUIRED_ACKS,
        PARTITION,
        False,
        False,
        (case(ask(("t", [(0, GOOD)]), acks=2), 21), case(ask(("internal", [(0, DAMAGED)]), acks=-2), 21)),
    ),
    Check(
        "the topic is not internal, or the client is the admin client",
        E.INVALID_TOPIC_EXCEPTION,
        PARTITION,
        False,
        False,
        (one(DAMAGED, 17, "internal"), case(ask(("internal", [(0, TX)]), tx="tx"), 17)),
    ),
    Check(
        "the partition is not being deleted",
        E.UNKNOWN_TOPIC_OR_PARTITION,
        PARTITION,
        False,
        True,
        (one(GOOD, 3, "gone"), one(DAMAGED, 3, "gone")),
    ),
    Check(
        "its log directory is online",
        E.KAFKA_STORAGE_ERROR,
        PARTITION,
        False,
        True,
        (one(GOOD, 56, "offline"), one(DAMAGED, 56, "offline")),
    ),
    Check(
        "the base offset is 0",
        E.INVALID_RECORD,
        PARTITION,
        True,
        True,
        (one(changed(GOOD, base_offset=7), 87), one(changed(LARGE, base_offset=7), 87, "small")),
    ),
    Check(
        "the batch is not larger than max.message.bytes",
        E.MESSAGE_TOO_LARGE,
        PARTITION,
        False,
        True,
        (one(LARGE, 10, "small"), one(LARGE[:-1] + b"!", 10, "small")),
    ),
    Check(
        "the checksum is right",
        E.CORRUPT_MESSAGE,
        PARTITION,
        False,
        True,
        (
            one(DAMAGED, 2),
            one(changed(GOOD, checksum=1, count=5), 2),
            case(ask(("t", [(0, good(b"a", b"b", b"c")[:-1] + b"!"), (1, good(b"a", b"b"))])), 2, 0),
            case(ask(("t", [(0, GOOD), (1, DAMAGED), (2, DAMAGED)])), 0, 2, 2),
        ),
    ),
    Check("the codec is one of 0 to 4", E.UNKNOWN_SERVER_ERROR, PARTITION, True, True, (one(ODD_CODEC, -1),)),
    Check(
        "last offset delta and number of records agree",
        E.INVALID_RECORD,
        PARTITION,
        True,
        True,
        (
            one(changed(GOOD, count=2), 87),
            one(changed(GOOD, count=0, last_delta=-1), 87),
            one(changed(MARKER, last_delta=3), 87),
        ),
    ),
    Check("the batch is no control batch", E.INVALID_RECORD, PARTITION, True, True, (one(MARKER, 87),)),
    Check(
        "a producer id comes with a sequence number",
        E.INVALID_RECORD,
        PARTITION,
        True,
        True,
        (one(changed(GOOD, producer=5, epoch=0, sequence=-1), 87),),
    ),
    Check(
        "compressed records can be decompressed",
        E.UNKNOWN_SERVER_ERROR,
        PARTITION,
        True,
        True,
        (one(of_records(b"rubbish", 1, attributes=compression.GZIP), -1),),
    ),
    Check(
        "every record can be read",
        E.INVALID_RECORD,
        PARTITION,
        True,
        True,
        (
            one(of_records(record()[:-1], 1), 87),
            one(of_records(record() + b"\0", 1), 87),
            one(of_records(b"\0" + record(key=None), 1), 87, "compacted"),
        ),
    ),
    Check(
        "in a compacted topic, every record has a key",
        E.INVALID_RECORD,
        PARTITION,
        True,
        True,
        (one(good(key=None), 87, "compacted"), one(good(b"a" * 99, key=None, codec=compression.GZIP), 87, "compacted")),
    ),
    Check(
        "timestamps are within the topic's bounds",
        E.INVALID_TIMESTAMP,
        PARTITION,
        True,
        True,
        (one(good(at_ms=TIME_MS + 10**9), 32, "bounded"), one(changed(GOOD, attributes=8), 32, "stamped")),
    ),
    Check(
        "the batch is not larger than segment.bytes",
        E.RECORD_LIST_TOO_LARGE,
        PARTITION,
        False,
        True,
        (one(good(b"x" * 1200), 18, "segment"),),
    ),
    Check(
        "its transaction is one that the partition knows of",
        E.INVALID_TXN_STATE,
        PARTITION,
        False,
        False,
        (
            case(ask(("t", [(0, TX)]), tx="tx"), 48),
            case(ask(("t", [(2, changed(numbered(7, epoch=1), attributes=16))]), tx="tx"), 48),
        ),
    ),
    Check(
        "the producer's epoch is not an old one",
        E.INVALID_PRODUCER_EPOCH,
        PARTITION,
        True,
        True,
        (
            case(ask(("t", [(2, numbered(7, epoch=0))])), 47),
            case(ask(("t", [(2, changed(numbered(7, epoch=0), attributes=16))]), tx="tx"), 47),
        ),
    ),
    Check(
        "sequence numbers follow the producer's last batch",
        E.OUT_OF_ORDER_SEQUENCE_NUMBER,
        PARTITION,
        True,
        True,
        (case(ask(("t", [(2, numbered(7, epoch=1))])), 45), case(ask(("t", [(2, numbered(1, epoch=2))])), 45)),
    ),
    Check(
        "a producer in a transaction writes no plain batches",
        E.INVALID_TXN_STATE,
        PARTITION,
        True,
        True,
        (case(ask(("tx", [(0, good(b"b", producer_id=7, producer_epoch=0, base_sequence=1))])), 48),),
    ),
)

_OF_EVERY_VERSION = tuple(
    case(request, *codes, version=version)
    for version in range(3, 8)
    for request, codes in (
        (ask(("t", [(0, good(b"a", b"b"))])), (0,)),
        (ask(("stamped", [(0, good(b"a", b"b"))]), acks=-1), (0,)),
        (ask(("t", [(0, GOOD), (2, good(b"c", b"d", b"e")), (1, GOOD)]), ("small", [(0, GOOD)])), (0, 0, 0, 0)),
        (ask(("t", [(2, numbered(0, 2, epoch=1))])), (0,)),
        (ask(("t", [(0, good(b"a", b"b"))]), acks=0), ()),
        (ask(("t", [(0, GOOD), (1, DAMAGED)]), acks=0), ()),
        (ask(("t", [(0, good(b"a" * 200, codec=1)), (1, good(codec=2)), (2, good(b"c" * 99, codec=3))])), (0, 0, 0)),
        (ask(("stamped", [(0, good(b"a", b"b", codec=3, at_ms=5))])), (0,)),
        (ask(("compacted", [(0, good(b"a" * 200, b"b", codec=1))]), acks=-1), (0,)),
    )
)
ACCEPTED = (*_OF_EVERY_VERSION, case(ask(("t", [(0, good(b"a" * 200, codec=4)), (1, good(codec=4, at_ms=-1))])), 0, 0))
