"""Appends of the coordinator: acknowledged when synced, kept in order behind a busy lock, given up in time."""

import copy
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from mpbroker.coordinator.effects import Append
from mpbroker.coordinator.offsets_log import OffsetsLog, encode
from mpbroker.errors import ErrorCode
from mpbroker.log.log_manager import LogManager
from mpbroker.metadata.topic_names import OFFSETS_TOPIC
from mpbroker.record.record_batch import iterate_batches, iterate_records
from tests.harness.in_process_broker import InProcessBroker
from tests.unit.server.test_waiting_for_locks import append as append_of_another
from tests.unit.server.test_waiting_for_locks import holder

TIMEOUT_MS = 5000


@pytest.fixture
def broker(tmp_path):
    broker = InProcessBroker(tmp_path)
    broker.create_topic(OFFSETS_TOPIC, 2, internal=True)
    broker.handler.context.metadata.refresh()
    return broker


class Appends:
    """An OffsetsLog, and what became of what it was given."""

    def __init__(self, broker, flush_on_commit=False) -> None:
        context = broker.handler.context
        self.rung = 0
        self.topic = context.metadata.topic(OFFSETS_TOPIC)
        self.port = context.port
        self.logs = LogManager(broker.log, broker.clock, flush_on_commit, self._ring)
        self.log = OffsetsLog(context.port, self.logs, TIMEOUT_MS)
        self.settled: list[tuple[int, int]] = []
        self._clock = broker.clock

    def _ring(self) -> None:
        self.rung += 1

    def append(self, number, partition=0, leader_epoch=0) -> None:
        one = Append(partition, leader_epoch, number, None, 5, ((b"key", b"value %d" % number),))
        now_ms = self._clock.monotonic_ms()
        self.log.append(self.topic, one, None, 0, now_ms, lambda code: self.settled.append((number, code)))

    def look(self) -> None:
        """What the shell does after a bell."""
        self.log.moved(*self.port.take_dirty())
        self.log.retry(self._clock.monotonic_ms())
        self.log.expire(self._clock.monotonic_ms())


def test_without_replicas_and_syncs_it_is_settled_at_once(broker):
    appends = Appends(broker)
    appends.append(1)
    assert appends.settled == [(1, ErrorCode.NONE)] and appends.log.next_due_ms(0) is None


def test_a_stale_leader_epoch_is_refused(broker):
    appends = Appends(broker)
    appends.append(1, leader_epoch=3)
    assert appends.settled == [(1, ErrorCode.NOT_LEADER_OR_FOLLOWER)]


def test_with_flush_on_commit_it_waits_for_the_sync(broker):
    appends = Appends(broker, flush_on_commit=True)
    appends.append(1)
    appends.append(2, partition=1)
    appends.look()
    assert appends.settled == [] and appends.rung == 2
    synced = appends.topic.partitions[1]
    assert broker.log.flush(synced)[0] == 0
    broker.core.notify_partition(synced)  # as the log keeper does
    appends.look()
    assert appends.settled == [(2, ErrorCode.NONE)]
    broker.clock.advance(TIMEOUT_MS)
    appends.look()
    assert appends.settled == [(2, ErrorCode.NONE), (1, ErrorCode.REQUEST_TIMED_OUT)]


def test_behind_a_busy_lock_the_order_is_kept(broker, tmp_path):
    appends = Appends(broker)
    with holder(broker, tmp_path, "append.log_written", append_of_another()) as held:
        appends.append(1)
        appends.append(2)
        appends.append(3, partition=1)  # nobody holds that one
        appends.look()
        assert appends.settled == [(3, ErrorCode.NONE)]
        assert appends.log.next_due_ms(1000) > 1000, "it does not ask again without a pause"
        held.go_on()
        appends.look()
    assert appends.settled == [(3, ErrorCode.NONE), (1, ErrorCode.NONE), (2, ErrorCode.NONE)]
    assert broker.log.state(appends.topic.partitions[0]).leo == 4  # two are the other process's


def test_who_waits_too_long_for_a_lock_is_told_and_not_appended_later(broker, tmp_path):
    appends = Appends(broker)
    with holder(broker, tmp_path, "append.log_written", append_of_another()) as held:
        appends.append(1)
        broker.clock.advance(TIMEOUT_MS)
        appends.look()
        assert appends.settled == [(1, ErrorCode.REQUEST_TIMED_OUT)]
        held.go_on()
    appends.look()
    assert broker.log.state(appends.topic.partitions[0]).leo == 2


def test_what_a_producer_appends_goes_by_the_settings_of_the_moment(broker):
    """They are worked out once for each version of the topic's settings, and the coordinator's own bounds hold."""
    appends = Appends(broker)
    asked, options_of = [], appends.logs.coordinator_options_of
    appends.logs.coordinator_options_of = lambda topic: asked.append(topic.settings) or options_of(topic)
    one = Append(0, 0, 1, None, 5, ((b"key", b"value"),), producer=(7000, 0), is_verified=True)
    for round_number in (1, 2, 3):
        if round_number == 3:
            appends.topic = replace(appends.topic, settings=copy.copy(appends.topic.settings))
        appends.log.append(appends.topic, one, None, 0, 0, appends.settled.append)
    assert len(asked) == 2 and asked[1] is appends.topic.settings


def test_what_took_too_long_is_answered_once(broker):
    appends = Appends(broker, flush_on_commit=True)
    appends.append(1)
    broker.clock.advance(10)
    appends.append(2)
    broker.clock.advance(TIMEOUT_MS - 11)
    appends.look()
    assert appends.settled == [] and appends.log.next_due_ms(0) == broker.clock.monotonic_ms() + 1
    broker.clock.advance(1)
    for _ in range(2):
        appends.look()
        assert appends.settled == [(1, ErrorCode.REQUEST_TIMED_OUT)]
    assert broker.log.flush(appends.topic.partitions[0])[0] == 0
    appends.log.moved(True, [])
    assert appends.settled[1:] == [(2, ErrorCode.NONE)], "the other one still waits"


@pytest.mark.parametrize("is_verified", [False, True])
@pytest.mark.parametrize("code", [0, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_an_append_waits_where_its_producer_cannot_be_verified_for_a_lock(broker, code, is_verified):
    """What the producer may do, the append itself says: only the lock is waited for."""
    appends = Appends(broker)
    asked, appended, ordinal = [], [], appends.topic.partitions[0]
    appends.logs.log = SimpleNamespace(
        verify=lambda *given: asked.append(given) or code,
        append=lambda *given, **named: (
            appended.append(given[0]) or SimpleNamespace(busy=False, flush_due=False, error=87)
        ),
    )
    one = Append(0, 0, 1, None, 5, ((b"key", b"value"),), producer=(7000, 3), is_verified=is_verified)
    appends.log.append(appends.topic, one, None, 0, 0, appends.settled.append)
    waits = not is_verified and code == ErrorCode.REQUEST_TIMED_OUT
    assert asked == ([] if is_verified else [(ordinal, 7000, 3, appends.topic.id)])
    assert (appended, appends.settled) == (([], []) if waits else ([ordinal], [87]))
    assert (appends.log.next_due_ms(0) is not None) is waits


@pytest.mark.parametrize(("producer", "said"), [(None, (-1, -1, -1, 0)), ((9, 3), (9, 3, 0, 0x10))])
def test_what_a_batch_says_of_its_producer(producer, said):
    """One of a transaction has no sequence of its own: Kafka writes 0 into each."""
    [(info, batch)] = iterate_batches(
        encode(Append(0, 0, 1, None, 5, ((b"key", b"value"), (b"k", None)), producer=producer))
    )
    assert (info.producer_id, info.producer_epoch, info.base_sequence, info.attributes) == said
    records = [(one.key, one.value, one.timestamp) for one in iterate_records(batch)]
    assert records == [(b"key", b"value", 5), (b"k", None, 5)]
