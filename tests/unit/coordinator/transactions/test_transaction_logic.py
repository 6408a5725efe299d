"""Rules of transactions, each for itself: section 4.1 of the protocol's table, fencing, times, deaths."""

from collections import deque

import msgspec
import pytest

from mpbroker.coordinator.transactions.transaction import EXHAUSTED_EPOCH, State
from mpbroker.coordinator.transactions.transaction_records import transaction_key, transaction_value
from mpbroker.coordinator.transactions.transaction_settings import TransactionSettings
from mpbroker.coordinator.transactions.transaction_times import LEAST_BETWEEN_LOOKS_MS
from mpbroker.errors import ErrorCode
from mpbroker.metadata.topic_names import OFFSETS_TOPIC
from mpbroker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from mpbroker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from mpbroker.protocol.messages.end_txn import EndTxnRequest
from mpbroker.protocol.messages.list_transactions import ListTransactionsRequest
from mpbroker.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.harness.transaction_world import ID, OFFSETS_PARTITION, TIMEOUT_MS, TOPIC, Marker, TransactionWorld

NONE, MOVING = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS
FENCED, STALE = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH
OTHER_ID, NOT_NOW = ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_TXN_STATE


@pytest.fixture
def world():
    return TransactionWorld()


def producer_of(world, name=ID):
    code, producer_id, epoch = world.init(name)
    assert code == NONE
    return producer_id, epoch


def test_a_transaction_from_beginning_to_end(world):
    producer = producer_of(world)
    assert producer[1] == 0 and world.recorded().state is State.EMPTY
    assert world.add(producer, 0, 1) == [NONE, NONE]
    assert world.verified == {(TOPIC, 0): producer, (TOPIC, 1): producer}
    assert world.add_offsets(producer) == NONE and world.commit_offsets(producer) == []
    assert world.end(producer, True) == NONE
    marker = Marker(*producer, True)
    assert world.markers == {one: [marker] for one in ((TOPIC, 0), (TOPIC, 1), (OFFSETS_TOPIC, OFFSETS_PARTITION))}
    assert world.recorded().state is State.COMPLETE_COMMIT and not world.recorded().partitions
    assert world.coordinator.counts.committed == 1
    assert world.end(producer, True) == NONE and world.end(producer, False) == NOT_NOW
    assert len(world.markers[TOPIC, 0]) == 1


def test_the_next_transaction_begins_anew(world):
    producer = producer_of(world)
    world.add(producer, 0)
    world.end(producer, False)
    world.advance(5)
    assert world.add(producer, 1) == [NONE]
    found = world.recorded()
    assert found.partitions == {(TOPIC, 1)} and found.start_ms == world.now().wall_ms
    assert world.end(producer, True) == NONE
    assert world.markers[TOPIC, 0] == [Marker(*producer, False)] and world.markers[TOPIC, 1] == [
        Marker(*producer, True)
    ]


def test_while_markers_are_being_written_the_producer_waits(world):
    producer = producer_of(world)
    world.add(producer, 0)
    world.held_markers = deque()
    assert world.end(producer, True) == NONE
    assert world.end(producer, True) == MOVING and world.end(producer, False) == NOT_NOW
    assert world.add(producer, 1) == [MOVING] and world.add_offsets(producer) == MOVING
    assert world.init()[0] == MOVING
    world.release_markers()
    assert world.add(producer, 1) == [NONE]


def test_a_new_producer_fences_the_old_one_and_aborts_its_transaction(world):
    old = producer_of(world)
    world.add(old, 0)
    assert world.init()[0] == MOVING
    assert world.markers[TOPIC, 0] == [Marker(old[0], 1, False)]
    assert world.init() == (NONE, old[0], 2)
    assert world.add(old, 0) == [FENCED] and world.add(old, 0, version=1) == [STALE]
    assert world.end(old, True) == FENCED and world.end(old, True, version=1) == STALE
    assert world.commit_offsets(old) == []  # no partitions named
    assert world.coordinator.counts.aborted == 1


def test_wrong_producers(world):
    producer_id, epoch = producer_of(world)
    assert world.add((producer_id + 1, epoch), 0) == [OTHER_ID]
    assert world.add((producer_id, epoch + 1), 0) == [FENCED]  # a higher epoch, too
    assert world.add((producer_id, epoch), 0, name="nobody") == [OTHER_ID]
    assert world.add((producer_id, epoch), 0, name="") == [ErrorCode.INVALID_REQUEST]
    assert world.end((producer_id, epoch), True) == NOT_NOW  # nothing was begun
    assert world.end((producer_id, epoch), True, name="nobody") == OTHER_ID
    assert world.init(timeout_ms=0)[0] == world.init(timeout_ms=900_001)[0] == ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_an_unknown_partition_keeps_the_others_out(world):
    producer = producer_of(world)
    missing, spared = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
    assert world.add(producer, 0, 9) == [spared, missing]
    assert world.recorded().state is State.EMPTY and not world.verified


def test_partitions_that_are_there_are_verified_again_without_a_record(world):
    producer = producer_of(world)
    world.add(producer, 0)
    records = len(world.log)
    world.allowed.clear()  # the broker was started again
    assert world.add(producer, 0) == [NONE]
    assert len(world.log) == records and world.verified == {(TOPIC, 0): producer}


def test_init_producer_id_with_what_the_producer_has(world):
    producer_id, epoch = producer_of(world)
    assert world.init(producer=(producer_id, epoch)) == (NONE, producer_id, 1)
    assert world.init(producer=(producer_id, epoch)) == (NONE, producer_id, 1)  # it did not hear the answer
    assert world.init(producer=(producer_id, epoch + 5)) == (FENCED, -1, -1)
    assert world.init(producer=(producer_id + 1, 1)) == (FENCED, -1, -1)
    assert world.init(producer=(producer_id, epoch + 5), version=3)[0] == STALE
    assert world.init("new", producer=(producer_id, 7))[::2] == (NONE, 0)


def almost_exhausted(world):
    """The id of a producer that has one epoch left."""
    producer_id, _ = producer_of(world)
    found = msgspec.structs.replace(world.recorded(), epoch=EXHAUSTED_EPOCH - 1)
    world.log.append((transaction_key(ID), transaction_value(found, 0)))
    world.start()
    assert world.init() == (NONE, producer_id, EXHAUSTED_EPOCH)
    return producer_id


def test_a_used_up_producer_id_is_changed(world):
    producer_id = almost_exhausted(world)
    code, new_id, epoch = world.init(producer=(producer_id, EXHAUSTED_EPOCH))
    assert (code, epoch) == (NONE, 0) and new_id != producer_id
    world.start()
    assert world.init()[1:] == (new_id, 1)


@pytest.mark.parametrize("version", [0, 4])
def test_who_is_not_told_its_next_epoch_takes_no_producer_id_for_it(world, version):
    producer_id = almost_exhausted(world)
    assert world.add((producer_id, EXHAUSTED_EPOCH), 0) == [NONE]
    assert world.end((producer_id, EXHAUSTED_EPOCH), True, version=version) == NONE
    assert world.init("another")[1] == producer_id + world.block, "the first of the successor's block"


def test_the_last_epoch_fences(world):
    producer_id = almost_exhausted(world)
    world.add((producer_id, EXHAUSTED_EPOCH), 0)
    assert world.init()[0] == MOVING
    assert world.markers[TOPIC, 0] == [Marker(producer_id, EXHAUSTED_EPOCH + 1, False)]
    assert world.init()[2] == 0


def test_a_transaction_that_takes_too_long_is_aborted(world):
    producer = producer_of(world)
    world.add(producer, 0)
    world.advance(TIMEOUT_MS - 1)
    assert world.recorded().state is State.ONGOING
    world.advance(1 + LEAST_BETWEEN_LOOKS_MS)
    assert world.recorded().state is State.COMPLETE_ABORT and world.coordinator.counts.timed_out == 1
    assert world.markers[TOPIC, 0] == [Marker(producer[0], producer[1] + 1, False)]
    assert world.end(producer, True) == FENCED


def test_each_transaction_is_aborted_when_its_own_time_is_over(world):
    """Also one that began after the last look and ends before the next regular one."""
    world.advance(0)
    short = world.init("short", timeout_ms=1000)[1:]
    producer = producer_of(world)
    world.add(producer, 0)
    world.add(short, 1, name="short")
    world.advance(999)
    assert world.recorded("short").state is State.ONGOING
    world.advance(2)
    assert world.recorded("short").state is State.COMPLETE_ABORT
    world.advance(TIMEOUT_MS - 1002)
    assert world.recorded().state is State.ONGOING
    world.advance(2)
    assert world.recorded().state is State.COMPLETE_ABORT


def test_an_abort_that_could_not_be_recorded_is_tried_again_soon(world):
    producer = producer_of(world)
    world.add(producer, 0)
    fates = deque([(False, ErrorCode.NOT_ENOUGH_REPLICAS)] * 3)
    world.append_fate = lambda: fates.popleft() if fates else (True, 0)
    world.advance(TIMEOUT_MS + LEAST_BETWEEN_LOOKS_MS)
    assert world.recorded().state is State.ONGOING and len(fates) == 2
    for _ in range(3):
        world.advance(LEAST_BETWEEN_LOOKS_MS)
    assert world.recorded().state is State.COMPLETE_ABORT


def test_a_transaction_ends_although_no_coordinator_lives_until_its_next_look(world):
    """Kills that come more often than the interval of looks begin the interval anew each time."""
    code, *producer = world.init(timeout_ms=1000)
    assert code == NONE and world.add(tuple(producer), 0) == [NONE]
    for _ in range(4):
        world.advance(world.settings.abort_check_ms // 2)
        world.start()
    world.advance(0)
    assert world.recorded().state is State.COMPLETE_ABORT


def test_an_id_that_nobody_uses_is_forgotten():
    world = TransactionWorld(TransactionSettings(partitions=1, expiration_ms=5000, expiration_check_ms=1000))
    producer = producer_of(world)
    ongoing = producer_of(world, "other")
    world.add(ongoing, 0, name="other")
    world.advance(6100)
    assert world.recorded() is None and world.coordinator.counts.ids_expired == 1
    assert world.recorded("other").state is State.ONGOING
    assert world.add(producer, 0) == [OTHER_ID]
    assert world.init()[2] == 0


def test_as_many_ids_as_allowed():
    world = TransactionWorld(TransactionSettings(partitions=1, max_ids=1))
    producer_of(world)
    assert world.init("other")[0] == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.coordinator.counts.ids_refused == 1 and world.init()[0] == NONE


def test_as_many_partitions_at_a_time_as_allowed():
    world = TransactionWorld(TransactionSettings(partitions=1, max_partitions=2))
    producer = producer_of(world)
    assert world.add(producer, 0, 1) == [NONE, NONE] and world.add(producer, 2) == [MOVING]
    assert world.coordinator.counts.partitions_refused == 1
    world.end(producer, True)
    assert world.coordinator.counts.partitions == 0 and world.add(producer, 2) == [NONE]


def test_offsets_need_their_group_in_the_transaction(world):
    producer = producer_of(world)

    def codes(version):
        from mpbroker.protocol.messages.txn_offset_commit import (
            TxnOffsetCommitRequest,
            TxnOffsetCommitRequestPartition,
            TxnOffsetCommitRequestTopic,
        )

        topics = [TxnOffsetCommitRequestTopic(TOPIC, [TxnOffsetCommitRequestPartition(0, 5)])]
        heard = world.send(TxnOffsetCommitRequest(ID, "g", *producer, topics=topics), version)
        return [row.error_code for topic in heard[0].topics for row in topic.partitions]

    assert codes(3) == [NOT_NOW] and codes(4) == [ErrorCode.TRANSACTION_ABORTABLE]
    world.add(producer, 0)
    assert codes(3) == [NOT_NOW]
    world.add_offsets(producer)
    assert codes(3) == []  # groups answer
    world.init()
    assert codes(3) == [STALE]


def test_a_refused_append_changes_nothing(world):
    producer = producer_of(world)
    world.append_fate = lambda: (False, ErrorCode.NOT_ENOUGH_REPLICAS)
    assert world.add(producer, 0) == [ErrorCode.COORDINATOR_NOT_AVAILABLE] and not world.verified
    world.append_fate = lambda: (True, 0)
    assert world.add(producer, 0) == [NONE]
    world.append_fate = lambda: (False, ErrorCode.KAFKA_STORAGE_ERROR)
    assert world.end(producer, True) == ErrorCode.NOT_COORDINATOR and not world.markers
    world.append_fate = lambda: (True, 0)
    assert world.end(producer, True) == NONE


def test_the_end_is_recorded_however_often_that_fails(world):
    producer = producer_of(world)
    world.add(producer, 0)
    fates = deque([(True, 0), (False, ErrorCode.NOT_ENOUGH_REPLICAS), (False, ErrorCode.REQUEST_TIMED_OUT)])
    world.append_fate = lambda: fates.popleft() if fates else (True, 0)
    assert world.end(producer, True) == NONE
    assert world.recorded().state is State.PREPARE_COMMIT
    world.advance(1000)
    assert world.recorded().state is State.COMPLETE_COMMIT and len(world.markers[TOPIC, 0]) == 1


def test_a_successor_sends_markers_again_and_verifies_again(world):
    producer = producer_of(world)
    world.add(producer, 0)
    world.restart_broker()
    assert world.verified == {(TOPIC, 0): producer}
    world.held_markers = deque()
    world.end(producer, False)
    world.held_markers = None
    world.start()
    assert world.markers[TOPIC, 0] == [Marker(*producer, False)]
    assert world.recorded().state is State.COMPLETE_ABORT


@pytest.mark.parametrize("effects", range(8))
def test_a_death_after_any_effect_of_each_request(effects):
    """The request is run again by the successor: it comes to the same, and nothing happens twice."""
    world = TransactionWorld()
    world.effects_left = effects
    code, producer_id, epoch = world.init()
    assert (code, epoch) == (NONE, 0)
    world.effects_left = effects
    assert world.add((producer_id, epoch), 0, 1) == [NONE, NONE]
    world.effects_left = effects
    assert world.end((producer_id, epoch), True) == NONE
    world.effects_left = None
    world.start()
    assert world.recorded().state is State.COMPLETE_COMMIT
    assert set(world.markers[TOPIC, 0]) == {Marker(producer_id, epoch, True)}
    world.effects_left = effects
    assert world.init() == (NONE, producer_id, 1)


def test_other_brokers_ask_whether_partitions_were_added(world):
    producer = producer_of(world)
    world.add(producer, 0)

    def ask(version, verify_only, *partitions, epoch=0):
        topics = [AddPartitionsToTxnTopic(TOPIC, list(partitions))]
        one = AddPartitionsToTxnTransaction(ID, producer[0], epoch, verify_only, topics)
        [heard] = world.send(AddPartitionsToTxnRequest([one]), version)
        [row] = heard.results_by_transaction
        return [each.partition_error_code for each in row.topic_results[0].results_by_partition]

    assert ask(4, True, 0, 1) == [NONE, NOT_NOW]
    assert ask(5, True, 0, 1) == [NONE, ErrorCode.TRANSACTION_ABORTABLE]
    assert ask(4, True, 0, epoch=1) == [FENCED]
    assert ask(4, False, 1) == [NONE] and ask(4, True, 1) == [NONE]


@pytest.mark.parametrize(("version", "raises"), [(3, 0), (4, 2), (5, 2)])
def test_who_adds_for_several_transactions_raises_epochs(version, raises):
    world = TransactionWorld(feature_level=2)
    producer = producer_of(world)
    topics = [AddPartitionsToTxnTopic(TOPIC, [0])]
    if version == 3:
        world.add(producer, 0)
    else:
        world.send(AddPartitionsToTxnRequest([AddPartitionsToTxnTransaction(ID, *producer, False, topics)]), version)
    assert world.recorded().client_version == raises


def test_what_administrators_see(world):
    producer = producer_of(world)
    world.add(producer, 1, 0)
    [answer] = world.send(DescribeTransactionsRequest([ID, "nobody", ""]), 0)
    one, nobody, empty = answer.transaction_states
    assert (one.transaction_state, one.producer_id, one.transaction_timeout_ms) == ("Ongoing", producer[0], TIMEOUT_MS)
    assert [(topic.topic, topic.partitions) for topic in one.topics] == [(TOPIC, [0, 1])]
    assert nobody.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND and empty.error_code == ErrorCode.INVALID_REQUEST
    producer_of(world, "other")

    def names(*filters):
        [answer] = world.send(ListTransactionsRequest(*filters), 1)
        return sorted(row.transactional_id for row in answer.transaction_states), answer.unknown_state_filters

    assert names() == (["other", ID], [])
    assert names(["Ongoing", "Odd"]) == ([ID], ["Odd"])
    assert names([], [producer[0]]) == ([ID], [])
    world.advance(100)
    assert names(["Ongoing"], [], 50) == ([ID], []) and names(["Ongoing"], [], 200) == ([], [])


@pytest.mark.parametrize("patient", [False, True], ids=["now", "after a while"])
def test_who_asks_while_it_is_loaded_is_told_to_come_again(world, patient):
    """Where there is no room to keep it waiting at once, else when it has waited long enough."""
    producer = producer_of(world)
    world.coordinator = type(world.coordinator)(
        msgspec.structs.replace(world.settings, **({} if patient else {"max_parked": 0})),
        lambda *_: True,
        lambda _: 0,
        lambda: world.feature_level,
    )
    world.carry_out(world.coordinator.open(0, 0, world.now()))
    heard = world.send(EndTxnRequest(ID, *producer, True), 1)
    assert not (heard and patient)
    world.advance(30_000)
    assert [answer.error_code for answer in heard] == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    assert world.coordinator.counts.loading_refused == 1


def test_who_lists_transactions_waits_until_all_are_loaded(world):
    producer_of(world)
    world.coordinator = type(world.coordinator)(
        world.settings, lambda *_: True, lambda _: 0, lambda: world.feature_level
    )
    world.carry_out(world.coordinator.open(0, 0, world.now()))
    listed, described = world.send(ListTransactionsRequest(), 1), world.send(DescribeTransactionsRequest([ID]), 0)
    assert not listed or listed[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert not described or described[0].transaction_states[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.coordinator.counts.loading_refused == len(listed) + len(described)
    world.advance(30_000)
    assert world.coordinator.counts.loading_refused == 2, "each once"
    world.coordinator.load(0, world.log)
    world.carry_out(world.coordinator.loaded(0, world.now()))
    if not listed:
        listed = world.send(ListTransactionsRequest(), 1)
    [answer] = world.send(ListTransactionsRequest(), 1)
    assert [row.transactional_id for row in answer.transaction_states] == [ID]


def test_an_administrator_ends_transactions_in_partitions(world):
    marker = WritableTxnMarker(70, 3, False, [WritableTxnMarkerTopic(TOPIC, [0, 1])], 5)
    world.asked_codes = {(TOPIC, 0): NONE, (TOPIC, 1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    [answer] = world.send(WriteTxnMarkersRequest([marker, marker]), 1)
    rows = [[row.error_code for row in one.topics[0].partitions] for one in answer.markers]
    assert rows == [[NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]] * 2
    assert [(one.producer_id, one.producer_epoch, one.coordinator_epoch) for one in world.asked] == [(70, 3, 5)] * 2
    [nothing] = world.send(WriteTxnMarkersRequest([]), 0)
    assert nothing.markers == []


def test_an_id_whose_record_is_on_its_way_takes_no_other_request(world):
    """Two decisions at once would be two records of which the later one wins."""
    producer = producer_of(world)
    appends, append = [], world._append
    world._append = lambda effect: appends.append(effect) or []
    assert world.add(producer, 0) is None, "its record is on its way"
    [later] = world.send(EndTxnRequest(ID, *producer, True), 1)
    assert later.error_code == MOVING and len(appends) == 1
    world._append = append
    world.carry_out(append(appends[0]))
    assert world.end(producer, True) == NONE and world.markers
