"""Produce, as Kafka does it: acks, errors per partition, timeouts, idempotent producers."""

import os
import signal

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from mpbroker.record.record_batch import iterate_batches, iterate_records
from tests.harness.broker import Broker, wait_until
from tests.harness.peer import Peer, batch, create_topic, fetch, list_offset, produce, produce_request

LATEST = -1


def _end(peer: Peer, topic: str, partition: int = 0) -> int:
    return list_offset(peer, topic, LATEST, partition).offset


def test_offsets_count_on_in_each_partition(peer, topic):
    assert [produce(peer, topic, batch(b"a", b"b")).base_offset for _ in range(3)] == [0, 2, 4]
    assert produce(peer, topic, batch(b"a"), partition=1).base_offset == 0
    assert [_end(peer, topic, partition) for partition in range(3)] == [6, 1, 0]


@pytest.mark.parametrize(("name", "partition"), [("no-such-topic", 0), ("", 0), (None, 3), (None, -1), (None, 1 << 30)])
def test_a_partition_that_is_not_here_is_unknown(peer, topic, name, partition):
    answer = produce(peer, topic if name is None else name, batch(b"a"), partition)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_other_acks_are_refused_and_append_nothing(peer, topic, acks):
    answer = peer.ask(produce_request(topic, {0: batch(b"a"), 1: batch(b"b")}, acks=acks), 7)
    results = answer.responses[0].partition_responses
    assert [(result.error_code, result.base_offset) for result in results] == [
        (ErrorCode.INVALID_REQUIRED_ACKS, -1)
    ] * 2
    assert _end(peer, topic) == _end(peer, topic, 1) == 0


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_every_way_of_acknowledging_appends(peer, topic, acks):
    request = produce_request(topic, {0: batch(b"x")}, acks=acks)
    if acks == 0:
        peer.send(request, 7)
        peer.forget()
    else:
        assert peer.ask(request, 7).responses[0].partition_responses[0].base_offset == 0
    assert wait_until(lambda: _end(peer, topic), "the append") == 1


def test_an_error_in_one_partition_leaves_the_others_alone(peer, topic):
    damaged = bytearray(batch(b"damaged"))
    damaged[-1] ^= 1
    answer = peer.ask(produce_request(topic, {0: batch(b"a"), 1: bytes(damaged), 2: batch(b"c"), 9: batch(b"d")}), 7)
    assert [(r.index, r.error_code) for r in answer.responses[0].partition_responses] == [
        (0, 0),
        (1, ErrorCode.CORRUPT_MESSAGE),
        (2, 0),
        (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert [_end(peer, topic, partition) for partition in range(3)] == [1, 0, 1]


def test_a_batch_above_the_topics_limit_is_refused(peer):
    assert create_topic(peer, "small-messages", max_message_bytes="200").error_code == 0
    answer = produce(peer, "small-messages", batch(b"x" * 300))
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert produce(peer, "small-messages", batch(b"x")).base_offset == 0


def test_an_empty_request_is_answered_empty(peer):
    assert peer.ask(produce_request("any", {}), 7).responses == []


def test_more_in_sync_replicas_than_replicas_are_not_demanded(peer):
    assert create_topic(peer, "demanding", min_insync_replicas="2").error_code == 0
    assert [produce(peer, "demanding", batch(b"a"), acks=acks).base_offset for acks in (-1, -1, 1)] == [0, 1, 2]


@pytest.mark.parametrize("warm", [False, True])
def test_of_a_partition_named_twice_the_last_counts(peer, topic, warm):
    """As in Kafka's map of partitions; also once the native path has learnt the topic."""
    if warm:
        for partition in range(3):
            produce(peer, topic, batch(b"warm"), partition)
    before = _end(peer, topic)
    request = produce_request(topic, {0: batch(b"first"), 1: batch(b"other")})
    request.topic_data += produce_request(topic, {0: batch(b"last", b"of two")}).topic_data
    (answer,) = peer.ask(request, 7).responses
    assert sorted((r.index, r.error_code, r.base_offset) for r in answer.partition_responses) == [
        (0, 0, before),
        (1, 0, before),
    ]
    assert _end(peer, topic) == before + 2
    values = [bytes(record.value) for record in iterate_records(fetch(peer, topic, before).records)]
    assert values == [b"last", b"of two"]


def test_log_append_time_is_the_brokers_and_told(peer):
    assert create_topic(peer, "stamped", message_timestamp_type="LogAppendTime").error_code == 0
    answer = produce(peer, "stamped", batch(b"a"))
    assert answer.log_append_time_ms > 1_600_000_000_000
    ((info, _),) = iterate_batches(fetch(peer, "stamped").records)
    assert info.max_timestamp == answer.log_append_time_ms
    assert [record.timestamp for record in iterate_records(fetch(peer, "stamped").records)] == [
        answer.log_append_time_ms
    ]


def test_an_append_does_not_wait_for_the_disk(broker, peer, topic):
    """The log keeper is who syncs; stopped, it holds up no acknowledgement."""
    pid = broker.kill("log-keeper", 0, signal.SIGSTOP)
    try:
        assert produce(peer, topic, batch(b"a"), acks=-1).base_offset == 0
        assert produce(peer, topic, batch(b"b"), acks=1).base_offset == 1
    finally:
        os.kill(pid, signal.SIGCONT)


def test_flush_on_commit_waits_for_the_disk_and_times_out_without_it(tmp_path):
    overrides = {"mpbroker.log.flush": "commit", "num.network.threads": 1, "num.io.threads": 1}
    with Broker(tmp_path, overrides=overrides) as broker, Peer(broker.port()) as peer:
        assert create_topic(peer, "synced").error_code == 0
        assert produce(peer, "synced", batch(b"a"), acks=-1).base_offset == 0
        pid = broker.kill("log-keeper", 0, signal.SIGSTOP)
        try:
            answer = produce(peer, "synced", batch(b"b"), acks=-1, timeout_ms=300)
            assert (answer.error_code, answer.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, -1)
            with Peer(broker.port()) as other:
                assert other.answers(), "the one handler does not wait with the parked request"
        finally:
            os.kill(pid, signal.SIGCONT)
        assert produce(peer, "synced", batch(b"c"), acks=-1).base_offset == 2, "the late one was appended, not told"


# ---- idempotent producers (KIP-98)


def _producer(peer: Peer) -> int:
    answer = peer.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), 1)
    assert (answer.error_code, answer.producer_epoch) == (0, 0)
    return answer.producer_id


def _numbered(producer_id: int, sequence: int, count: int = 1, epoch: int = 0) -> bytes:
    values = [b"%d" % (sequence + n) for n in range(count)]
    return batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def test_producer_ids_are_all_different(broker):
    with Peer(broker.port()) as one, Peer(broker.port(1)) as two:
        ids = [_producer(peer) for _ in range(20) for peer in (one, two)]
    assert len(set(ids)) == 40


def test_a_duplicate_gets_its_first_offset_and_is_not_appended_again(peer, topic):
    producer = _producer(peer)
    batches = [_numbered(producer, 3 * n, 3) for n in range(5)]
    assert [produce(peer, topic, each).base_offset for each in batches] == [0, 3, 6, 9, 12]
    assert [produce(peer, topic, each).base_offset for each in batches] == [0, 3, 6, 9, 12], "the last five are known"
    assert _end(peer, topic) == 15


def test_a_gap_is_out_of_order_and_an_old_epoch_is_fenced(peer, topic):
    producer = _producer(peer)
    assert produce(peer, topic, _numbered(producer, 0)).error_code == 0
    assert produce(peer, topic, _numbered(producer, 2)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(peer, topic, _numbered(producer, 0, epoch=1)).error_code == 0
    assert produce(peer, topic, _numbered(producer, 1, epoch=0)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert produce(peer, topic, _numbered(producer, 5, epoch=2)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert _end(peer, topic) == 2


def test_an_unknown_producer_may_begin_at_any_sequence_and_wraps(peer, topic):
    last = 2**31 - 1
    assert produce(peer, topic, _numbered(987_654_321, last - 1, 2)).base_offset == 0
    assert produce(peer, topic, _numbered(987_654_321, 0)).base_offset == 2
    assert produce(peer, topic, _numbered(987_654_321, last - 1, 2)).base_offset == 0, (
        "a duplicate from before the wrap"
    )
    assert _end(peer, topic) == 3
