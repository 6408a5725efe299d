"""What leaders, brokers that stop and clients ask of the elected controller, answer by answer, with a store that takes
only a few operations at once."""

import pytest

from mpbroker.cluster.cluster_config import PRODUCER_ID_BLOCK
from mpbroker.cluster.events import Request, TxnDone
from mpbroker.cluster.partition_jobs import MAX_PRODUCER_ID, PREFERRED, RECOVERED, RECOVERING, UNCLEAN
from mpbroker.errors import ERRORS, ErrorCode
from mpbroker.metadata.cluster_records import PartitionRecord
from mpbroker.metadata.commands import AllocateProducerIds
from mpbroker.metadata.meta_store import Delete, Put
from mpbroker.metadata.topic_record import ProducerIdBlock, encode_record
from mpbroker.protocol.messages.alter_partition import (
    AlterPartitionPartition,
    AlterPartitionPartitionResult,
    AlterPartitionRequest,
    AlterPartitionTopic,
    BrokerState,
)
from mpbroker.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from mpbroker.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from mpbroker.protocol.types import ZERO_UUID
from tests.unit.cluster.controller_bench import STATELESS, ControllerBench, alter, elect, epoch_of, stateless, stops


@pytest.fixture
def bench():
    return ControllerBench()


def ask(bench, *partitions, broker=1, name="", topic_id=ZERO_UUID, broker_epoch=None):
    """AlterPartition of a leader; (code, rows)."""
    epoch = epoch_of(bench, broker) if broker_epoch is None else broker_epoch
    topic = AlterPartitionTopic(topic_name=name, topic_id=topic_id, partitions=list(partitions))
    answer = bench.ask(AlterPartitionRequest(broker_id=broker, broker_epoch=epoch, topics=[topic]))
    if answer.error_code:
        return answer.error_code, None
    [found] = answer.topics
    assert (found.topic_name, found.topic_id) == (name, topic_id)
    return 0, found.partitions


def wanted(isr, number=0, leader_epoch=0, partition_epoch=0, state=RECOVERED, epochs=None):
    members = {"new_isr": list(isr)}
    if epochs is not None:
        members = {"new_isr_with_epochs": [BrokerState(one, epoch) for one, epoch in zip(isr, epochs, strict=True)]}
    return AlterPartitionPartition(
        partition_index=number, leader_epoch=leader_epoch, partition_epoch=partition_epoch,
        leader_recovery_state=state, **members,
    )  # fmt: skip


def code_of(bench, topic_id, asked, broker=1):
    _, [row] = ask(bench, asked, topic_id=topic_id, broker=broker)
    if row.error_code:
        assert row == AlterPartitionPartitionResult(asked.partition_index, row.error_code), "nothing else is said"
    return row.error_code


def recovering(bench):
    """A partition that an unclean election gave to broker 2 alone."""
    topic = bench.create()
    bench.lose(2, 3)
    bench.lose(1)
    for broker in (2, 3):
        bench.come(broker)
    assert elect(bench, UNCLEAN) == [(0, 0)]
    assert bench.state(topic)[0::2] == (2, [2])
    return topic


# ---- AlterPartition


def test_numbers_are_kafkas():
    assert (RECOVERED, RECOVERING, PREFERRED, UNCLEAN, MAX_PRODUCER_ID) == (0, 1, 0, 1, 2**63 - 1)


def test_topics_are_named_by_name_in_old_versions_and_by_id_in_new_ones(bench):
    topic = bench.create()
    assert ask(bench, wanted([1, 2]), name="t") == (0, [AlterPartitionPartitionResult(0, 0, 1, 0, [1, 2], 0, 1)])
    assert ask(bench, wanted([1], partition_epoch=1), topic_id=topic) == (
        0, [AlterPartitionPartitionResult(0, 0, 1, 0, [1], 0, 2)],
    )  # fmt: skip
    unknown = [AlterPartitionPartitionResult(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert ask(bench, wanted([1]), name="u") == (0, unknown)
    unknown = [AlterPartitionPartitionResult(0, ErrorCode.UNKNOWN_TOPIC_ID)]
    assert ask(bench, wanted([1]), topic_id=b"x" * 16) == (0, unknown)


def test_only_the_broker_of_this_life_is_heard(bench):
    topic = bench.create()
    assert ask(bench, wanted([1]), topic_id=topic, broker=9, broker_epoch=1)[0] == ErrorCode.STALE_BROKER_EPOCH
    before = epoch_of(bench, 1) - 1
    assert ask(bench, wanted([1]), topic_id=topic, broker_epoch=before)[0] == ErrorCode.STALE_BROKER_EPOCH
    assert bench.state(topic)[2] == [1, 2, 3]


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (wanted([1], number=1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (wanted([1], leader_epoch=1), ErrorCode.NOT_CONTROLLER),
        (wanted([1], partition_epoch=1), ErrorCode.NOT_CONTROLLER),
        (wanted([2, 3]), ErrorCode.INVALID_REQUEST),
        (wanted([]), ErrorCode.INVALID_REQUEST),
        (wanted([1, 4]), ErrorCode.INVALID_REQUEST),
        (wanted([1], state=RECOVERING), ErrorCode.INVALID_REQUEST),
        (wanted([1, 2], epochs=[-1, 1]), ErrorCode.INELIGIBLE_REPLICA),
        (wanted([1, 2], epochs=[-1, -1]), 0),
        (wanted([1, 2]), 0),
        (wanted([1, 2, 3]), 0),
        (wanted([3, 2, 1]), 0),
    ],
    ids=[
        "no such partition", "leader epoch ahead", "partition epoch ahead", "without itself", "nobody", "no replica",
        "recovers without a need", "of another life", "epochs not known", "of an old version", "as it is",
        "in any order",
    ],
)  # fmt: skip
def test_each_answer_to_a_leader(asked, code):
    bench = ControllerBench(brokers=(1, 2, 3, 4))
    assert code_of(bench, bench.create(), asked) == code


def test_a_follower_that_asks_is_refused_and_so_is_a_leader_of_before(bench):
    topic = bench.create()
    assert code_of(bench, topic, wanted([1, 2]), broker=2) == ErrorCode.INVALID_REQUEST
    bench.lose(1)
    assert bench.state(topic)[:2] == (2, 1)
    assert code_of(bench, topic, wanted([2]), broker=2) == ErrorCode.FENCED_LEADER_EPOCH
    assert code_of(bench, topic, wanted([2], leader_epoch=1), broker=2) == ErrorCode.INVALID_UPDATE_VERSION
    assert code_of(bench, topic, wanted([2, 3], leader_epoch=1), broker=2) == 0, "as it is, whatever its version"


def test_a_partition_without_a_state_or_without_an_assignment_is_none(bench):
    stateless(bench)
    assert code_of(bench, STATELESS, wanted([1])) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topic = bench.create()
    beyond = Put(bench.keys.partition(topic, 4), encode_record(PartitionRecord(1, 0, [1], 1)))
    bench.store.txn([], [beyond], tag="")
    bench.watch()
    assert code_of(bench, topic, wanted([1], number=4)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_leader_that_recovers_stays_alone_until_it_says_that_it_is_through(bench):
    """KIP-704: more of them in sync, and the state in the answer, only after that."""
    topic = recovering(bench)
    _, leader_epoch, _, partition_epoch = bench.state(topic)

    def asked(isr, state, epoch=partition_epoch):
        return wanted(isr, 0, leader_epoch, epoch, state)

    assert code_of(bench, topic, asked([2, 3], RECOVERING), broker=2) == ErrorCode.INVALID_REQUEST
    _, [row] = ask(bench, asked([2], RECOVERING), topic_id=topic, broker=2)
    assert (row.error_code, row.leader_recovery_state, row.partition_epoch) == (0, RECOVERING, partition_epoch)
    _, [row] = ask(bench, asked([2], RECOVERED), topic_id=topic, broker=2)
    assert (row.error_code, row.leader_recovery_state, row.partition_epoch) == (0, RECOVERED, partition_epoch + 1)
    _, [row] = ask(bench, asked([2, 3], RECOVERED, partition_epoch + 1), topic_id=topic, broker=2)
    assert (row.error_code, row.leader_id, row.leader_epoch, row.isr) == (0, 2, leader_epoch, [2, 3])
    assert code_of(bench, topic, asked([2], RECOVERING, partition_epoch + 2), broker=2) == ErrorCode.INVALID_REQUEST


def test_a_recovering_leader_may_be_joined_in_the_same_change_that_ends_its_recovery(bench):
    topic = recovering(bench)
    _, leader_epoch, _, partition_epoch = bench.state(topic)
    assert code_of(bench, topic, wanted([2, 3], 0, leader_epoch, partition_epoch), broker=2) == 0


def test_a_leader_that_recovers_may_leave_others_out_of_sync_meanwhile(bench):
    """Only more than itself are refused."""
    topic = bench.create()
    state = PartitionRecord(1, 0, [1, 2], 1, recovering=True)
    bench.store.txn([], [Put(bench.keys.partition(topic, 0), encode_record(state))], tag="")
    bench.watch()
    assert code_of(bench, topic, wanted([1, 3], partition_epoch=1, state=RECOVERING)) == ErrorCode.INVALID_REQUEST
    _, [row] = ask(bench, wanted([1], partition_epoch=1, state=RECOVERING), topic_id=topic)
    assert (row.error_code, row.isr, row.leader_recovery_state) == (0, [1], RECOVERING)


def test_a_broker_that_stops_may_not_join(bench):
    topic = bench.create()
    alter(bench, topic, [1, 2])
    bench.ask(ControlledShutdownRequest(broker_id=3, broker_epoch=epoch_of(bench, 3)))
    assert code_of(bench, topic, wanted([1, 2, 3], partition_epoch=1)) == ErrorCode.INELIGIBLE_REPLICA


def test_many_partitions_are_changed_in_as_many_transactions_as_it_takes_and_answered_at_once():
    bench = ControllerBench(max_operations=6)
    topic = bench.create(assignments=[[1, 2]] * 9)
    before = len(bench.txns)
    code, rows = ask(bench, *(wanted([1], number) for number in range(9)), topic_id=topic)
    found = [(row.partition_index, row.error_code, row.isr) for row in rows]
    assert code == 0 and found == [(number, 0, [1]) for number in range(9)]
    assert [len(txn.ops) - 1 for txn in bench.txns[before:]] == [3, 3, 3], "checks of a broker count too"


# ---- ControlledShutdown


def shut_down(bench, broker, epoch=None):
    asked = ControlledShutdownRequest(
        broker_id=broker, broker_epoch=epoch_of(bench, broker) if epoch is None else epoch
    )
    answer = bench.ask(asked)
    return answer.error_code, [(one.topic_name, one.partition_index) for one in answer.remaining_partitions]


def test_a_follower_that_was_not_in_sync_gives_its_replica_up_too(bench):
    """No election tells it so: nobody counts on it."""
    topic = bench.create(assignments=([1, 2, 3], [1, 3, 2]))
    alter(bench, topic, [1, 2])
    bench.take_sent()
    assert shut_down(bench, 3) == (0, [])
    assert stops(bench.take_sent()) == [(3, 0, 0, False), (3, 1, 1, False)]
    assert [bench.state(topic, n)[:3] for n in (0, 1)] == [(1, 0, [1, 2]), (1, 1, [1, 2])]


def test_what_a_broker_alone_holds_is_not_taken_from_it(bench):
    """Whether it can serve it or not: nobody else has a replica that could follow."""
    topic = bench.create(assignments=([1], [1]))
    bench.fail_directory(1, (topic, 1))
    assert bench.state(topic, 1)[0] == -1
    bench.take_sent()
    assert shut_down(bench, 1) == (0, []) and stops(bench.take_sent()) == []


def test_a_broker_that_does_not_know_its_epoch_may_stop_and_one_of_before_not(bench):
    assert shut_down(bench, 1, epoch_of(bench, 1) - 1) == (ErrorCode.STALE_BROKER_EPOCH, [])
    assert bench.controller.shutting_down == set()
    assert shut_down(bench, 1, -1) == (0, [])
    assert bench.controller.shutting_down == {1}


def test_what_somebody_may_lead_soon_remains_and_what_nobody_can_does_not(bench):
    topic = bench.create(assignments=([1, 2], [1, 2], [1, 3]))
    bench.create("sole", ([1],))
    for number in range(3):
        alter(bench, topic, [1], number=number)
    bench.lose(3)
    assert shut_down(bench, 1) == (0, [("t", 0), ("t", 1)]), "2 lives, and 3 does not"
    bench.ask(ControlledShutdownRequest(broker_id=2, broker_epoch=epoch_of(bench, 2)))
    assert shut_down(bench, 1) == (0, []), "it stops as well"


def test_one_that_is_gone_before_its_turn_is_not_answered_as_stopped(bench):
    bench.create()
    command = ControlledShutdownRequest(broker_id=1, broker_epoch=epoch_of(bench, 1))
    (election,) = bench.controller.event(Request(99, command), 0)
    bench.store.txn([], [Delete(bench.keys.broker(1))], tag="")
    bench.watch(settle=False)
    outcome = bench.store.txn(election.checks, election.ops, tag="")
    bench.carry_out(bench.controller.event(TxnDone(election.tag, outcome), 0))
    assert bench.replies[99].error_code == ErrorCode.STALE_BROKER_EPOCH


# ---- ElectLeaders


def elected(bench, kind, **topics):
    """(partition, code, sentence) of each topic that is answered; None: all were asked for."""
    asked = [TopicPartitions(topic=name, partitions=list(numbers)) for name, numbers in topics.items()] or None
    answer = bench.ask(ElectLeadersRequest(election_type=kind, topic_partitions=asked))
    return {
        one.topic: [(row.partition_id, row.error_code, row.error_message) for row in one.partition_result]
        for one in answer.replica_election_results
    }


def refused(number, code):
    return number, code, ERRORS[code].sentence


def test_every_partition_that_was_named_is_answered_with_a_sentence_unless_it_was_elected(bench):
    topic = bench.create(assignments=([1, 2], [2, 1], [1, 2]))
    bench.lose(1)
    bench.come(1)
    for number in (0, 1):
        alter(bench, topic, [2, 1], broker=2, number=number)
    assert elected(bench, PREFERRED, t=[0, 1, 2, 3], u=[0]) == {
        "t": [
            (0, 0, None),
            refused(1, ErrorCode.ELECTION_NOT_NEEDED),
            refused(2, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
            refused(3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ],
        "u": [refused(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)],
    }


def test_of_all_partitions_those_are_answered_that_an_election_was_needed_for(bench):
    topic, other = bench.create("t", [[1, 2], [1, 2]]), bench.create("a", [[1, 2]])
    bench.lose(1)
    bench.come(1)
    alter(bench, topic, [2, 1], broker=2, number=1)
    alter(bench, other, [2, 1], broker=2)
    found = elected(bench, PREFERRED)
    assert found == {"a": [(0, 0, None)], "t": [refused(0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE), (1, 0, None)]}
    assert list(found) == ["a", "t"], "by name"
    found = elected(bench, PREFERRED)
    assert found == {"t": [refused(0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)]}


@pytest.mark.parametrize(
    ("kind", "code"),
    [(PREFERRED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE), (UNCLEAN, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)],
)
def test_a_partition_that_nobody_ever_led_has_nobody_to_elect(bench, kind, code):
    stateless(bench)
    assert elected(bench, kind, stateless=[0]) == {"stateless": [refused(0, code)]}


def test_a_leader_that_lives_needs_no_unclean_election_even_if_another_is_preferred(bench):
    topic = bench.create()
    bench.lose(1)
    bench.come(1)
    assert elected(bench, UNCLEAN, t=[0]) == {"t": [refused(0, ErrorCode.ELECTION_NOT_NEEDED)]}
    assert bench.state(topic)[:2] == (2, 1)


def test_many_elections_take_several_transactions_and_each_partition_is_elected_once():
    bench = ControllerBench(max_operations=6)
    topic = bench.create(assignments=[[1, 2]] * 7)
    bench.lose(1)
    bench.come(1)
    for number in range(7):
        alter(bench, topic, [2, 1], broker=2, number=number)
    before = len(bench.txns)
    assert elected(bench, PREFERRED, t=range(7)) == {"t": [(number, 0, None) for number in range(7)]}
    assert [len(txn.ops) - 1 for txn in bench.txns[before:]] == [2, 2, 2, 1]
    assert [bench.state(topic, n)[:2] for n in range(7)] == [(1, 2)] * 7


def test_leaders_that_go_back_by_themselves_do_so_in_as_many_transactions():
    bench = ControllerBench(max_operations=6)
    topic = bench.create(assignments=[[1, 2]] * 5)
    bench.lose(1)
    bench.come(1)
    for number in range(4):
        alter(bench, topic, [2, 1], broker=2, number=number)
    before = len(bench.txns)
    bench.tick(6000)
    assert [bench.state(topic, n)[0] for n in range(5)] == [1, 1, 1, 1, 2], "1 is not in sync of the last"
    assert [len(txn.ops) - 1 for txn in bench.txns[before:]] == [2, 2]


# ---- producer ids


@pytest.mark.parametrize(
    ("next_id", "given"), [(0, True), (MAX_PRODUCER_ID - 1000, True), (MAX_PRODUCER_ID - 999, False)]
)
def test_blocks_of_producer_ids_end_with_the_numbers(bench, next_id, given):
    assert PRODUCER_ID_BLOCK == 1000
    bench.store.txn([], [Put(bench.keys.producer_id_block, encode_record(ProducerIdBlock(next_id)))], tag="")
    bench.watch()
    answer = bench.ask(AllocateProducerIds())
    if given:
        assert (answer.error_code, answer.first_id, answer.count) == (0, next_id, 1000)
    else:
        assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
