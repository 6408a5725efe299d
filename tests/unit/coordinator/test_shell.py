"""What the coordinator does with requests, locks, syncs and deaths, on real logs; its logic has tests of its own."""

import struct

import pytest

from mpbroker.channel.processor_port import ANSWER_CLOSE
from mpbroker.coordinator import shell
from mpbroker.coordinator.transactions.partition_verifier import PATIENCE_MS
from mpbroker.coordinator.unknown_topics import GRACE_MS, UnknownTopics
from mpbroker.errors import ErrorCode
from mpbroker.metadata.commands import ProducerIds
from mpbroker.metadata.metadata_cache import MetadataCache
from mpbroker.metadata.metadata_snapshot import TopicImage, encode_overrides
from mpbroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from mpbroker.protocol.messages.delete_groups import DeleteGroupsRequest
from mpbroker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from mpbroker.protocol.messages.end_txn import EndTxnRequest
from mpbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from mpbroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from mpbroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from mpbroker.record.batch_builder import encode_batch
from mpbroker.shm.counters import Counter
from mpbroker.shm.layout import ReplicaRole
from mpbroker.shm.process_table import BrokerState
from tests.harness.in_process_broker import InProcessBroker
from tests.harness.in_process_controller import InProcessController
from tests.harness.in_process_coordinator import InProcessCoordinator
from tests.unit.server.test_produce_fetch import produce
from tests.unit.server.test_waiting_for_locks import holder

GROUPS = ("a", "b", "c", "d")  # of all three partitions


@pytest.fixture
def broker(tmp_path):
    broker = InProcessBroker(tmp_path, coordinator=True)
    broker.create_topic("t", 2)
    return broker


@pytest.fixture
def coordinator(broker):
    return InProcessCoordinator(broker)


def commit(group: str, offset: int = 5) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])])


def committed(coordinator, group: str) -> int:
    asked = OffsetFetchRequest(group_id=group, topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])])
    return coordinator.call(asked, 5).topics[0].partitions[0].committed_offset


def ends(coordinator, rows) -> list[int]:
    return [coordinator.broker.log.state(row).leo for row in rows]


def test_a_commit_is_appended_and_read(coordinator):
    assert coordinator.call(commit("a"), 5).topics[0].partitions[0].error_code == 0
    assert committed(coordinator, "a") == 5 and sum(ends(coordinator, coordinator.offsets)) == 1
    assert committed(coordinator, "b") == -1


def test_a_second_run_finds_what_the_first_one_appended_in_each_partition(tmp_path):
    """Groups of several partitions are deleted by one request: each partition has its own cell."""
    broker = InProcessBroker(tmp_path, coordinator=True, **{"mpbroker.log.flush": "commit"})
    broker.create_topic("t")
    coordinator = InProcessCoordinator(broker)
    for group in GROUPS:
        broker.send(commit(group), 5)
        broker.step()
        sync(coordinator)
        assert len(broker.collect()) == 1
    before = ends(coordinator, coordinator.offsets)
    assert all(before), "a partition without a group proves nothing"
    message = DeleteGroupsRequest(groups_names=list(GROUPS))
    broker.send(message, 1)
    broker.step()
    coordinator.step()
    once = ends(coordinator, coordinator.offsets)
    assert all(a < b for a, b in zip(before, once, strict=True)) and broker.collect() == []
    coordinator.start()
    coordinator.step()
    assert broker.collect() == [], "nothing is synced yet"
    sync(coordinator)
    [(_, _, frame)] = broker.collect()
    results = broker.decode(message, 1, frame).results
    assert {(one.group_id, one.error_code) for one in results} == {(group, 0) for group in GROUPS}
    assert ends(coordinator, coordinator.offsets) == once


def sync(coordinator) -> None:
    """Requests, and then the log keeper's sync of all partitions."""
    coordinator.step()
    for row in coordinator.offsets + coordinator.states:
        coordinator.broker.log.flush(row)
    coordinator.shell.deliver(True, [])


TRANSACTION = {"v3_and_below_transactional_id": "tx"}


def begin(coordinator) -> tuple[int, int]:
    """A producer with partition 0 of `t` in its transaction: its id and epoch."""
    broker = coordinator.broker
    broker.send(InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000), 1)
    broker.step()
    coordinator.step()
    InProcessController(broker).serve(ProducerIds(first_id=7000, count=2))
    coordinator.step()
    assert len(broker.collect()) == 1
    add(coordinator)
    coordinator.step()
    assert len(broker.collect()) == 1
    return 7000, 0


def add(coordinator) -> None:
    asked = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="tx",
        v3_and_below_producer_id=7000,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
    )
    coordinator.broker.send(asked, 1)
    coordinator.broker.step()


def wait_ms(coordinator) -> int:
    due_ms = coordinator.shell.next_due_ms()
    assert due_ms is not None
    return max(due_ms - coordinator.broker.clock.monotonic_ms(), 0)


def test_a_producer_that_is_added_waits_for_the_lock_of_the_partition(coordinator, broker, tmp_path):
    begin(coordinator)
    with holder(broker, tmp_path, "append.copy_half", lambda log: log.set_high_watermark(0, 0)) as stopped:
        add(coordinator)
        for _ in range(3):
            coordinator.advance(wait_ms(coordinator))
        assert broker.collect() == []
        stopped.go_on()
        coordinator.advance(wait_ms(coordinator))
    assert len(broker.collect()) == 1
    with holder(broker, tmp_path, "append.copy_half", lambda log: log.set_high_watermark(0, 0)):
        add(coordinator)
        coordinator.step()
        coordinator.advance(PATIENCE_MS - 1)
        assert broker.collect() == []
        coordinator.advance(1)
        [(_, _, frame)] = broker.collect()
    assert frame is not None and frame[-2:] == struct.pack(">h", ErrorCode.CONCURRENT_TRANSACTIONS)


def test_a_commit_waits_for_the_lock_of_its_partition_and_not_for_ever(coordinator, broker, tmp_path):
    coordinator.call(commit("a", 1), 5)
    row = next(row for row in coordinator.offsets if broker.log.state(row).leo == 1)
    with holder(broker, tmp_path, "append.copy_half", lambda log: log.set_high_watermark(row, 1)) as stopped:
        for offset in (2, 3):
            broker.send(commit("a", offset), 5)
            broker.step()
        coordinator.step()
        assert broker.collect() == [] and wait_ms(coordinator) == 20
        stopped.go_on()
        coordinator.advance(wait_ms(coordinator))
    assert len(broker.collect()) == 2 and committed(coordinator, "a") == 3, "in their order"
    with holder(broker, tmp_path, "append.copy_half", lambda log: log.set_high_watermark(row, 3)):
        broker.send(commit("a", 4), 5)
        broker.step()
        coordinator.step()
        coordinator.advance(broker.config.offsets_commit_timeout_ms - 1)
        assert broker.collect() == []
        coordinator.advance(1)
        assert len(broker.collect()) == 1
    assert committed(coordinator, "a") == 3 and broker.log.state(row).leo == 3


def test_a_sync_that_does_not_come_is_an_error_in_the_end(tmp_path):
    broker = InProcessBroker(tmp_path, coordinator=True, **{"mpbroker.log.flush": "commit"})
    broker.create_topic("t")
    coordinator = InProcessCoordinator(broker)
    message = commit("a")
    broker.send(message, 5)
    broker.step()
    coordinator.step()
    assert wait_ms(coordinator) == broker.config.offsets_commit_timeout_ms
    coordinator.advance(broker.config.offsets_commit_timeout_ms - 1)
    assert broker.collect() == []
    coordinator.advance(1)
    [(_, _, frame)] = broker.collect()
    assert broker.decode(message, 5, frame).topics[0].partitions[0].error_code == ErrorCode.REQUEST_TIMED_OUT


def test_what_nobody_can_read_or_serve_closes_its_connection(coordinator, broker):
    for frame in (struct.pack(">hhih", 8, 5, 1, -1) + b"\0", struct.pack(">hhih", 8, 99, 1, -1)):
        broker.processor.submit(0, 1, 1, 0, frame, broker.clock.monotonic_ns())
        broker.step()
        coordinator.step()
        [(_, kind, answer)] = broker.collect()
        assert kind == ANSWER_CLOSE and not answer
    assert coordinator.row.counter(Counter.REQUESTS_REFUSED) == 2
    assert coordinator.call(commit("a"), 5).topics[0].partitions[0].error_code == 0


def test_a_request_that_killed_two_coordinators_is_not_run_again(coordinator, broker):
    message = commit("a")
    broker.send(message, 5)
    broker.step()
    for _ in range(2):
        assert coordinator.claim() is not None
        coordinator.start()
    coordinator.step()
    [(_, kind, frame)] = broker.collect()
    assert kind == ANSWER_CLOSE and coordinator.row.counter(Counter.POISON_REQUESTS) == 1
    assert broker.decode(message, 5, frame).topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert sum(ends(coordinator, coordinator.offsets)) == 0


def test_who_waits_when_the_broker_ends_is_hung_up_on(coordinator, broker, tmp_path):
    begin(coordinator)
    with holder(broker, tmp_path, "append.copy_half", lambda log: log.set_high_watermark(0, 0)):
        add(coordinator)
        coordinator.step()
        broker.core.state = BrokerState.DRAINING
        coordinator.step()
        [(_, kind, frame)] = broker.collect()
    assert kind == ANSWER_CLOSE and not frame


def test_a_topic_that_is_gone_takes_its_offsets_along(coordinator, broker):
    coordinator.call(commit("a"), 5)
    broker.snapshot.retire(0)
    assert committed(coordinator, "a") == -1


def test_a_coordinator_that_lags_behind_deletes_no_offsets(coordinator, broker, monkeypatch):
    """In a cluster it may take groups over before it has heard of their topics."""
    coordinator.call(commit("a"), 5)
    before = sum(ends(coordinator, coordinator.offsets))
    monkeypatch.setattr(shell, "UnknownTopics", lambda *known: UnknownTopics(*known[:2], True))
    topic = MetadataCache(broker.core, broker.config).topic("t")
    broker.snapshot.retire(topic.row)
    coordinator.start()
    coordinator.advance(GRACE_MS - 1)
    image = TopicImage(topic.id, "t", 2, topic.partitions[0], False, encode_overrides({}), 1)
    broker.snapshot.publish(topic.row, image)
    coordinator.advance(GRACE_MS)
    assert sum(ends(coordinator, coordinator.offsets)) == before, "no tombstone"
    broker.snapshot.retire(topic.row)
    coordinator.start()
    coordinator.advance(GRACE_MS)
    assert sum(ends(coordinator, coordinator.offsets)) == before + 1, "it was deleted while nobody looked"


def test_a_marker_waits_for_the_lock_of_its_partition(coordinator, broker, tmp_path):
    begin(coordinator)
    row = 0
    with holder(broker, tmp_path, "append.copy_half", lambda log: log.set_high_watermark(row, 0)) as stopped:
        broker.send(EndTxnRequest(transactional_id="tx", producer_id=7000, producer_epoch=0, committed=True), 1)
        broker.step()
        coordinator.step()
        assert len(broker.collect()) == 1, "the decision is recorded"
        coordinator.advance(100)
        assert broker.log.state(row).leo == 0
        stopped.go_on()
        coordinator.advance(wait_ms(coordinator))
    assert broker.log.state(row).leo == 1, "the marker"
    states = sum(ends(coordinator, coordinator.states))
    coordinator.step()
    assert states == sum(ends(coordinator, coordinator.states)) == 4, "empty, ongoing, prepared, complete"


@pytest.mark.parametrize("version", [12, 13], ids=["by name", "by id"])
@pytest.mark.parametrize("epoch", [0, 1], ids=["in time", "fenced"])
def test_a_write_of_a_transaction_comes_back_to_the_handlers(coordinator, broker, epoch, version):
    """Produce to a partition that the transaction does not have yet: added here, then appended there, or refused."""
    producer, own = begin(coordinator)
    records = encode_batch(
        [(b"k", b"v", 1)], transactional=True, producer_id=producer, producer_epoch=own + epoch, base_sequence=0
    )
    message = produce(partition=1, records=records, acks=-1, transactional_id="tx")
    if version == 13:
        broker.handler.context.metadata.refresh()
        message.topic_data[0].name, message.topic_data[0].topic_id = "", broker.handler.context.metadata.topic("t").id
    broker.send(message, version)
    broker.step()
    assert broker.collect() == [], "it is asked about"
    for _ in range(4):
        coordinator.step()
        broker.step()
    [(_, _, frame)] = broker.collect()
    code = broker.decode(message, version, frame).responses[0].partition_responses[0].error_code
    assert code == (ErrorCode.INVALID_PRODUCER_EPOCH if epoch else 0)
    assert broker.log.state(1).leo == (not epoch)


def take_role(coordinator, role, epoch, rows) -> None:
    """Leader of all these partitions, or follower; then the coordinator looks at the metadata."""
    broker = coordinator.broker
    for row in rows:
        assert broker.log.become(row, role, epoch, epoch, [0], [0], 0, 1, 0, leader=0) == 0
    broker.create_topic(f"changed-{epoch}", 1)
    for _ in range(20):
        coordinator.shell.deliver(True, [])


def codes(coordinator) -> tuple[int, int]:
    """What who asks for the group's offsets, and who asks for the transaction, are told."""
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
    group = coordinator.call(OffsetFetchRequest(group_id="a", topics=topics), 5)
    return group.error_code, coordinator.call(DescribeTransactionsRequest(["tx"]), 0).transaction_states[0].error_code


def test_partitions_are_coordinated_while_they_are_led(tmp_path):
    broker = InProcessBroker(tmp_path, coordinator=True, replicated=True)
    broker.create_topic("t", 2)
    coordinator = InProcessCoordinator(broker)
    rows = coordinator.offsets + coordinator.states
    take_role(coordinator, ReplicaRole.LEADER, 1, [0, 1, *rows])
    coordinator.call(commit("a"), 5)
    begin(coordinator)
    assert codes(coordinator) == (0, 0)
    take_role(coordinator, ReplicaRole.FOLLOWER, 2, rows)
    assert codes(coordinator) == (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR)
    take_role(coordinator, ReplicaRole.LEADER, 3, rows)
    assert codes(coordinator) == (0, 0) and committed(coordinator, "a") == 5, "read again"


def test_metadata_is_looked_through_when_it_has_changed(coordinator, monkeypatch):
    """And not with every request: a broker may have ten thousand topics."""
    looked = []
    topics = coordinator.shell._metadata.topics
    monkeypatch.setattr(coordinator.shell._metadata, "topics", lambda: looked.append(1) or topics())
    assert coordinator.call(commit("a"), 5).topics[0].partitions[0].error_code == 0
    coordinator.shell.deliver(True, [])
    assert not looked
    coordinator.broker.create_topic("later", 1)
    coordinator.shell.deliver(True, [])
    assert looked == [1]


def test_without_room_for_a_command_there_are_no_producer_ids(coordinator, broker, monkeypatch):
    monkeypatch.setattr(coordinator.port, "send", lambda *_: -1)
    answer = coordinator.call(InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000), 1)
    assert (answer.error_code, answer.producer_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    monkeypatch.undo()
    assert begin(coordinator) == (7000, 0), "the next one asks again"


def test_a_controller_that_has_no_producer_ids_says_so(coordinator, broker):
    broker.send(InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000), 1)
    broker.step()
    coordinator.step()
    InProcessController(broker).serve(ProducerIds(error_code=-1))
    coordinator.step()
    [(_, _, frame)] = broker.collect()
    answer = broker.decode(InitProducerIdRequest(), 1, frame)
    assert (answer.error_code, answer.producer_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
