"""Requests of the controller that meet a partition whose lock somebody holds for long: they are carried out later,
never forgotten. (An error of one partition is its last word to the controller; an error of the whole is not.)"""

from types import SimpleNamespace

import pytest

from mpbroker.controller.agent_decisions import Epochs
from mpbroker.controller.agent_requests import FULL, ControlRequests
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from mpbroker.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from mpbroker.shm.layout import PARTITION_ONLINE, ReplicaRole

TOPIC, BUSY = b"t" * 16, ErrorCode.REQUEST_TIMED_OUT


class Log:
    """Rows 0 and 1; calls that are named in `busy` do not get row 1's lock."""

    def __init__(self, *busy):
        self.busy = set(busy)
        self.online = True
        self.epochs = [1, 1]
        self.roles = [ReplicaRole.FOLLOWER] * 2

    def replica_state(self, row):
        if row == 1 and "replica_state" in self.busy:
            raise TimeoutError("partition row 1 cannot be locked: error 7")
        return SimpleNamespace(leader_epoch=self.epochs[row], partition_epoch=0, role=self.roles[row])

    def state(self, row):
        return SimpleNamespace(flags=PARTITION_ONLINE, role=self.roles[row], log_dir=0)

    def log_dir_online(self, log_dir):
        return self.online

    def become(self, row, role, leader_epoch, *_):
        if row == 1 and "become" in self.busy:
            return BUSY
        self.roles[row], self.epochs[row] = role, leader_epoch
        return 0

    def stop(self, row):
        if row == 1 and "stop" in self.busy:
            return BUSY
        self.roles[row] = ReplicaRole.NONE
        return 0


class Topics:
    """One topic of two partitions; `dropped`: whose directories were renamed."""

    def __init__(self, replicas=(1, 2)):
        topic = SimpleNamespace(
            id=TOPIC, name="t", ordinals=[0, 1], configs={}, replicas=[list(replicas), list(replicas)]
        )
        self.context = SimpleNamespace(by_id={TOPIC: topic}, by_name={"t": topic})
        self.can_create, self.may_be_offline = True, False
        self.dropped, self.announced = [], 0

    def announce_made(self):
        self.announced += 1

    def has_log(self, row):
        return row not in self.dropped

    def drop(self, topic, partition, suffix):
        self.dropped.append(partition)


def requests(log, topics):
    nothing = lambda *_, **__: None  # noqa: E731
    return ControlRequests(
        self_id=1, topics=topics, log=log, known=lambda: Epochs(1, 1), seen=nothing, brokers=nothing, missing=nothing,
        settings_of=lambda _: SimpleNamespace(min_insync_replicas=1), roles_changed=nothing, alive=nothing,
        now_ms=lambda: 0, events=SimpleNamespace(info=nothing, warning=nothing, error=nothing),
        roles=SimpleNamespace(role_of=nothing, changed=nothing),
    )  # fmt: skip


def leader_and_isr(*partitions, kind=0):
    states = [
        LeaderAndIsrPartitionState(partition_index=number, leader=1, leader_epoch=2, isr=[1, 2], replicas=[1, 2])
        for number in partitions
    ]
    topics = [LeaderAndIsrTopicState(topic_name="t", topic_id=TOPIC, partition_states=states)] if states else []
    return LeaderAndIsrRequest(controller_id=1, controller_epoch=1, broker_epoch=1, type=kind, topic_states=topics)


def stop_replica(*partitions):
    states = [StopReplicaPartitionState(partition_index=number, leader_epoch=2) for number in partitions]
    topics = [StopReplicaTopicState(topic_name="t", partition_states=states)]
    return StopReplicaRequest(controller_id=1, controller_epoch=1, broker_epoch=1, topic_states=topics)


@pytest.mark.parametrize(("epoch", "announced"), [(1, 1), (0, 0)])
def test_what_was_made_is_announced_once_for_a_request(epoch, announced):
    """Of a controller of before nothing was made."""
    topics, request = Topics(), leader_and_isr(0, 1)
    request.controller_epoch = epoch
    code, _ = requests(Log(), topics).leader_and_isr(request)
    assert (topics.announced, code == 0) == (announced, bool(announced))


@pytest.mark.parametrize(
    ("can_create", "may_be_offline", "is_new", "code"),
    [
        (True, False, False, 0),
        (True, False, True, 0),
        (True, True, True, 0),
        (True, True, False, ErrorCode.KAFKA_STORAGE_ERROR),
        (False, False, True, ErrorCode.KAFKA_STORAGE_ERROR),
        (False, True, True, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_a_log_is_made_where_one_may_be_and_none_may_lie_in_a_directory_that_failed(
    can_create, may_be_offline, is_new, code
):
    """One that was told of as new has no other."""
    topics, made, request = Topics(), [], leader_and_isr(0)
    topics.can_create, topics.may_be_offline, topics.dropped = can_create, may_be_offline, [0]
    topics.create = lambda topic, partition: made.append(partition) or 0
    request.topic_states[0].partition_states[0].is_new = is_new
    assert requests(Log(), topics).leader_and_isr(request)[1] == [code]
    assert made == ([] if code else [0])


@pytest.mark.parametrize("call", ["replica_state", "become"])
def test_a_role_that_could_not_be_set_is_asked_for_again(call):
    log = Log(call)
    agent = requests(log, Topics())
    assert agent.leader_and_isr(leader_and_isr(0, 1)) == (BUSY, [0, BUSY])
    assert log.roles == [ReplicaRole.LEADER, ReplicaRole.FOLLOWER]
    log.busy.clear()
    assert agent.leader_and_isr(leader_and_isr(0, 1)) == (0, [ErrorCode.STALE_CONTROLLER_EPOCH, 0])
    assert log.roles == [ReplicaRole.LEADER] * 2


@pytest.mark.parametrize("call", ["replica_state", "stop"])
def test_a_replica_that_could_not_be_stopped_is_asked_for_again(call):
    log = Log(call)
    agent = requests(log, Topics())
    assert agent.stop_replica(stop_replica(0, 1)) == (BUSY, [0, BUSY])
    log.busy.clear()
    assert agent.stop_replica(stop_replica(0, 1)) == (0, [0, 0])
    assert log.roles == [ReplicaRole.NONE] * 2


def test_a_stray_whose_role_does_not_end_keeps_its_directory():
    log, topics = Log("stop"), Topics(replicas=(2, 3))
    agent = requests(log, topics)
    assert agent.leader_and_isr(leader_and_isr(kind=FULL)) == (BUSY, [])
    assert topics.dropped == [0]
    log.busy.clear()
    agent._touched.update((0, 1, 9))
    assert agent.leader_and_isr(leader_and_isr(kind=FULL)) == (0, [])
    assert topics.dropped == [0, 1] and agent._touched == {0, 9}, "what is made in its row was not touched"


def test_a_replica_that_the_store_gives_to_others_goes_once_it_has_no_role():
    """The full request came before the agent knew; the controller that wanted the deletion is gone."""
    log, topics = Log(), Topics()
    agent = requests(log, topics)
    assert agent.leader_and_isr(leader_and_isr(0, kind=FULL)) == (0, [0])
    topic = topics.context.by_id[TOPIC]
    agent.set_moved_aside(topic)
    assert topics.dropped == []
    topic.replicas = [[2, 3], [2, 3]]
    agent._touched.add(1)
    agent.set_moved_aside(topic)
    assert topics.dropped == [1], "0 has a role: StopReplica tells"
    assert agent._touched == {0}


def test_a_replica_in_a_failed_log_directory_is_told_and_its_lock_left_alone():
    log = Log("replica_state", "become")
    log.online = False
    _, codes = requests(log, Topics()).leader_and_isr(leader_and_isr(0, 1))
    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert log.roles == [ReplicaRole.FOLLOWER] * 2


@pytest.mark.parametrize("deletes", [False, True])
def test_a_replica_that_is_deleted_is_made_anew_when_it_comes_back(deletes):
    log, topics = Log(), Topics()
    agent = requests(log, topics)
    agent._touched.update((0, 1))
    request = stop_replica(0)
    request.topic_states[0].partition_states[0].delete_partition = deletes
    assert agent.stop_replica(request) == (0, [0])
    assert topics.dropped == [0] * deletes and agent._touched == ({1} if deletes else {0, 1})


def test_a_role_that_ended_is_said_and_one_that_could_not_end_is_not():
    log, told = Log("stop"), []
    agent = requests(log, Topics())
    agent._roles = SimpleNamespace(
        role_of=lambda ordinal: f"before {ordinal}", changed=lambda *words: told.append(words)
    )
    assert agent.stop_replica(stop_replica(0, 1)) == (BUSY, [0, BUSY])
    assert told == [("t", 0, 0, "before 0", 1)]
