"""DescribeConfigs 0 to 4."""

from __future__ import annotations

import struct

from mpbroker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.conformance.corpus.case import Exchange, case

VERSIONS = range(0, 5)
TOPIC, BROKER = 2, 4
SOME_OF_A_BROKER = ["queued.max.requests", "no.such", "log.segment.bytes", "background.threads", "log.retention.ms",
                    "message.max.bytes"]


def describing(*resources: tuple[int, str, list[str] | None], synonyms: bool = False) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(include_synonyms=synonyms, resources=[
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
        for kind, name, keys in resources])


@case("configs: of a topic", VERSIONS)
def of_a_topic(x: Exchange, version: int) -> None:
    plain, special = x.topic(), x.topic("s", cleanup_policy="compact", segment_bytes="5000", flush_ms="10")
    for name in (plain, special):
        for keys in (None, [], ["retention.ms"], ["cleanup.policy", "segment.bytes", "no.such"], ["retention.ms"] * 2, [""]):
            x.ask(describing((TOPIC, name, keys)), version)


@case("configs: with synonyms", range(1, 5))
def with_synonyms(x: Exchange, version: int) -> None:
    topic = x.topic("s", cleanup_policy="compact", segment_bytes="5000", flush_ms="10")
    x.ask(describing((TOPIC, topic, None), synonyms=True), version)


@case("configs: what is not there", VERSIONS)
def not_there(x: Exchange, version: int) -> None:
    topic = x.topic()
    for name in (x.name("nowhere"), "", "bad name", "x" * 300, "."):
        x.ask(describing((TOPIC, name, None)), version)
    for name in ("1", "-1", "x", " 0", "00", "+0", "2147483648", "0 "):
        x.ask(describing((BROKER, name, ["node.id"])), version)
    for kind in (0, 1, 3, 5, 8, 16, 64, -1, 127):  # not 32: groups have settings here as in Kafka 4
        for name in (topic, "", "0") if kind != 8 else (topic, ""):  # Kafka lists its loggers
            x.ask(describing((kind, name, None), (TOPIC, topic, [])), version)
    x.ask(describing((TOPIC, topic, []), (TOPIC, x.name("nowhere"), None), (BROKER, "x", None), (TOPIC, topic, [])), version)
    x.ask(describing(), version)


@case("configs: of the broker", VERSIONS)
def of_the_broker(x: Exchange, version: int) -> None:
    for keys in (["no.such"], ["queued.max.requests"], ["queued.max.requests", "num.partitions"]):
        for name in ("0", ""):
            x.ask(describing((BROKER, name, keys)), version)
    x.ask(describing((BROKER, "0", SOME_OF_A_BROKER), synonyms=version > 0), version)


@case("configs: malformed", range(0, 4))
def malformed(x: Exchange, version: int) -> None:
    tail = b"\0" * (2 if version >= 3 else 1 if version else 0)
    for body in (struct.pack(">i", -1) + tail, struct.pack(">ibh", 1, 2, -1) + struct.pack(">i", -1) + tail,
                 struct.pack(">ibh", 1, 2, 1) + b"a" + struct.pack(">i", -2) + tail,
                 struct.pack(">ibh", 1, 2, 1) + b"a" + struct.pack(">ih", 1, -1) + tail, b""):
        x.ask_body(32, version, body)


@case("configs: documentation", (3, 4))
def documentation(x: Exchange, version: int) -> None:
    topic = x.topic()
    request = describing((TOPIC, topic, None), (BROKER, "0", SOME_OF_A_BROKER), synonyms=True)
    request.include_documentation = True
    x.ask(request, version)
