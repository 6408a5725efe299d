"""Loading partitions of __consumer_offsets: in slices, in turns, and as far as they can be read."""

from types import SimpleNamespace

import pytest

from mpbroker import _native
from mpbroker.coordinator import offsets_loader
from mpbroker.coordinator.offsets_loader import PATIENCE_MS, RETRY_MS, OffsetsLoader
from mpbroker.errors import ErrorCode
from mpbroker.log.leadership import LEADER
from mpbroker.metadata.topic_names import OFFSETS_TOPIC
from mpbroker.metrics.event_log import EventLog
from mpbroker.record.batch_builder import encode_batch
from mpbroker.shm.clock import ManualClock
from tests.harness.in_process_broker import InProcessBroker


class Loads:
    """A loader, and what it said: records by partition, and which were loaded, in order."""

    def __init__(self, broker) -> None:
        self.records: dict[int, list] = {}
        self.loaded: list[int] = []
        self.loader = OffsetsLoader(
            broker.handler.context.log_manager, EventLog("test"), lambda: self, self.loaded.append, clock=broker.clock
        )
        self.transactional: list = []

    def load(self, partition, records) -> None:
        self.records.setdefault(partition, []).extend(records)

    def load_transactional(self, partition, producer_id, offset, records) -> None:
        self.transactional.append((producer_id, offset, records))

    def load_marker(self, partition, producer_id, committed) -> None:
        self.transactional.append((producer_id, committed))

    def run(self) -> int:
        steps = 0
        while not self.loader.is_idle:
            self.loader.step()
            steps += 1
        return steps


@pytest.fixture
def broker(tmp_path):
    return InProcessBroker(tmp_path)


def fill(broker, ordinal, batches, **options):
    for batch in batches:
        settings = _native.LogOptions(from_client=False)
        result = broker.log.append(ordinal, _native.NO_REQUEST, 0, batch, settings, 5, **options)
        assert result.error == 0


def batches(count, size=100):
    return [encode_batch([(b"key %d" % number, bytes(size), 5)]) for number in range(count)]


def test_empty_partitions_are_loaded_at_once(broker):
    ordinals = broker.create_topic(OFFSETS_TOPIC, 2, internal=True)
    loads = Loads(broker)
    for partition, ordinal in enumerate(ordinals):
        loads.loader.begin(partition, ordinal)
    assert loads.loaded == [0, 1] and loads.loader.is_idle


def test_records_come_in_the_order_of_the_log_without_markers(broker):
    [ordinal] = broker.create_topic(OFFSETS_TOPIC, internal=True)
    fill(broker, ordinal, batches(3))
    options = _native.LogOptions(from_client=False)
    assert broker.log.verify(ordinal, 7, 0) == 0
    in_transaction = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    fill(broker, ordinal, [encode_batch([(b"key", b"value", 5)], **in_transaction)])
    assert broker.log.append_marker(ordinal, 7, 0, 0, True, options, 5).error == 0
    fill(broker, ordinal, [encode_batch([(b"gone", None, 5)])])
    loads = Loads(broker)
    loads.loader.begin(0, ordinal)
    loads.run()
    assert loads.records[0] == [(b"key %d" % number, bytes(100)) for number in range(3)] + [(b"gone", None)]
    assert loads.transactional == [(7, 3, [(b"key", b"value")]), (7, True)]
    assert loads.loaded == [0]


@pytest.mark.parametrize("codec", [0, 3])
def test_the_order_of_the_log_is_kept_between_plain_and_compressed_batches(broker, codec):
    [ordinal] = broker.create_topic(OFFSETS_TOPIC, internal=True)
    values = [b"%d" % number for number in range(7)]
    for number, value in enumerate(values):
        fill(
            broker,
            ordinal,
            [encode_batch([(b"key", value, 5)], codec=codec if number % 3 == 1 else 0)],
            max_timestamp=5,
        )
        loads = Loads(broker)
        loads.loader.begin(0, ordinal)
        loads.run()
        assert dict(loads.records[0]) == {b"key": value} and loads.loaded == [0]


def test_a_large_partition_does_not_hold_a_small_one_up(broker, monkeypatch):
    monkeypatch.setattr(offsets_loader, "SLICE_BYTES", 1000)
    ordinals = broker.create_topic(OFFSETS_TOPIC, 2, internal=True)
    fill(broker, ordinals[0], batches(100))
    fill(broker, ordinals[1], batches(2))
    loads = Loads(broker)
    for partition, ordinal in enumerate(ordinals):
        loads.loader.begin(partition, ordinal)
    assert loads.run() > 20
    assert loads.loaded == [1, 0]
    assert len(loads.records[0]) == 100 and len(loads.records[1]) == 2


def test_what_is_appended_meanwhile_is_not_waited_for(broker):
    [ordinal] = broker.create_topic(OFFSETS_TOPIC, internal=True)
    fill(broker, ordinal, batches(1))
    loads = Loads(broker)
    loads.loader.begin(0, ordinal)
    loads.run()
    fill(broker, ordinal, batches(5))
    assert loads.loaded == [0]


def test_a_damaged_partition_is_served_as_far_as_it_was_read(broker, tmp_path):
    [ordinal] = broker.create_topic(OFFSETS_TOPIC, internal=True)
    written = batches(3)
    fill(broker, ordinal, written)
    path = next(tmp_path.glob(f"{OFFSETS_TOPIC}-0/*.log"))
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    loads = Loads(broker)
    loads.loader.begin(0, ordinal)
    loads.run()
    assert loads.loaded == [0] and len(loads.records[0]) == 2


@pytest.mark.parametrize("codec", [0, 3])
def test_each_batch_is_loaded_once_however_small_the_slices(broker, monkeypatch, codec):
    """The next slice begins behind a batch's last record, whichever way the batch was read."""
    monkeypatch.setattr(offsets_loader, "SLICE_BYTES", 1)
    [ordinal] = broker.create_topic(OFFSETS_TOPIC, internal=True)
    rows = [[(b"%d %d" % (batch, record), b"v", 5) for record in range(3)] for batch in range(4)]
    fill(broker, ordinal, [encode_batch(one, codec=codec) for one in rows], max_timestamp=5)
    loads = Loads(broker)
    loads.loader.begin(0, ordinal)
    assert loads.run() == len(rows)
    assert [key for key, _ in loads.records[0]] == [key for one in rows for key, _, _ in one]


def test_what_retention_took_meanwhile_is_left_out(broker, monkeypatch):
    """Between two slices the log may begin further on; any other error ends the load."""
    [ordinal] = broker.create_topic(OFFSETS_TOPIC, 1, internal=True)
    fill(broker, ordinal, batches(6))
    monkeypatch.setattr(offsets_loader, "SLICE_BYTES", 1)
    loads, logs = Loads(broker), broker.handler.context.log_manager
    loads.loader.begin(0, ordinal)
    find, asked = logs.find, []

    def find_later(row, offset, *words):
        asked.append(offset)
        if offset in (2, 3):
            return ErrorCode.OFFSET_OUT_OF_RANGE, SimpleNamespace(log_start=4)
        return find(row, offset, *words)

    monkeypatch.setattr(logs, "find", find_later)
    loads.run()
    assert asked == [0, 1, 2, 4, 5] and len(loads.records[0]) == 5 - 1 and loads.loaded == [0]


class Logs:
    """One log from 5 to 9 of which `find` and `read_into` say what a test wants."""

    def __init__(self, found, read=(0, 0)):
        self.found, self.read, self.asked, self.role = found, read, [], LEADER

    def state(self, ordinal):
        return SimpleNamespace(log_start=5, leo=9, role=self.role)

    def find(self, ordinal, offset, *words):
        self.asked.append((ordinal, offset))
        return self.found

    def read_into(self, plan, stored):
        self.asked.append(len(stored))
        return self.read


@pytest.mark.parametrize(
    ("found", "read", "detail"),
    [
        ((ErrorCode.OFFSET_OUT_OF_RANGE, SimpleNamespace(log_start=5, length=0)), (0, 0), "error 1"),
        ((ErrorCode.KAFKA_STORAGE_ERROR, SimpleNamespace(log_start=7, length=0)), (0, 0), "error 56"),
        ((0, SimpleNamespace(log_start=7, length=0)), (0, 0), "error 0"),
        ((0, SimpleNamespace(log_start=5, length=10)), (ErrorCode.KAFKA_STORAGE_ERROR, 0), "error 56"),
    ],
    ids=["out of range", "another error", "nothing there", "not read"],
)
def test_a_log_that_cannot_be_read_is_loaded_as_far_as_it_was_and_that_is_said(found, read, detail):
    logs, lines, loaded = Logs(found, read), [], []
    log = SimpleNamespace(error=lambda event, **fields: lines.append((event, fields)))
    loader = OffsetsLoader(logs, log, lambda: None, loaded.append, clock=ManualClock())
    loader.begin(3, 8)
    loader.step()
    assert loaded == [3] and loader.is_idle and logs.asked[0] == (8, 5)
    fields = {"topic": OFFSETS_TOPIC, "partition": 3, "offset": 5, "detail": detail}
    assert lines == [("offsets_unreadable", fields)]


SOUND = (0, SimpleNamespace(log_start=5, length=10))
NOTHING = SimpleNamespace(log_start=-1, length=0)


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT])
@pytest.mark.parametrize("where", ["find", "read"])
def test_a_log_whose_files_are_being_changed_is_read_a_little_later(code, where):
    """And not at once again, and not for ever, and not when somebody else leads it."""
    for ends in ("goes on", "too long", "not ours"):
        logs = Logs((code, NOTHING)) if where == "find" else Logs(SOUND, (code, 0))
        lines, loaded, clock = [], [], ManualClock()
        log = SimpleNamespace(error=lambda event, lines=lines, **fields: lines.append(fields["detail"]))
        loader = OffsetsLoader(logs, log, lambda: None, loaded.append, clock=clock)
        loader.begin(3, 8)
        loader.step()
        asked = len(logs.asked)
        loader.step()
        now_ms = clock.monotonic_ms()
        assert (len(logs.asked), loaded, loader.next_due_ms(now_ms)) == (asked, [], now_ms + RETRY_MS)
        clock.advance(RETRY_MS if ends != "too long" else PATIENCE_MS - 1)
        if ends == "goes on":
            logs.found, logs.read = (0, NOTHING), (0, 0)
        if ends == "not ours":
            logs.role = LEADER - 1
        loader.step()
        if ends == "too long":
            assert loaded == []
            clock.advance(RETRY_MS)
            loader.step()
        assert loaded == [3] and loader.next_due_ms(0) is None
        assert lines == [f"error {0 if ends == 'goes on' else int(code)}"]


def test_a_partition_that_waits_holds_no_other_up(broker, monkeypatch):
    ordinals = broker.create_topic(OFFSETS_TOPIC, 2, internal=True)
    for ordinal in ordinals:
        fill(broker, ordinal, batches(1))
    loads, logs = Loads(broker), broker.handler.context.log_manager
    find = logs.find
    busy = lambda row, *words: (ErrorCode.REQUEST_TIMED_OUT, NOTHING) if row == ordinals[0] else find(row, *words)  # noqa: E731
    monkeypatch.setattr(logs, "find", busy)
    for partition, ordinal in enumerate(ordinals):
        loads.loader.begin(partition, ordinal)
    loads.loader.step()
    loads.loader.step()
    assert loads.loaded == [1] and loads.loader.next_due_ms(0) == broker.clock.monotonic_ms() + RETRY_MS
    monkeypatch.setattr(logs, "find", find)
    broker.clock.advance(RETRY_MS)
    loads.loader.step()
    assert loads.loaded == [1, 0] and loads.loader.is_idle


def test_a_damaged_batch_is_said(broker, tmp_path):
    [ordinal] = broker.create_topic(OFFSETS_TOPIC, internal=True)
    fill(broker, ordinal, [encode_batch([(b"key", b"value", 5)], codec=1)], max_timestamp=5)
    path = next(tmp_path.glob(f"{OFFSETS_TOPIC}-0/*.log"))
    damaged = bytearray(path.read_bytes())
    damaged[-5] ^= 0xFF
    path.write_bytes(damaged)
    loads, lines = Loads(broker), []
    loads.loader._log = SimpleNamespace(error=lambda event, **fields: lines.append((event, fields["partition"])))
    loads.loader.begin(0, ordinal)
    loads.run()
    assert (loads.loaded, lines, loads.records) == ([0], [("offsets_unreadable", 0)], {})


def test_a_log_whose_beginning_went_by_is_read_from_there_on():
    """The same plan with another word of the log is no reason to go there."""
    logs = Logs((ErrorCode.OFFSET_OUT_OF_RANGE, SimpleNamespace(log_start=7)))
    loader, loaded = OffsetsLoader(logs, None, lambda: None, [], clock=ManualClock()), []
    loader.begin(3, 8)
    loader.step()
    logs.found = (0, SimpleNamespace(log_start=9, length=4))
    logs.read = (0, 0)
    loader.step()
    assert logs.asked == [(8, 5), (8, 7), 4] and loaded == []


def test_what_is_forgotten_is_not_read(broker):
    ordinals = broker.create_topic(OFFSETS_TOPIC, 2, internal=True)
    for ordinal in ordinals:
        fill(broker, ordinal, batches(1))
    loads = Loads(broker)
    for partition, ordinal in enumerate(ordinals):
        loads.loader.begin(partition, ordinal)
    loads.loader.forget(0)
    loads.run()
    assert loads.loaded == [1] and set(loads.records) == {1}
    loads.loader.forget(1)
    loads.loader.step()
    assert loads.loaded == [1]


def test_batches_of_transactions_take_turns_with_others_however_small_the_slices(broker, monkeypatch):
    monkeypatch.setattr(offsets_loader, "SLICE_BYTES", 1)
    [ordinal] = broker.create_topic(OFFSETS_TOPIC, internal=True)
    assert broker.log.verify(ordinal, 7, 0) == 0
    for number in range(3):
        written = {"producer_id": 7, "producer_epoch": 0, "base_sequence": number, "transactional": True}
        fill(broker, ordinal, [encode_batch([(b"t%d" % number, b"v", 5)], **written)])
        fill(broker, ordinal, [encode_batch([(b"p%d" % number, b"v", 5)])])
    loads = Loads(broker)
    loads.loader.begin(0, ordinal)
    assert loads.run() == 6
    assert loads.records[0] == [(b"p0", b"v"), (b"p1", b"v"), (b"p2", b"v")]
    assert loads.transactional == [(7, 2 * number, [(b"t%d" % number, b"v")]) for number in range(3)]


def test_a_marker_is_told_by_its_key():
    told = []
    target = SimpleNamespace(load_marker=lambda *words: told.append(words))
    loader = OffsetsLoader(None, None, lambda: target, None, clock=ManualClock())
    info = SimpleNamespace(attributes=offsets_loader.ATTRIBUTE_CONTROL, producer_id=7, base_offset=0)
    keys = [None, b"", b"\0\0\0", b"\0\0\0\1", b"\0\0\0\0", b"\0\0\0\1more", b"\0\0\0\2"]
    loader._load(3, info, [SimpleNamespace(key=key, value=b"") for key in keys])
    assert told == [(3, 7, True), (3, 7, False), (3, 7, True), (3, 7, False)]
