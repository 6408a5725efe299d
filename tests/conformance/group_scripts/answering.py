"""The other requests, state by state (2.3), and what administrators ask for."""

from __future__ import annotations

from mpbroker.protocol.messages.leave_group import MemberIdentity
from mpbroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic
from tests.conformance.group_scripts.cast import Cast, subscription
from tests.conformance.group_scripts.stage import Stage, script


def all_ask(cast: Cast, topic: str, client: str, member_id: str) -> None:
    """Every request that a member may send, with its own id and generation, then slightly wrong ones."""
    cast.beat(client)
    cast.beat(client, generation_id=99)
    cast.beat(client, member_id="unknown")
    cast.commit(client, {(topic, 0): 7})
    cast.commit(client, {(topic, 0): 7}, generation_id=99)
    cast.commit(client, {(topic, 0): 7}, member_id="unknown")
    cast.commit(client, {(topic, 0): 7}, generation_id=-1)
    cast.commit(client, {(topic, 0): 7}, generation_id=-1, member_id="unknown")
    cast.commit_alone(client, {(topic, 0): 8})
    cast.sync(client, generation_id=99)
    cast.sync(client, member_id="unknown")
    cast.fetch("admin", {topic: [0]})


@script("answers: an unknown group", (3, 5, 9))
def unknown_group(stage: Stage, version: int) -> None:
    cast = Cast(stage, version)
    topic = stage.topic()
    cast.fetch("admin", {topic: [0], stage.prefix + "nowhere": [3]})
    cast.fetch("admin", None)
    cast.beat("a", generation_id=0)
    cast.sync("a", generation_id=0)
    cast.leave("a")
    cast.leave("a", MemberIdentity("x", "y"), MemberIdentity("", "z"), version=5)
    cast.commit("a", {(topic, 0): 7}, generation_id=0, member_id="x")
    cast.delete("admin")
    cast.forget("admin", {topic: [0]})
    cast.describe("admin")
    cast.commit("a", {(topic, 0): 7}, generation_id=-1, member_id="x")
    cast.describe("admin")


@script("answers: an empty group", (3, 9))
def empty_group(stage: Stage, version: int) -> None:
    cast = Cast(stage, version)
    topic = stage.topic()
    cast.stable("a")
    cast.leave("a")
    all_ask(cast, topic, "a", cast.id_of("a"))
    cast.leave("a")
    cast.forget("admin", {topic: [0, 1, 9], stage.prefix + "nowhere": [0]})
    cast.fetch("admin", None)
    cast.delete("admin")
    cast.delete("admin")
    cast.describe("admin")


@script("answers: a group that prepares", (3, 9))
def preparing_group(stage: Stage, version: int) -> None:
    cast = Cast(stage, version)
    topic = stage.topic()
    metadata = {"range": subscription(topic)}
    cast.stable("a", protocols=metadata)
    cast.enter("b", protocols=metadata)
    cast.commit_version = min(cast.commit_version, 8)
    all_ask(cast, topic, "a", cast.id_of("a"))
    cast.sync("a")
    cast.forget("admin", {topic: [0, 1], stage.topic("u"): [0]})
    cast.delete("admin")
    cast.describe("admin")
    cast.leave("a")
    cast.describe("admin")


@script("answers: a group that completes", (3, 9))
def completing_group(stage: Stage, version: int) -> None:
    cast = Cast(stage, version)
    topic = stage.topic()
    cast.enter("a", protocols={"range": subscription(topic)})
    cast.wait(1500)
    all_ask(cast, topic, "a", cast.id_of("a"))
    cast.forget("admin", {topic: [0, 1], stage.topic("u"): [0]})
    cast.delete("admin")
    cast.describe("admin")
    if version >= 7:
        cast.sync("a", protocol_type="connect")
        cast.sync("a", protocol_name="sticky")
    cast.sync("a", {"a": b"1"})
    cast.leave("a")


@script("answers: a stable group", (3, 9))
def stable_group(stage: Stage, version: int) -> None:
    cast = Cast(stage, version)
    topic = stage.topic()
    cast.stable("a", protocols={"range": subscription(topic)})
    all_ask(cast, topic, "a", cast.id_of("a"))
    cast.sync("a")
    cast.forget("admin", {topic: [0, 1], stage.topic("u"): [0], stage.prefix + "nowhere": [0]})
    cast.delete("admin")
    cast.describe("admin")
    cast.leave("a", MemberIdentity("unknown"), version=5)
    cast.leave("a")


@script("answers: a group of another type", (9,))
def other_type(stage: Stage, version: int) -> None:
    cast = Cast(stage, version)
    topic = stage.topic()
    cast.stable("a", protocol_type="connect")
    cast.commit("a", {(topic, 0): 7})
    cast.forget("admin", {topic: [0]})
    cast.list("admin")
    cast.sync("a", protocol_type=None)


@script("answers: the empty group id", (9,))
def empty_id(stage: Stage, version: int) -> None:
    cast = Cast(stage, version)
    topic = stage.topic()
    stage.group = ""
    cast.beat("a", generation_id=0)
    cast.sync("a", generation_id=0)
    cast.leave("a")
    cast.forget("admin", {topic: [0]})
    cast.describe("admin")
    cast.commit("a", {(topic, 0): 7}, generation_id=3, member_id="x")
    cast.fetch("a", {topic: [1]})


@script("offsets: commit", range(2, 10))
def commit(stage: Stage, version: int) -> None:
    cast = Cast(stage, 9)
    topic, nowhere = stage.topic(), stage.prefix + "nowhere"
    cast.commit_version = version
    cast.commit_alone("a", {(topic, 0): 5, (topic, 1): 0, (topic, 2): 1, (nowhere, 0): 1})
    cast.commit_alone("a", {(topic, 0): -5}, metadata=None)
    cast.fetch("a", None)
    cast.commit_alone("a", {(topic, 1): 9}, metadata="x" * 4096)
    cast.commit_alone("a", {(topic, 0): 9, (topic, 1): 10}, metadata="x" * 4097)
    cast.commit_alone("a", {(topic, 0): 9, (topic, 1): 10}, metadata="ü" * 2049)
    cast.commit_alone("a", {(nowhere, 0): 9})
    cast.commit_alone("a", {})
    cast.fetch("a", {topic: [0]})


@script("offsets: fetch", range(1, 10))
def fetch(stage: Stage, version: int) -> None:
    cast = Cast(stage, 9)
    topic, other, nowhere = stage.topic(), stage.topic("u"), stage.prefix + "nowhere"
    cast.commit_alone("a", {(topic, 0): 5, (other, 1): 6}, metadata="words")
    cast.fetch("a", {topic: [0, 1, 7], other: [1], nowhere: [0]}, version)
    cast.fetch("a", {topic: [0, 0]}, version)
    cast.fetch("a", {topic: []}, version)
    cast.fetch("a", {}, version)
    if version >= 2:
        cast.fetch("a", None, version)
    if version >= 8:
        rows = [
            OffsetFetchRequestGroup(stage.group, topics=None),
            OffsetFetchRequestGroup(stage.prefix + "other", topics=[OffsetFetchRequestTopic(topic, [0])]),
            OffsetFetchRequestGroup(stage.group, topics=[OffsetFetchRequestTopic(topic, [0])]),
        ]
        stage.step("a", OffsetFetchRequest(groups=rows), version)


@script("offsets: a topic is deleted", (9,))
def deleted_topic(stage: Stage, version: int) -> None:
    cast = Cast(stage, version)
    topic, other = stage.topic(), stage.topic("u")
    cast.commit_alone("a", {(topic, 0): 5, (other, 1): 6})
    stage.transport.delete_topic(topic)
    cast.wait(1000)
    cast.fetch("a", None)
    stage.transport.delete_topic(other)
    cast.wait(1000)
    cast.fetch("a", None)
    cast.describe("admin")


@script("administration: describe", range(6))
def describe(stage: Stage, version: int) -> None:
    cast = Cast(stage, 9)
    cast.instances = {"b": "two"}
    cast.stable("a", "b")
    cast.describe("admin", version)
    cast.leave("a")
    cast.describe("admin", version)


@script("administration: list", range(6))
def listing(stage: Stage, version: int) -> None:
    cast = Cast(stage, 9)
    cast.stable("a")
    cast.list("admin", version)
    if version >= 4:
        for states in (["stable"], ["Empty"], ["nonsense"], ["STABLE", "empty"], [""]):
            cast.list("admin", version, states_filter=states)
    if version >= 5:
        for types in (["classic"], ["CLASSIC"], ["consumer"], ["nonsense"], [""]):
            cast.list("admin", version, types_filter=types)
    first, stage.group = stage.group, stage.prefix + "h"
    cast.join("b", "")
    cast.list("admin", version)
    stage.group = first


@script("administration: delete", range(3))
def delete(stage: Stage, version: int) -> None:
    cast = Cast(stage, 9)
    topic = stage.topic()
    cast.stable("a")
    names = []
    for name in "hij":
        stage.group = stage.prefix + name
        cast.commit_alone("b", {(topic, 0): 5, (topic, 1): 6})
        names.append(stage.group)
    stage.group = stage.prefix + "g"
    cast.delete("admin", stage.group, names[0], names[1], names[0], stage.prefix + "nowhere", "", version=version)
    for name in names:
        stage.group = name
        cast.fetch("admin", None)
        cast.describe("admin")
