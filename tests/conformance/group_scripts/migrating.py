"""Groups that go from one protocol to the other while they are used (KIP-848, online migration)."""

from __future__ import annotations

import struct

from mpbroker.protocol.messages.leave_group import MemberIdentity
from tests.conformance.group_scripts.cast import subscription
from tests.conformance.group_scripts.consuming import Consumers, ids
from tests.conformance.group_scripts.stage import NEXT, Stage, script


def assignment(**partitions: list[int]) -> bytes:
    """What a leader of type consumer gives a member."""
    rows = b"".join(
        struct.pack(f">h{len(topic)}si{len(numbers)}i", len(topic), topic.encode(), len(numbers), *numbers)
        for topic, numbers in partitions.items()
    )
    return struct.pack(">hi", 0, len(partitions)) + rows + struct.pack(">i", -1)


def owning(topic: str, *partitions: int) -> bytes:
    """A subscription that says what the member has (KIP-429)."""
    owned = (
        struct.pack(">ih", 1, len(topic))
        + topic.encode()
        + struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    )
    return struct.pack(">h", 1) + subscription(topic)[2:] + (owned if partitions else struct.pack(">i", 0))


def stable_classic(cast: Consumers, topic: str) -> None:
    cast.enter("a", protocols={"range": subscription(topic)})
    cast.wait_for("a")
    cast.sync("a", {"a": assignment(**{topic: [0, 1]})})


@script("migration: an empty group changes its protocol", (9,), NEXT)
def empty(stage: Stage, version: int) -> None:
    cast = Consumers(stage)
    topic = stage.topic()
    stable_classic(cast, topic)
    cast.commit("a", {(topic, 0): 5}, version=9)
    cast.leave("a")
    cast.list("admin")
    cast.come("b", topic)
    cast.list("admin")
    cast.look()
    cast.fetch("admin", None, 8)
    cast.live("b", -1)
    cast.list("admin")
    stage.ids.pop("a", None)
    cast.enter("c", protocols={"range": subscription(topic)})
    cast.wait_for("c")
    cast.sync("c", {"c": assignment(**{topic: [0, 1]})})
    cast.list("admin")
    cast.fetch("admin", None, 8)


@script("migration: an offset of nobody", (9,), NEXT)
def simple(stage: Stage, version: int) -> None:
    cast = Consumers(stage)
    topic = stage.topic()
    cast.commit_alone("admin", {(topic, 0): 5}, version=9)
    cast.list("admin")
    cast.live("b", 3)
    cast.come("b", topic)
    cast.list("admin")
    cast.fetch("admin", None, 8)


@script("migration: up and down again", (9,), NEXT)
def up_and_down(stage: Stage, version: int) -> None:
    cast = Consumers(stage)
    topic = stage.topic()
    topic_id = ids(stage)[0]
    stable_classic(cast, topic)
    cast.live("b", 3)
    cast.come("b", topic)
    cast.look()
    cast.describe("admin")
    cast.beat("a")
    cast.sync("a", protocol_name="range")
    cast.live("b")
    answer = cast.join("a", protocols={"range": owning(topic, 0, 1)})
    cast.look()
    cast.sync("a")
    cast.beat("a")
    answer = cast.join("a", protocols={"range": owning(topic, 0)})
    cast.generation["a"] = answer.generation_id
    cast.sync("a")
    cast.live("b")
    cast.beat("a")
    cast.look()
    cast.commit("a", {(topic, 0): 5}, version=9)
    cast.commit("a", {(topic, 0): 5}, version=8)
    cast.commit("a", {(topic, 1): 5}, version=9, generation_id=99)
    cast.live("b", held={topic_id: [1]})
    cast.live("b", -1)
    cast.list("admin")
    cast.beat("a")
    cast.join("a", protocols={"range": owning(topic, 0)})
    cast.wait(300)
    cast.sync("a", {"a": assignment(**{topic: [0, 1]})})
    cast.fetch("admin", None, 8)


@script("migration: classic members come and go", (4, 9), NEXT)
def classic_members(stage: Stage, version: int) -> None:
    cast = Consumers(stage)
    cast.join_version = version
    topic = stage.topic()
    topic_id = ids(stage)[0]
    cast.come("a", topic)
    cast.join("b", "", protocols={"range": b"?"}, protocol_type="connect")
    cast.join("b", "", protocols={}, protocol_type="consumer")
    cast.enter("b", protocols={"range": subscription(topic)})
    cast.beat("b")
    cast.sync("b")
    cast.beat("b", member_id="a")
    cast.beat("b", generation_id=99)
    cast.beat("b", member_id="x")
    cast.live("a")
    cast.live("a", held={topic_id: [0]})
    cast.beat("b")
    cast.join("b", protocols={"range": subscription(topic)})
    cast.sync("b")
    cast.sync("b", protocol_name="roundrobin")
    cast.sync("b", protocol_type="connect")
    cast.sync("b", generation_id=99)
    cast.join("c", "", protocols={"roundrobin": subscription(topic)})
    cast.leave("b", MemberIdentity("x"), MemberIdentity(cast.id_of("b")), version=3)
    cast.live("a")
    cast.look()
    cast.leave("a", MemberIdentity("a"), version=3)
    cast.list("admin")


@script("migration: what cannot be upgraded", (9,), NEXT)
def not_upgraded(stage: Stage, version: int) -> None:
    cast = Consumers(stage)
    topic = stage.topic()
    cast.enter("a", protocols={"range": b"m"}, protocol_type="connect")
    cast.wait_for("a")
    cast.sync("a", {"a": b"?"}, protocol_type="connect")
    cast.come("b", topic)
    cast.list("admin")
