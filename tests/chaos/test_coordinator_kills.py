"""The coordinator is killed, at named moments and at random under load: no acknowledged offset goes back, generations
never fall, who sends heartbeats in time stays, everybody gets what their leader sent, and nobody waits for long."""

import random
import time

import pytest

from mpbroker.protocol.messages.delete_groups import DeleteGroupsRequest
from mpbroker.protocol.messages.heartbeat import HeartbeatRequest
from mpbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.harness.broker import Broker, wait_until
from tests.harness.group_client import (
    LONGEST_ANSWER_S,
    MEMBER_ID_REQUIRED,
    REBALANCE_IN_PROGRESS,
    Committer,
    GroupClient,
    Member,
)
from tests.harness.raw_records import create_by_metadata

SETTINGS = {
    "group.initial.rebalance.delay.ms": 100,
    "offsets.topic.num.partitions": 4,
    "num.io.threads": 2,
    "mpbroker.trace.enabled": "false",
}
LONGEST_PLAY_S = 15.0
#: Moments that the coordinator passes, or a handler on the way to it, with how often before it dies.
POINTS = (
    "handler.handed:20",
    "handler.handed_hinted:20",
    "coordinator.taken:1",
    "coordinator.taken:15",
    "coordinator.decided:1",
    "coordinator.decided:9",
    "coordinator.decided:40",
    "coordinator.appended:1",
    "coordinator.appended:2",
    "coordinator.appended:12",
    "coordinator.parked:1",
    "coordinator.parked:4",
    "coordinator.answered:3",
    "coordinator.answered:30",
    "coordinator.loaded:2",
)


def play(broker, seconds, disturb, begun=lambda: True):
    """Three members of one group and two groups that only commit; `disturb()` is called again and again. On a busy
    machine it lasts longer: the time counts from when `begun()`, and until everybody got somewhere."""
    create_by_metadata("127.0.0.1", broker.port(), "t")
    cast = [Member(broker.port(), "g", f"member-{n}") for n in range(3)]
    cast += [Committer(broker.port(), f"alone-{n}", "t") for n in range(2)]
    for one in cast:
        one.start()
    latest = time.monotonic() + seconds + LONGEST_PLAY_S
    until = None
    while time.monotonic() < latest and not any(one.wrong for one in cast):
        disturb()
        if until is None and begun():
            until = time.monotonic() + seconds
        if until is not None and time.monotonic() >= until and all(map(got_somewhere, cast)):
            break
    for one in cast:
        one.stop()
    for one in cast:
        one.join(LONGEST_ANSWER_S + 5)
    return cast


def got_somewhere(one):
    """A member was in a generation, a committer has an offset."""
    return one.rounds if isinstance(one, Member) else one.offset > 0


def check(broker, cast):
    members = [one for one in cast if isinstance(one, Member)]
    alone = [one for one in cast if isinstance(one, Committer)]
    assert [wrong for one in cast for wrong in one.wrong] == [], broker.log()[-3000:]
    assert not any(one.is_alive() for one in cast)
    assert max(one.slowest_s for one in cast) < LONGEST_ANSWER_S
    leaders: dict[int, set[str]] = {}
    for one in members:
        generations = [generation for generation, *_ in one.rounds]
        assert generations == sorted(generations) and generations
        for generation, leader, _ in one.rounds:
            leaders.setdefault(generation, set()).add(leader)
    assert all(len(found) == 1 for found in leaders.values()), leaders
    client = GroupClient(broker.port())
    for one in alone:
        assert one.offset > 0
        assert one.offset <= client.committed(one.name, "t") <= one.offset + 1
    client.close()


@pytest.mark.parametrize("point", POINTS)
def test_a_death_at_a_named_moment(tmp_path, point):
    role = "handler" if point.startswith("handler") else "coordinator"
    with Broker(tmp_path, overrides=SETTINGS, env={"MPBROKER_CRASH": point}) as broker:

        def died():
            return any(row["role"] == role and row["restarts"] for row in broker.status()["processes"])

        def disturb():
            time.sleep(0.05)

        cast = play(broker, 1.2, disturb, died)
        assert died(), f"nobody passed {point}"
        check(broker, cast)


def join(client, member, group="g"):
    protocols = [JoinGroupRequestProtocol("p", b"")]
    message = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=6000,
        rebalance_timeout_ms=6000,
        member_id=member,
        protocol_type="consumer",
        protocols=protocols,
    )
    return client.ask(message, 5)


def kill_the_coordinator(broker):
    broker.wait_restarted("coordinator", 0, broker.kill("coordinator", 0))


def test_a_generation_that_was_shown_is_not_given_twice(tmp_path):
    """It stands in no log: the leader has not sent its assignment."""
    with Broker(tmp_path, overrides=SETTINGS) as broker:
        client = GroupClient(broker.port())
        client.find("g")
        member = join(client, "").member_id
        assert join(client, member).generation_id == 1
        kill_the_coordinator(broker)
        heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member)
        assert client.ask(heartbeat, 3).error_code == REBALANCE_IN_PROGRESS
        assert join(client, member).generation_id == 2
        client.close()


def test_a_member_id_that_was_issued_stays_known(tmp_path):
    with Broker(tmp_path, overrides=SETTINGS) as broker:
        client = GroupClient(broker.port())
        client.find("g")
        asked = join(client, "")
        assert asked.error_code == MEMBER_ID_REQUIRED
        kill_the_coordinator(broker)
        joined = join(client, asked.member_id)
        assert (joined.error_code, joined.generation_id) == (0, 1)
        client.close()


def test_what_was_recorded_before_the_death_is_a_success_after_it(tmp_path):
    """The group is gone when the request runs again; but it was this request that removed it."""
    with Broker(tmp_path, overrides=SETTINGS, env={"MPBROKER_CRASH": "coordinator.appended:3"}) as broker:
        create_by_metadata("127.0.0.1", broker.port(), "t")
        client = GroupClient(broker.port())
        for group in ("g", "h"):  # in two partitions
            client.find(group)
            assert client.commit(group, "t", 5) == 0
        answer = client.ask(DeleteGroupsRequest(groups_names=["g", "h", "x"]), 1)
        assert {one.group_id: one.error_code for one in answer.results} == {"g": 0, "h": 0, "x": 69}
        assert broker.row("coordinator", 0)["restarts"] == 1
        client.close()


@pytest.mark.parametrize(
    ("flush", "seconds", "victims"),
    [
        ("none", 12, ["coordinator"]),
        ("commit", 6, ["coordinator"]),
        ("commit", 10, ["coordinator", "handler", "log-keeper", "controller"]),  # clients keep their connections
    ],
)
def test_deaths_at_random(tmp_path, flush, seconds, victims):
    chance = random.Random(seconds)
    with Broker(tmp_path, overrides=SETTINGS | {"mpbroker.log.flush": flush}) as broker:

        def disturb():
            time.sleep(chance.uniform(0.3, 1.5))
            role = chance.choice([*victims, "coordinator"])
            broker.wait_restarted(role, 0, broker.kill(role, 0))

        cast = play(broker, seconds, disturb)
        restarts = next(row["restarts"] for row in broker.status()["processes"] if row["role"] == "coordinator")
        assert restarts >= seconds // 6
        check(broker, cast)


def test_offsets_outlive_the_death_of_all(tmp_path):
    """A fault resets every worker; what was acknowledged is in the log."""
    with Broker(tmp_path, overrides=SETTINGS) as broker:
        create_by_metadata("127.0.0.1", broker.port(), "t")
        client = GroupClient(broker.port())
        client.find("g")
        assert client.commit("g", "t", 41) == 0
        broker.kill("coordinator", 0, 11)
        client.close()
        wait_until(lambda: "resetting" not in broker.status()["state"], "the reset")

        def found():
            try:
                again = GroupClient(broker.port())
                return again.committed("g", "t")
            except (AssertionError, OSError):
                return None

        assert wait_until(found, "the offsets") == 41
