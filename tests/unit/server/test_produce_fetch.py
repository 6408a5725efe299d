"""Produce and Fetch through real rings, cells and log files, one step at a time."""

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from mpbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from mpbroker.record.batch_builder import encode_batch
from mpbroker.record.record_batch import iterate_records
from mpbroker.server.dispatch import dispatch
from mpbroker.server.request_handler import RequestHandler
from mpbroker.shm.counters import Counter
from tests.harness.in_process_broker import InProcessBroker


@pytest.fixture
def broker(tmp_path):
    return InProcessBroker(tmp_path)


def batch(*values: bytes, **settings) -> bytes:
    return encode_batch([(b"k", value, 1_700_000_000_000) for value in values], **settings)


def produce(topic="t", records=b"", partition=0, acks=1, transactional_id=None):
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=records)])
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[data], transactional_id=transactional_id)


def fetch(topic="t", offset=0, partition=0, max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, **fields):
    asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20, **fields)
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=topic, partitions=[asked])],
    )


def part(response):
    topic = response.responses[0]
    return (getattr(topic, "partition_responses", None) or topic.partitions)[0]


def test_records_come_back_with_the_offsets_that_were_promised(broker):
    broker.create_topic("t")
    assert part(broker.call(produce(records=batch(b"a", b"b")), 7)).base_offset == 0
    assert part(broker.call(produce(records=batch(b"c"), acks=-1), 7)).base_offset == 2
    found = part(broker.call(fetch(), 11))
    assert (found.error_code, found.high_watermark, found.log_start_offset) == (0, 3, 0)
    assert [(r.offset, r.value) for r in iterate_records(found.records)] == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_acks_0_is_not_answered_and_an_error_closes(broker):
    broker.create_topic("t")
    broker.send(produce(records=batch(b"a"), acks=0), 7)
    broker.step()
    assert [(kind, frame) for _, kind, frame in broker.collect()] == [(0, None)]
    broker.send(produce(topic="unknown", records=batch(b"a"), acks=0), 7)
    broker.step()
    assert [(kind, frame) for _, kind, frame in broker.collect()] == [(3, None)]
    assert part(broker.call(fetch(), 11)).high_watermark == 1


@pytest.mark.parametrize(
    ("request_fields", "code"),
    [
        ({"topic": "unknown"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"partition": 7}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"acks": 3}, ErrorCode.INVALID_REQUIRED_ACKS),
        ({"records": b""}, ErrorCode.INVALID_RECORD),
        ({"records": batch(b"x" * 2_000_000)}, ErrorCode.MESSAGE_TOO_LARGE),
        ({"records": batch(b"a")[:-1] + b"!"}, ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_refused_produce_appends_nothing(broker, request_fields, code):
    broker.create_topic("t")
    answer = part(broker.call(produce(**{"records": batch(b"a"), **request_fields}), 7))
    assert (answer.error_code, answer.base_offset) == (code, -1)
    assert part(broker.call(fetch(), 11)).high_watermark == 0


def test_compressed_batches_are_stored_as_they_came(broker):
    broker.create_topic("t")
    for codec in range(1, 5):
        assert part(broker.call(produce(records=batch(b"v" * 1000, codec=codec)), 7)).error_code == 0
    found = part(broker.call(fetch(), 11))
    assert [r.value for r in iterate_records(found.records)] == [b"v" * 1000] * 4


def test_offset_outside_the_log_and_unknown_partition(broker):
    broker.create_topic("t")
    assert part(broker.call(fetch(offset=1), 11)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert part(broker.call(fetch(topic="no"), 11)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert part(broker.call(fetch(current_leader_epoch=4), 11)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_long_poll_ends_when_enough_bytes_have_come(broker):
    broker.create_topic("t")
    waiting = broker.send(fetch(max_wait_ms=1000, min_bytes=150), 11)
    broker.step()
    assert broker.collect() == []
    broker.call(produce(records=batch(b"a")), 7)
    broker.step()
    assert broker.collect() == [], "one small batch is less than min_bytes"
    broker.send(produce(records=batch(b"b" * 100)), 7)
    broker.step()
    [frame] = [frame for entry, _, frame in broker.collect() if entry == waiting]
    found = part(broker.decode(fetch(), 11, frame))
    assert [r.value for r in iterate_records(found.records)] == [b"a", b"b" * 100]


def test_long_poll_ends_at_its_deadline_with_what_is_there(broker):
    broker.create_topic("t")
    broker.send(fetch(max_wait_ms=500), 11)
    broker.step()
    broker.clock.advance(499)
    broker.step()
    assert broker.collect() == []
    broker.clock.advance(1)
    broker.step()
    [(_, _, frame)] = broker.collect()
    assert part(broker.decode(fetch(), 11, frame)).records == b""


def test_first_batch_is_returned_whole_whatever_the_limits(broker):
    broker.create_topic("t", partitions=2)
    for partition in (0, 1):
        broker.call(produce(records=batch(b"x" * 5000), partition=partition), 7)
    message = fetch(max_bytes=10)
    message.topics[0].partitions.append(FetchPartition(partition=1, fetch_offset=0, partition_max_bytes=10))
    message.topics[0].partitions[0].partition_max_bytes = 10
    first, second = broker.call(message, 11).responses[0].partitions
    assert [len(r.value) for r in iterate_records(first.records)] == [5000]
    assert second.records == b""


def test_produce_versions_0_to_2_close_the_connection(broker):
    broker.create_topic("t")
    broker.send(produce(records=batch(b"a")), 2)
    broker.step()
    assert [kind for _, kind, _ in broker.collect()] == [3]


def test_idempotent_retry_gets_the_first_offsets(broker):
    broker.create_topic("t")
    records = batch(b"a", b"b", producer_id=5, producer_epoch=0, base_sequence=0)
    assert part(broker.call(produce(records=records), 7)).base_offset == 0
    assert part(broker.call(produce(records=records), 7)).base_offset == 0
    late = batch(b"c", producer_id=5, producer_epoch=0, base_sequence=9)
    assert part(broker.call(produce(records=late), 7)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert part(broker.call(fetch(), 11)).high_watermark == 2


def test_a_rerun_answers_what_was_appended_although_the_topic_may_refuse_it_now(broker):
    """The handler dies after a compressed append; whatever its successor finds, the cell has the answer."""
    broker.create_topic("t")
    message = produce(records=batch(b"v" * 1000, codec=1))
    broker.send(message, 7)
    dying = broker.handler.context
    dying.port.answer = lambda request, frame: True  # it never gets to answer
    broker.step()
    broker.handler = RequestHandler(broker._context())
    broker.handler.context.log_manager.append = None  # nothing may be appended again
    broker.handler.port.recover()
    broker.step()  # the bell of the recovery
    broker.step()
    [(_, _, frame)] = broker.collect()
    assert part(broker.decode(message, 7, frame)).base_offset == 0
    broker.handler = RequestHandler(broker._context())
    assert part(broker.call(fetch(), 11)).high_watermark == 1


def test_a_cell_names_what_an_append_came_to(broker):
    broker.handler.context.native_topics._enabled = False
    ordinals = broker.create_topic("t", partitions=3)
    for values in ((b"a",), (b"b", b"c")):
        broker.send(produce(records=batch(*values, codec=1), partition=2, acks=-1), 7)
        request = broker.handler.port.serve_or_claim()
        dispatch(broker.handler.context, request)
    assert len(broker.collect()) == 2
    broker.send(produce(records=batch(b"d", b"e", codec=1), partition=2), 7)
    request = broker.handler.port.serve_or_claim()
    broker.handler.context.port.answer = lambda request, frame: True  # so that it stays claimed
    dispatch(broker.handler.context, request)
    cell = broker.handler.port.cell(request, 0)
    assert (cell.error, cell.base_offset, cell.end_offset, cell.append_time_ms) == (0, 3, 5, -1)
    assert (cell.log_start, cell.leader_epoch, cell.ordinal) == (0, 0, ordinals[2])


def test_an_internal_topic_takes_records_of_the_admin_client_only(broker):
    """The client id is the request's own: who asked before makes no difference."""
    broker.create_topic("__consumer_offsets", internal=True)
    message = produce(topic="__consumer_offsets", records=batch(b"a"))
    codes = [part(broker.call(message, 7, client_id)).error_code for client_id in ("any", "__admin_client", "any")]
    assert codes == [ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION]


def exhaust(broker) -> list[int]:
    """Takes all memory for answers of the handler; returns what gives it back."""
    port, tokens = broker.handler.context.port, []
    for size in (1 << 20, 16384):
        while (room := port.allocate(size)) is not None:
            tokens.append(room[1])
    return tokens


def test_a_fetch_without_memory_for_its_records_waits_for_some(broker):
    broker.create_topic("t")
    broker.call(produce(records=batch(b"a")), 7)
    tokens = exhaust(broker)
    broker.send(fetch(), 11)
    for _ in range(10):
        broker.clock.advance(20)
        broker.step()
    assert broker.collect() == []
    for token in tokens:
        broker.handler.context.port.release(token)
    broker.clock.advance(20)
    broker.step()
    [(_, _, frame)] = broker.collect()
    assert [record.value for record in iterate_records(part(broker.decode(fetch(), 11, frame)).records)] == [b"a"]


def test_a_fetch_that_finds_little_memory_gets_less_but_a_batch(broker):
    broker.create_topic("t")
    for _ in range(8):
        broker.call(produce(records=batch(bytes(100_000))), 7)
    port, row = broker.handler.context.port, broker.handler.context.row

    def batches():
        found = part(broker.call(fetch(), 11))
        assert (found.error_code, found.high_watermark) == (0, 8)
        return len(bytes(found.records)) // 100_000

    assert batches() == 8 and row.counter(Counter.FETCHES_SHORTENED) == 0
    tokens = exhaust(broker)
    port.release(tokens.pop())
    small = [port.allocate(16384)[1] for _ in range(64 - 8)]  # 128 KiB are left
    assert batches() == 1
    assert row.counter(Counter.FETCHES_SHORTENED) == 1
    for token in small:
        port.release(token)  # 1 MiB is free, of which one may take 256 KiB
    assert batches() == 2
    assert row.counter(Counter.FETCHES_SHORTENED) == 2
    for token in tokens:
        port.release(token)
    assert batches() == 8 and row.counter(Counter.FETCHES_SHORTENED) == 2


def test_a_fetch_that_finds_memory_in_pieces_gets_a_batch(broker):
    broker.create_topic("t")
    for _ in range(8):
        broker.call(produce(records=batch(bytes(100_000))), 7)
    port = broker.handler.context.port
    tokens = exhaust(broker)
    port.release(tokens.pop())
    port.release(tokens.pop())
    small = [port.allocate(16384)[1] for _ in range(128)]
    for token in small[:8] + small[9:120:2]:
        port.release(token)  # 1 MiB in all, 128 KiB at most in one piece
    found = part(broker.call(fetch(), 11))
    assert found.error_code == 0 and len(bytes(found.records)) // 100_000 == 1


def test_a_fetch_that_finds_no_memory_is_told_so_in_the_end(broker):
    broker.create_topic("t")
    broker.call(produce(records=batch(b"a")), 7)
    exhaust(broker)
    broker.send(fetch(), 11)
    waited_ms = 0
    while not (answers := broker.collect()):
        broker.clock.advance(20)
        waited_ms += 20
        broker.step()
    found = part(broker.decode(fetch(), 11, answers[0][2]))
    assert (found.error_code, bytes(found.records or b"")) == (ErrorCode.KAFKA_STORAGE_ERROR, b"")
    assert 29_900 <= waited_ms <= 30_020
    assert broker.handler.context.row.counter(Counter.ANSWER_MEMORY_EXHAUSTED) == 1


def test_a_broker_about_to_stop_waits_for_no_memory(broker):
    broker.create_topic("t")
    broker.call(produce(records=batch(b"a")), 7)
    exhaust(broker)
    broker.handler.context.is_ending = lambda: True
    assert bytes(part(broker.call(fetch(), 11)).records or b"") == b""


def test_version_8_says_which_record_was_refused_and_why(broker):
    broker.create_topic("t", **{"cleanup.policy": "compact"})
    records = encode_batch([(b"k", b"v", 5), (None, b"v", 5)])
    for version, told in ((7, []), (8, [1]), (12, [1])):
        found = part(broker.call(produce(records=records), version))
        assert (found.error_code, [one.batch_index for one in found.record_errors]) == (ErrorCode.INVALID_RECORD, told)
        assert (found.error_message is None) == (version == 7)
    assert part(broker.call(produce(records=batch(b"a")), 12)).base_offset == 0


def test_topics_are_named_by_id_from_produce_13_and_fetch_13_on(broker):
    broker.create_topic("t")
    broker.handler.context.metadata.refresh()
    topic_id = broker.handler.context.metadata.topic("t").id
    for asked, code in (
        (topic_id, 0),
        (b"x" * 16, ErrorCode.UNKNOWN_TOPIC_ID),
        (bytes(16), ErrorCode.UNKNOWN_TOPIC_ID),
    ):
        sent = produce(topic="", records=batch(b"a"))
        sent.topic_data[0].topic_id = asked
        answer = broker.call(sent, 13)
        assert (answer.responses[0].topic_id, part(answer).error_code) == (asked, code)
        wanted = fetch(topic="")
        wanted.topics[0].topic_id = asked
        answer = broker.call(wanted, 13)
        assert (answer.responses[0].topic_id, part(answer).error_code) == (asked, code)
        assert [r.value for r in iterate_records(part(answer).records)] == ([b"a"] if not code else [])


def test_a_reader_whose_last_epoch_ended_earlier_is_told_where(broker):
    broker.create_topic("t")
    broker.call(produce(records=batch(b"a", b"b")), 7)
    found = part(broker.call(fetch(offset=5, last_fetched_epoch=0), 12))
    assert (found.error_code, found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (0, 0, 2)
    assert part(broker.call(fetch(offset=1, last_fetched_epoch=0), 12)).diverging_epoch is None
    assert part(broker.call(fetch(offset=1, last_fetched_epoch=1), 12)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_an_answer_to_the_wrong_broker_names_the_right_one(broker):
    broker.create_topic("t")
    broker.handler.context.metadata.refresh()
    wanted = fetch(topic="")
    wanted.topics[0].topic_id = broker.handler.context.metadata.topic("t").id
    wanted.replica_state = ReplicaState(replica_id=5)
    for version, named in ((15, None), (16, (0, 0))):
        answer = broker.call(wanted, version)
        assert part(answer).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        leader = part(answer).current_leader
        assert (leader and (leader.leader_id, leader.leader_epoch)) == named
        assert [(one.host, one.port) for one in answer.node_endpoints] == ([("broker.example", 19092)] if named else [])


@pytest.mark.parametrize("natively", [True, False])
@pytest.mark.parametrize(("more", "at_once"), [(-1, True), (0, True), (1, False)])
def test_a_fetch_waits_for_the_least_bytes_that_it_wants_and_no_longer(broker, natively, more, at_once):
    broker.create_topic("t")
    records = batch(b"a" * 100)
    broker.call(produce(records=records), 7)
    broker.call(fetch(), 11)
    broker.handler.context.native_topics._enabled = natively
    broker.send(fetch(max_wait_ms=1000, min_bytes=len(records) + more), 11)
    broker.step()
    assert bool(broker.collect()) is at_once
