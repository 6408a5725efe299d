"""Groups of the next-generation protocol (KIP-848): what members hear, epoch by epoch, and what administrators see."""

from __future__ import annotations

from typing import Any

from mpbroker.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from mpbroker.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from mpbroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic
from mpbroker.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest  # noqa: F401  (the API must be there)
from tests.conformance.group_scripts.cast import Cast
from tests.conformance.group_scripts.stage import NEXT, Stage, script


class Consumers(Cast):
    """Clients of the next-generation protocol, who choose their member id: the client's name, from version 1 on."""

    def __init__(self, stage: Stage, version: int | None = None) -> None:
        super().__init__(stage)
        self.version = stage.heartbeat_version if version is None else version
        self.epochs: dict[str, int] = {}

    def live(self, client: str, epoch: int | None = None, **fields: Any) -> Any:
        """A heartbeat, in the epoch that the client heard of last."""
        held = fields.pop("held", None)
        if held is not None:
            held = [ConsumerGroupHeartbeatRequestTopicPartitions(topic, parts) for topic, parts in held.items()]
        request = ConsumerGroupHeartbeatRequest(
            group_id=fields.pop("group_id", self.stage.group),
            member_id=fields.pop("member_id", self.stage.ids.get(client, client)),
            member_epoch=self.epochs.get(client, 0) if epoch is None else epoch,
            topic_partitions=held,
            **fields,
        )
        answer = self.stage.step(client, request, self.version)
        if answer is not None and answer.error_code == 0:
            self.epochs[client] = answer.member_epoch
        return answer

    def come(self, client: str, *topics: str, **fields: Any) -> Any:
        """Join."""
        fields = {"rebalance_timeout_ms": 2000, "held": {}, "subscribed_topic_names": list(topics)} | fields
        return self.live(client, 0, **fields)

    def look(self, *groups: str) -> Any:
        """ConsumerGroupDescribe."""
        return self.stage.step("admin", ConsumerGroupDescribeRequest(list(groups) or [self.stage.group]), self.version)

    def fetch_as(self, client: str, topic: str, epoch: int | None = None, member_id: str | None = None) -> Any:
        """OffsetFetch as a member."""
        group = OffsetFetchRequestGroup(
            self.stage.group,
            self.stage.ids.get(client, client) if member_id is None else member_id,
            self.epochs.get(client, -1) if epoch is None else epoch,
            [OffsetFetchRequestTopic(topic, [0, 1])],
        )
        return self.stage.step(client, OffsetFetchRequest(groups=[group]), 9)

    def commit_as(self, client: str, topic: str, partition: int, epoch: int | None = None, **fields: Any) -> Any:
        """OffsetCommit as a member."""
        generation = self.epochs.get(client, -1) if epoch is None else epoch
        fields = {"member_id": self.stage.ids.get(client, client), "version": 9} | fields
        return self.commit(client, {(topic, partition): 7}, generation_id=generation, **fields)


def ids(stage: Stage) -> list[bytes]:
    return list(stage.topic_ids)


@script("consumers: one member, from nothing to nothing", (0, 1), NEXT)
def one_member(stage: Stage, version: int) -> None:
    cast = Consumers(stage, version)
    topic = stage.topic(partitions=3)
    cast.look()
    cast.come("a", topic, **({"member_id": ""} if version == 0 else {}))
    cast.look()
    cast.live("a")
    cast.live("a", held={ids(stage)[0]: [0, 1, 2]})
    cast.list("admin")
    cast.describe("admin")
    cast.delete("admin")
    cast.live("a", -1)
    cast.look()
    cast.list("admin", states_filter=["empty"])
    cast.list("admin", types_filter=["Consumer"])
    cast.list("admin", types_filter=["classic"])
    cast.live("a")
    cast.delete("admin")
    cast.look()


@script("consumers: refused before anything else", (0, 1), NEXT)
def refused(stage: Stage, version: int) -> None:
    cast = Consumers(stage, version)
    topic = stage.topic()
    for fields in (
        {"group_id": ""},
        {"member_id": " "},
        {"instance_id": ""},
        {"rack_id": ""},
        {"rebalance_timeout_ms": -1},
        {"held": None},
        {"held": {ids(stage)[0]: [0]}},
        {"subscribed_topic_names": None},
        {"server_assignor": "sticky"},
    ):
        cast.come("a", topic, **fields)
    for epoch in (-1, -2, -3, 1):
        cast.live("a", epoch)
    cast.live("a", -2, instance_id="i")
    cast.live("a", 1, member_id="")
    cast.live("a", -1, member_id="")
    cast.look("", stage.group)


@script("consumers: partitions go from one to the other", (1,), NEXT)
def handed_over(stage: Stage, version: int) -> None:
    cast = Consumers(stage, version)
    topic = stage.topic(partitions=4)
    topic_id = ids(stage)[0]
    cast.come("a", topic)
    cast.come("b", topic)
    cast.look()
    cast.live("b")
    cast.live("a")
    cast.look()
    cast.live("b")
    cast.live("a", held={topic_id: [0, 1, 2, 3]})
    cast.live("b")
    cast.live("a", held={topic_id: [0, 1]})
    cast.look()
    cast.live("b")
    cast.live("b", held={topic_id: [2, 3]})
    cast.look()
    cast.live("b", -1)
    cast.live("a")
    cast.live("a")
    cast.look()


@script("consumers: epochs that are not the member's", (1,), NEXT)
def fenced(stage: Stage, version: int) -> None:
    cast = Consumers(stage, version)
    topic = stage.topic(partitions=2)
    topic_id = ids(stage)[0]
    first = cast.come("a", topic)
    cast.come("b", topic)
    cast.live("a")
    cast.live("a", held={topic_id: [0]})
    cast.live("a", first.member_epoch)
    cast.live("a", first.member_epoch, held={topic_id: [1]})
    cast.live("a", first.member_epoch, held={topic_id: [0]})
    cast.live("a", first.member_epoch, held={})
    cast.live("a", first.member_epoch + 5)
    cast.live("a", 1, held={})
    cast.live("c", 3)
    cast.live("a", 0, rebalance_timeout_ms=2000, held={}, subscribed_topic_names=[topic])
    cast.live("a", 0, rebalance_timeout_ms=2000, held={}, subscribed_topic_names=[topic])
    cast.live("b", rebalance_timeout_ms=2000, held={topic_id: [1]}, subscribed_topic_names=[topic])


@script("consumers: sessions and revocations that take too long", (1,), NEXT)
def too_late(stage: Stage, version: int) -> None:
    cast = Consumers(stage, version)
    topic = stage.topic(partitions=2)
    cast.come("a", topic, rebalance_timeout_ms=1500)
    cast.come("b", topic)
    cast.live("a")
    cast.wait(1000)
    cast.live("a")
    cast.live("b")
    cast.wait(1000)
    cast.live("a")
    cast.live("b")
    cast.live("b")
    cast.look()
    cast.wait(4000)
    cast.look()
    cast.live("b")


@script("consumers: too many", (1,), NEXT)
def too_many(stage: Stage, version: int) -> None:
    cast = Consumers(stage, version)
    topic = stage.topic()
    for client in "abcd":
        cast.come(client, topic)
    cast.come("e", topic)
    cast.come("a", topic)
    cast.live("d", -1)
    cast.come("e", topic)


@script("consumers: subscriptions change", (1,), NEXT)
def subscriptions(stage: Stage, version: int) -> None:
    cast = Consumers(stage, version)
    t, u = stage.topic(partitions=2), stage.topic("u", 1)
    t_id, u_id = ids(stage)
    cast.come("a", t)
    cast.live("a", subscribed_topic_names=[t, u])
    cast.live("a", held={t_id: [0, 1], u_id: [0]})
    cast.live("a", subscribed_topic_names=[u])
    cast.live("a", held={t_id: [0, 1], u_id: [0]})
    cast.live("a", held={u_id: [0]})
    cast.look()
    cast.live("a", subscribed_topic_names=[stage.prefix + "nowhere"])
    cast.live("a", held={})
    cast.live("a", subscribed_topic_names=[])
    cast.look()
    cast.live("a", server_assignor="range", rack_id="r1", rebalance_timeout_ms=3000)
    cast.look()


@script("consumers: a topic comes, and goes", (1,), NEXT)
def topics_change(stage: Stage, version: int) -> None:
    cast = Consumers(stage, version)
    t = stage.topic(partitions=1)
    cast.come("a", t, stage.prefix + "u")
    u = stage.topic("u", 1)
    cast.wait(500)
    cast.live("a")
    cast.live("a", held={topic: [0] for topic in ids(stage)})
    stage.transport.delete_topic(u)
    cast.wait(500)
    cast.live("a")
    cast.live("a", held={ids(stage)[0]: [0]})
    cast.look()


@script("consumers: static members", (1,), NEXT)
def static_members(stage: Stage, version: int) -> None:
    cast = Consumers(stage, version)
    topic = stage.topic(partitions=2)
    topic_id = ids(stage)[0]
    cast.come("a", topic, instance_id="one")
    cast.come("b", topic, instance_id="one")
    cast.come("a", topic, instance_id="one")
    cast.live("b", 2, instance_id="one")
    cast.live("b", -2, instance_id="one")
    cast.live("a", -2, instance_id="one")
    cast.look()
    cast.come("c", topic, instance_id="one")
    cast.look()
    cast.live("a", 2, instance_id="one")
    cast.live("c", instance_id="one", held={topic_id: [0, 1]})
    cast.live("c", instance_id="two")
    cast.live("c", -2, instance_id="one")
    cast.come("c", topic, instance_id="one")
    cast.come("d", topic)
    cast.live("c", -1, instance_id="one")
    cast.live("d")
    cast.look()


@script("consumers: static members that stay away", (1,), NEXT)
def static_gone(stage: Stage, version: int) -> None:
    cast = Consumers(stage, version)
    topic = stage.topic(partitions=2)
    cast.come("a", topic, instance_id="one")
    cast.come("b", topic)
    cast.live("a", -2, instance_id="one")
    cast.live("b")
    cast.wait(1500)
    cast.live("b")
    cast.wait(2500)
    cast.look()
    cast.live("b")
    cast.look()


@script("consumers: patterns", (1,), NEXT)
def patterns(stage: Stage, version: int) -> None:
    cast = Consumers(stage, version)
    topic = stage.topic(partitions=2)
    pattern = topic[:-1] + "[tu]"
    cast.come("a", subscribed_topic_names=None, subscribed_topic_regex="t(")
    cast.look()
    cast.come("a", subscribed_topic_names=None, subscribed_topic_regex=pattern)
    cast.wait(300)
    cast.look()
    cast.live("a")
    cast.come("b", subscribed_topic_names=None, subscribed_topic_regex=pattern)
    cast.live("a")
    cast.live("a", held={ids(stage)[0]: [0]})
    cast.live("b")
    cast.live("b", subscribed_topic_regex="", subscribed_topic_names=[topic])
    cast.live("a", -1)
    cast.look()
    cast.live("b")
    cast.look()


@script("consumers: committed offsets", (1,), NEXT)
def offsets(stage: Stage, version: int) -> None:
    cast = Consumers(stage, version)
    topic = stage.topic(partitions=2)
    topic_id = ids(stage)[0]
    cast.come("a", topic)
    cast.commit_as("a", topic, 0)
    cast.commit_as("a", topic, 0, version=8)
    cast.commit_as("a", topic, 0, 1)
    cast.commit_as("a", topic, 0, 99)
    cast.commit_as("a", topic, 0, member_id="x")
    cast.commit_alone("admin", {(topic, 0): 9}, version=9)
    cast.fetch_as("a", topic)
    cast.fetch_as("a", topic, 1)
    cast.fetch_as("a", topic, 99)
    cast.fetch_as("a", topic, member_id="x")
    cast.fetch("admin", {topic: [0]}, 8)
    cast.come("b", topic)
    cast.live("a")
    cast.commit_as("a", topic, 1)
    cast.live("a", held={topic_id: [0]})
    cast.live("b")
    cast.commit_as("a", topic, 0, 2)
    cast.commit_as("a", topic, 1, 2)
    cast.commit_as("b", topic, 1, 2)
    cast.commit_as("b", topic, 1)
    cast.forget("admin", {topic: [0], stage.prefix + "nowhere": [0]})
    cast.live("a", -1)
    cast.live("b", -1)
    cast.commit_alone("admin", {(topic, 0): 11}, version=9)
    cast.fetch("admin", None, 8)
    cast.forget("admin", {topic: [0]})
    cast.fetch("admin", None, 8)
    cast.delete("admin")
    cast.fetch("admin", None, 8)


@script("consumers: range", (1,), NEXT)
def ranges(stage: Stage, version: int) -> None:
    cast = Consumers(stage, version)
    t, u = stage.topic(partitions=3), stage.topic("u", 2)
    t_id, u_id = ids(stage)
    cast.come("a", t, u, server_assignor="range")
    cast.come("b", t, u, server_assignor="range")
    cast.live("a")
    cast.live("a", held={t_id: [0, 1], u_id: [0]})
    cast.live("b")
    cast.look()
