"""A term of the elected controller from its first election to its last word: what it times, what it believes of events
that come twice or late, when it ends, and what it tells of itself."""

import pytest

from mpbroker.cluster.cluster_config import TOLD_LAST_MS
from mpbroker.cluster.elections import BrokenRule
from mpbroker.cluster.events import Answered, Log, Reply, Request, Resign, StoreBatch, Tick, Txn, TxnDone
from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import AllocateProducerIds, CreateTopics, NewTopic
from mpbroker.metadata.meta_store import Delete, Event, Put
from mpbroker.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from mpbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from mpbroker.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from tests.unit.cluster.controller_bench import ControllerBench, alter, epoch_of, roles


@pytest.fixture
def bench():
    return ControllerBench()


def named(bench, event):
    return [one.fields for one in bench.logs if one.event == event]


# ---- elections are timed


def test_a_term_that_begins_with_an_election_times_it(bench):
    bench.create()
    bench.store.txn([], [Delete(bench.keys.broker(1))], tag="")
    bench.elect()
    metrics = bench.controller.metrics
    assert (metrics.elections, metrics.election_time.count) == (1, 1)
    bench.elect()
    assert bench.controller.metrics.election_time.count == 0, "nothing was to be elected"


@pytest.mark.parametrize(("done_ms", "took_ms"), [(1350, 250), (1100, 0), (900, 0)])
def test_an_election_takes_from_the_first_thing_that_happened_until_all_is_in_the_store(bench, done_ms, took_ms):
    """A clock that was set back takes no time."""
    bench.create()
    bench.store.txn([], [Delete(bench.keys.broker(1))], tag="")
    rev = bench._watched = bench.store.revision()
    (txn,) = [e for e in bench.controller.event(StoreBatch(rev, bench.store._history[rev]), 1100) if isinstance(e, Txn)]
    bench.controller.event(Tick(), 1200)
    again = [Event(bench.keys.topic_config("other"), None)]
    bench.controller.event(StoreBatch(rev + 1, tuple(again)), 1300)
    timer = bench.controller.metrics.election_time
    assert timer.count == 0
    bench.controller.event(TxnDone(txn.tag, bench.store.txn(txn.checks, txn.ops, tag="")), done_ms)
    assert (timer.count, timer.sum_ms) == (1, took_ms)


def test_the_first_election_of_a_term_takes_from_its_beginning(bench):
    bench.create()
    bench.store.txn([], [Delete(bench.keys.broker(1))], tag="")
    held = []
    carry_out, bench.carry_out = bench.carry_out, held.append
    bench.elect()
    txn = held[0][-1]
    bench.now_ms += 40
    carry_out([txn])
    timer = bench.controller.metrics.election_time
    assert (timer.count, timer.sum_ms) == (1, 40)


# ---- what ends a term


def test_its_own_election_told_again_ends_no_term_and_that_of_another_does(bench):
    entry = bench.store.get(bench.keys.controller_epoch)[1]
    bench.event(StoreBatch(bench.store.revision(), (Event(entry.key, entry),)))
    assert bench.resigned is None
    bench.event(StoreBatch(bench.store.revision() + 1, (Event(entry.key, None),)))
    assert bench.resigned == "another controller was elected"


def test_the_key_of_the_controller_ends_a_term_when_it_goes_and_not_when_it_comes(bench):
    bench.store.txn([], [Put(bench.keys.controller, b"{}")], tag="")
    bench.watch()
    assert bench.resigned is None
    bench.store.txn([], [Delete(bench.keys.controller)], tag="")
    bench.watch()
    assert bench.resigned == "the controller's session has ended"


def test_a_term_that_is_over_answers_what_was_under_way_and_does_nothing_more(bench):
    (txn,) = bench.controller.event(Request(5, AllocateProducerIds()), 0)
    bench.controller.event(Request(6, CreateTopics([NewTopic("t", 1, 1)])), 0)
    gone = (Event(bench.keys.controller_epoch, None),)
    effects = bench.controller.event(StoreBatch(bench.store.revision() + 1, gone), 0)
    assert [type(one) for one in effects] == [Reply, Reply, Resign]
    assert [(one.request_id, one.message.error_code) for one in effects[:2]] == [(5, 41), (6, 41)]
    assert bench.controller.event_queue_size == 0
    assert bench.controller.event(TxnDone(txn.tag, None), 0) == bench.controller.event(Tick(), 0) == []
    [late] = bench.controller.event(Request(7, AllocateProducerIds()), 0)
    assert (late.request_id, late.message.error_code) == (7, ErrorCode.NOT_CONTROLLER)


def test_what_was_noted_before_a_term_ended_is_still_said(bench):
    bench.create()
    bench.store.txn([], [Delete(bench.keys.broker(3)), Delete(bench.keys.controller_epoch)], tag="")
    rev = bench.store.revision()
    effects = bench.controller.event(StoreBatch(rev, bench.store._history[rev]), 0)
    assert [type(one) for one in effects] == [Log, Resign] and effects[0].event == "broker_lost"


def test_a_term_that_is_over_tells_brokers_nothing_whatever_was_wanted(bench):
    bench.store.txn([], [Delete(bench.keys.broker(3))], tag="")
    bench.watch(settle=False)
    bench.event(StoreBatch(bench.store.revision() + 1, (Event(bench.keys.controller_epoch, None),)))
    assert bench.resigned and [bench.controller.next_request(broker, 0) for broker in (1, 2)] == [None, None]


def test_a_state_that_must_never_be_written_ends_the_term(bench):
    def broken():
        raise BrokenRule("t-0: ISR [] is not part of the replicas [1]")

    bench.controller._jobs._elections = broken
    answer = bench.ask(AllocateProducerIds())
    assert bench.resigned == "t-0: ISR [] is not part of the replicas [1]"
    assert answer.error_code == ErrorCode.NOT_CONTROLLER


def test_a_broker_that_nobody_knows_is_told_nothing(bench):
    assert bench.controller.next_request(9, 0) is None


# ---- what brokers answer


def asked(bench):
    """Broker 3 has not answered its LeaderAndIsr."""
    bench.answering.discard(3)
    bench.create()
    return epoch_of(bench, 3)


@pytest.mark.parametrize("code", [None, 77, -1])
def test_a_request_that_was_not_carried_out_is_sent_again_after_a_pause(bench, code):
    epoch, response = asked(bench), None if code is None else UpdateMetadataResponse(error_code=code)
    bench.take_sent()
    bench.event(Answered(3, epoch, response))
    assert bench.resigned is None
    bench.now_ms += 99
    assert not bench.send(3)
    bench.now_ms += 1
    assert bench.send(3)
    assert [type(request) for _, request in bench.take_sent()] == [LeaderAndIsrRequest]


def test_a_replica_that_cannot_be_served_is_elected_away_and_told_to_all(bench):
    topic = bench.create()
    bench.take_sent()
    bench.fail_directory(1, (topic, 0))
    [said] = named(bench, "log_directories_changed")
    assert said == {"controller_epoch": 1, "broker": 1, "failed": "d"}
    first = [request for broker, request in bench.take_sent() if broker == 1]
    found = [(epoch, is_new) for _, _, _, epoch, _, is_new in roles([(1, one) for one in first])]
    assert found == [(0, False), (1, False)], "it is asked what it has, then follows another"


def test_a_replica_that_cannot_be_served_is_shown_offline_also_when_nobody_counted_on_it(bench):
    topic = bench.create(assignments=([2, 1, 3],))
    alter(bench, topic, [2, 3], broker=2)
    bench.take_sent()
    bench.fail_directory(1, (topic, 0))
    assert bench.state(topic)[:3] == (2, 0, [2, 3]), "no election"
    updates = [(broker, request) for broker, request in bench.take_sent() if isinstance(request, UpdateMetadataRequest)]
    told = [
        (broker, state.offline_replicas)
        for broker, request in updates
        for one in request.topic_states
        for state in one.partition_states
    ]
    assert sorted(told) == [(1, [1]), (2, [1]), (3, [1])]


def test_a_restarted_broker_has_all_its_directories_until_it_says_otherwise(bench):
    """Nobody has heard of it yet; a partition that has nobody else does not wait for its first answer."""
    alone = bench.create("alone", ([1],))
    bench.fail_directory(1, (alone, 0))
    assert bench.state(alone)[0::2] == (-1, [1])
    bench.answering.discard(1)
    bench.broken.clear()
    bench.register(1)
    bench.watch()
    assert bench.state(alone)[0::2] == (1, [1])
    assert len(named(bench, "log_directories_changed")) == 1, "another life has its own"


def test_a_broker_whose_registration_says_the_same_directories_is_not_asked_again(bench):
    bench.create()
    bench.take_sent()
    entry = bench.store.get(bench.keys.broker(1))[1]
    bench.store.txn([], [Put(entry.key, entry.value)], tag="")
    bench.watch()
    assert {type(request) for _, request in bench.take_sent()} == {UpdateMetadataRequest}
    assert named(bench, "log_directories_changed") == []


# ---- a broker that shuts down is told last


@pytest.mark.parametrize(("waited_ms", "told"), [(TOLD_LAST_MS - 1, False), (TOLD_LAST_MS, True)])
def test_how_long_others_are_told_first(bench, waited_ms, told):
    bench.create()
    bench.take_sent()
    bench.answering.discard(3)
    bench.ask(ControlledShutdownRequest(broker_id=1, broker_epoch=epoch_of(bench, 1)))
    bench.take_sent()
    bench.now_ms += waited_ms
    assert bench.send(1) is told


def test_a_broker_that_stays_waits_for_nobody(bench):
    bench.create()
    bench.answering.discard(3)
    bench.ask(ControlledShutdownRequest(broker_id=1, broker_epoch=epoch_of(bench, 1)))
    bench.take_sent()
    bench.come(2, rack="r")
    assert 2 in {broker for broker, _ in bench.take_sent()}


def test_a_broker_that_is_lost_shuts_down_no_more(bench):
    bench.create()
    bench.ask(ControlledShutdownRequest(broker_id=1, broker_epoch=epoch_of(bench, 1)))
    assert bench.controller.shutting_down == {1}
    bench.store.txn([], [Put(bench.keys.broker(1), bench.store.get(bench.keys.broker(1))[1].value)], tag="")
    bench.watch()
    assert bench.controller.shutting_down == {1}, "the same life"
    bench.lose(1)
    assert bench.controller.shutting_down == set()


# ---- what it tells of itself


def test_figures_of_each_broker(bench):
    controller = bench.controller
    bench.answering.discard(3)
    bench.now_ms = 5000
    bench.create()
    bench.create("u", ([3],))
    assert controller.queue_sizes() == {1: 0, 2: 0, 3: 2}
    assert controller.oldest_ages_ms(5070) == {1: 0, 2: 0, 3: 70}
    times = controller.queue_times()
    assert sorted(times) == [1, 2, 3] and times[3].count < times[1].count
    assert controller.targets() == [1, 2, 3] and controller.broker(3).record.listeners[0].port == 9003
    assert controller.broker(9) is None


def test_how_many_partitions_are_led_by_another_than_the_preferred(bench):
    topic = bench.create(assignments=([1, 2], [2, 1], [1, 3]))
    assert bench.controller.imbalance() == 0
    bench.lose(1)
    assert bench.controller.imbalance() == 2
    bench.come(1)
    alter(bench, topic, [2, 1], broker=2)
    assert bench.controller.imbalance() == 2


def test_a_new_term_says_what_it_has(bench):
    bench.create()
    bench.elect()
    started = named(bench, "controller_started")
    assert started[-1] == {"controller_epoch": 2, "brokers": [1, 2, 3], "topics": 1}


def test_leaders_that_go_back_are_said(bench):
    topic = bench.create()
    bench.lose(1)
    bench.come(1)
    alter(bench, topic, [2, 3, 1], broker=2)
    bench.tick(4999)
    assert named(bench, "preferred_leaders_wanted") == []
    bench.tick(1)
    assert named(bench, "preferred_leaders_wanted") == [{"controller_epoch": 1, "partitions": 1}]
    assert bench.state(topic)[0] == 1


def test_a_command_that_it_does_not_know_is_a_fault(bench):
    with pytest.raises(TypeError, match="the controller has no job for str"):
        bench.controller.event(Request(1, "what"), 0)
