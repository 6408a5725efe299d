"""Elections that come to nothing are made again, and a controller that has nothing to decide or to tell says so."""

import pytest

from mpbroker.cluster.cluster_image import PartitionId
from mpbroker.cluster.elections import Elections
from mpbroker.cluster.events import Answered, ReadDone, Request, StoreBatch, Txn, TxnDone
from mpbroker.metadata.commands import AllocateProducerIds
from mpbroker.metadata.meta_store import Delete, Put, Unknown
from mpbroker.metadata.topic_record import TopicRecord, encode_record
from mpbroker.protocol.messages.update_metadata import UpdateMetadataResponse
from tests.unit.cluster.controller_bench import ControllerBench, alter, epoch_of


@pytest.fixture
def bench():
    return ControllerBench()


def test_an_election_that_did_not_happen_is_made_again(bench):
    """Nothing in the store has changed since, so nothing else reminds of it."""
    topic, controller = bench.create(), bench.controller
    bench.store.txn([], [Delete(bench.keys.broker(1))], tag="")
    bench._watched = rev = bench.store.revision()
    effects = controller.event(StoreBatch(rev, bench.store._history[rev]), 0)
    (election,) = [one for one in effects if isinstance(one, Txn)]
    assert not controller.settled
    (read,) = controller.event(TxnDone(election.tag, Unknown(election.tag)), 0)
    (again,) = controller.event(ReadDone(read.tag, {key: bench.store.get(key)[1] for key in read.keys}), 0)
    assert [op.key for op in again.ops] == [op.key for op in election.ops]
    bench.carry_out([again])
    assert bench.state(topic)[:3] == (2, 1, [2, 3])


def test_it_is_settled_when_everybody_has_answered(bench):
    assert bench.controller.settled
    bench.answering.discard(3)
    bench.create()
    assert not bench.controller.settled, "one has not"
    bench.answering.add(3)
    bench.event(Answered(3, epoch_of(bench, 3), UpdateMetadataResponse()))
    bench.settle()
    assert bench.controller.settled


def test_it_is_not_settled_while_a_command_is_under_way(bench):
    (txn,) = bench.controller.event(Request(99, AllocateProducerIds()), 0)
    assert not bench.controller.settled and bench.controller.event_queue_size == 1
    bench.carry_out([txn])
    assert bench.controller.settled and bench.controller.event_queue_size == 0


def test_what_became_of_transactions_is_counted(bench):
    bench.elect()
    metrics, before = bench.controller.metrics, bench.controller.metrics.transactions
    topic = bench.create()
    made = metrics.transactions
    assert made == before + 1 and (metrics.conflicts, metrics.unknown) == (0, 0)
    (txn,) = bench.controller.event(Request(99, AllocateProducerIds()), 0)
    (read,) = bench.controller.event(TxnDone(txn.tag, Unknown(txn.tag)), 0)
    assert (metrics.transactions, metrics.unknown) == (made, 1)
    keys = [*(check.key for check in txn.checks), *(op.key for op in txn.ops)]
    assert read.keys == tuple(dict.fromkeys(keys)), "each once"
    bench.carry_out([read])
    key = bench.keys.partition(topic, 0)
    bench.store.txn([], [Put(key, bench.store.get(key)[1].value)], tag="")  # not seen yet
    alter(bench, topic, [1, 2], partition_epoch=0)
    assert metrics.conflicts == 1


@pytest.mark.parametrize(
    ("dirty", "in_step", "settled"), [({}, [], True), ({1: None}, [], False), ({}, [1], False), ({1: None}, [2], False)]
)
def test_elections_are_settled_when_nothing_is_to_be_looked_at(dirty, in_step, settled):
    elections = object.__new__(Elections)
    elections._dirty, elections._in_step = dirty, in_step
    assert elections.settled is settled


def test_a_partition_that_is_none_any_more_needs_nothing(bench):
    topic = bench.create(assignments=([1, 2], [2, 1]))
    bench.controller.image.partitions.clear()
    decide = bench.controller._elections.decide
    assert [decide(PartitionId(topic, number)) is None for number in (0, 1, 2, 3)] == [False, False, True, True]
    assert decide(PartitionId(b"x" * 16, 0)) is None


def test_an_election_ends_no_move_and_leaves_the_topics_record_alone():
    bench = ControllerBench(brokers=(1, 2, 3, 4))
    topic, moving = bench.create(), bench.create("moving", ([1, 2],))
    record = TopicRecord(moving.hex(), "moving", [[3, 1, 2]], 1, adding=[[3]], removing=[[1]])
    bench.store.txn([], [Put(bench.keys.topic(moving), encode_record(record))], tag="")
    bench.watch()
    versions = [bench.store.get(bench.keys.topic(one))[1].version for one in (topic, moving)]
    bench.lose(1)
    assert [bench.state(one)[0] for one in (topic, moving)] == [2, 2]
    assert [bench.store.get(bench.keys.topic(one))[1].version for one in (topic, moving)] == versions
    assert bench.controller.image.topics[moving].assignments[0].adding == (3,)
