"""AlterConfigs 0 to 2 and IncrementalAlterConfigs 0 and 1."""

from __future__ import annotations

import struct

from mpbroker.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from mpbroker.protocol.messages.incremental_alter_configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from tests.conformance.corpus.case import Exchange, case
from tests.conformance.corpus.configs_cases import BROKER, TOPIC, describing

REPLACING, CHANGING = range(0, 3), range(0, 2)
SET, DELETE, APPEND, SUBTRACT = range(4)
SHOWN = ["retention.ms", "cleanup.policy", "max.message.bytes", "segment.bytes", "min.compaction.lag.ms"]
BAD_NAMES = ("", "bad name", "x" * 300, ".")
WRONG = (("retention.ms", "x"), ("retention.ms", "-2"), ("retention.ms", ""), ("no.such", "1"), ("", "1"), ("segment.bytes", "13"),
         ("cleanup.policy", "keep"), ("cleanup.policy", "delete,keep"), ("max.message.bytes", "2147483648"),
         ("compression.type", "LZ4"), ("preallocate", "yes"), ("remote.storage.enable", "true"),
         ("min.cleanable.dirty.ratio", "1.5"), ("retention.ms", " 12 "))


def changing(*resources: tuple[int, str, list[tuple[str, int, str | None]]], only: bool = False) -> IncrementalAlterConfigsRequest:
    """(type, name, [(setting, operation, value), …]) of each resource; `only`: just check."""
    return IncrementalAlterConfigsRequest(validate_only=only, resources=[
        IncrementalAlterConfigsResource(resource_type=kind, resource_name=name, configs=[
            IncrementalAlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in configs]) for kind, name, configs in resources])


def replacing(*resources: tuple[int, str, list[tuple[str, str | None]]], only: bool = False) -> AlterConfigsRequest:
    """(type, name, [(setting, value), …]) of each resource; `only`: just check."""
    return AlterConfigsRequest(validate_only=only, resources=[
        AlterConfigsResource(resource_type=kind, resource_name=name,
                             configs=[AlterableConfig(name=key, value=value) for key, value in configs])
        for kind, name, configs in resources])


def _shown(x: Exchange, *topics: str) -> None:
    x.settle()
    x.ask(describing(*((TOPIC, topic, SHOWN) for topic in topics), synonyms=True), 2)


@case("alter: one by one", CHANGING)
def one_by_one(x: Exchange, version: int) -> None:
    topic = x.topic()
    for changes in ([("max.message.bytes", SET, "2000")], [("max.message.bytes", SET, "2000")], [("max.message.bytes", DELETE, None)],
                    [("max.message.bytes", DELETE, "5")], [("retention.ms", SET, "5000"), ("segment.bytes", SET, "5000")],
                    [("retention.ms", DELETE, ""), ("segment.bytes", SET, "6000")], [], [("no.such", DELETE, None)],
                    [("segment.bytes", SET, " +7000 ")]):
        x.ask(changing((TOPIC, topic, changes)), version)
        _shown(x, topic)


@case("alter: lists", CHANGING)
def lists(x: Exchange, version: int) -> None:
    topic = x.topic()
    policy = "cleanup.policy"
    for name, operation, value in ((policy, APPEND, "compact"), (policy, APPEND, "compact"), (policy, SUBTRACT, "delete"),
                                   (policy, SUBTRACT, "delete"), (policy, APPEND, "delete,compact,delete"),
                                   (policy, APPEND, "keep"), (policy, SUBTRACT, "keep"), (policy, APPEND, ""),
                                   (policy, SUBTRACT, "delete,compact"), (policy, DELETE, None), (policy, SUBTRACT, "delete"),
                                   (policy, SET, ""), (policy, APPEND, " delete"), (policy, SET, "delete , compact"),
                                   ("retention.ms", APPEND, "1"), ("retention.ms", SUBTRACT, "1"), ("no.such", APPEND, "1"),
                                   (policy, APPEND, None), (policy, SUBTRACT, None)):
        x.ask(changing((TOPIC, topic, [(name, operation, value)])), version)
        _shown(x, topic)


@case("alter: wrong values", CHANGING)
def wrong_values(x: Exchange, version: int) -> None:
    topic = x.topic()
    for name, value in WRONG:
        x.ask(changing((TOPIC, topic, [(name, SET, value)])), version)
    for changes in ([("retention.ms", SET, None)], [("retention.ms", SET, None), ("segment.bytes", SET, None)],
                    [("retention.ms", SET, "1"), ("retention.ms", SET, "1")], [("retention.ms", SET, "1"), ("retention.ms", DELETE, None)],
                    [("retention.ms", SET, "1"), ("segment.bytes", SET, "1")], [("min.compaction.lag.ms", SET, "20"), ("max.compaction.lag.ms", SET, "10")],
                    [("min.compaction.lag.ms", SET, "20")], [("max.compaction.lag.ms", SET, "10")]):
        x.ask(changing((TOPIC, topic, changes)), version)
    _shown(x, topic)


@case("alter: wrong resources", CHANGING)
def wrong_resources(x: Exchange, version: int) -> None:
    topic = x.topic()
    good, bad = [("retention.ms", SET, "5000")], [("no.such", SET, "1")]
    for name in (x.name("nowhere"), *BAD_NAMES):
        for changes in (good, bad, []):
            x.ask(changing((TOPIC, name, changes)), version)
    for kind in (0, 1, 3, 5, 64, -1, 127):
        x.ask(changing((kind, topic, good)), version)
    x.ask(changing((TOPIC, topic, good), (TOPIC, topic, bad), (TOPIC, x.name("nowhere"), good), (3, "a", good)), version)
    x.ask(changing((TOPIC, x.name("nowhere"), good), (TOPIC, topic, [("segment.bytes", SET, "9000")]), (BROKER, "x", [])), version)
    x.ask(changing(), version)
    _shown(x, topic)


@case("alter: only checked", CHANGING)
def only_checked(x: Exchange, version: int) -> None:
    topic = x.topic()
    for name in (topic, x.name("nowhere")):
        for changes in ([("retention.ms", SET, "5000")], [("no.such", SET, "1")], [("cleanup.policy", APPEND, "compact")]):
            x.ask(changing((TOPIC, name, changes), only=True), version)
    _shown(x, topic)


@case("alter: all at once", REPLACING)
def all_at_once(x: Exchange, version: int) -> None:
    topic = x.topic()
    for settings in ([("max.message.bytes", "2000"), ("segment.bytes", "5000")], [("max.message.bytes", "3000")],
                     [("retention.ms", "1"), ("retention.ms", "2")], [("cleanup.policy", "compact"), ("retention.ms", "x")],
                     [("cleanup.policy", None)], [("no.such", "1")], []):
        x.ask(replacing((TOPIC, topic, settings)), version)
        _shown(x, topic)
    for name, value in WRONG:
        x.ask(replacing((TOPIC, topic, [(name, value)]), only=True), version)
    x.ask(replacing((TOPIC, topic, [("retention.ms", "8000")]), only=True), version)
    _shown(x, topic)


@case("alter: all at once, wrong resources", REPLACING)
def all_at_once_wrong_resources(x: Exchange, version: int) -> None:
    """No resource twice: Kafka 3.9.2 never answers such an AlterConfigs."""
    topic = x.topic()
    good, bad = [("retention.ms", "5000")], [("no.such", "1")]
    for name in (x.name("nowhere"), *BAD_NAMES):
        for settings in (good, bad, []):
            x.ask(replacing((TOPIC, name, settings)), version)
    for kind in (0, 1, 3, 5, 64, -1, 127):
        x.ask(replacing((kind, topic, good)), version)
    x.ask(replacing((TOPIC, x.name("nowhere"), good), (TOPIC, topic, [("segment.bytes", "9000")]), (BROKER, "x", [])), version)
    x.ask(replacing(), version)
    _shown(x, topic)


@case("alter: malformed", range(0, 1))
def malformed(x: Exchange, version: int) -> None:
    for key in (33, 44):
        for body in (struct.pack(">ib", -1, 0), struct.pack(">ibh", 1, 2, -1) + struct.pack(">ib", -1, 0),
                     struct.pack(">ibh", 1, 2, 1) + b"a" + struct.pack(">ib", -2, 0), struct.pack(">ib", 1 << 30, 0), b""):
            x.ask_body(key, version, body)
