"""Transactions of version 2 (KIP-890), rule by rule: what is written is added, each end raises the epoch."""

from collections import deque

import msgspec
import pytest

from mpbroker.coordinator.transactions.transaction import EXHAUSTED_EPOCH, State
from mpbroker.coordinator.transactions.transaction_records import transaction_key, transaction_value
from mpbroker.errors import ErrorCode
from mpbroker.metadata.topic_names import OFFSETS_TOPIC
from tests.harness.transaction_world import ID, OFFSETS_PARTITION, TIMEOUT_MS, TOPIC, Marker, TransactionWorld

NONE, MOVING = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS
FENCED, STALE = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH
OTHER_ID, NOT_NOW = ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_TXN_STATE
REFUSED = (-1, -1)


@pytest.fixture
def world():
    return TransactionWorld(feature_level=2)


@pytest.fixture
def producer(world):
    code, producer_id, epoch = world.init()
    assert (code, epoch) == (NONE, 0)
    return producer_id, epoch


def test_what_is_written_is_added_recorded_and_verified(world, producer):
    assert world.add_written(producer, 0, 2) == NONE
    assert world.recorded().partitions == {(TOPIC, 0), (TOPIC, 2)} and world.recorded().client_version == 2
    assert world.verified == {(TOPIC, 0): producer, (TOPIC, 2): producer}
    before = len(world.log)
    assert world.add_written(producer, 2) == NONE and len(world.log) == before
    assert world.add_written(producer, 1) == NONE and (TOPIC, 1) in world.recorded().partitions


@pytest.mark.parametrize(
    ("difference", "name", "code"),
    [((0, 1), ID, STALE), ((0, -1), ID, STALE), ((5, 0), ID, OTHER_ID), ((0, 0), "nobody", OTHER_ID)],
)
def test_whoever_is_not_the_producer_adds_nothing(world, producer, difference, name, code):
    wrong = producer[0] + difference[0], producer[1] + difference[1]
    before = len(world.log)
    assert world.add_written(wrong, 0, name=name) == code
    assert len(world.log) == before and not world.verified


def test_partitions_that_are_not_there_are_the_handlers_business(world, producer):
    assert world.add_written(producer, 0, 99) == NONE
    assert world.recorded().partitions == {(TOPIC, 0)}


def test_an_end_raises_the_epoch_and_a_repeat_hears_the_same(world, producer):
    world.add_written(producer, 0)
    after = producer[0], 1
    assert world.end_raising(producer, True) == (NONE, *after)
    assert world.markers[TOPIC, 0] == [Marker(*after, True)]
    assert world.recorded().state is State.COMPLETE_COMMIT
    assert world.end_raising(producer, True) == (NONE, *after)
    assert world.end_raising(producer, False) == (NOT_NOW, *REFUSED)
    world.start()
    assert world.end_raising(producer, True) == (NONE, *after)
    assert len(world.markers[TOPIC, 0]) == 1


def test_a_producer_that_goes_on_waits_for_the_markers_of_its_last_transaction(world, producer):
    world.add_written(producer, 0)
    world.held_markers = deque()
    code, *after = world.end_raising(producer, True)
    assert code == NONE and world.end_raising(producer, True) == (MOVING, *REFUSED)
    began_ms = world.ms
    assert world.add_written(tuple(after), 0) == MOVING and world.ms - began_ms >= 100
    world.release_markers()
    assert world.add_written(tuple(after), 0) == NONE


def test_late_ends_of_a_transaction_do_not_end_the_next_one(world, producer):
    world.add_written(producer, 0)
    after = world.end_raising(producer, True)[1:]
    world.add_written(after, 0)
    assert world.end_raising(producer, True) == world.end_raising(producer, False) == (FENCED, *REFUSED)
    assert world.recorded().state is State.ONGOING
    assert world.init()[0] == MOVING and world.init()[2] == 3
    assert world.end_raising(after, False) == (FENCED, *REFUSED)


def test_nothing_can_be_aborted_and_not_committed(world, producer):
    assert world.end_raising(producer, True) == (NOT_NOW, *REFUSED)
    assert world.end_raising(producer, False) == (NONE, producer[0], 1)
    found = world.recorded()
    assert found.state is State.COMPLETE_ABORT and found.start_ms == world.now().wall_ms and not world.markers
    assert world.end_raising((producer[0], 1), False) == (NONE, producer[0], 2)


def test_the_end_of_the_last_epoch_changes_the_producer_id(world, producer):
    found = msgspec.structs.replace(world.recorded(), epoch=EXHAUSTED_EPOCH)
    world.log.append((transaction_key(ID), transaction_value(found, 1)))
    world.start()
    last = producer[0], EXHAUSTED_EPOCH
    assert world.add_written(last, 0) == NONE
    code, new_id, epoch = world.end_raising(last, True)
    assert (code, epoch) == (NONE, 0) and new_id != producer[0]
    assert world.markers[TOPIC, 0] == [Marker(producer[0], EXHAUSTED_EPOCH + 1, True)]
    found = world.recorded()
    assert (found.producer_id, found.epoch, found.previous_producer_id) == (new_id, 0, producer[0])
    assert world.end_raising(last, True) == (NONE, new_id, 0)
    world.start()
    assert world.end_raising(last, True) == (NONE, new_id, 0)
    assert world.add_written((new_id, 0), 0) == NONE


def test_the_new_producer_id_of_an_end_survives_a_death_before_the_markers(world, producer):
    found = msgspec.structs.replace(world.recorded(), epoch=EXHAUSTED_EPOCH)
    world.log.append((transaction_key(ID), transaction_value(found, 1)))
    world.start()
    last = producer[0], EXHAUSTED_EPOCH
    world.add_written(last, 0)
    world.held_markers = deque()
    new_id = world.end_raising(last, True)[1]
    world.held_markers = None
    world.start()
    assert (world.recorded().producer_id, world.recorded().epoch) == (new_id, 0)
    assert world.markers[TOPIC, 0] == [Marker(producer[0], EXHAUSTED_EPOCH + 1, True)]


def test_an_aborted_producer_may_go_on_with_the_raised_epoch(world, producer):
    """From version 2 of the cluster on: whoever was fenced by a timeout and names its epoch gets the next one."""
    world.add_written(producer, 0)
    world.advance(TIMEOUT_MS + 11_000)
    assert world.markers[TOPIC, 0] == [Marker(producer[0], 1, False)]
    assert world.init(producer=producer) == (NONE, producer[0], 1)


def test_in_version_1_it_may_not():
    world = TransactionWorld(feature_level=1)
    producer = world.init()[1:]
    world.add(producer, 0)
    world.advance(TIMEOUT_MS + 11_000)
    assert world.init(producer=producer)[0] == FENCED


def test_offsets_add_their_group(world, producer):
    assert world.commit_offsets(producer, version=5) == []
    assert world.recorded().partitions == {(OFFSETS_TOPIC, OFFSETS_PARTITION)}
    assert world.commit_offsets(producer, version=5) == []
    assert world.end_raising(producer, True)[0] == NONE
    assert world.markers[OFFSETS_TOPIC, OFFSETS_PARTITION] == [Marker(producer[0], 1, True)]


def test_an_end_of_version_1_after_writes_of_version_2_keeps_the_epoch(world, producer):
    world.add_written(producer, 0)
    assert world.end(producer, True) == NONE and world.recorded().epoch == 0
    assert world.end(producer, True) == NONE
    assert world.end_raising(producer, True) == (NOT_NOW, *REFUSED)
