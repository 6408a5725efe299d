"""ApiVersions 0 to 4, FindCoordinator 0 to 2 and InitProducerId 0 to 5, as far as no coordinator is needed."""

from __future__ import annotations

import struct

from mpbroker.protocol.messages.api_versions import ApiVersionsRequest
from mpbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from mpbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.conformance.corpus.case import Exchange, case
from tests.conformance.corpus.features_cases import OF_3_9

NAMES = ("", "client", "a.b-c", ".a", "a.", "-a", "a-", "a b", "ü", "a_b", "A", "9", "a" * 1000, "a..b", "a\n")


@case("versions: who asks", (3, 4))
def who_asks(x: Exchange, version: int) -> None:
    for text in NAMES:
        for name, number in ((text, "1"), ("client", text)):
            answer = x.quietly(ApiVersionsRequest(client_software_name=name, client_software_version=number), version)
            x.outcomes.append([answer.error_code, bool(answer.api_keys)])


@case("versions: bodies", range(0, 5))
def bodies(x: Exchange, version: int) -> None:
    bodies = [b"", b"trailing", b"\0", b"\0\0", b"\0\0\0", b"\2a\2b\0", b"\2a\2b", b"\2a\2b\1", b"\2a\2b\1\0\0", b"\1\1\0",
              b"\2a\2b\1\x09\3abc", b"\2a\2b\2\x09\0\x09\0", b"\2a\2b\2\x09\0\x03\0", b"\2a\2b\1\x09\4abc",
              b"\2a\2b\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff\xff", b"\2a\2b\0trailing"]
    for body in bodies:
        header = struct.pack(">hhih", 18, version, 5, -1)
        for tags in (b"\0", b"\1\x05\2ab", b"\1\x05\3a") if version >= 3 else (b"",):
            data = header + tags + body
            outcome = x.outcome(18, version, struct.pack(">i", len(data)) + data)
            x.outcomes.append(outcome if isinstance(outcome, str) else outcome.get("error_code", 0))


@case("coordinator: of what kind", range(1, 3))
def kinds(x: Exchange, version: int) -> None:
    for kind in (2, 3, -1, 127, -128):
        x.ask(FindCoordinatorRequest(key="g", key_type=kind), version)


@case("coordinator: malformed", range(0, 3))
def coordinator_malformed(x: Exchange, version: int) -> None:
    for body in (b"", struct.pack(">h", -1) + b"\0", struct.pack(">h", -2) + b"\0", struct.pack(">h", 9) + b"\0"):
        x.ask_body(10, version, body)


@case("producer ids: without a transaction", range(0, 6))
def producer_ids(x: Exchange, version: int) -> None:
    while x.quietly(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), 1).error_code:
        x.settle()  # the first one ever asks Kafka's controller for a block of ids
    for timeout_ms in (0, -1, 1000, 2**31 - 1):
        x.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=timeout_ms), version)
    x.ask(InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1000), version)
    if version >= 3:
        for producer_id, epoch in ((5, 0), (5, -1), (-1, 5), (-2, -2), (0, 0)):
            x.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0, producer_id=producer_id,
                                        producer_epoch=epoch), version)
            x.ask(InitProducerIdRequest(transactional_id="", producer_id=producer_id, producer_epoch=epoch), version)
    x.ask_body(22, version, struct.pack(">hi", -2, 0))
    x.ask_body(22, version, b"\0")


@case("versions: features", (3, 4))
def features(x: Exchange, version: int) -> None:
    answer = x.quietly(ApiVersionsRequest(client_software_name="client", client_software_version="1"), version)
    x.outcomes += [[[each.name, each.min_version, each.max_version] for each in answer.supported_features
                    if each.name in OF_3_9],
                   [[each.name, each.min_version_level, each.max_version_level] for each in answer.finalized_features
                    if each.name in OF_3_9],
                   answer.finalized_features_epoch >= 0, answer.zk_migration_ready]
