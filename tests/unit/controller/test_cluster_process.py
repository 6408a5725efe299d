"""A candidate for the cluster's controller whose store fails in between tries again: nobody else may be there."""

import socket
from types import SimpleNamespace

import pytest

from mpbroker.controller.cluster_process import ClusterProcess
from mpbroker.controller.command_inbox import Taken
from mpbroker.errors import ErrorCode
from mpbroker.metadata.cluster_records import BrokerRecord, ListenerRecord, PartitionRecord
from mpbroker.metadata.commands import AllocateProducerIds, Failed, decode_answer, encode_command
from mpbroker.metadata.keys import Keys
from mpbroker.metadata.meta_store import Put, StoreTimeout
from mpbroker.metadata.topic_record import TopicRecord, decode_record, encode_record
from mpbroker.shm.process_table import BrokerState
from tests.harness.memory_store import MemoryStore

UPDATE_METADATA = 6


class FailingStore(MemoryStore):
    """`failing`: calls that raise, how often each."""

    def __init__(self):
        super().__init__()
        self.failing = {}

    def _fails(self, call):
        if self.failing.get(call, 0) > 0:
            self.failing[call] -= 1
            raise StoreTimeout(call)

    def txn(self, *words, **named):
        self._fails("txn")
        return super().txn(*words, **named)

    def scan(self, *words, **named):
        self._fails("scan")
        return super().scan(*words, **named)

    def session_open(self, *words):
        self._fails("session_open")
        return super().session_open(*words)


class Answers:
    """The channel's side of a command: what it was answered."""

    def __init__(self):
        self.given = []

    def complete(self, number, answer, generation):
        self.given.append((number, decode_answer(answer), generation))


def candidate(store, channel=None):
    nothing = lambda *_, **__: None  # noqa: E731
    config = SimpleNamespace(
        node_id=1, broker_session_timeout_ms=9000, broker_heartbeat_interval_ms=2000, num_partitions=1,
        default_replication_factor=1, unclean_leader_election_enable=False, auto_leader_rebalance_enable=False,
        leader_imbalance_per_broker_percentage=10, leader_imbalance_check_interval_seconds=300,
        delete_topic_enable=True, end_points=SimpleNamespace(inter_broker="INTERNAL", control=None),
        mpbroker_state_change_log_bytes=0,
    )  # fmt: skip
    core = SimpleNamespace(crash_point=nothing, state=BrokerState.RUNNING, metadata_generation=7)
    log = SimpleNamespace(info=nothing, warning=nothing)
    ctx = SimpleNamespace(config=config, core=core, log=log, cluster_id="c", controller_fd=-1, data_dirs=["/nowhere"])
    return ClusterProcess(ctx, store, channel)


@pytest.mark.parametrize("call", ["session_open", "txn", "scan"])
def test_an_election_that_the_store_broke_off_is_tried_again(call):
    store = FailingStore()
    process = candidate(store)
    store.failing = {call: 2}
    for _ in range(2):
        with pytest.raises(StoreTimeout):
            process.turn()
    process.turn()
    _, holder = store.get(Keys("c").controller)
    assert holder is not None and process._term is not None


def test_who_lost_an_election_asks_again_only_when_the_winner_is_gone():
    store = MemoryStore()
    first, second = candidate(store), candidate(store)
    second._node_id = 2
    first.turn()
    for _ in range(3):
        second.turn()
    assert first._term is not None and second._term is None and not second._is_undecided
    first.close()
    second.turn()
    assert second._term is not None


def test_a_broker_that_stops_resigns_at_once_and_is_no_candidate():
    store = FailingStore()
    process = candidate(store)
    process.turn()
    key = Keys("c").controller
    assert store.get(key)[1] is not None
    process._ctx.core.state = BrokerState.DRAINING
    process.turn()
    assert store.get(key)[1] is None
    process.turn()
    assert store.get(key)[1] is None


def test_every_command_is_answered_by_a_candidate_in_a_term_and_at_its_end():
    answers, store = Answers(), FailingStore()
    process = candidate(store, answers)
    allocate = encode_command(AllocateProducerIds())
    process.command(Taken(1, 0, allocate))
    process.turn()
    process.command(Taken(2, 0, allocate))
    process.command(Taken(3, 0, b"no command"))
    store.failing = {"txn": 1}
    process.command(Taken(4, 0, allocate))
    assert process._term is None, "its store did not answer"
    assert [number for number, *_ in answers.given] == [1, 2, 3, 4]
    refused, given, unreadable, ended = (answer for _, answer, _ in answers.given)
    assert refused == ended == Failed(ErrorCode.NOT_CONTROLLER) and given.first_id == 0
    assert unreadable.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert {generation for *_, generation in answers.given} == {7}


def test_how_long_a_command_waited_is_kept():
    answers, store = Answers(), FailingStore()
    process = candidate(store, answers)
    process.turn()
    assert not process._is_undecided, "it is elected, and tries no more"
    times = process._term.metrics.event_queue_time
    waited, process._clock = (
        [],
        SimpleNamespace(monotonic_ns=lambda: 7_900_000, monotonic_ms=lambda: 7, wall_ms=lambda: 7),
    )
    times.add = waited.append
    for taken_ns in (2_000_000, 7_900_000, 9_000_000_000):
        process.command(Taken(1, 0, encode_command(AllocateProducerIds()), taken_ns))
    assert waited == [5, 0, 0]


class LookingStore(MemoryStore):
    """Notes at the first transaction after `looks` what a broker has been sent by then."""

    looks, heard = None, b""

    def txn(self, *words, **named):
        if self.looks is not None and not self.heard:
            with self.looks.accept()[0] as connection:
                connection.settimeout(5)
                self.heard = connection.recv(8)
        return super().txn(*words, **named)


def test_brokers_hear_of_a_new_controller_before_its_elections():
    store, keys, topic_id = LookingStore(), Keys("c"), bytes(range(16))
    with socket.create_server(("127.0.0.1", 0)) as broker:
        broker.settimeout(10)
        listener = ListenerRecord("INTERNAL", "PLAINTEXT", *broker.getsockname())
        topic = TopicRecord(id=topic_id.hex(), name="t", replicas=[[2, 3]], created_ms=1)
        for key, record in (
            (keys.broker(2), BrokerRecord(2, "m", "d", "i", [listener])),
            (keys.topic(topic_id), topic),
            (keys.partition(topic_id, 0), PartitionRecord(3, 0, [2, 3], 1)),  # its leader lives no more
        ):
            store.txn((), (Put(key, encode_record(record)),), tag=key)
        process = candidate(store)
        elect = process._begin
        process._begin = lambda term: (setattr(store, "looks", broker), elect(term))
        process.turn()
        assert int.from_bytes(store.heard[4:6], "big") == UPDATE_METADATA
        process.close()
    state = decode_record(PartitionRecord, store.get(keys.partition(topic_id, 0))[1].value, "p")
    assert (state.leader, state.leader_epoch) == (2, 1)
