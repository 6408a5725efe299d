"""Fetch, as Kafka does it: limits, waiting, offsets that are not there, what is visible."""

import time

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from mpbroker.protocol.messages.fetch import FetchRequest
from mpbroker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from mpbroker.record.record_batch import iterate_batches, iterate_records
from tests.harness.broker import wait_until
from tests.harness.peer import Peer, batch, fetch, fetch_request, list_offset, produce

BROKER_LIMIT = 100_000  # fetch.max.bytes of these tests' broker
NO_RECORDS = (b"", None)


def _values(partition) -> list[bytes]:
    return [bytes(record.value) for record in iterate_records(partition.records or b"")]


def test_what_was_produced_comes_back_byte_for_byte(peer, topic):
    sent = [batch(b"one", b"two"), batch(b"three", codec=1), batch(b"", codec=4)]
    for each in sent:
        assert produce(peer, topic, each).error_code == 0
    received = bytes(fetch(peer, topic).records)
    position = 0
    for each in sent:
        stored = received[position : position + len(each)]
        assert stored[8:12] == each[8:12] and stored[16:] == each[16:], (
            "only base offset and leader epoch are the broker's"
        )
        position += len(each)
    assert position == len(received)
    assert [info.base_offset for info, _ in iterate_batches(received)] == [0, 2, 3]


def test_a_fetch_in_the_middle_of_a_batch_gets_the_whole_batch(peer, topic):
    produce(peer, topic, batch(b"a"))
    produce(peer, topic, batch(b"b", b"c", b"d"))
    found = fetch(peer, topic, 2)
    assert [info.base_offset for info, _ in iterate_batches(found.records)] == [1]
    assert [bytes(record.value) for record in iterate_records(found.records, 2)] == [b"c", b"d"]


@pytest.mark.parametrize("offset", [-1, 2, 1 << 40])
def test_an_offset_outside_the_log_is_out_of_range(peer, topic, offset):
    produce(peer, topic, batch(b"a"))
    found = fetch(peer, topic, offset)
    assert found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and found.records in NO_RECORDS
    assert found.high_watermark == -1


def test_at_the_end_there_is_nothing_and_no_error(peer, topic):
    produce(peer, topic, batch(b"a"))
    found = fetch(peer, topic, 1)
    assert (found.error_code, found.high_watermark, found.last_stable_offset, found.log_start_offset) == (0, 1, 1, 0)
    assert found.records in NO_RECORDS


def test_consumers_see_up_to_the_high_watermark(peer, topic):
    for number in range(3):
        produce(peer, topic, batch(b"%d" % number), acks=1)
        for level in (0, 1):
            found = fetch(peer, topic, isolation_level=level)
            assert found.high_watermark == found.last_stable_offset == number + 1
            assert _values(found) == [b"%d" % n for n in range(number + 1)]


@pytest.mark.parametrize("partition", [7, -1])
def test_a_partition_that_is_not_here_is_unknown(peer, topic, partition):
    assert fetch(peer, topic, 0, partition).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert fetch(peer, "no-such-topic").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_nobody_is_sent_to_a_follower(peer, topic):
    produce(peer, topic, batch(b"a"))
    request = fetch_request(topic, {0: 0})
    request.rack_id = "RACK1"
    found = peer.ask(request, 11).responses[0].partitions[0]
    assert (found.error_code, found.preferred_read_replica) == (0, -1)


def test_a_follower_is_told_that_there_is_no_cluster(peer, topic):
    assert fetch(peer, topic, replica_id=1).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_leader_epoch_of_another_time_is_fenced_or_unknown(peer, topic):
    def asked(epoch: int):
        request = fetch_request(topic, {0: 0})
        request.topics[0].partitions[0].current_leader_epoch = epoch
        return peer.ask(request, 11).responses[0].partitions[0].error_code

    assert asked(-1) == asked(0) == asked(-7) == 0
    assert asked(5) == ErrorCode.UNKNOWN_LEADER_EPOCH


# ---- limits (KIP-74)


def test_the_first_batch_comes_whole_however_small_every_limit(peer, topic):
    produce(peer, topic, batch(b"x" * 5000))
    for limits in ({"max_bytes": 1}, {"partition_max_bytes": 1}, {"max_bytes": 0, "partition_max_bytes": 0}):
        assert _values(fetch(peer, topic, **limits)) == [b"x" * 5000], limits


def test_a_negative_limit_is_an_error_where_there_is_data(peer, topic):
    """Kafka stumbles over it, and so a client sees −1; partitions without new records do not mind."""
    produce(peer, topic, batch(b"a"))
    for limits in ({"max_bytes": -5}, {"partition_max_bytes": -5}):
        answer = peer.ask(fetch_request(topic, {0: 0, 1: 0, 2: 0}, **limits), 11)
        assert [each.error_code for each in answer.responses[0].partitions] == [-1, 0, 0]


def test_an_isolation_level_that_does_not_exist_fails_the_request(peer, topic):
    answer = peer.ask(fetch_request(topic, {0: 0}, isolation_level=7), 11)
    assert answer.error_code == answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    asked = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    answer = peer.ask(ListOffsetsRequest(replica_id=-1, isolation_level=7, topics=[asked]), 5)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_later_partitions_share_what_is_left(peer, topic):
    for partition in range(3):
        produce(peer, topic, batch(b"y" * 4000), partition)
    answer = peer.ask(fetch_request(topic, {0: 0, 1: 0, 2: 0}, max_bytes=6000), 11)
    sizes = [len(each.records or b"") for each in answer.responses[0].partitions]
    assert sizes[0] > 4000 and sizes[1] in (0, 6000 - sizes[0]) and sizes[2] == 0
    assert [each.error_code for each in answer.responses[0].partitions] == [0, 0, 0]


def test_a_partition_limit_cuts_later_batches_and_holds_for_each_partition(peer, topic):
    for partition in (0, 1):
        for _ in range(4):
            produce(peer, topic, batch(b"z" * 1000), partition)
    whole = len(batch(b"z" * 1000))
    answer = peer.ask(fetch_request(topic, {0: 0, 1: 0}, partition_max_bytes=2 * whole + 10), 11)
    for each in answer.responses[0].partitions:
        assert len(each.records) <= 2 * whole + 10
        assert _values(each) == [b"z" * 1000] * 2


def test_only_the_first_partition_with_data_may_exceed_its_limit(peer, topic):
    for partition in (1, 2):
        produce(peer, topic, batch(b"w" * 3000), partition)
    answer = peer.ask(fetch_request(topic, {0: 0, 1: 0, 2: 0}, partition_max_bytes=100), 11)
    assert [_values(each) for each in answer.responses[0].partitions] == [[], [b"w" * 3000], []]


def test_the_brokers_own_limit_bounds_a_fetch(peer, topic):
    for _ in range(4):
        assert produce(peer, topic, batch(b"v" * 40_000)).error_code == 0
    found = fetch(peer, topic, max_bytes=1 << 30)
    assert len(_values(found)) == 2 and len(found.records) <= BROKER_LIMIT
    produce(peer, topic, batch(b"u" * 150_000), partition=1)
    assert _values(fetch(peer, topic, partition=1)) == [b"u" * 150_000], "one whole batch always"


# ---- waiting


def test_a_fetch_waits_until_there_is_enough(broker, peer, topic):
    one = len(batch(b"s" * 100))
    with Peer(broker.port(1)) as waiting:
        waiting.send(fetch_request(topic, {0: 0}, min_bytes=3 * one, max_wait_ms=14_000), 11)
        for _ in range(3):
            produce(peer, topic, batch(b"s" * 100))
        answer = waiting.receive()
    assert len(answer.responses[0].partitions[0].records) == 3 * one


@pytest.mark.parametrize("partition", [0, 1, 2])
def test_a_fetch_waits_for_any_of_its_partitions(broker, peer, topic, partition):
    with Peer(broker.port(1)) as waiting:
        waiting.send(fetch_request(topic, {0: 0, 1: 0, 2: 0}, min_bytes=1, max_wait_ms=14_000), 11)
        produce(peer, topic, batch(b"t"), partition)
        answer = waiting.receive()
    assert [_values(each) for each in answer.responses[0].partitions] == [
        [b"t"] if each == partition else [] for each in range(3)
    ]


def test_a_fetch_whose_minimum_never_comes_is_answered_with_what_is_there(peer, topic):
    produce(peer, topic, batch(b"r"))
    asked_s = time.monotonic()
    found = fetch(peer, topic, min_bytes=1 << 20, max_wait_ms=200)
    assert found.error_code == 0 and _values(found) == [b"r"]
    assert time.monotonic() - asked_s > 0.19, "it was answered before its time was over"


def test_an_error_in_one_partition_ends_the_wait(peer, topic):
    answer = peer.ask(fetch_request(topic, {0: 0, 9: 0}, min_bytes=1 << 20, max_wait_ms=14_000), 11)
    assert [each.error_code for each in answer.responses[0].partitions] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_waiting_fetches_hold_no_handler(broker, peer, topic):
    """Two data handlers, twenty waiting fetches: others are served, and all get the record when it comes."""
    waiting = [Peer(broker.port(number % 2)) for number in range(20)]
    for each in waiting:
        each.send(fetch_request(topic, {0: 0}, min_bytes=1, max_wait_ms=14_000), 11)
    assert peer.answers()
    produce(peer, topic, batch(b"all"))
    for each in waiting:
        assert _values(each.receive().responses[0].partitions[0]) == [b"all"]
        each.socket.close()


def test_a_partition_named_twice_is_answered_once_and_a_topic_without_partitions_not_at_all(peer, topic):
    produce(peer, topic, batch(b"a"))
    produce(peer, topic, batch(b"b"))
    request = fetch_request(topic, {0: 0, 1: 0})
    request.topics += fetch_request(topic, {0: 1}).topics + fetch_request("nothing-asked", {}).topics
    (answer,) = peer.ask(request, 11).responses
    assert [(each.partition_index, _values(each)) for each in answer.partitions] == [(0, [b"b"]), (1, [])]


def test_a_long_poll_ends_when_its_topic_goes(broker, peer, topic):
    """Not at its deadline, which lies behind what this client waits."""
    begin = broker.status()["counters"]["requests_parked"]
    peer.send(fetch_request(topic, {0: 0, 1: 0}, max_wait_ms=600_000), 11)
    wait_until(lambda: broker.status()["counters"]["requests_parked"] > begin, "the fetch to wait")
    with Peer(broker.port()) as other:
        assert other.ask(DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000), 3).responses[0].error_code == 0
    (answer,) = peer.receive().responses
    assert {each.error_code for each in answer.partitions} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


# ---- sessions (KIP-227); more of them: corpus/fetch_session_cases.py


def test_a_session_is_told_only_what_has_changed(broker, peer, topic):
    """Whichever handler takes which request."""
    begun = peer.ask(fetch_request(topic, {0: 0, 1: 0}, session_epoch=0), 11)
    assert begun.session_id > 0 and len(begun.responses[0].partitions) == 2
    for number in range(1, 41):
        epoch = 2 * number - 1
        read_on = fetch_request(topic, {1: number - 1}, session_id=begun.session_id, session_epoch=epoch)
        assert peer.ask(read_on, 11).responses == []
        assert produce(peer, topic, batch(b"%d" % number), 1).error_code == 0
        same = FetchRequest(session_id=begun.session_id, session_epoch=epoch + 1, max_bytes=1 << 20)
        [told] = peer.ask(same, 11).responses[0].partitions
        assert told.partition_index == 1 and _values(told) == [b"%d" % number]


def test_a_session_goes_on_over_another_connection_and_ends_when_it_is_closed(broker, peer, topic):
    session = peer.ask(fetch_request(topic, {0: 0}, session_epoch=0), 12).session_id
    with Peer(broker.port()) as other:
        assert other.ask(FetchRequest(session_id=session, session_epoch=1), 12).error_code == 0
        wrong = other.ask(FetchRequest(session_id=session, session_epoch=1), 12)
        assert (wrong.error_code, wrong.session_id) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0)
        assert other.ask(FetchRequest(session_id=session, session_epoch=-1), 12).error_code == 0
    ended = peer.ask(FetchRequest(session_id=session, session_epoch=2), 12)
    assert (ended.error_code, ended.session_id) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)


def test_a_request_that_goes_on_with_an_unknown_session_finds_none(peer):
    answer = peer.ask(FetchRequest(session_id=77, session_epoch=3), 11)
    assert (answer.error_code, answer.session_id, answer.responses) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, [])


# ---- offsets by time


def test_offsets_by_time_are_exact(peer, topic):
    produce(peer, topic, batch(b"a", b"b", b"c", codec=1))  # times 1000, 1001, 1002
    produce(peer, topic, batch(b"d"))  # 1000 again
    found = [list_offset(peer, topic, timestamp) for timestamp in (0, 1000, 1001, 1002)]
    assert [(each.offset, each.timestamp) for each in found] == [(0, 1000), (0, 1000), (1, 1001), (2, 1002)]
    nothing = list_offset(peer, topic, 1003)
    assert (nothing.error_code, nothing.offset, nothing.timestamp) == (0, -1, -1)
    asked = ListOffsetsPartition(partition_index=0, timestamp=-1, current_leader_epoch=-7)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])])
    assert peer.ask(request, 5).topics[0].partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert list_offset(peer, topic, -2).offset == 0 and list_offset(peer, topic, -1).offset == 4
