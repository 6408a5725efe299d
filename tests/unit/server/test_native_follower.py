"""Fetch requests of followers that the native path serves: positions count, records come to the log's end, and what is
not as usual is Python's."""

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from mpbroker.shm.layout import SLOT_CONTROLLER
from tests.harness.in_process_broker import InProcessBroker
from tests.unit.server.test_delayed_produce import lead
from tests.unit.server.test_produce_fetch import batch, produce

VERSION, TOPIC_ID = 17, b"\7" * 16


def make(tmp_path, **settings):
    """Broker 0 of a cluster leads a partition with two records, which broker 1 follows."""
    broker = InProcessBroker(tmp_path, replicated=True)
    broker.create_topic("t", topic_id=TOPIC_ID, **settings)
    lead(broker, 3, isr=[0, 1])
    broker.call(produce(records=batch(b"a", b"b")), 7)
    return broker


@pytest.fixture
def broker(tmp_path):
    return make(tmp_path)


class Follower:
    """Asks over one session."""

    def __init__(self, broker, replica_id=1):
        self.broker, self.replica_id, self.session_id, self.epoch = broker, replica_id, 0, 0

    def request(self, offset: int, max_wait_ms: int = 0, leader_epoch: int = 3, last_epoch: int = 3):
        asked = FetchPartition(
            partition=0,
            current_leader_epoch=leader_epoch,
            fetch_offset=offset,
            last_fetched_epoch=last_epoch,
            log_start_offset=0,
            partition_max_bytes=1 << 20,
        )
        found = FetchRequest(
            replica_state=ReplicaState(replica_id=self.replica_id, replica_epoch=5),
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[asked])],
        )
        self.epoch += 1
        return found

    def ask(self, offset: int, **fields):
        """The answer's only partition; None: nothing new."""
        response = self.broker.call(self.request(offset, **fields), VERSION)
        assert response.error_code == 0
        self.session_id = response.session_id
        return response.responses[0].partitions[0] if response.responses else None


def served(broker) -> int:
    return broker.handler.context.native_topics.fetch.served


def test_with_a_session_it_is_native_and_its_position_counts(broker):
    follower = Follower(broker)
    assert len(follower.ask(0, last_epoch=-1).records) > 0
    assert served(broker) == 0, "Python makes the session, which is a follower's"
    assert broker.log.state(0).hw == 0
    found = follower.ask(2)
    assert served(broker) == 1
    assert (found.error_code, found.high_watermark, found.records) == (0, 2, b"")
    assert broker.log.state(0).hw == 2


def test_records_come_to_the_end_of_the_log(broker):
    follower = Follower(broker)
    follower.ask(0, last_epoch=-1)
    follower.ask(2)
    broker.call(produce(records=batch(b"c")), 7)
    found = follower.ask(2)
    assert (served(broker), len(found.records) > 0, found.high_watermark) == (2, True, 2)


def test_one_that_waits_is_answered_when_there_is_something(broker):
    follower = Follower(broker)
    follower.ask(0, last_epoch=-1)
    message = follower.request(2, max_wait_ms=500)
    broker.send(message, VERSION)
    broker.step()
    assert broker.collect() == []
    broker.send(produce(records=batch(b"c")), 7)
    broker.step()
    broker.step()
    frames = {entry: frame for entry, _, frame in broker.collect()}
    assert len(frames) == 2 and served(broker) == 1
    answers = [broker.decode(message, VERSION, frame) for frame in frames.values() if len(frame) > 100]
    [partition] = answers[0].responses[0].partitions
    assert (partition.high_watermark, partition.error_code, len(partition.records) > 0) == (2, 0, True)


def test_joining_the_isr_is_proposed_and_the_agent_is_rung(broker):
    lead(broker, 4, isr=[0])
    follower = Follower(broker)
    follower.ask(0, leader_epoch=4, last_epoch=-1)
    assert broker.log.state(0).maximal_isr.bit_count() == 1
    assert not broker.core.wait_service(SLOT_CONTROLLER, 0)
    follower.ask(2, leader_epoch=4, last_epoch=4)
    assert (broker.log.state(0).maximal_isr.bit_count(), served(broker)) == (2, 1)
    assert broker.core.wait_service(SLOT_CONTROLLER, 0)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"leader_epoch": 2}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"leader_epoch": 4}, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_errors_are_pythons_and_count_nothing(broker, fields, error):
    follower = Follower(broker)
    follower.ask(0, last_epoch=-1)
    found = follower.ask(**{"offset": 2} | fields)
    assert (found.error_code, served(broker), broker.log.state(0).hw) == (error, 0, 0)


def test_one_that_has_more_than_the_leader_is_told_where_to_cut(broker):
    follower = Follower(broker)
    follower.ask(0, last_epoch=-1)
    found = follower.ask(9)
    assert (found.error_code, found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (0, 3, 2)
    assert (served(broker), broker.log.state(0).hw) == (0, 0)


def test_one_whose_last_record_is_of_the_first_epoch_is_told_where_to_cut(broker):
    """Epoch 0 is one: the leader's log knows none of it, so there is no record that both have."""
    follower = Follower(broker)
    follower.ask(0, last_epoch=-1)
    follower.ask(2, last_epoch=0)
    assert (served(broker), broker.log.state(0).hw) == (0, 0)


def test_one_that_has_another_record_in_its_place_is_told_where_to_cut(broker):
    """Its epoch ended before that, although there is such an offset."""
    lead(broker, 5, isr=[0, 1])
    broker.call(produce(records=batch(b"c", b"d")), 7)
    follower = Follower(broker)
    follower.ask(0, leader_epoch=5, last_epoch=-1)
    found = follower.ask(3, leader_epoch=5, last_epoch=3)
    assert (found.error_code, found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (0, 3, 2)
    assert (found.records, served(broker), broker.log.state(0).hw) == (b"", 0, 0)


def test_one_that_is_no_replica_of_it_is_refused(broker):
    follower = Follower(broker, replica_id=7)
    follower.ask(0, last_epoch=-1)
    assert (follower.ask(1).error_code, served(broker)) == (ErrorCode.UNKNOWN_LEADER_EPOCH, 0)


def test_an_older_epoch_of_its_last_record_is_compared_by_python(broker):
    follower = Follower(broker)
    follower.ask(0, last_epoch=-1)
    found = follower.ask(2, last_epoch=1)
    assert served(broker) == 0
    assert found.error_code or found.diverging_epoch.end_offset >= 0


def test_a_throttled_topic_is_pythons(tmp_path):
    broker = make(tmp_path, leader_replication_throttled_replicas="*")
    follower = Follower(broker)
    follower.ask(0, last_epoch=-1)
    assert (follower.ask(2).high_watermark, served(broker)) == (2, 0)


def test_a_broker_that_is_alone_has_no_followers(tmp_path):
    broker = InProcessBroker(tmp_path)
    broker.create_topic("t", topic_id=TOPIC_ID)
    broker.call(produce(records=batch(b"a", b"b")), 7)
    follower = Follower(broker)
    assert follower.ask(0, leader_epoch=-1, last_epoch=-1).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert follower.ask(1, leader_epoch=-1, last_epoch=-1).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert served(broker) == 0
