"""The elected controller over the store in memory: each row of the table of events."""

import pytest

from mpbroker.cluster.cluster_config import ClusterConfig
from mpbroker.cluster.events import Answered, ReadDone, Reply, Request, Resign, Txn, TxnDone
from mpbroker.cluster.jobs import MAX_IN_DOUBT
from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import (
    AllocateProducerIds,
    AlterConfigs,
    ConfigChange,
    ConfigChanges,
    CreateTopics,
    DeleteTopics,
    NewTopic,
)
from mpbroker.metadata.meta_store import Committed, Delete, Put, Unknown
from mpbroker.protocol.messages.alter_partition import (
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionTopic,
)
from mpbroker.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from mpbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from mpbroker.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from tests.unit.cluster.controller_bench import ControllerBench, alter, elect, epoch_of, roles, stops


@pytest.fixture
def bench():
    return ControllerBench()


def test_a_new_term_tells_every_broker_everything_metadata_first(bench):
    bench.create()
    bench.take_sent()
    bench.elect()
    sent = bench.take_sent()
    for broker in (1, 2, 3):
        kinds = [(type(request), request.type) for to, request in sent if to == broker]
        assert kinds[:2] == [(UpdateMetadataRequest, 2), (LeaderAndIsrRequest, 2)]
        assert {request.controller_epoch for to, request in sent if to == broker} == {2}


def test_a_new_partition_is_led_by_its_first_live_replica(bench):
    topic = bench.create(assignments=([2, 3, 1], [3, 1, 2]))
    assert [bench.state(topic, n) for n in (0, 1)] == [(2, 0, [2, 3, 1], 0), (3, 0, [3, 1, 2], 0)]
    assert len(roles(bench.take_sent())) == 6
    bench.elect()
    assert all(not is_new for *_, is_new in roles(bench.take_sent()))


def test_a_new_partition_is_told_to_its_replicas_as_new(bench):
    bench.take_sent()
    bench.create(assignments=([1, 2],))
    sent = bench.take_sent()
    assert roles(sent) == [(1, 0, 1, 0, (1, 2), True), (2, 0, 1, 0, (1, 2), True)]
    assert {broker for broker, request in sent if isinstance(request, UpdateMetadataRequest)} == {1, 2, 3}


def test_a_lost_leader_is_followed_by_the_next_in_sync(bench):
    topic = bench.create()
    alter(bench, topic, [1, 3])
    bench.take_sent()
    bench.lose(1)
    assert bench.state(topic) == (3, 1, [3], 2)
    sent = bench.take_sent()
    assert roles(sent) == [(2, 0, 3, 1, (3,), False), (3, 0, 3, 1, (3,), False)]
    assert {broker for broker, _ in sent} == {2, 3}
    update = [request for _, request in sent if isinstance(request, UpdateMetadataRequest)][-1]
    assert [broker.id for broker in update.live_brokers] == [2, 3]


def test_a_lost_follower_leaves_the_isr_in_a_new_epoch(bench):
    topic = bench.create()
    bench.lose(2)
    assert bench.state(topic) == (1, 1, [1, 3], 1)


def test_brokers_are_told_of_a_loss_that_changes_no_partition(bench):
    bench.take_sent()
    bench.lose(3)
    assert [(broker, type(request)) for broker, request in bench.take_sent()] == [
        (1, UpdateMetadataRequest),
        (2, UpdateMetadataRequest),
    ]


def test_the_last_in_sync_replica_stays_in_the_isr(bench):
    topic = bench.create()
    bench.lose(1, 2)
    bench.take_sent()
    bench.lose(3)
    leader, _, isr, _ = bench.state(topic)
    assert (leader, isr) == (-1, [3])
    bench.come(1)
    assert bench.state(topic)[0] == -1  # it may lack records that 3 has acknowledged
    bench.come(3)
    assert bench.state(topic)[0::2] == (3, [3])


def test_a_broker_that_is_back_gets_everything_then_its_replicas(bench):
    bench.create()
    bench.create("u", ([1, 2],))
    bench.lose(3)
    bench.take_sent()
    bench.come(3)
    own = [request for broker, request in bench.take_sent() if broker == 3]
    assert [(type(r), r.type) for r in own[:2]] == [(UpdateMetadataRequest, 2), (LeaderAndIsrRequest, 2)]
    assert sum(len(topic.partition_states) for topic in own[0].topic_states) == 2
    assert roles([(3, own[1])]) == [(3, 0, 1, 1, (1, 2), False)]
    assert own[0].broker_epoch == epoch_of(bench, 3)


def test_a_restart_is_a_loss_and_a_return(bench):
    topic = bench.create()
    bench.register(1)
    bench.watch()
    assert bench.state(topic)[:3] == (2, 1, [2, 3])


def test_a_restart_that_no_controller_saw_is_noticed_by_the_next(bench):
    topic = bench.create()
    bench.register(1)
    bench.elect()
    assert bench.state(topic)[:3] == (2, 1, [2, 3])


def test_a_cluster_that_restarts_keeps_its_isr(bench):
    topic = bench.create()
    bench.lose(1, 2, 3)
    leader, _, isr, _ = bench.state(topic)
    assert leader == -1 and isr == [1, 2, 3]
    for broker in (1, 2, 3):
        bench.register(broker)
    bench.elect()
    assert bench.state(topic)[0::2] == (1, [1, 2, 3])


def test_an_unclean_start_leaves_the_isr_that_has_another(bench):
    topic, other = bench.create(), bench.create("sole", ([1],))
    bench.lose(2)
    bench.lose(1, 3)
    assert bench.state(topic)[0::2] == (-1, [1, 3])
    bench.come(1, unclean=True)
    assert bench.state(topic)[0::2] == (-1, [3])
    assert bench.state(other)[0::2] == (1, [1])  # nobody else has it
    bench.come(3)
    assert bench.state(topic)[0::2] == (3, [3])


def test_an_unclean_leader_is_elected_where_that_is_allowed(bench):
    topic = bench.create(configs={"unclean.leader.election.enable": "true"})
    bench.lose(2, 3)
    bench.come(2)
    bench.lose(1)
    assert bench.state(topic)[0::2] == (2, [2])


def test_allowing_unclean_elections_elects(bench):
    topic = bench.create()
    bench.lose(2, 3)
    bench.come(2)
    bench.lose(1)
    assert bench.state(topic)[0] == -1
    change = ConfigChanges(2, "t", [ConfigChange("unclean.leader.election.enable", 0, "true")])
    assert bench.ask(AlterConfigs([change])).results[0].error_code == 0
    assert bench.state(topic)[0::2] == (2, [2])


class TestAFailedLogDirectory:
    def test_another_leads_and_the_replica_is_shown_offline(self, bench):
        broken, sound = bench.create(), bench.create("u")
        bench.take_sent()
        bench.fail_directory(1, (broken, 0))
        assert bench.state(broken)[:3] == (2, 1, [2, 3])
        assert bench.state(sound)[:3] == (1, 0, [1, 2, 3]), "the broker lives, and its other directories do"
        updates = [request for _, request in bench.take_sent(UpdateMetadataRequest)]
        told = [state for update in updates for topic in update.topic_states for state in topic.partition_states]
        assert told[-1].offline_replicas == [1]

    def test_the_next_controller_hears_of_it(self, bench):
        topic = bench.create()
        bench.answering.discard(1)
        bench.fail_directory(1, (topic, 0))
        assert bench.state(topic)[0] == 1, "nobody knows which replicas it has there"
        bench.answering.add(1)
        bench.elect()
        assert bench.state(topic)[:3] == (2, 1, [2, 3])

    def test_such_a_replica_neither_joins_nor_is_elected(self, bench):
        topic = bench.create()
        bench.fail_directory(1, (topic, 0))
        assert alter(bench, topic, [2, 3, 1], broker=2)[0] == ErrorCode.INELIGIBLE_REPLICA
        assert elect(bench) == [(0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)]
        bench.lose(2)
        assert bench.state(topic)[0::2] == (3, [3])
        bench.lose(3)
        assert bench.state(topic)[0::2] == (-1, [3])

    def test_a_start_with_the_directory_repaired(self, bench):
        alone = bench.create("alone", ([1],))
        bench.fail_directory(1, (alone, 0))
        assert bench.state(alone)[0::2] == (-1, [1]), "the only one that has it"
        bench.broken.clear()
        bench.register(1)
        bench.watch()
        assert bench.state(alone)[0::2] == (1, [1])


class TestAlterPartition:
    def test_it_changes_the_isr_in_the_same_leader_epoch(self, bench):
        topic = bench.create()
        bench.take_sent()
        assert alter(bench, topic, [1, 2]) == (0, [1, 2], 1)
        sent = bench.take_sent()
        assert not roles(sent) and {broker for broker, _ in sent} == {1, 2, 3}
        assert alter(bench, topic, [1, 3, 2]) == (0, [1, 2, 3], 2)

    def test_what_is_so_already_is_done_whatever_its_partition_epoch(self, bench):
        topic = bench.create()
        alter(bench, topic, [1, 2])
        assert alter(bench, topic, [2, 1], partition_epoch=0) == (0, [1, 2], 1)

    @pytest.mark.parametrize(
        ("asked", "code"),
        [
            ({"partition_epoch": 0}, ErrorCode.INVALID_UPDATE_VERSION),
            ({"partition_epoch": 9}, ErrorCode.NOT_CONTROLLER),
            ({"leader_epoch": 9}, ErrorCode.NOT_CONTROLLER),
            ({"broker": 2}, ErrorCode.INVALID_REQUEST),
            ({"epochs": {2: 1}}, ErrorCode.INELIGIBLE_REPLICA),
        ],
    )
    def test_refusals(self, bench, asked, code):
        topic = bench.create()
        alter(bench, topic, [1])
        assert alter(bench, topic, [1, 2], **asked)[0] == code
        assert bench.state(topic)[2:] == ([1], 1)

    def test_an_old_leader_is_fenced(self, bench):
        topic = bench.create()
        bench.lose(3)
        assert alter(bench, topic, [1], leader_epoch=0)[0] == ErrorCode.FENCED_LEADER_EPOCH

    def test_a_dead_replica_may_not_join(self, bench):
        topic = bench.create()
        bench.lose(3)
        assert alter(bench, topic, [1, 2, 3])[0] == ErrorCode.INELIGIBLE_REPLICA

    def test_a_strange_broker_epoch_and_strange_topics(self, bench):
        bench.create()
        assert bench.ask(AlterPartitionRequest(broker_id=1, broker_epoch=999)).error_code == 77
        strange = AlterPartitionTopic(topic_id=b"x" * 16, partitions=[AlterPartitionPartition()])
        answer = bench.ask(AlterPartitionRequest(broker_id=1, broker_epoch=epoch_of(bench, 1), topics=[strange]))
        assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


class TestShutdown:
    def test_leaders_move_and_followers_stop(self, bench):
        topic, sole = bench.create(assignments=([1, 2, 3], [2, 1, 3])), bench.create("u", ([1],))
        bench.take_sent()
        answer = bench.ask(ControlledShutdownRequest(broker_id=1, broker_epoch=epoch_of(bench, 1)))
        assert (answer.error_code, answer.remaining_partitions) == (0, [])  # RF 1 stays and does not count
        assert bench.state(topic, 0)[:3] == (2, 1, [2, 3])
        assert bench.state(topic, 1)[:3] == (2, 1, [2, 3])
        assert bench.state(sole)[:3] == (1, 0, [1])
        assert stops(bench.take_sent()) == [(1, 0, 1, False), (1, 1, 1, False)]
        assert alter(bench, topic, [1, 2], broker=2, number=1)[0] == ErrorCode.INELIGIBLE_REPLICA

    def test_what_nobody_else_can_lead_remains(self, bench):
        topic = bench.create(assignments=([1, 2],))
        alter(bench, topic, [1])
        answer = bench.ask(ControlledShutdownRequest(broker_id=1, broker_epoch=epoch_of(bench, 1)))
        assert [(p.topic_name, p.partition_index) for p in answer.remaining_partitions] == [("t", 0)]
        assert bench.state(topic)[:3] == (1, 0, [1])

    def test_strange_brokers(self, bench):
        assert bench.ask(ControlledShutdownRequest(broker_id=1, broker_epoch=999)).error_code == 77
        assert bench.ask(ControlledShutdownRequest(broker_id=9)).error_code == ErrorCode.BROKER_NOT_AVAILABLE

    def test_one_that_was_back_before_its_turn_is_not_stopped_again(self, bench):
        """It waited no longer, stopped and started anew while the election was under way: nobody would have given its
        replicas a role again. (The simulation found it.)"""
        bench.create(assignments=([1, 2, 3],))
        bench.take_sent()
        command = ControlledShutdownRequest(broker_id=1, broker_epoch=epoch_of(bench, 1))
        (election,) = bench.controller.event(Request(99, command), 0)
        bench.register(1)
        bench.watch(settle=False)
        outcome = bench.store.txn(election.checks, election.ops, tag="")
        bench.carry_out(bench.controller.event(TxnDone(election.tag, outcome), 0))
        bench.settle()
        sent = bench.take_sent()
        assert bench.replies[99].error_code == ErrorCode.STALE_BROKER_EPOCH
        assert stops(sent) == [] and 1 in {broker for broker, *_ in roles(sent)}

    def test_a_broker_that_came_back_leads_again(self, bench):
        topic = bench.create(assignments=([1, 2],))
        bench.ask(ControlledShutdownRequest(broker_id=1, broker_epoch=epoch_of(bench, 1)))
        bench.lose(1)
        bench.come(1)
        assert alter(bench, topic, [1, 2], broker=2)[0] == 0


class TestElectLeaders:
    def test_the_preferred_replica(self, bench):
        topic = bench.create()
        assert elect(bench) == [(0, ErrorCode.ELECTION_NOT_NEEDED)]
        bench.lose(1)
        assert elect(bench) == [(0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)]
        bench.come(1)
        assert elect(bench) == [(0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)]
        alter(bench, topic, [1, 2, 3], broker=2)
        assert elect(bench) == [(0, 0)]
        assert bench.state(topic)[:3] == (1, 2, [1, 2, 3])
        assert elect(bench, partitions=(7,)) == [(7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        assert elect(bench, partitions=None) == []

    def test_any_replica(self, bench):
        topic = bench.create()
        assert elect(bench, 1) == [(0, ErrorCode.ELECTION_NOT_NEEDED)]
        bench.lose(2, 3)
        bench.lose(1)
        assert elect(bench, 1) == [(0, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)]
        bench.come(2)
        assert elect(bench, 1) == [(0, 0)]
        assert bench.state(topic)[0::2] == (2, [2])

    def test_leaders_go_back_by_themselves(self):
        bench = ControllerBench(config=ClusterConfig(leader_imbalance_check_interval_seconds=10))
        topic = bench.create()
        bench.lose(1)
        bench.come(1)
        alter(bench, topic, [1, 2, 3], broker=2)
        bench.tick(4000)
        assert bench.state(topic)[0] == 2
        bench.tick(2000)
        assert bench.state(topic)[0] == 1

    def test_a_small_imbalance_is_left(self):
        bench = ControllerBench()
        topic = bench.create(assignments=[[1, 2]] * 10)
        bench.lose(1)
        bench.come(1)
        for number in range(10):
            alter(bench, topic, [1, 2], broker=2, number=number)
        elect(bench, partitions=range(9))
        bench.tick(6000)
        assert bench.state(topic, 9)[0] == 2  # one of ten is no more than 10 %


def test_producer_id_blocks_never_overlap(bench):
    bench.unknown = [True]
    blocks = [bench.ask(AllocateProducerIds()).first_id for _ in range(3)]
    assert blocks == [0, 1000, 2000]  # the tag says what became of the first try


def test_how_long_elections_took_is_known_and_nothing_else_is_counted(bench):
    bench.create()
    timer = bench.controller.metrics.election_time
    before = timer.count
    bench.lose(2)
    assert timer.count == before, "nobody had to be elected"
    bench.lose(1)
    assert timer.count == before + 1


class TestAnswersOfAnEarlierLife:
    """A broker restarted while a request was on its way: what its earlier life answers says nothing of this one."""

    @pytest.fixture
    def asked(self, bench):
        bench.answering.discard(3)
        bench.create()
        return bench

    def test_what_was_sent_to_this_one_is_not_answered_by_it(self, asked):
        epoch = epoch_of(asked, 3)
        asked.event(Answered(3, epoch - 1, UpdateMetadataResponse()))
        assert not asked.send(3), "still on its way"
        asked.event(Answered(3, epoch, UpdateMetadataResponse()))
        assert asked.send(3), "the next one goes"

    @pytest.mark.parametrize("broker", [3, 1, 9], ids=["of another life", "nothing asked", "unknown"])
    def test_a_stale_epoch_in_it_ends_no_term(self, asked, broker):
        epoch = epoch_of(asked, broker) - (broker == 3) if broker != 9 else 1
        asked.event(Answered(broker, epoch, UpdateMetadataResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)))
        assert asked.resigned is None
        asked.event(Answered(3, epoch_of(asked, 3), UpdateMetadataResponse(error_code=11)))
        assert asked.resigned == "broker 3 knows a later controller"


class TestTransactions:
    def test_every_one_is_guarded_and_a_failed_guard_ends_the_term(self, bench):
        bench.create()
        assert all(txn.checks[0].key == bench.keys.controller_epoch for txn in bench.txns)
        _, entry = bench.store.get(bench.keys.controller_epoch)
        bench.store.txn([], [Put(entry.key, entry.value)], tag="")
        answer = bench.ask(CreateTopics([NewTopic("u", 1, 1)]))
        assert bench.resigned == "another controller was elected"
        assert answer.error_code == ErrorCode.NOT_CONTROLLER
        assert bench.ask(CreateTopics([NewTopic("u", 1, 1)])).error_code == ErrorCode.NOT_CONTROLLER
        assert bench.controller.next_request(1, bench.now_ms) is None

    def test_the_watch_ends_the_term_too(self, bench):
        _, entry = bench.store.get(bench.keys.controller_epoch)
        bench.store.txn([], [Put(entry.key, entry.value)], tag="")
        bench.watch()
        assert bench.resigned

    @pytest.mark.parametrize("hidden", range(6))
    def test_an_unknown_outcome_is_read_again(self, hidden):
        bench = ControllerBench(max_operations=8)
        bench.unknown = [False] * hidden + [True]
        topic = bench.create(assignments=[[1, 2, 3]] * 20)
        bench.lose(1)
        assert [bench.state(topic, n)[:3] for n in range(20)] == [(2, 1, [2, 3])] * 20

    def test_a_transaction_that_comes_after_its_successor_was_made_counts_whole(self, bench):
        """A deletion that had not happened when it was looked for, and an election that was made meanwhile: what the
        deletion took away is not made again. (The simulation found it: seeds 13242 and 14369.)"""
        topic, controller = bench.create(), bench.controller
        (deletion,) = controller.event(Request(99, DeleteTopics(["t"])), 0)
        (read,) = controller.event(TxnDone(deletion.tag, Unknown(deletion.tag)), 0)
        before = {key: bench.store.get(key)[1] for key in read.keys}
        bench.store.txn([], [Delete(bench.keys.broker(1))], tag="")
        bench.watch(settle=False)
        (election,) = controller.event(ReadDone(read.tag, before), 0)
        assert bench.keys.partition(topic, 0) in {op.key for op in election.ops}
        assert isinstance(bench.store.txn(deletion.checks, deletion.ops, tag=""), Committed)
        conflict = bench.store.txn(election.checks, election.ops, tag="")
        bench.carry_out(controller.event(TxnDone(election.tag, conflict), 0))
        assert bench.replies[99].results[0].error_code == 0
        assert bench.store.get(bench.keys.partition(topic, 0))[1] is None
        assert not controller.image.partitions and not controller.image.orphans()
        bench.watch()
        assert not controller.image.partitions and bench.resigned is None

    def test_a_conflict_with_an_own_transaction_is_its_success(self, bench):
        """As when a driver of the store asks again after an answer that was lost."""
        controller = bench.controller
        (allocation,) = controller.event(Request(99, AllocateProducerIds()), 0)
        bench.store.txn(allocation.checks, allocation.ops, tag="")
        again = bench.store.txn(allocation.checks, allocation.ops, tag="")
        bench.carry_out(controller.event(TxnDone(allocation.tag, again), 0))
        assert (bench.replies[99].first_id, bench.ask(AllocateProducerIds()).first_id) == (0, 1000)

    def test_a_link_that_nobody_remembers_ends_the_term(self, bench):
        bench.store.txn([], [Put(bench.keys.transaction, b"1/1/77")], tag="")
        assert bench.ask(CreateTopics([NewTopic("t", 1, 1)])).error_code == ErrorCode.NOT_CONTROLLER
        assert bench.resigned == "the store is as no transaction that is remembered has left it"

    def test_so_many_in_doubt_and_no_more(self, bench):
        """A store that never says what became of a transaction ends the term, and not before."""
        (txn,) = bench.controller.event(Request(99, AllocateProducerIds()), 0)
        for _ in range(MAX_IN_DOUBT):
            (txn,) = self._doubted(bench, txn)
        assert isinstance(txn, Txn)
        assert bench.controller.event(Request(100, AllocateProducerIds()), 0) == []
        assert bench.controller.event_queue_size > 0
        effects = self._doubted(bench, txn)
        (resigned,) = [one for one in effects if isinstance(one, Resign)]
        assert "no transaction that is remembered" in resigned.reason
        assert [one.request_id for one in effects if isinstance(one, Reply)] == [99, 100]
        assert bench.controller.event_queue_size == 0, "nothing is under way any more"

    def _doubted(self, bench, txn):
        (read,) = bench.controller.event(TxnDone(txn.tag, Unknown(txn.tag)), 0)
        return bench.controller.event(ReadDone(read.tag, {key: bench.store.get(key)[1] for key in read.keys}), 0)

    def test_a_conflict_is_computed_again(self, bench):
        topic = bench.create()
        key = bench.keys.partition(topic, 0)
        value = bench.store.get(key)[1].value
        bench.store.txn([], [Put(key, value)], tag="")  # not seen yet
        assert alter(bench, topic, [1, 2], partition_epoch=0)[0] == ErrorCode.INVALID_UPDATE_VERSION
        assert alter(bench, topic, [1, 2]) == (0, [1, 2], 2)

    def test_a_broker_that_restarted_unseen_does_not_join(self, bench):
        topic = bench.create()
        alter(bench, topic, [1])
        old = epoch_of(bench, 2)
        bench.register(2)  # the watch has not told
        code, _, _ = alter(bench, topic, [1, 2], epochs={2: old})
        assert code == ErrorCode.INELIGIBLE_REPLICA
