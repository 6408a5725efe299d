"""Fetch by the native path and by Python: the same bytes, traces, counters and sessions, whatever is asked in whatever
order; and what ordinary consumers ask is all served natively."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from mpbroker._native import NO_REQUEST, LogOptions
from mpbroker.protocol.messages.fetch import ReplicaState
from mpbroker.shm.counters import Counter
from mpbroker.shm.layout import SLOT_HANDLERS
from tests.harness.fetch_session_client import SessionClient, fetch_of
from tests.harness.fetch_ways import FetchWays
from tests.unit.server.test_produce_fetch import batch, produce

TOPICS = {"t": 3, "u": 2, "zstd": 1, "__internal": 1}
IDS = {name: bytes([number + 1]) * 16 for number, name in enumerate(TOPICS)}
VERSIONS = range(4, 18)
TIME_MS = 1_700_000_000_000
LEFT = [counter for counter in Counter if counter.name.startswith("FETCH_LEFT_")]


def make_topics(broker) -> None:
    for name, partitions in TOPICS.items():
        compression = "zstd" if name == "zstd" else "producer"
        broker.create_topic(
            name, partitions, topic_id=IDS[name], internal=name == "__internal", compression_type=compression
        )
    for number in range(4):
        broker.call(produce("t", batch(b"%d" % number * 50), 1), 7)
        broker.call(produce("u", batch(b"%d" % number), 0), 7)
    for name in TOPICS:  # every topic has been asked for once
        broker.call(fetch_of(11, IDS, {(name, 0): 0}, session_epoch=-1), 11)


@pytest.fixture(scope="module")
def ways(tmp_path_factory):
    return FetchWays(tmp_path_factory.mktemp("ways"), make_topics)


def ask(ways, version, asked, natively, wake=None, **fields):
    """A request to both; `natively`: which way the native broker's must go."""
    before = ways.served_natively()
    answer = ways.both(fetch_of(version, IDS, asked, **{"session_epoch": -1} | fields), version, wake)
    assert (ways.served_natively() > before) == natively
    return answer


def left(ways) -> dict[str, int]:
    row = ways.native.core.row(SLOT_HANDLERS)
    return {counter.name: row.counter(counter) for counter in LEFT if row.counter(counter)}


@pytest.mark.parametrize("version", VERSIONS)
def test_ordinary_requests_are_native(ways, version):
    both = {("t", 1): 0, ("u", 0): 2}
    everything = {("t", 0): 0, ("t", 1): 1, ("t", 2): 0, ("u", 0): 0, ("__internal", 0): 0}
    for asked in ({("t", 1): 0}, {("t", 1): 4}, {("t", 0): 0}, both, everything):
        for isolation in (0, 1):
            for limits in ({}, {"max_bytes": 1}, {"max_bytes": 150}, {"partition_bytes": 1}, {"partition_bytes": 130}):
                assert ask(ways, version, asked, True, isolation_level=isolation, **limits).error_code == 0


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("asked", "fields", "why"),
    [
        ({("t", 9): 0}, {}, "FETCH_LEFT_PARTITIONS"),
        ({}, {}, "FETCH_LEFT_PARTITIONS"),
        ({("t", 1): 99}, {}, "FETCH_LEFT_ERROR"),
        ({("t", 1): -1}, {}, "FETCH_LEFT_ERROR"),
        ({("t", 1): 0}, {"isolation_level": 2}, "FETCH_LEFT_FRAME"),
        ({("t", 1): 0}, {"max_bytes": -1}, "FETCH_LEFT_FRAME"),
        ({("t", 1): 0}, {"partition_bytes": -1}, "FETCH_LEFT_FRAME"),
    ],
)
def test_what_is_odd_is_left_to_python_and_counted(ways, version, asked, fields, why):
    before = left(ways).get(why, 0)
    ask(ways, version, asked, False, **fields)
    assert left(ways)[why] == before + 1


def test_readers_that_are_no_consumers_are_left_to_python(ways):
    ask(ways, 11, {("t", 1): 0}, False, replica_id=1)
    ask(ways, 15, {("t", 1): 0}, False, replica_state=ReplicaState(replica_id=1))
    ask(ways, 14, {("t", 1): 0}, False, replica_id=-2)


def test_epochs_are_checked_natively_and_errors_about_them_are_pythons(ways):
    for epoch, natively in ((-1, True), (0, True), (1, False), (-3, True)):
        request = fetch_of(12, IDS, {("t", 1): 0}, session_epoch=-1)
        request.topics[0].partitions[0].current_leader_epoch = epoch
        before = ways.served_natively()
        ways.both(request, 12)
        assert (ways.served_natively() > before) == natively, epoch
    request.topics[0].partitions[0].current_leader_epoch = -1
    for epoch, natively in ((0, True), (1, False), (-2, True)):  # the epoch of now ends at the log's end
        request.topics[0].partitions[0].last_fetched_epoch = epoch
        before = ways.served_natively()
        ways.both(request, 12)
        assert (ways.served_natively() > before) == natively, epoch


def test_old_readers_of_zstd_are_pythons(ways):
    ask(ways, 9, {("zstd", 0): 0}, False)
    ask(ways, 10, {("zstd", 0): 0}, True)


def test_what_is_named_twice_is_pythons(ways):
    request = fetch_of(11, IDS, {("t", 1): 0}, session_epoch=-1)
    request.topics[0].partitions *= 2
    before = ways.served_natively()
    ways.both(request, 11)
    request = fetch_of(11, IDS, {("t", 1): 0}, session_epoch=-1)
    request.topics *= 2
    ways.both(request, 11)
    assert ways.served_natively() == before


@pytest.mark.parametrize("version", VERSIONS)
def test_long_polls_are_answered_natively(ways, version):
    """By a record, and by time."""

    def pass_time(broker):
        broker.clock.advance(600)

    answer = ways.quietly(fetch_of(11, IDS, {("t", 2): 0}, session_epoch=-1), 11)
    end = answer.responses[0].partitions[0].high_watermark
    late = {"max_wait_ms": 500, "min_bytes": 1}
    assert ask(ways, version, {("t", 2): end, ("t", 0): 0}, True, pass_time, **late).error_code == 0
    assert ask(ways, version, {("t", 1): 0}, True, min_bytes=5000, max_wait_ms=500, wake=pass_time).error_code == 0


def test_a_waiting_request_whose_topic_goes_is_pythons_for_the_rest_of_its_time(tmp_path):
    ways = FetchWays(tmp_path, make_topics)

    def change(broker):
        broker.create_topic("another")
        broker.clock.advance(600)

    ask(ways, 11, {("t", 0): 0}, False, change, max_wait_ms=500, min_bytes=1)
    assert left(ways)["FETCH_LEFT_TOPIC"] >= 1


@pytest.mark.parametrize("version", [7, 11, 12, 13, 17])
def test_sessions_are_native(ways, version):
    client = SessionClient(version, IDS)
    client.reads = {("t", 1): 0, ("u", 0): 4, ("t", 0): 0}
    before, asked = ways.served_natively(), 0

    def go(**fields):
        nonlocal asked
        asked += 1
        return client.take(ways.both(client.request(**fields), version))

    assert len(go()) == 3
    assert list(go(max_bytes=1)) == [("t", 1)]
    client.reads["t", 1] = 4
    assert go() == {}
    client.reads["t", 2] = 0
    del client.reads["u", 0]
    go()
    client.reads["t", 1] = 2
    assert list(go()) == [("t", 1)] or client.reads
    client.reads["u", 0] = 0  # what was forgotten and is asked for again is not forgotten again
    assert ("u", 0) in go()
    old = client.session_id
    client.epoch, client.told = 0, {}
    go()
    assert client.session_id != old
    assert ways.served_natively() == before + asked


def test_an_overtaken_request_gets_its_error_from_python(ways):
    client = SessionClient(11, IDS)
    client.reads = {("t", 0): 0}
    client.take(ways.both(client.request(), 11))

    def overtake(broker):
        session_id = ways._sessions[broker][client.session_id]
        table = broker.handler.context.fetch_sessions
        assert table.hold(session_id) == 0
        row = table.row()
        table.put(row._replace(epoch=row.epoch + 1, fill_number=1 << 40))
        broker.clock.advance(600)

    answer = ways.both(client.request(max_wait_ms=500, min_bytes=1), 11, overtake)
    assert (answer.error_code, answer.session_id) == (71, client.session_id)


class BothWays(RuleBasedStateMachine):
    """Any requests in any order, to both."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.ways = FetchWays(Path(self.directory.name), make_topics, fetch_sessions=2, session_units=64)
        self.clients: list[SessionClient] = []

    @initialize(versions=st.lists(st.integers(7, 17), min_size=3, max_size=3))
    def begin(self, versions) -> None:
        self.clients = [SessionClient(version, IDS) for version in versions]

    @rule(name=st.sampled_from(sorted(TOPICS)), number=st.integers(0, 2), size=st.sampled_from((1, 100)))
    def append(self, name, number, size) -> None:
        for broker in self.ways.brokers:
            broker.call(produce(name, batch(b"r" * size), number), 7)
            broker.traced()

    @rule(
        who=st.integers(0, 2),
        name=st.sampled_from([*sorted(TOPICS), "t", "t"]),
        number=st.integers(-1, 2),
        offset=st.sampled_from((0, 1, 2, 4, 5, 99)),
    )
    def read(self, who, name, number, offset) -> None:
        self.clients[who].reads[name, number] = offset

    @rule(who=st.integers(0, 2), at=st.integers(0, 5))
    def forget(self, who, at) -> None:
        reads = self.clients[who].reads
        if at < len(reads):
            del reads[list(reads)[at]]

    @rule(
        who=st.integers(0, 2),
        most=st.sampled_from((1 << 20, 1, 150, 300)),
        of_each=st.sampled_from((1 << 20, 1, 130)),
        isolation=st.sampled_from((0, 1)),
        wait=st.booleans(),
    )
    def ask(self, who, most, of_each, isolation, wait) -> None:
        client = self.clients[who]
        request = client.request(
            max_bytes=most,
            isolation_level=isolation,
            max_wait_ms=500 if wait else 0,
            min_bytes=200,
        )
        for topic in request.topics:
            for each in topic.partitions:
                each.partition_max_bytes = of_each
        client.take(self.ways.both(request, client.version, lambda broker: broker.clock.advance(600)))

    @rule(who=st.integers(0, 2), epoch=st.sampled_from((-1, 0, 1, 2, 3)))
    def another_epoch(self, who, epoch) -> None:
        self.clients[who].epoch = epoch
        if epoch <= 0:
            self.clients[who].told = {}
        if epoch == -1:
            self.ways.both(self.clients[who].request(), self.clients[who].version)
            self.clients[who].epoch = 0

    @rule(ms=st.sampled_from((1000, 121_000)))
    def time_passes(self, ms) -> None:
        for broker in self.ways.brokers:
            broker.clock.advance(ms)

    def teardown(self) -> None:
        self.directory.cleanup()


TestBothWays = BothWays.TestCase
TestBothWays.settings = settings(
    max_examples=20, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)


def with_transactions(broker) -> None:
    """Three producers' transactions in one another, over several segments: aborted, committed, and one still open."""
    [row] = broker.create_topic("t", 1, topic_id=IDS["t"])
    log, sequences = broker.log, {}

    def write(producer: int) -> None:
        sequences[producer] = sequences.get(producer, -1) + 1
        assert log.verify(row, producer, 0) == 0
        data = batch(
            b"%d" % producer * 20,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=sequences[producer],
            transactional=True,
        )
        assert log.append(row, NO_REQUEST, 0, data, LogOptions(), TIME_MS).error == 0

    def end(producer: int, committed: bool) -> None:
        assert log.append_marker(row, producer, 0, 0, committed, LogOptions(), TIME_MS).error == 0

    for round_number in range(3):
        for producer in (1, 2, 1, 3):
            write(producer)
        end(1, False)
        end(2, round_number == 1)
        assert log.roll(row, TIME_MS) == 0
        end(3, False)
    for _ in range(7):  # the topic is known natively, and correlation ids are above that of FetchWays
        broker.call(fetch_of(11, IDS, {("t", 0): 0}, session_epoch=-1), 11)
    write(2)
    write(1)
    end(1, False)


@pytest.mark.parametrize("version", [4, 7, 11, 12, 13, 17])
def test_what_was_aborted_is_told_alike(tmp_path, version):
    ways, told = FetchWays(tmp_path, with_transactions), set()
    for offset in range(24):
        for isolation in (0, 1):
            for limits in ({}, {"partition_bytes": 1}, {"partition_bytes": 400}):
                asked = fetch_of(
                    version, IDS, {("t", 0): offset}, session_epoch=-1, isolation_level=isolation, **limits
                )
                part = ways.both(asked, version).responses[0].partitions[0]
                rows = part.aborted_transactions
                told.add(None if rows is None else tuple((row.producer_id, row.first_offset) for row in rows))
    assert {None, (), ((1, 0), (2, 1), (3, 3), (1, 7), (3, 10), (1, 14), (2, 15), (3, 17))} <= told and len(told) > 4
    assert ways.served_natively() > 0
