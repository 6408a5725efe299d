"""Metadata 0 to 8."""

from __future__ import annotations

import struct
import time

from mpbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from mpbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.conformance.corpus.case import PATIENCE_S, Exchange, case

VERSIONS = range(0, 9)
WITH_FLAG = range(4, 9)


def about(*names: str, create: bool = False, **fields: bool) -> MetadataRequest:
    """A request for some topics."""
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names],
                           allow_auto_topic_creation=create, **fields)


@case("metadata: topics that are there", VERSIONS)
def there(x: Exchange, version: int) -> None:
    one, two = x.topic(partitions=3), x.topic("u")
    for names in ((one,), (two, one), (one, one), (one, two, one)):
        x.ask(about(*names), version)


@case("metadata: illegal names", VERSIONS)
def illegal(x: Exchange, version: int) -> None:
    topic = x.topic()
    for name in ("", ".", "..", "bad name", "x" * 250, "ü", "a/b", "a\nb", "\0", "a,b"):
        x.ask(about(name, create=True), version)
    x.ask(about("bad name", topic, "bad name"), version)


@case("metadata: not there, and not to be made", WITH_FLAG)
def not_made(x: Exchange, version: int) -> None:
    topic = x.topic()
    x.ask(about(x.name("nowhere")), version)
    x.ask(about(x.name("nowhere"), topic, x.name("nowhere"), "bad name"), version)


@case("metadata: made because somebody asks", VERSIONS)
def made(x: Exchange, version: int) -> None:
    name = x.name("new")
    x.ask(about(name, create=True), version)
    deadline = time.monotonic() + PATIENCE_S
    while x.quietly(about(name), version).topics[0].error_code and time.monotonic() < deadline:
        time.sleep(0.01)
    x.settle()
    x.ask(about(name), version)
    x.ask(about(name, x.name("another"), create=True), version)


@case("metadata: made under a colliding name", (4, 8))
def colliding(x: Exchange, version: int) -> None:
    x.topic("a.b")
    x.ask(about(x.name("a_b"), create=True), version)
    x.settle()
    x.ask(about(x.name("a_b")), version)


@case("metadata: none, all", VERSIONS)
def none_or_all(x: Exchange, version: int) -> None:
    topic = x.topic()
    answer = x.quietly(MetadataRequest(topics=[]), version)
    x.outcomes.append(f"[] finds it: {topic in [found.name for found in answer.topics]}")
    if version:
        answer = x.quietly(MetadataRequest(topics=None), version)
        x.outcomes.append(f"null finds it: {topic in [found.name for found in answer.topics]}")
        x.ask(MetadataRequest(topics=[]), version)


@case("metadata: authorized operations", (8,))
def operations(x: Exchange, version: int) -> None:
    topic = x.topic()
    for cluster in (False, True):
        for topics in (False, True):
            x.ask(about(topic, x.name("nowhere"), "bad name", include_cluster_authorized_operations=cluster,
                        include_topic_authorized_operations=topics), version)


@case("metadata: a deleted topic", VERSIONS)
def deleted(x: Exchange, version: int) -> None:
    topic = x.topic()
    x.quietly(DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000), 3)
    x.settle()
    if version >= 4:
        x.ask(about(topic), version)
    x.topic(partitions=2)
    x.ask(about(topic), version)


@case("metadata: malformed", VERSIONS)
def malformed(x: Exchange, version: int) -> None:
    flags = b"" if version < 4 else b"\0" if version < 8 else b"\0\0\0"
    for body in (struct.pack(">i", 1 << 30) + flags, struct.pack(">ih", 1, -1) + flags,
                 struct.pack(">ih", 1, -2) + flags, struct.pack(">ih", 1, 2) + b"\xc3(" + flags, b""):
        x.ask_body(3, version, body)
    if version >= 4:
        x.ask_body(3, version, struct.pack(">i", 0) + bytes((2,)) * len(flags))
    if version == 0:
        x.ask_body(3, version, struct.pack(">i", -1))


@case("metadata: a name that grows when it is read", VERSIONS)
def growing(x: Exchange, version: int) -> None:
    flags = b"" if version < 4 else b"\0" if version < 8 else b"\0\0\0"
    x.ask_body(3, version, struct.pack(">ih", 1, 10_922) + b"\xff" * 10_922 + flags)  # three bytes come back for each
