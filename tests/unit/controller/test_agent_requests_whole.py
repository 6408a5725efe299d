"""LeaderAndIsr and StopReplica at an agent, request by request: what each partition becomes, with exactly which words,
what is announced and who is rung afterwards."""

from types import SimpleNamespace

import pytest

from mpbroker.controller.agent_decisions import Epochs
from mpbroker.controller.agent_requests import ALIVE_EVERY, FULL, ControlRequests
from mpbroker.errors import ErrorCode
from mpbroker.log.partition_directory import DELETE_SUFFIX, STRAY_SUFFIX
from mpbroker.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from mpbroker.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from mpbroker.shm.layout import MAX_ASSIGNED, PARTITION_ONLINE, PartitionFlags, ReplicaRole

SELF, TOPIC, OFFSETS = 1, b"t" * 16, b"o" * 16
STORAGE, UNKNOWN, STALE = ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 11


class World:
    """Topic t with rows 10, 11 and 12, of which 12 has no log here, and an internal one with row 20."""

    def __init__(self):
        self.done, self.became, self.told, self.traced, self.seen, self.asked = [], [], [], [], [], []
        self.roles, self.epochs = {10: ReplicaRole.FOLLOWER, 11: ReplicaRole.LEADER, 20: ReplicaRole.FOLLOWER}, {}
        self.here, self.errors, self.create_error, self.known = {10, 11, 20}, {}, 0, {}
        topics = [
            SimpleNamespace(id=TOPIC, name="t", ordinals=[10, 11, 12], configs={"a": "b"}, replicas=[[1, 2]] * 3),
            SimpleNamespace(id=OFFSETS, name="__consumer_offsets", ordinals=[20], configs={}, replicas=[[1, 2]]),
        ]
        self.context = SimpleNamespace(by_id={one.id: one for one in topics}, by_name={one.name: one for one in topics})
        note = lambda *words: self.done.append(words[0] if len(words) == 1 else words)  # noqa: E731
        self.topics = SimpleNamespace(
            context=self.context, can_create=True, may_be_offline=False, has_log=lambda row: row in self.here,
            create=self._create, announce_made=lambda: note("announce made"),
            announce=lambda topic: note("announce", topic.name),
            drop=lambda topic, partition, suffix: note("drop", topic.name, partition, suffix),
        )  # fmt: skip
        log = SimpleNamespace(
            state=lambda row: SimpleNamespace(flags=PARTITION_ONLINE, log_dir=0, role=self.roles[row]),
            log_dir_online=lambda log_dir: True, replica_state=self._state, become=self._become, stop=self._stop,
        )  # fmt: skip
        line = lambda event, **fields: self.told.append((event, fields))  # noqa: E731
        self.agent = ControlRequests(
            self_id=SELF, topics=self.topics, log=log, known=lambda: Epochs(3, 4),
            seen=lambda *who: self.seen.append(who), brokers=None, missing=self._missing,
            settings_of=lambda configs: SimpleNamespace(min_insync_replicas=2 if configs else 1),
            roles_changed=lambda: note("rung"), alive=lambda: note("alive"), now_ms=lambda: 777,
            events=SimpleNamespace(info=line, warning=line, error=line),
            roles=SimpleNamespace(role_of=lambda row: f"was {row}", changed=lambda *words: self.traced.append(words)),
        )  # fmt: skip

    def _missing(self, topic_id):
        self.asked.append(topic_id)
        return self.known.get(topic_id)

    def _create(self, topic, partition):
        self.done.append(("create", topic.name, partition))
        return self.create_error

    def _state(self, row):
        return SimpleNamespace(leader_epoch=self.epochs.get(row, 5), partition_epoch=8, role=self.roles[row])

    def _become(self, row, *words):
        self.became.append((row, *words))
        return self.errors.get(row, 0)

    def _stop(self, row):
        self.done.append(("stop", row))
        return self.errors.get(row, 0)

    def lead(self, *states, name="t", topic_id=TOPIC, kind=0, epoch=3):
        topics = [LeaderAndIsrTopicState(topic_name=name, topic_id=topic_id, partition_states=list(states))]
        self.done.clear()
        return self.agent.leader_and_isr(
            LeaderAndIsrRequest(controller_id=9, controller_epoch=epoch, broker_epoch=4, type=kind, topic_states=topics)
        )

    def stop(self, *states, name="t", epoch=3):
        topics = [StopReplicaTopicState(topic_name=name, partition_states=list(states))]
        self.done.clear()
        return self.agent.stop_replica(
            StopReplicaRequest(controller_id=9, controller_epoch=epoch, broker_epoch=4, topic_states=topics)
        )


def state(partition=0, **fields):
    usual = {"leader": SELF, "leader_epoch": 6, "isr": [1, 2], "partition_epoch": 9, "replicas": [1, 2]}
    return LeaderAndIsrPartitionState(partition_index=partition, **usual | fields)


@pytest.fixture
def world():
    return World()


# ---- LeaderAndIsr


def test_a_role_is_taken_in_the_words_of_the_request(world):
    assert world.lead(state(0, isr=[2, 1, 7], replicas=[2, 1]), state(1, leader=2)) == (0, [0, 0])
    assert world.became == [
        (10, int(ReplicaRole.LEADER), 6, 9, (2, 1), (2, 1), SELF, 2, 777, SELF),
        (11, int(ReplicaRole.FOLLOWER), 6, 9, (1, 2), (1, 2), SELF, 2, 777, 2),
    ]
    assert world.traced == [("t", 0, 10, "was 10", 3), ("t", 1, 11, "was 11", 3)]
    assert world.seen == [(9, 3)] and world.done == ["alive", "announce made", "rung"]


def test_settings_are_the_topics_own(world):
    world.lead(state(0), name="__consumer_offsets", topic_id=OFFSETS)
    assert world.became[0][7] == 1
    assert world.done == ["alive", "announce made", ("announce", "__consumer_offsets"), "rung"], "groups are led here"


def test_every_hundred_partitions_is_a_sign_of_life(world):
    assert ALIVE_EVERY == 100
    for count, signs in ((100, 1), (101, 2), (201, 3)):
        world.lead(*[state(0)] * count)
        assert world.done.count("alive") == signs


def test_of_a_controller_of_before_nothing_is_taken(world):
    assert world.lead(state(0), state(1), epoch=2) == (STALE, [STALE, STALE])
    assert world.became == world.done == world.seen == []
    [(event, fields)] = world.told
    assert event == "control_request_fenced" and (fields["epoch"], fields["latest"], fields["error"]) == (2, 3, STALE)
    assert world.stop(StopReplicaPartitionState(partition_index=0), epoch=2) == (STALE, [STALE])
    assert world.done == world.seen == []


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (state(-1), UNKNOWN),
        (state(3), UNKNOWN),
        (state(0, replicas=[2, 3]), UNKNOWN),
        (state(0, leader_epoch=5), STALE),
        (state(0, replicas=[1, *range(100, 99 + MAX_ASSIGNED)]), 0),
        (state(0, replicas=[1, *range(100, 100 + MAX_ASSIGNED)]), ErrorCode.INVALID_REPLICATION_FACTOR),
        (state(2, is_new=True), 0),
    ],
    ids=["below", "beyond", "not ours", "an old epoch", "as many replicas as fit", "one more", "a new one"],
)
def test_what_becomes_of_each_partition(world, asked, code):
    world.agent._touched.add(10)
    assert world.lead(asked) == (0, [code]), "an error of one partition is none of the whole"
    assert len(world.became) == (code == 0)


def test_a_log_that_cannot_be_made_takes_no_role(world):
    world.create_error = STORAGE
    assert world.lead(state(2, is_new=True)) == (0, [STORAGE]) and world.became == []
    assert world.done == ["alive", ("create", "t", 2), "announce made", "rung"]
    assert 12 not in world.agent._touched
    world.create_error = 0
    assert world.lead(state(2, is_new=True)) == (0, [0]) and len(world.became) == 1 and 12 in world.agent._touched


def test_what_a_predecessor_of_this_process_did_is_not_done_again(world):
    """Row 11 leads in epoch 5 already, as the request wants it; this process has not touched it."""
    assert world.lead(state(1, leader_epoch=5)) == (0, [0]) and world.became == []
    assert world.lead(state(1, leader_epoch=5)) == (0, [STALE]), "the second time it is an old epoch"
    assert world.lead(state(0, leader_epoch=5)) == (0, [0]) and len(world.became) == 1, "it followed"


def test_a_role_that_was_not_taken_is_not_traced(world):
    world.errors[10] = 56
    assert world.lead(state(0), state(1)) == (0, [56, 0]) and [words[2] for words in world.traced] == [11]
    world.errors[10] = ErrorCode.REQUEST_TIMED_OUT
    assert world.lead(state(0), state(1, leader_epoch=7)) == (7, [7, 0]), "the controller is to ask again"


def test_a_topic_of_the_same_name_and_another_id_is_another(world):
    assert world.lead(state(0), topic_id=b"x" * 16) == (0, [ErrorCode.INCONSISTENT_TOPIC_ID])
    assert world.lead(state(0), name="u", topic_id=b"x" * 16) == (0, [UNKNOWN]) and world.asked == [b"x" * 16] * 2
    assert world.lead(state(0), topic_id=bytes(16)) == (0, [0]), "an old version names it by name"
    assert world.lead(state(0), name="u", topic_id=bytes(16)) == (0, [UNKNOWN]) and len(world.asked) == 2
    assert world.became and world.lead(state(0, leader_epoch=7), name="v", topic_id=TOPIC) == (0, [0])


def test_a_topic_that_the_watch_has_not_brought_is_looked_up(world):
    world.known[b"n" * 16] = SimpleNamespace(id=b"n" * 16, name="n", ordinals=[10], configs={}, replicas=[[1]])
    assert world.lead(state(0), name="n", topic_id=b"n" * 16) == (0, [0]) and len(world.became) == 1


def test_requests_of_an_old_version_name_a_topic_with_each_partition(world):
    one = state(0)
    one.topic_name = "t"
    request = LeaderAndIsrRequest(controller_id=9, controller_epoch=3, broker_epoch=4, ungrouped_partition_states=[one])
    assert world.agent.leader_and_isr(request) == (0, [0]) and world.became[0][0] == 10


@pytest.mark.parametrize("flags", [0, PartitionFlags.EXISTS])
def test_a_log_that_is_here_and_not_online_takes_no_role_and_ends_none(world, flags):
    """Nobody takes its lock any more."""
    world.agent._log.state = lambda row: SimpleNamespace(flags=flags, log_dir=0, role=world.roles[row])
    world.agent._log.replica_state = lambda row: pytest.fail("it would wait for the lock")
    assert world.lead(state(0)) == (0, [STORAGE]) and world.became == []
    assert world.stop(StopReplicaPartitionState(partition_index=0)) == (0, [STORAGE]) and world.done == ["rung"]


# ---- all there is


def test_replicas_that_a_full_request_does_not_name_are_stopped_and_set_aside_if_they_are_others(world):
    assert FULL == 2
    world.context.by_id[TOPIC].replicas = [[1, 2], [2, 3], [2, 3]]
    world.agent._touched.add(11)
    assert world.lead(state(0), kind=FULL) == (0, [0])
    assert world.done == [
        "alive", ("stop", 11), ("drop", "t", 1, STRAY_SUFFIX), ("stop", 20), "announce made", "rung",
    ]  # fmt: skip
    assert world.agent._touched == {10}
    assert ("stray_set_aside", {"directory": "t-1", "renamed": STRAY_SUFFIX}) in world.told
    assert world.lead(state(0, leader_epoch=7)) == (0, [0]) and ("stop", 20) not in world.done, "one that is not full"


def test_a_partition_beyond_a_topic_is_none_of_those_that_were_named(world):
    assert world.lead(state(3), state(1), kind=FULL)[1] == [UNKNOWN, 0]
    assert [words for words in world.done if words[0] == "stop"] == [("stop", 10), ("stop", 20)]


def test_a_stray_that_is_busy_makes_the_whole_be_asked_again(world):
    world.errors[20] = ErrorCode.REQUEST_TIMED_OUT
    assert world.lead(state(0), state(1), kind=FULL) == (ErrorCode.REQUEST_TIMED_OUT, [0, 0])


def test_replicas_that_the_store_gives_to_others_are_set_aside_without_a_role(world):
    topic = world.context.by_id[TOPIC]
    topic.replicas = [[2, 3]] * 3
    world.roles[10] = ReplicaRole.NONE
    world.agent._touched.update({10, 11})
    world.agent.set_moved_aside(topic)
    assert world.done == [("drop", "t", 0, STRAY_SUFFIX)] and world.agent._touched == {11}
    topic.replicas = [[1, 2]] * 3
    world.agent.set_moved_aside(topic)
    assert len(world.done) == 1, "they are its own"


# ---- StopReplica


def stopped(partition, **fields):
    return StopReplicaPartitionState(partition_index=partition, **{"leader_epoch": 5} | fields)


def test_a_replica_that_stops_keeps_its_log_unless_it_is_to_delete_it(world):
    world.agent._touched.update({10, 11})
    assert world.stop(stopped(0), stopped(1, delete_partition=True)) == (0, [0, 0])
    dropped = ("drop", "t", 1, STRAY_SUFFIX)
    assert world.done == [("stop", 10), ("stop", 11), dropped, "rung"], "by the store it is ours"
    assert world.traced == [("t", 0, 10, "was 10", 3), ("t", 1, 11, "was 11", 3)]
    assert world.agent._touched == {10} and world.seen == [(9, 3)]
    world.context.by_id[TOPIC].replicas = [[2, 3]] * 3
    world.stop(stopped(0, delete_partition=True))
    assert world.done[1] == ("drop", "t", 0, DELETE_SUFFIX)


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (stopped(-1), 0),
        (stopped(3), 0),
        (stopped(2), 0),
        (stopped(0, leader_epoch=4), ErrorCode.FENCED_LEADER_EPOCH),
    ],
    ids=["below", "beyond", "no log", "an old epoch"],
)
def test_what_is_not_stopped(world, asked, code):
    assert world.stop(asked) == (0, [code]) and world.done == ["rung"] and world.traced == []
    assert world.stop(stopped(0), name="u") == (0, [0]) and world.done == ["rung"]


def test_a_role_that_could_not_end_deletes_nothing(world):
    world.errors = {10: 56, 20: 56}
    assert world.stop(stopped(0, delete_partition=True)) == (0, [56]) and world.done == [("stop", 10), "rung"]
    world.stop(stopped(0, delete_partition=True), name="__consumer_offsets")
    assert world.done == [("stop", 20), "rung"] and world.traced == []


def test_groups_are_coordinated_no_more_by_who_stops_with_their_offsets(world):
    world.stop(stopped(0), name="__consumer_offsets")
    assert world.done == [("stop", 20), ("announce", "__consumer_offsets"), "rung"]


@pytest.mark.parametrize("deletes", [False, True])
def test_old_versions_say_once_for_all_whether_to_delete(world, deletes):
    words = {"controller_id": 9, "controller_epoch": 3, "broker_epoch": 4, "delete_partitions": deletes}
    world.agent.stop_replica(
        StopReplicaRequest(**words, ungrouped_partitions=[StopReplicaPartitionV0(topic_name="t", partition_index=0)])
    )
    world.agent.stop_replica(StopReplicaRequest(**words, topics=[StopReplicaTopicV1(name="t", partition_indexes=[1])]))
    dropped = [words for words in world.done if words[0] == "drop"]
    assert [words for words in world.done if words[0] == "stop"] == [("stop", 10), ("stop", 11)]
    assert [partition for _, _, partition, _ in dropped] == ([0, 1] if deletes else [])
