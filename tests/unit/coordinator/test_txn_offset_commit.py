"""Offsets in transactions: visible at the marker, in the log's order, and the same for a successor."""

import pytest

from mpbroker.coordinator.effects import GroupRequest
from mpbroker.coordinator.offsets_records import OffsetValue, offset_key, offset_value
from mpbroker.errors import ErrorCode
from mpbroker.protocol.api_keys import ApiKey
from mpbroker.protocol.messages.delete_groups import DeleteGroupsRequest
from mpbroker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from mpbroker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.harness.group_calls import Calls
from tests.harness.group_world import GROUP, TOPIC

ONE, OTHER = 70, 71  # producer ids
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


@pytest.fixture
def calls():
    return Calls()


def commit(calls, producer_id, offset, generation=-1, member="", version=3):
    """The code of a TxnOffsetCommit of partition 0."""
    topics = [TxnOffsetCommitRequestTopic(TOPIC, [TxnOffsetCommitRequestPartition(0, offset)])]
    heard = calls.ask(TxnOffsetCommitRequest("tx", GROUP, producer_id, 0, generation, member, topics=topics), version)
    return heard.answer.topics[0].partitions[0].error_code


def end(calls, producer_id, committed=True):
    """The marker, in the log and to the logic."""
    world = calls.world
    world.mark(producer_id, committed)


def offset(calls, require_stable=False):
    """(code, offset) of partition 0."""
    groups = [OffsetFetchRequestGroup(GROUP, topics=[OffsetFetchRequestTopic(TOPIC, [0])])]
    row = calls.ask(OffsetFetchRequest(groups=groups, require_stable=require_stable), 8).answer.groups[0]
    return row.topics[0].partitions[0].error_code, row.topics[0].partitions[0].committed_offset


def restarted(calls):
    calls.world.start()


def nothing(calls):
    pass


@pytest.fixture(params=[nothing, restarted], ids=["same process", "successor"])
def meanwhile(request, calls):
    """What happens between two steps: each test runs with a death there, and without one."""
    return lambda: request.param(calls)


def test_an_offset_counts_from_its_marker_on(calls, meanwhile):
    assert commit(calls, ONE, 5) == 0
    meanwhile()
    assert offset(calls) == (0, -1) and offset(calls, True) == (UNSTABLE, -1)
    end(calls, ONE)
    meanwhile()
    assert offset(calls) == offset(calls, True) == (0, 5)
    assert calls.world.coordinator.counts.offsets == 1


def test_an_aborted_one_never_counts(calls, meanwhile):
    calls.commit(1)
    assert commit(calls, ONE, 5) == 0
    meanwhile()
    end(calls, ONE, committed=False)
    meanwhile()
    assert offset(calls, True) == (0, 1)


def test_a_later_plain_commit_stays(calls, meanwhile):
    commit(calls, ONE, 5)
    meanwhile()
    calls.commit(3)
    meanwhile()
    end(calls, ONE)
    meanwhile()
    assert offset(calls) == (0, 3)


def test_of_two_transactions_the_later_record_counts(calls, meanwhile):
    commit(calls, ONE, 5)
    commit(calls, OTHER, 6)
    meanwhile()
    end(calls, OTHER)
    meanwhile()
    assert offset(calls, True) == (UNSTABLE, -1)
    end(calls, ONE)
    meanwhile()
    assert offset(calls, True) == (0, 6)


def test_a_deleted_group_takes_what_waits_with_it(calls, meanwhile):
    commit(calls, ONE, 5)
    meanwhile()
    assert calls.ask(DeleteGroupsRequest([GROUP]), 2).answer.results[0].error_code == 0
    meanwhile()
    end(calls, ONE)
    meanwhile()
    assert offset(calls) == (0, -1)


def test_markers_of_strangers_and_second_markers_do_nothing(calls, meanwhile):
    commit(calls, ONE, 5)
    end(calls, OTHER)
    meanwhile()
    assert offset(calls, True) == (UNSTABLE, -1)
    end(calls, ONE)
    end(calls, ONE, committed=False)
    meanwhile()
    assert offset(calls) == (0, 5)


def test_a_marker_while_the_partition_is_read_counts_behind_all_that_is_read(calls):
    commit(calls, ONE, 5)
    world = calls.world
    world.start(markers=[(ONE, True)])
    assert offset(calls) == (0, 5)


def test_who_commits_must_be_in_the_group_if_he_says_so(calls):
    assert commit(calls, ONE, 5, generation=1, member="nobody") == ErrorCode.ILLEGAL_GENERATION
    assert commit(calls, ONE, 5, member="nobody") == 0  # the group is new and empty
    assert commit(calls, ONE, 5, generation=0) == ErrorCode.UNKNOWN_MEMBER_ID
    joined = calls.join().answer
    member = joined.member_id
    assert commit(calls, ONE, 5) == 0  # says nothing
    assert commit(calls, ONE, 5, joined.generation_id, member) == 0
    assert commit(calls, ONE, 5, joined.generation_id - 1, member) == ErrorCode.ILLEGAL_GENERATION


def test_a_record_that_is_not_written_does_not_wait(calls):
    calls.world.append_fate = lambda: (False, ErrorCode.NOT_ENOUGH_REPLICAS, True)
    assert commit(calls, ONE, 5) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert offset(calls, True) == (0, -1)


def test_its_record_is_an_ordinary_one_in_a_transaction(calls):
    commit(calls, ONE, 5)
    [(producer, [(key, value)])] = calls.world.batches[-1:]
    assert producer == (ONE, 0) and key == offset_key(GROUP, TOPIC, 0)
    assert value == offset_value(OffsetValue(5, -1, "", calls.world.now().wall_ms))


def test_its_second_run_appends_nothing(calls):
    world = calls.world
    topics = [TxnOffsetCommitRequestTopic(TOPIC, [TxnOffsetCommitRequestPartition(0, 5)])]
    message = TxnOffsetCommitRequest("tx", GROUP, ONE, 0, topics=topics)
    again = GroupRequest(0, ApiKey.TXN_OFFSET_COMMIT, 3, message, appended=frozenset({world.partition}))
    [answer] = world.coordinator.handle(again, world.now())
    assert answer.message.topics[0].partitions[0].error_code == 0 and not world.batches


def test_metadata_and_leader_epoch_come_with_the_offset(calls):
    partition = TxnOffsetCommitRequestPartition(0, 5, committed_leader_epoch=3, committed_metadata="where I was")
    bare = TxnOffsetCommitRequestPartition(1, 6, committed_metadata=None)
    calls.world.topics.create(TOPIC, 2)
    topics = [TxnOffsetCommitRequestTopic(TOPIC, [partition, bare])]
    calls.ask(TxnOffsetCommitRequest("tx", GROUP, ONE, 0, -1, "", topics=topics), 3)
    end(calls, ONE)
    groups = [OffsetFetchRequestGroup(GROUP, topics=[OffsetFetchRequestTopic(TOPIC, [0, 1])])]
    rows = calls.ask(OffsetFetchRequest(groups=groups), 8).answer.groups[0].topics[0].partitions
    found = [(row.committed_offset, row.committed_leader_epoch, row.metadata) for row in rows]
    assert found == [(5, 3, "where I was"), (6, -1, "")]


def test_without_a_generation_a_producer_makes_the_group_and_with_one_it_does_not(calls):
    assert commit(calls, ONE, 5, generation=0) == ErrorCode.ILLEGAL_GENERATION
    assert calls.world.coordinator.counts.groups == 0
    assert commit(calls, ONE, 5) == 0 and calls.world.coordinator.counts.groups == 1


def test_each_partition_has_a_code_of_its_own():
    calls = Calls(max_metadata_bytes=3)
    calls.world.topics.create(TOPIC, 3)

    def codes(*texts):
        rows = [TxnOffsetCommitRequestPartition(n, 5, committed_metadata=text) for n, text in enumerate(texts)]
        topics = [TxnOffsetCommitRequestTopic(TOPIC, rows), TxnOffsetCommitRequestTopic("strange", rows[:1])]
        answer = calls.ask(TxnOffsetCommitRequest("tx", GROUP, ONE, 0, topics=topics), 3).answer
        return [(topic.name, [row.error_code for row in topic.partitions]) for topic in answer.topics]

    large, unknown = ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    strange = ("strange", [unknown])
    calls.world.coordinator._env.has_partition = lambda topic, partition: topic == TOPIC and partition < 2
    assert codes("four", "5 is more") == [(TOPIC, [large, large]), strange] and not calls.world.batches
    assert codes("abc", "four", "") == [(TOPIC, [0, large, unknown]), strange] and len(calls.world.batches) == 1
    assert codes() == [(TOPIC, []), ("strange", [])]


def test_a_group_that_is_being_deleted_takes_none(calls):
    calls.commit(1)
    [shard] = calls.world.coordinator._shards.values()
    shard.groups[GROUP].mark_dead(True)
    assert commit(calls, ONE, 5) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    shard.groups[GROUP].mark_dead(False)


def later(calls, producer_id, offset, *partitions):
    """A commit of these partitions that waits for its record."""
    rows = [TxnOffsetCommitRequestPartition(number, offset) for number in partitions]
    topics = [TxnOffsetCommitRequestTopic(TOPIC, rows)]
    return calls.ask(TxnOffsetCommitRequest("tx", GROUP, producer_id, 0, topics=topics), 3)


def test_of_a_record_that_fails_only_what_it_brought_is_dropped(calls):
    """A later one of the same transaction stays."""
    calls.world.append_fate = lambda: (True, ErrorCode.NOT_ENOUGH_REPLICAS, False)
    first = later(calls, ONE, 5, 0)
    calls.world.append_fate = lambda: (True, 0, False)
    second = later(calls, ONE, 6, 0)
    [shard] = calls.world.coordinator._shards.values()
    group = shard.groups[GROUP]
    calls.world.acknowledge()
    assert first.answer.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert [one.offset for one in group.transactional[ONE].values()] == [6]
    calls.world.acknowledge()
    assert second.answer.topics[0].partitions[0].error_code == 0
    end(calls, ONE)
    assert offset(calls, True) == (0, 6) and group.transactional == {}


def test_of_a_record_that_may_be_there_the_marker_decides(calls):
    calls.world.append_fate = lambda: (True, ErrorCode.REQUEST_TIMED_OUT, True)
    assert commit(calls, ONE, 5) == ErrorCode.REQUEST_TIMED_OUT
    assert offset(calls, True) == (UNSTABLE, -1)
    end(calls, ONE)
    assert offset(calls, True) == (0, 5)


def test_a_record_that_fails_leaves_nothing_of_its_transaction(calls):
    calls.world.append_fate = lambda: (False, ErrorCode.NOT_ENOUGH_REPLICAS, False)
    later(calls, ONE, 5, 0)
    [shard] = calls.world.coordinator._shards.values()
    assert set(shard.groups[GROUP].transactional) == {ONE}
    calls.world.acknowledge()
    assert shard.groups[GROUP].transactional == {}


def test_a_record_that_fails_after_the_end_of_its_transaction_is_forgotten_already(calls):
    calls.world.append_fate = lambda: (False, ErrorCode.NOT_ENOUGH_REPLICAS, False)
    waits = later(calls, ONE, 5, 0)
    end(calls, ONE, committed=False)
    calls.world.acknowledge()
    assert waits.answer.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert offset(calls, True) == (0, -1)
