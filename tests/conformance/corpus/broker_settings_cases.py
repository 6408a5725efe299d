"""AlterConfigs 0 to 2 and IncrementalAlterConfigs 0 and 1 of a broker and of all brokers (KIP-226).

Every case takes back what it changed.
"""

from __future__ import annotations

from tests.conformance.corpus.alter_configs_cases import (
    APPEND,
    CHANGING,
    DELETE,
    REPLACING,
    SET,
    SUBTRACT,
    changing,
    replacing,
)
from tests.conformance.corpus.case import Exchange, case
from tests.conformance.corpus.configs_cases import BROKER, TOPIC, describing

ONE, ALL = "0", ""
SHOWN = ["log.retention.ms", "log.cleanup.policy", "max.connections", "message.max.bytes", "no.such"]
FIXED = ("num.partitions", "node.id", "broker.id", "broker.rack", "log.roll.hours", "log.retention.minutes",
         "connections.max.idle.ms", "control.plane.listener.name", "listeners")
WRONG = (("log.retention.ms", "x"), ("log.retention.ms", "0"), ("log.retention.ms", ""), ("log.segment.bytes", "13"),
         ("log.cleanup.policy", "keep"), ("compression.type", "LZ4"), ("unclean.leader.election.enable", "yes"),
         ("log.cleaner.min.cleanable.ratio", "2"), ("message.max.bytes", "-1"), ("max.connections", "-1"),
         ("max.connections.per.ip", "0"), ("max.connections.per.ip.overrides", "foo"), ("num.io.threads", "0"),
         ("num.io.threads", "1000"), ("num.network.threads", "1000"), ("background.threads", "100"),
         ("num.replica.fetchers", "9"), ("log.cleaner.threads", "5"), ("log.cleaner.threads", "0"),
         ("log.index.size.max.bytes", "3"), ("compression.gzip.level", "0"))


def _shown(x: Exchange, *names: str) -> None:
    x.settle()
    for name in names:
        x.ask(describing((BROKER, name, SHOWN), synonyms=True), 2)


def _take_back(x: Exchange) -> None:
    x.ask(replacing((BROKER, ONE, []), (BROKER, ALL, [])), 1)
    _shown(x, ONE, ALL)


@case("broker settings: two layers", CHANGING)
def two_layers(x: Exchange, version: int) -> None:
    topic = x.topic()
    for name, changes in ((ONE, [("log.retention.ms", SET, "5000")]), (ALL, [("log.retention.ms", SET, "7000")]),
                          (ONE, [("log.retention.ms", DELETE, None), ("message.max.bytes", SET, " +2000 ")]),
                          (ALL, [("no.such", SET, "3"), ("max.connections", SET, "1000")]), (ONE, [("no.such", SET, "4")]), (ONE, []),
                          (ALL, [("log.retention.ms", DELETE, "1"), ("max.connections", DELETE, None)])):
        x.ask(changing((BROKER, name, changes)), version)
        _shown(x, ONE, ALL)
        x.ask(describing((TOPIC, topic, ["max.message.bytes", "cleanup.policy"]), synonyms=True), 2)
    _take_back(x)


@case("broker settings: lists", CHANGING)
def lists(x: Exchange, version: int) -> None:
    policy = "log.cleanup.policy"
    for name in (ONE, ALL):
        for key, operation, value in ((policy, APPEND, "compact"), (policy, APPEND, "compact"), (policy, SUBTRACT, "delete"),
                                      (policy, APPEND, "keep"), (policy, DELETE, None), ("log.retention.ms", APPEND, "1"),
                                      ("log.retention.ms", SUBTRACT, "1"), ("no.such", APPEND, "1"), ("listeners", APPEND, "X://:1"),
                                      ("log.retention.ms", 7, "1"), (policy, APPEND, None)):
            x.ask(changing((BROKER, name, [(key, operation, value)])), version)
            _shown(x, name)
    _take_back(x)


@case("broker settings: refused", CHANGING)
def refused(x: Exchange, version: int) -> None:
    for name in (ONE, ALL):
        for key in FIXED:
            x.ask(changing((BROKER, name, [(key, SET, "1")])), version)
        for key, value in WRONG:
            x.ask(changing((BROKER, name, [(key, SET, value)])), version)
        for changes in ([("num.partitions", SET, "3"), ("no.such", SET, "9")], [("num.partitions", DELETE, None)],
                        [("log.retention.ms", SET, None)], [("log.retention.ms", SET, "1"), ("log.retention.ms", SET, "1")],
                        [("max.connections", SET, "5"), ("log.retention.ms", SET, "x")]):
            x.ask(changing((BROKER, name, changes)), version)
        x.ask(changing((BROKER, name, [("log.retention.ms", SET, "77")]), only=True), version)
        x.ask(changing((BROKER, name, [("log.retention.ms", SET, "x")]), only=True), version)
    for key in ("listeners", "advertised.listeners", "listener.security.protocol.map"):
        x.ask(changing((BROKER, ALL, [(key, SET, "PLAINTEXT://127.0.0.1:0")])), version)
    for name in ("1", "x", " 0", "-1", "2147483648", "0 "):
        x.ask(changing((BROKER, name, [("log.retention.ms", SET, "77")])), version)
    _shown(x, ONE, ALL)


@case("broker settings: of a listener", CHANGING)
def of_a_listener(x: Exchange, version: int) -> None:
    own = "listener.name.plaintext.max.connections"
    for name in (ONE, ALL):
        for key, value in ((own, "0"), (own, "100"), ("listener.name.nosuch.max.connections", "100"),
                           ("listener.name.plaintext.max.connection.creation.rate", "0")):
            x.ask(changing((BROKER, name, [(key, SET, value)])), version)
        x.settle()
        x.ask(describing((BROKER, name, [own, "max.connections"]), synonyms=True), 2)
    _take_back(x)


@case("broker settings: all at once", REPLACING)
def all_at_once(x: Exchange, version: int) -> None:
    for name in (ONE, ALL):
        for settings in ([("log.retention.ms", "33"), ("message.max.bytes", "2000")], [("log.retention.ms", "34")],
                         [("log.retention.ms", "x")], [("num.partitions", "2")], [("no.such", "2")], [("log.retention.ms", None)],
                         [("log.retention.ms", "1"), ("log.retention.ms", "1")]):
            x.ask(replacing((BROKER, name, settings)), version)
            _shown(x, name)
        x.ask(replacing((BROKER, name, [("log.retention.ms", "9")]), only=True), version)
    _take_back(x)
