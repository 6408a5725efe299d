"""JoinGroup: its order of checks, states and versions (2.1), the phases (2.2), static members."""

from __future__ import annotations

from mpbroker.protocol.messages.leave_group import MemberIdentity
from tests.conformance.group_scripts.cast import Cast
from tests.conformance.group_scripts.stage import Stage, script

VERSIONS = range(10)
OTHER = {"roundrobin": b"r"}
BOTH = {"range": b"m", "roundrobin": b"r"}


@script("join: one member, from nothing to stable", VERSIONS)
def one_member(stage: Stage, version: int) -> None:
    cast = Cast(stage, version)
    cast.describe("admin")
    cast.enter("a")
    cast.describe("admin")
    cast.wait(1200)
    cast.describe("admin")
    cast.sync("a", {"a": b"all", "nobody-00000000-0000-0000-0000-000000000000": b"x"})
    cast.describe("admin")
    cast.beat("a")
    cast.leave("a")
    cast.describe("admin")


@script("join: refused before anything else", VERSIONS)
def refused(stage: Stage, version: int) -> None:
    cast = Cast(stage, version)
    group, stage.group = stage.group, ""
    cast.join("a")
    stage.group = group
    for session_timeout_ms in (499, 60_001, -1, 0):
        cast.join("a", session_timeout_ms=session_timeout_ms)
    cast.join("a", "unknown")
    cast.describe("admin")
    cast.join("a", protocols={})
    cast.join("a", protocol_type="")
    cast.describe("admin")
    cast.list("admin")


@script("join: another type, no protocol in common", (3, 9))
def inconsistent(stage: Stage, version: int) -> None:
    cast = Cast(stage, version)
    cast.stable("a", "b", protocols=BOTH)
    for protocols, protocol_type in (({"sticky": b""}, "consumer"), (BOTH, "connect"), ({}, "consumer"), (BOTH, "")):
        cast.join("c", "", protocols=protocols, protocol_type=protocol_type)
        cast.join("a", protocols=protocols, protocol_type=protocol_type)
    cast.describe("admin")


@script("join: full, by new members", (3, 9))
def full(stage: Stage, version: int) -> None:
    cast = Cast(stage, version)
    cast.stable("a", "b", "c")
    cast.join("d", "")
    cast.join("d", "unknown")
    cast.beat("a")
    cast.leave("c")
    cast.join("d", "")
    cast.join("e", "")
    cast.join("a")
    cast.join("b")
    cast.wait(300)
    cast.describe("admin")


@script("join: full, of too many with ids the last goes", (9,))
def full_of_ids(stage: Stage, version: int) -> None:
    cast = Cast(stage, version)
    for client in "abcd":
        cast.join(client, "")
    for client in "abcd":
        cast.join(client)
    cast.wait(2500)
    cast.describe("admin")


@script("join: two members, the second while the first is stable", VERSIONS)
def second_joins(stage: Stage, version: int) -> None:
    cast = Cast(stage, version)
    cast.stable("a")
    cast.beat("a")
    cast.enter("b")
    cast.describe("admin")
    cast.beat("a")
    cast.sync("a")
    cast.join("a")
    cast.wait(300)
    cast.sync("b")
    cast.describe("admin")
    cast.beat("b")
    cast.sync("a", {"a": b"1", "b": b"2"})
    cast.beat("a")
    cast.sync("b")


@script("join: a pending id holds the join phase up", (4, 9))
def pending_blocks(stage: Stage, version: int) -> None:
    cast = Cast(stage, version)
    cast.stable("a")
    cast.join("b", "", session_timeout_ms=2000)
    cast.describe("admin")
    cast.join("a")
    cast.wait(1000)
    cast.wait(2000)


@script("join: a pending id does not hold the first join phase up", (9,))
def pending_at_first(stage: Stage, version: int) -> None:
    cast = Cast(stage, version)
    cast.enter("a")
    cast.join("b", "")
    cast.wait(1500)
    cast.join("b")
    cast.join("a2", cast.id_of("a"))
    cast.wait(300)


@script("join: a pending id leaves", (9,))
def pending_leaves(stage: Stage, version: int) -> None:
    cast = Cast(stage, version)
    cast.stable("a")
    cast.join("b", "")
    cast.join("a")
    cast.leave("b")
    cast.beat("b")
    cast.join("b")


@script("join: a pending id with an instance", (9,))
def pending_with_instance(stage: Stage, version: int) -> None:
    cast = Cast(stage, version)
    cast.join("a", "")
    cast.instances["a"] = "one"
    cast.join("a")
    cast.describe("admin")


@script("join: again, the same, in every state", (3, 9))
def again_the_same(stage: Stage, version: int) -> None:
    cast = Cast(stage, version)
    leader = cast.stable("a", "b")
    follower = "b" if leader == "a" else "a"
    cast.join(follower)
    cast.join(leader)
    cast.join(follower)
    cast.wait(200)
    cast.join(follower)
    cast.join(leader)
    cast.sync(follower)
    cast.join("x", cast.id_of(follower))
    cast.sync(leader, {leader: b"1", follower: b"2"})


@script("join: again, changed, while completing and stable", (3, 9))
def again_changed(stage: Stage, version: int) -> None:
    cast = Cast(stage, version)
    leader = cast.stable("a", "b", protocols=BOTH)
    follower = "b" if leader == "a" else "a"
    cast.join(follower, protocols={"range": b"new", "roundrobin": b"r"})
    cast.join(leader, protocols=BOTH)
    cast.sync(follower)
    cast.join(leader, protocols={"roundrobin": b"r", "range": b"m"})
    cast.join(follower, protocols={"roundrobin": b"r"})
    cast.wait(200)
    cast.describe("admin")


@script("join: the most votes win", (9,))
def votes(stage: Stage, version: int) -> None:
    cast = Cast(stage, version)
    cast.enter("a", protocols={"x": b"ax", "y": b"ay", "z": b"az"})
    cast.enter("b", protocols={"q": b"", "y": b"by", "x": b"bx"})
    cast.enter("c", protocols={"y": b"cy", "x": b"cx"})
    cast.wait(2500)


@script("join: members that do not come back", (3, 9))
def not_back(stage: Stage, version: int) -> None:
    cast = Cast(stage, version)
    leader = cast.stable("a", "b", rebalance_timeout_ms=2000)
    follower = "b" if leader == "a" else "a"
    cast.join(follower, protocols=OTHER | BOTH, rebalance_timeout_ms=2000)
    cast.wait(1000)
    cast.beat(leader)
    cast.wait(2000)
    cast.beat(leader)
    cast.describe("admin")


@script("join: a new member is not expelled while it waits", (9,))
def new_member_waits(stage: Stage, version: int) -> None:
    cast = Cast(stage, version)
    cast.stable("a", session_timeout_ms=30_000, rebalance_timeout_ms=5000)
    cast.enter("b", session_timeout_ms=500, rebalance_timeout_ms=500)
    cast.wait(1500)
    cast.beat("a")
    cast.wait(4500)
    cast.describe("admin")


@script("phases: sessions end, in a stable group and while completing", (3, 9))
def sessions(stage: Stage, version: int) -> None:
    cast = Cast(stage, version)
    cast.enter("a", session_timeout_ms=3000, rebalance_timeout_ms=30_000)
    cast.enter("b", session_timeout_ms=30_000, rebalance_timeout_ms=30_000)
    found = cast.wait_for("a", "b")
    leader = next(client for client in "ab" if found[client].leader == found[client].member_id)
    cast.sync("a", {"a": b"1", "b": b"2"} if leader == "a" else None)
    cast.sync("b", {"a": b"1", "b": b"2"} if leader == "b" else None)
    cast.wait(1000)
    cast.beat("a")
    cast.wait(2000)
    cast.beat("b")
    cast.wait(2000)
    cast.beat("b")
    cast.beat("a")
    cast.join("b")
    cast.describe("admin")


@script("phases: the sync deadline, of followers and of the leader", (9,))
def sync_deadline(stage: Stage, version: int) -> None:
    cast = Cast(stage, version)
    for client in "ab":
        cast.enter(client, rebalance_timeout_ms=3000)
    found = cast.wait_for("a", "b")
    leader = next(client for client in "ab" if found[client].leader == found[client].member_id)
    follower = "b" if leader == "a" else "a"
    cast.sync(leader, {leader: b"1"})
    cast.beat(leader)
    cast.wait(3000)
    cast.beat(leader)
    cast.beat(follower)
    cast.join(leader, rebalance_timeout_ms=3000)
    cast.describe("admin")
    cast.wait(3500)
    cast.describe("admin")
    cast.beat(leader)


@script("phases: all leave", (3, 9))
def all_leave(stage: Stage, version: int) -> None:
    cast = Cast(stage, version)
    cast.stable("a", "b")
    cast.leave("a")
    cast.describe("admin")
    cast.leave("b")
    cast.describe("admin")
    cast.enter("c")
    cast.leave("d", MemberIdentity(cast.id_of("c")), version=5)
    cast.describe("admin")
    cast.wait(1500)
    cast.describe("admin")
    cast.enter("e")
    cast.wait(1500)


@script("phases: while completing, a leave, a join and a leader that goes", (3, 9))
def while_completing(stage: Stage, version: int) -> None:
    cast = Cast(stage, version)
    for client in "ab":
        cast.enter(client)
    found = cast.wait_for("a", "b")
    leader = next(client for client in "ab" if found[client].leader == found[client].member_id)
    follower = "b" if leader == "a" else "a"
    cast.sync(follower)
    cast.enter("c")
    cast.leave("admin", MemberIdentity(cast.id_of("c") or "nobody"), version=5)
    cast.join(follower)
    cast.leave(leader)
    cast.wait(300)
    cast.describe("admin")


@script("static: join, replace, fence", (5, 8, 9))
def static_members(stage: Stage, version: int) -> None:
    cast = Cast(stage, version)
    cast.instances = {"a": "one", "b": "two", "a2": "one", "b2": "two"}
    leader = cast.stable("a", "b")
    follower = "b" if leader == "a" else "a"
    cast.describe("admin")
    cast.join(f"{follower}2", "")
    cast.sync(f"{follower}2")
    cast.beat(follower)
    cast.beat(follower, group_instance_id=None)
    cast.commit(follower, {(stage.topic(), 0): 1})
    cast.join(follower)
    cast.sync(follower)
    cast.beat(f"{follower}2")
    cast.join(f"{leader}2", "")
    cast.beat(leader)
    cast.beat(f"{leader}2")
    cast.sync(f"{leader}2", {})
    cast.describe("admin")


@script("static: a replacement that changes the protocol", (9,))
def static_changes(stage: Stage, version: int) -> None:
    cast = Cast(stage, version)
    cast.instances = {"a": "one", "b": "two", "b2": "two"}
    cast.stable("a", "b", protocols=BOTH)
    cast.join("b2", "", protocols={"roundrobin": b"r"})
    cast.beat("a")
    cast.join("a", protocols=BOTH)
    cast.wait(200)


@script("static: replaced while preparing and while completing", (5, 9))
def static_replaced(stage: Stage, version: int) -> None:
    cast = Cast(stage, version)
    cast.instances = {"a": "one", "a2": "one", "a3": "one", "a4": "one", "b": "two"}
    cast.enter("a")
    cast.join("a2", "")
    cast.enter("b")
    cast.wait(2500)
    cast.join("a3", "")
    cast.join("b")
    cast.wait(200)
    cast.sync("a3")
    cast.sync("b")
    cast.join("a4", "")
    cast.describe("admin")


@script("static: a replacement while its sync waits", (9,))
def static_sync_waits(stage: Stage, version: int) -> None:
    cast = Cast(stage, version)
    cast.instances = {"a": "one", "b": "two", "a2": "one", "b2": "two"}
    cast.enter("a")
    cast.enter("b")
    found = cast.wait_for("a", "b")
    leader = next(client for client in "ab" if found[client].leader == found[client].member_id)
    follower = "b" if leader == "a" else "a"
    cast.sync(follower)
    cast.join(f"{follower}2", "")
    cast.describe("admin")


@script("static: an absent member stays until its session ends", (9,))
def static_absent(stage: Stage, version: int) -> None:
    cast = Cast(stage, version)
    cast.instances = {"a": "one", "b": "two"}
    cast.stable("a", "b", session_timeout_ms=8000, rebalance_timeout_ms=2000)
    cast.enter("c", session_timeout_ms=8000, rebalance_timeout_ms=2000)
    cast.beat("a")
    cast.join("a", session_timeout_ms=8000, rebalance_timeout_ms=2000)
    cast.wait(3000)
    cast.describe("admin")


@script("static: unknown and foreign instances", (9,))
def static_unknown(stage: Stage, version: int) -> None:
    cast = Cast(stage, version)
    cast.instances = {"a": "one", "b": "two"}
    cast.stable("a", "b")
    for instance in ("two", "three"):
        cast.instances["a"] = instance
        cast.join("a")
        cast.sync("a")
        cast.beat("a")
    cast.leave("admin", MemberIdentity(cast.id_of("a"), "two"), MemberIdentity("", "three"), version=5)
    cast.leave("admin", MemberIdentity("", "one"), MemberIdentity("", None), version=5)
    cast.describe("admin")
