"""Requests that meet a partition whose lock another process holds and does not let go of: a child that stops itself at
a crash point, as SIGSTOP would."""

import os
import signal
from contextlib import contextmanager

import pytest

from mpbroker import _native
from mpbroker.errors import ErrorCode
from mpbroker.log.log_manager import Log
from mpbroker.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from mpbroker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from mpbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from mpbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from mpbroker.server.request_handler import RequestHandler
from mpbroker.server.waiting_for_locks import LEAST_PATIENCE_MS, RETRY_MS
from mpbroker.shm.layout import SLOT_HANDLERS
from tests.harness.in_process_broker import InProcessBroker
from tests.unit.server.test_produce_fetch import batch, fetch, part, produce

OTHER = SLOT_HANDLERS + 1
TIMEOUT_MS = 5000


@pytest.fixture
def broker(tmp_path):
    broker = InProcessBroker(tmp_path)
    broker.create_topic("t", 2)
    return broker


class Holder:
    """A stopped child with a partition's lock."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)
        self._reap(0)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self._reap(signal.SIGKILL)

    def _reap(self, expected: int) -> None:
        pid, self.pid = self.pid, 0
        assert os.waitpid(pid, 0)[1] == expected


@contextmanager
def holder(broker, tmp_path, point, work):
    """`work(log)` in another process, which stops itself at the crash point."""
    broker.core.arm(f"{point}=stop")
    pid = os.fork()
    if pid == 0:
        try:
            work(Log(broker.core, [str(tmp_path)], OTHER))
        finally:
            os._exit(0)
    assert os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1])
    broker.core.disarm()
    held = Holder(pid)
    try:
        yield held
    finally:
        if held.pid:
            held.kill()


def append(entry=_native.NO_REQUEST, ordinal=0):
    """Appends two records for an entry."""
    options = _native.LogOptions()
    return lambda log: log.append(ordinal, entry, 0, batch(b"other", b"process"), options, 1)


def produce_two(acks=1):
    parts = [PartitionProduceData(index=index, records=batch(b"a")) for index in (0, 1)]
    topics = [TopicProduceData(name="t", partition_data=parts)]
    return ProduceRequest(transactional_id=None, acks=acks, timeout_ms=TIMEOUT_MS, topic_data=topics)


def die(broker, entry, deaths):
    """The handler that executes the request dies, and so do its successors, executing it again."""
    for death in range(deaths):
        broker.handler = RequestHandler(broker._context())
        assert broker.handler.port.recover() == {"requeued": 1, "hinted": 0, "closed": 0}
        if death < deaths - 1:
            broker.handler.port.take_dirty()
            assert broker.handler.port.serve_or_claim().entry == entry


def let_pass(broker, ms):
    broker.clock.advance(ms)
    broker.step()
    broker.step()


def answers(broker, message, version=7):
    return [broker.decode(message, version, frame) for _, _, frame in broker.collect()]


def codes(response):
    return [
        (found.error_code, found.base_offset) for topic in response.responses for found in topic.partition_responses
    ]


@pytest.mark.parametrize("native", [False, True])
def test_it_waits_aside_and_is_made_once_when_the_holder_goes_on(broker, tmp_path, native):
    broker.call(produce(records=batch(b"first")), 7)  # teaches the native path the topic
    if not native:
        broker.handler.context.native_topics.forget()
    message = produce_two()
    with holder(broker, tmp_path, "append.log_written", append()) as held:
        broker.send(message, 7)
        broker.step()
        broker.step()
        assert broker.collect() == []
        assert (
            part(broker.call(produce(partition=1, records=batch(b"b")), 7)).base_offset == 1
        )  # behind the first try's
        assert part(broker.call(fetch(), 11)).high_watermark == 1  # of the busy one itself
        listed = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
        found = broker.call(ListOffsetsRequest(replica_id=-1, topics=[listed]), 5)
        assert found.topics[0].partitions[0].offset == 1
        let_pass(broker, RETRY_MS)
        assert broker.collect() == []
        held.go_on()
        broker.step()
        broker.step()
    [response] = answers(broker, message)
    assert codes(response) == [(0, 3), (0, 0)]
    assert (broker.log.state(0).leo, broker.log.state(1).leo) == (4, 2)
    let_pass(broker, TIMEOUT_MS)
    assert broker.collect() == []


def test_it_goes_on_without_a_bell(broker, tmp_path):
    """A holder may be stopped once more, between letting go of the lock and ringing."""
    message = produce(records=batch(b"a"))
    with holder(broker, tmp_path, "append.log_written", append()) as held:
        broker.send(message, 7)
        broker.step()
        broker.core.arm("lock.released_busy=stop")
        os.kill(held.pid, signal.SIGCONT)
        assert os.WIFSTOPPED(os.waitpid(held.pid, os.WUNTRACED)[1])
        broker.core.disarm()
        let_pass(broker, RETRY_MS)
        [response] = answers(broker, message)
        assert codes(response) == [(0, 2)]


def test_it_is_answered_at_its_own_timeout(broker, tmp_path):
    message = produce_two()
    with holder(broker, tmp_path, "append.log_written", append()) as held:
        broker.send(message, 7)
        broker.step()
        let_pass(broker, TIMEOUT_MS - 1)
        assert broker.collect() == []
        let_pass(broker, 1)
        [response] = answers(broker, message)
        assert codes(response) == [(ErrorCode.REQUEST_TIMED_OUT, -1), (0, 0)]
        held.go_on()
    let_pass(broker, TIMEOUT_MS)
    assert (broker.log.state(0).leo, broker.log.state(1).leo) == (2, 1)


def test_records_that_cannot_be_deleted_in_time_are_not_said_to_be(broker, tmp_path):
    parts = [DeleteRecordsPartition(number, -1) for number in (0, 1)]
    message = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=parts)], timeout_ms=TIMEOUT_MS)
    with holder(broker, tmp_path, "append.log_written", append()) as held:
        broker.send(message, 2)
        broker.step()
        let_pass(broker, TIMEOUT_MS)
        [response] = answers(broker, message, 2)
        told = [(one.error_code, one.low_watermark) for one in response.topics[0].partitions]
        assert told == [(ErrorCode.REQUEST_TIMED_OUT, -1), (ErrorCode.NONE, 0)]
        held.go_on()
    let_pass(broker, TIMEOUT_MS)
    assert broker.log.state(0).log_start == 0


@pytest.mark.parametrize(("ends", "kind"), [("goes_on", 0), ("times_out", 3)])
def test_without_acknowledgement_it_waits_too(broker, tmp_path, ends, kind):
    message = produce_two(acks=0)
    with holder(broker, tmp_path, "append.log_written", append()) as held:
        broker.send(message, 7)
        broker.step()
        assert broker.collect() == []
        if ends == "goes_on":
            held.go_on()
        let_pass(broker, TIMEOUT_MS)
        [(_, answered, _)] = broker.collect()
    assert answered == kind


def test_a_short_timeout_leaves_a_slow_holder_some_time(broker, tmp_path):
    message = produce(records=batch(b"a"))
    message.timeout_ms = 0
    with holder(broker, tmp_path, "append.log_written", append()) as held:
        broker.send(message, 7)
        broker.step()
        let_pass(broker, LEAST_PATIENCE_MS // 2)
        assert broker.collect() == []
        held.go_on()
        let_pass(broker, RETRY_MS)
        [response] = answers(broker, message)
    assert codes(response) == [(0, 2)]


def test_a_sync_that_nobody_can_note_is_made_again(broker, tmp_path):
    broker.create_topic("flushed", flush_messages="1")
    message = produce("flushed", records=batch(b"a"))
    with holder(broker, tmp_path, "append.log_written", append(ordinal=2)) as held:
        broker.send(message, 7)
        broker.step()
        held.go_on()
        let_pass(broker, RETRY_MS)
        [response] = answers(broker, message)
    assert codes(response) == [(0, 2)]
    assert broker.log.state(2).flushed_offset == 3


@pytest.mark.parametrize("ends", ["go_on", "kill"])
@pytest.mark.parametrize("deaths", [1, 2])
def test_a_second_run_is_not_answered_before_the_first_ones_append_is_repaired(broker, tmp_path, ends, deaths):
    """The first run died in its append; who repairs it was stopped. Whatever becomes of the second run, it answers
    when that repair is over: the repairer would write into the entry of another request."""
    message = produce(records=batch(b"a"))
    entry = broker.send(message, 7)
    request = broker.handler.port.serve_or_claim()
    assert request.entry == entry
    assert broker.handler.port.ensure_cells(request, 1)
    with holder(broker, tmp_path, "append.committed", append(entry)) as held:
        die(broker, entry, deaths)
        broker.step()
        broker.step()
        let_pass(broker, 60_000)
        assert broker.collect() == []
        getattr(held, ends)()
        let_pass(broker, RETRY_MS)
        [response] = answers(broker, message)
    assert codes(response) == [(0, 0)]
    assert broker.log.state(0).leo == 2


def test_a_third_death_closes_it_when_the_repair_is_over(broker, tmp_path):
    message = produce(records=batch(b"a"))
    entry = broker.send(message, 7)
    request = broker.handler.port.serve_or_claim()
    assert broker.handler.port.ensure_cells(request, 1)
    with holder(broker, tmp_path, "append.log_written", append(entry)) as held:
        die(broker, entry, 3)
        broker.step()
        broker.step()
        assert broker.collect() == []
        held.kill()
        let_pass(broker, RETRY_MS)
        [(_, kind, _)] = broker.collect()
    assert kind == 3
    assert broker.log.state(0).leo == 0


def compact(broker, tmp_path):
    """Two segments in t-0, with a cleaned copy of the first beside it, as the log cleaner leaves them before a swap."""
    for name in (b"a", b"b"):
        assert part(broker.call(produce(records=batch(name)), 7)).error_code == 0
        assert broker.log.roll(0, 1) == 0
    for suffix in ("log", "index", "timeindex"):
        path = tmp_path / "t-0" / f"{0:020d}.{suffix}"
        path.with_name(path.name + ".compacted").write_bytes(path.read_bytes())
    truncations = broker.log.state(0).truncations
    return lambda log: log.swap(0, None, 0, 1, truncations)


@pytest.mark.parametrize("version", [11, 12])
def test_a_fetch_of_a_log_whose_files_are_being_changed_waits_for_them(broker, tmp_path, version):
    work = compact(broker, tmp_path)
    message = fetch(max_wait_ms=500)
    with holder(broker, tmp_path, "swap.committed", work) as held:
        broker.send(message, version)
        broker.step()
        let_pass(broker, 499)
        assert broker.collect() == []
        held.go_on()
        let_pass(broker, 0)
        [response] = answers(broker, message, version)
        assert (part(response).error_code, part(response).high_watermark) == (0, 2)
        assert bytes(part(response).records).startswith((tmp_path / "t-0" / f"{0:020d}.log").read_bytes())


@pytest.mark.parametrize("max_wait_ms", [0, 500])
@pytest.mark.parametrize("isolation", [0, 1])
def test_at_its_end_it_says_what_makes_clients_ask_again(broker, tmp_path, max_wait_ms, isolation):
    """No client knows REQUEST_TIMED_OUT of a fetch (Java consumers throw), nor may nothing come without an error."""
    work = compact(broker, tmp_path)
    message = fetch(max_wait_ms=max_wait_ms)
    message.isolation_level = isolation
    with holder(broker, tmp_path, "swap.renamed", work):
        broker.send(message, 11)
        broker.step()
        let_pass(broker, max_wait_ms)
        [response] = answers(broker, message, 11)
        found = part(response)
        assert (found.error_code, found.records) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, b"")
        assert part(broker.call(fetch(partition=1), 11)).error_code == 0


def test_metadata_and_the_ends_of_a_log_are_told_meanwhile(broker, tmp_path):
    work = compact(broker, tmp_path)
    with holder(broker, tmp_path, "swap.committed", work):
        metadata = broker.call(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 9)
        assert (metadata.topics[0].error_code, len(metadata.topics[0].partitions)) == (0, 2)
        assert [one.error_code for one in metadata.topics[0].partitions] == [0, 0]
        for timestamp, offset in ((-1, 2), (-2, 0)):
            listed = ListOffsetsTopic(
                name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)]
            )
            found = broker.call(ListOffsetsRequest(replica_id=-1, topics=[listed]), 5)
            assert (found.topics[0].partitions[0].error_code, found.topics[0].partitions[0].offset) == (0, offset)
