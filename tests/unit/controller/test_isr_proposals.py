"""What a leader's agent tells the controller of the replicas it wants in sync."""

from types import SimpleNamespace

import pytest

from mpbroker.controller.isr_proposals import RETRY_MS, IsrProposals
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.alter_partition import (
    AlterPartitionPartitionResult,
    AlterPartitionResponse,
    AlterPartitionTopicResult,
)


class Log:
    """One partition: `followers` as ReplicaState has them."""

    def __init__(self, followers, isr=(1, 2), hw=10):
        self.state = SimpleNamespace(followers=followers, isr=isr, hw=hw)
        self.answered = None

    def take_isr_proposals(self, lag_ms, now_ms, again):
        return [(7, 4, 2, (1, 2, 3))], False

    def replica_state(self, ordinal):
        return self.state if ordinal == 7 else None

    def isr_answered(self, *answer):
        self.answered = answer


def members(log):
    proposals = IsrProposals(
        log=log, self_id=1, lag_ms=1000, identity_of=lambda ordinal: (b"t" * 16, 0), broker_epoch=lambda broker: 100
    )
    (topic,) = proposals.next_request(0).topics
    return [(member.broker_id, member.broker_epoch) for member in topic.partitions[0].new_isr_with_epochs]


def test_followers_have_the_broker_epoch_of_the_fetch_that_was_counted():
    """By now broker 3 may have another one: what it had before its machine failed does not count."""
    assert members(Log(((2, 9, 0, 20), (3, 12, 0, 30)))) == [(1, 100), (2, 20), (3, 30)]


def test_a_member_that_has_not_fetched_in_this_epoch_is_unknown():
    assert members(Log(((3, 12, 0, 30),))) == [(1, 100), (2, -1), (3, 30)]


def test_a_newcomer_that_is_behind_again_is_named_so_that_it_is_refused():
    assert members(Log(((2, 9, 0, 20), (3, 0, 0, 31)))) == [(1, 100), (2, 20), (3, 0)]


@pytest.mark.parametrize("code", [0, 95])
def test_the_partition_hears_what_the_controller_answered(code):
    """And it is counted: 3 joins, 4 leaves."""
    log, counted = Log(((2, 9, 0, 20), (3, 12, 0, 30)), isr=(1, 2, 4)), {}
    proposals = IsrProposals(
        log=log,
        self_id=1,
        lag_ms=1000,
        identity_of=lambda ordinal: (b"t" * 16, 0),
        broker_epoch=lambda broker: 100,
        count=lambda counter, n: counted.__setitem__(counter.name, n),
    )
    proposals.next_request(0)
    told = AlterPartitionPartitionResult(partition_index=0, error_code=code, partition_epoch=3, isr=[1, 2, 3])
    answer = AlterPartitionResponse(topics=[AlterPartitionTopicResult(topic_id=b"t" * 16, partitions=[told])])
    assert proposals.answered(answer, 10) == 0
    assert log.answered == (7, 4, 3, (1, 2, 3), code)
    assert counted == ({"ISR_UPDATES_FAILED": 1} if code else {"ISR_SHRINKS": 1, "ISR_EXPANDS": 1})


def test_an_answer_is_not_for_another_partition_that_has_the_row_by_now():
    """Its topic was deleted and another one made meanwhile, which is led in the same epoch."""
    log, rows = Log(((2, 9, 0, 20), (3, 12, 0, 30))), {7: (b"t" * 16, 0)}
    proposals = IsrProposals(
        log=log, self_id=1, lag_ms=1000, identity_of=rows.__getitem__, broker_epoch=lambda broker: 100
    )
    proposals.next_request(0)
    rows[7] = (b"u" * 16, 0)
    told = AlterPartitionPartitionResult(partition_index=0, partition_epoch=3, isr=[1, 2, 3])
    answer = AlterPartitionResponse(topics=[AlterPartitionTopicResult(topic_id=b"t" * 16, partitions=[told])])
    assert proposals.answered(answer, 10) == 0
    assert log.answered is None


@pytest.mark.parametrize("busy", ["replica_state", "isr_answered"])
def test_a_partition_whose_lock_is_not_to_be_had_is_asked_for_again(busy):
    log = Log(((2, 9, 0, 20), (3, 12, 0, 30)))
    asked = []
    log.take_isr_proposals = lambda lag_ms, now_ms, again: asked.append(again) or ([(7, 4, 2, (1, 2, 3))], False)
    proposals = IsrProposals(
        log=log,
        self_id=1,
        lag_ms=1000,
        identity_of=lambda ordinal: (b"t" * 16, 0),
        broker_epoch=lambda broker: 100,
        count=lambda *_: None,
    )
    if busy == "replica_state":
        works, log.replica_state = log.replica_state, raises_timeout
        assert proposals.next_request(0) is None
        log.replica_state = works
    else:
        proposals.next_request(0)
        log.isr_answered = lambda *_: ErrorCode.REQUEST_TIMED_OUT
        told = AlterPartitionPartitionResult(partition_index=0, partition_epoch=3, isr=[1, 2, 3])
        answer = AlterPartitionResponse(topics=[AlterPartitionTopicResult(topic_id=b"t" * 16, partitions=[told])])
        proposals.answered(answer, 10)
    assert proposals.next_request(11) is None
    assert proposals.next_request(100) is not None
    assert asked == [True, True]


@pytest.mark.parametrize(
    ("answer", "code"), [(None, 13), (AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER), 41)]
)
def test_without_an_answer_all_is_asked_for_again_a_moment_later(answer, code):
    asked = []
    log = Log(((2, 9, 0, 20), (3, 12, 0, 30)))
    log.take_isr_proposals = lambda lag_ms, now_ms, again: asked.append(again) or ([(7, 4, 2, (1, 2, 3))], False)
    proposals = IsrProposals(
        log=log, self_id=1, lag_ms=1000, identity_of=lambda ordinal: (b"t" * 16, 0), broker_epoch=lambda broker: 100
    )
    proposals.next_request(0)
    assert (proposals.answered(answer, 10), log.answered) == (code, None)
    assert proposals.next_request(10 + RETRY_MS - 1) is None
    assert proposals.next_request(10 + RETRY_MS) is not None
    assert asked == [True, True]


def test_what_a_predecessor_asked_for_is_asked_for_until_no_partition_is_busy():
    """Its proposal counts as sent: skipped once because its lock was taken, it would wait for good, and with it the
    in-sync replicas as they are. (The simulation found it: seed 14248.)"""
    log, asked = Log(((2, 9, 0, 20), (3, 12, 0, 30))), []
    answers = [([], True), ([], True), ([(7, 4, 2, (1, 2, 3))], False), ([], False)]
    log.take_isr_proposals = lambda lag_ms, now_ms, again: asked.append(again) or answers.pop(0)
    proposals = IsrProposals(
        log=log, self_id=1, lag_ms=1000, identity_of=lambda ordinal: (b"t" * 16, 0), broker_epoch=lambda broker: 100
    )
    assert proposals.next_request(0) is None and proposals.next_request(1) is None
    assert proposals.next_request(2) is not None
    assert proposals.next_request(3) is None
    assert asked == [True, True, True, False]


def raises_timeout(ordinal):
    raise TimeoutError


class Proposed:
    """`found`: what each look finds; how it was asked is noted."""

    def __init__(self, *found, isr=(1, 2), hw=10, followers=()):
        self.found, self.asked, self.told = list(found), [], []
        self.log = SimpleNamespace(
            take_isr_proposals=self._take,
            replica_state=lambda ordinal: SimpleNamespace(isr=isr, hw=hw, followers=followers),
            isr_answered=lambda *words: self.told.append(words) or 0,
        )
        self.proposals = IsrProposals(
            log=self.log,
            self_id=1,
            lag_ms=1001,
            identity_of=lambda ordinal: (b"t" * 16, ordinal),
            broker_epoch=lambda broker: 100 + broker,
        )

    def _take(self, lag_ms, now_ms, again):
        self.asked.append((lag_ms, now_ms, again))
        return self.found.pop(0) if self.found else ([], False)


@pytest.mark.parametrize(("second_ms", "looks"), [(499, -1), (500, 1001), (501, 1001)])
def test_who_lags_is_looked_for_twice_in_its_time(second_ms, looks):
    world = Proposed()
    for now_ms in (1000, 1000 + second_ms):
        assert world.proposals.next_request(now_ms) is None
    assert world.asked == [(1001, 1000, True), (looks, 1000 + second_ms, False)]


@pytest.mark.parametrize(("number", "asked", "again"), [(499, 499, False), (500, 500, False), (501, 500, True)])
def test_so_many_partitions_are_asked_for_at_once_and_the_others_next(number, asked, again):
    world = Proposed(([(ordinal, 4, 2, (1, 2)) for ordinal in range(number)], False))
    (topic,) = world.proposals.next_request(0).topics
    assert [one.partition_index for one in topic.partitions] == list(range(asked))
    rows = [AlterPartitionPartitionResult(partition_index=n, partition_epoch=3, isr=[1, 2]) for n in range(asked)]
    topics = [AlterPartitionTopicResult(topic_id=b"t" * 16, partitions=rows)]
    assert world.proposals.answered(AlterPartitionResponse(topics=topics), 1) == 0
    assert len(world.told) == asked
    world.proposals.next_request(2)
    assert world.asked[1] == (-1, 2, again)


@pytest.mark.parametrize(
    ("log_end", "isr", "epoch"), [(9, (1, 2), 0), (10, (1, 2), 30), (11, (1, 2), 30), (0, (1, 2, 3), 30)]
)
def test_a_newcomer_has_all_that_is_committed(log_end, isr, epoch):
    world = Proposed(([(7, 4, 2, (1, 3))], False), isr=isr, followers=((3, log_end, 0, 30),))
    request = world.proposals.next_request(0)
    members = request.topics[0].partitions[0].new_isr_with_epochs
    assert [(one.broker_id, one.broker_epoch) for one in members] == [(1, 101), (3, epoch)]
    found = request.topics[0].partitions[0]
    assert (request.broker_id, request.broker_epoch, found.leader_epoch, found.partition_epoch) == (1, 101, 4, 2)


@pytest.mark.parametrize("whole", [None, AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER)])
def test_an_answer_that_comes_after_none_came_means_nothing(whole):
    world = Proposed(([(7, 4, 2, (1, 2))], False))
    world.proposals.next_request(0)
    world.proposals.answered(whole, 10)
    row = AlterPartitionPartitionResult(partition_index=7, partition_epoch=3, isr=[1, 2])
    late = AlterPartitionResponse(topics=[AlterPartitionTopicResult(topic_id=b"t" * 16, partitions=[row])])
    assert world.proposals.answered(late, 11) == 0 and world.told == []


def test_what_an_answer_leaves_out_is_asked_for_again_at_once():
    world = Proposed(([(7, 4, 2, (1, 2)), (8, 4, 2, (1, 2))], False))
    world.proposals.next_request(0)
    row = AlterPartitionPartitionResult(partition_index=7, partition_epoch=3, isr=[1, 2])
    part = AlterPartitionResponse(topics=[AlterPartitionTopicResult(topic_id=b"t" * 16, partitions=[row])])
    world.proposals.answered(part, 10)
    world.proposals.next_request(10)
    assert world.asked[1:] == [(-1, 10, True)] and len(world.told) == 1
