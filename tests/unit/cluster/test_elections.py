"""Elections that come to nothing are made again, and a controller that has nothing to decide or to tell says so."""

import pytest

from mpbroker.cluster.events import Answered, ReadDone, Request, StoreBatch, Txn, TxnDone
from mpbroker.metadata.commands import AllocateProducerIds
from mpbroker.metadata.meta_store import Delete, Unknown
from mpbroker.protocol.messages.update_metadata import UpdateMetadataResponse
from tests.unit.cluster.controller_bench import ControllerBench, epoch_of


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
