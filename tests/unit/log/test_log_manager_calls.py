"""What the log manager asks of the native log for each call, and what it makes of the answers: errors are codes, a lock
that is not to be had is PartitionBusyError with the partition's row."""

import errno
from types import SimpleNamespace
from typing import Any

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.log import log_manager as module
from mpbroker.log.leader_epochs import EpochStart
from mpbroker.log.log_manager import NO_FLUSH, FoundOffset, LogManager, PartitionBusyError
from mpbroker.record.batch_builder import encode_batch
from mpbroker.shm.clock import ManualClock
from mpbroker.shm.layout import PARTITION_EXISTS, PARTITION_ONLINE

ROW = 7
REQUEST = SimpleNamespace(entry="entry")
TOPIC = SimpleNamespace(id=b"T" * 16, partitions=[0, ROW], settings=SimpleNamespace(flush_messages=5))


class FakeLog:
    """Answers what it was told to, and remembers what it was asked."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {"log_dir_online": True, "move_of": None, "ask_move": 0} | answers
        self.asked: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*words: Any) -> Any:
            self.asked.append((name, *words))
            answer = self.answers.get(name)
            return answer(*words) if callable(answer) else answer

        return call


def result(error: int = 0, *, busy: bool = False, flush_due: bool = False) -> SimpleNamespace:
    return SimpleNamespace(error=error, busy=busy, flush_due=flush_due)


def manager_of(log: Any, **more: Any) -> LogManager:
    return LogManager(log, ManualClock(), False, **more)


@pytest.fixture
def rules(monkeypatch):
    """What settings become, in words."""
    made = SimpleNamespace(target_codec=None)
    monkeypatch.setattr(module, "log_options", lambda settings, most, **named: ("options", most))
    monkeypatch.setattr(module, "produce_rules", lambda settings, most: made)
    return made


@pytest.mark.parametrize(
    ("appended", "sync_error", "asked"),
    [
        (result(), 0, []),
        (result(flush_due=True), 0, ["flush"]),
        (result(3, flush_due=True), 0, []),
        (result(3), 0, []),
        (result(flush_due=True), 56, ["flush", "not_synced"]),
    ],
)
def test_an_append_is_synced_where_that_is_due_and_not_after_an_error(rules, appended, sync_error, asked):
    log = FakeLog(append=appended, flush=(sync_error, 0), not_synced="failed")
    manager = manager_of(log, largest_batch_bytes=77)
    batch = encode_batch([(b"k", b"v", 1)])
    got = manager.append(TOPIC, 1, REQUEST, 4, batch, 9, -1)
    now_ms = manager._clock.wall_ms()
    assert log.asked[0] == ("append", ROW, "entry", 4, batch, ("options", 77), now_ms, 9, -1, None, TOPIC.id, -1)
    assert [name for name, *_ in log.asked[1:]] == asked
    assert got == ("failed" if sync_error else appended)
    if sync_error:
        assert log.asked[-1] == ("not_synced", ROW, "entry", 4, ErrorCode.KAFKA_STORAGE_ERROR)


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("target", [None, 0, 2])
def test_only_what_is_compressed_or_is_to_be_is_looked_into(rules, monkeypatch, codec, target):
    rules.target_codec, looked = target, []
    checked = SimpleNamespace(code=0, batch=b"another", max_timestamp=123)
    monkeypatch.setattr(module, "check_append_records", lambda *words: looked.append(words) or checked)
    log = FakeLog(append=result())
    manager, batch = manager_of(log), encode_batch([(b"k", b"v", 1)], codec=codec)
    manager.append(TOPIC, 1, REQUEST, 4, batch, 9, 1)
    if codec or target is not None:
        assert looked == [(batch, rules, manager._clock.wall_ms(), manager._decompressor)]
        assert log.asked[0][4] == b"another" and log.asked[0][9] == 123
    else:
        assert not looked and log.asked[0][4] == batch and log.asked[0][9] is None


def test_a_batch_whose_records_are_no_good_is_refused_and_not_appended(rules, monkeypatch):
    rules.target_codec = 2
    monkeypatch.setattr(module, "check_append_records", lambda *words: SimpleNamespace(code=87))
    log = FakeLog(refuse=result(87))
    got = manager_of(log).append(TOPIC, 1, REQUEST, 4, encode_batch([(b"k", b"v", 1)]), 9, 1)
    assert got.error == 87 and log.asked == [("refuse", ROW, "entry", 4, 87, TOPIC.id)]


@pytest.mark.parametrize(
    "call",
    [
        lambda manager: manager.append(TOPIC, 1, REQUEST, 4, encode_batch([(b"k", b"v", 1)]), 9, 1),
        lambda manager: manager.refuse(TOPIC, 1, REQUEST, 4, 87),
        lambda manager: manager.sync_recorded(TOPIC, ROW, REQUEST, 4),
        lambda manager: manager.delete_records(TOPIC, ROW, 9),
    ],
    ids=["append", "refuse", "sync_recorded", "delete_records"],
)
def test_a_lock_that_is_not_to_be_had_is_said_with_its_row(rules, call):
    busy, late = result(busy=True), (ErrorCode.REQUEST_TIMED_OUT, -1)
    log = FakeLog(append=busy, refuse=busy, flush=late, delete_records=late, not_synced="answered")
    with pytest.raises(PartitionBusyError, match=f"^partition row {ROW} is busy$") as told:
        call(manager_of(log))
    assert told.value.ordinal == ROW


@pytest.mark.parametrize(("error", "start"), [(0, 9), (1, -1)])
def test_where_the_log_starts_after_records_were_deleted(error, start):
    log = FakeLog(delete_records=(error, start))
    assert manager_of(log).delete_records(TOPIC, ROW, 9) == (error, start)
    assert log.asked == [("delete_records", ROW, 9, TOPIC.id)]


@pytest.mark.parametrize("flush_messages", [1, NO_FLUSH - 1, 2**63 - 1])
def test_an_append_of_an_earlier_run_is_synced_where_its_topic_asks_for_that(flush_messages):
    log = FakeLog(flush=(56, 0), not_synced="failed")
    topic = SimpleNamespace(settings=SimpleNamespace(flush_messages=flush_messages))
    got = manager_of(log).sync_recorded(topic, ROW, REQUEST, 4)
    if flush_messages == 2**63 - 1:  # Kafka's default: never
        assert got is None and not log.asked
    else:
        assert got == "failed" and [name for name, *_ in log.asked] == ["flush", "not_synced"]


def test_which_records_were_refused_is_asked_by_the_topics_rules(rules, monkeypatch):
    monkeypatch.setattr(module, "rejected_records", lambda *words: words)
    manager = manager_of(FakeLog())
    asked = manager.rejected_records(TOPIC, b"batch", "t-1")
    assert asked == (b"batch", rules, manager._clock.wall_ms(), manager._decompressor, "t-1")


def test_settings_are_translated_once_until_they_change_and_not_kept_for_ever(rules, monkeypatch):
    made: list[object] = []
    monkeypatch.setattr(module, "log_options", lambda settings, most, **named: made.append(settings) or len(made))
    manager = manager_of(FakeLog())
    topic = SimpleNamespace(id=b"A" * 16, settings=object())
    assert manager.options_of(topic) == manager.options_of(topic) == (1, rules)
    topic.settings = object()
    assert manager.options_of(topic) == (2, rules) and manager.options_of(topic) == (2, rules)
    manager._settings |= {bytes([9, *divmod(number, 256)]): None for number in range(8191)}
    assert len(manager._settings) == 8192, "twice as many as a broker has room for"
    for name, kept in ((b"B" * 16, 8193), (b"C" * 16, 1)):
        manager.options_of(SimpleNamespace(id=name, settings=topic.settings))
        assert len(manager._settings) == kept
    assert manager.options_of(topic)[0] == 5, "forgotten ones are worked out anew"


@pytest.mark.parametrize(
    ("call", "asked"),
    [
        (lambda manager: manager.recover_slot(3), ("repair_slot", 3)),
        (lambda manager: manager.is_busy(ROW), ("is_busy", ROW)),
        (lambda manager: manager.repair(ROW), ("set_flags", ROW, 0, 0)),
        (lambda manager: manager.close_stale(), ("close_stale",)),
        (lambda manager: manager.find(ROW, 5), ("find", ROW, 5)),
        (lambda manager: manager.read_into("plan", "buffer"), ("read_into", "plan", "buffer")),
    ],
)
def test_what_the_native_log_does_by_itself(call, asked):
    log = FakeLog(is_busy=True)
    assert call(manager_of(log)) is (True if asked[0] == "is_busy" else None)
    assert log.asked == [asked]


def test_what_a_manager_is_given_it_keeps():
    told = []
    manager = LogManager(FakeLog(), ManualClock(), True, lambda: told.append("rung"), data_dirs=["/a", "/b"])
    manager.request_flush()
    assert (manager.flush_on_commit, manager.data_dirs, told) == (True, ("/a", "/b"), ["rung"])


@pytest.mark.parametrize(
    ("flags", "is_online"),
    [(0, False), (PARTITION_EXISTS, False), (PARTITION_ONLINE, True), (PARTITION_EXISTS | PARTITION_ONLINE, True)],
)
def test_a_partition_that_is_not_online_has_no_state_to_read(flags, is_online):
    state = SimpleNamespace(flags=flags, leader_epoch=11)
    manager = manager_of(FakeLog(state=state))
    assert manager.state(ROW) is (state if is_online else None)
    assert manager.is_offline(ROW) is (not is_online)
    assert manager.leader_epoch(ROW) == 11


@pytest.mark.parametrize(
    ("failure", "condemned"), [(OSError(errno.EIO, "broken"), [1]), (FileNotFoundError(errno.ENOENT, "gone"), [])]
)
def test_a_move_that_its_disk_does_not_take_is_a_storage_error(monkeypatch, failure, condemned):
    def fail(*words: Any) -> None:
        raise failure

    monkeypatch.setattr(module, "prepare", fail)
    log, rung = FakeLog(), []
    manager = LogManager(log, ManualClock(), False, lambda: rung.append(1), data_dirs=["/a", "/b"])
    state = SimpleNamespace(log_dir=0, dir="t-0")
    assert manager.ask_move(ROW, state, b"T", 1) == ErrorCode.KAFKA_STORAGE_ERROR
    assert log.asked == [("fail_log_dir", number) for number in condemned] and not rung


@pytest.mark.parametrize(("wanted", "retired"), [(None, ["/a", "/b"]), ((0, 1, 0, 0), ["/b"]), ((1, 1, 0, 0), ["/a"])])
def test_the_keeper_is_rung_for_a_move_and_other_copies_go(monkeypatch, wanted, retired):
    gone, rung = [], []
    monkeypatch.setattr(module, "prepare", lambda *words: None)
    monkeypatch.setattr(module, "retire_future", lambda *words: gone.append(words))
    log = FakeLog(ask_move=41, move_of=wanted)
    manager = LogManager(log, ManualClock(), False, lambda: rung.append(1), data_dirs=["/a", "/b"])
    assert manager.ask_move(ROW, SimpleNamespace(log_dir=0, dir="t-0"), b"T" * 16, 1) == 41
    assert rung == [1] and gone == [(path, "t-0", b"T" * 16) for path in retired]
    assert ("ask_move", ROW, b"T" * 16, 1) in log.asked


@pytest.mark.parametrize(
    ("kept", "has_older", "asked", "answer", "reads"),
    [
        ([(4, 40), (6, 60)], False, 4, (4, 60), False),
        ([(4, 40), (6, 60)], True, 4, (4, 60), False),
        ([(4, 40), (6, 60)], True, 3, (2, 40), True),
        ([(4, 40), (6, 60)], False, 3, (3, 40), False),
        ([], False, 2, (2, 99), True),
    ],
)
def test_epochs_that_memory_has_forgotten_are_read_from_the_file(monkeypatch, kept, has_older, asked, answer, reads):
    """The file's are read only where memory does not say it: a request may ask for many partitions."""
    read: list[str] = []
    written = [EpochStart(1, 10), EpochStart(2, 20)]
    monkeypatch.setattr(module, "read_epochs", lambda directory: read.append(directory) or written)
    state = SimpleNamespace(log_dir=1, dir="t-0", leo=99, leader_epoch=2)
    log = FakeLog(epochs=(0, has_older, kept))
    assert manager_of(log, data_dirs=["/a", "/b"]).end_of_epoch(ROW, state, asked) == answer
    assert read == (["/b/t-0"] if reads else [])


@pytest.mark.parametrize(("asked", "answer"), [(4, (4, 0)), (5, (5, 99)), (6, (-1, -1))])
def test_where_no_epoch_is_written_down_the_present_one_began_with_the_log(asked, answer):
    state = SimpleNamespace(log_dir=0, dir="t-0", leo=99, leader_epoch=5)
    assert manager_of(FakeLog(epochs=(0, False, []))).end_of_epoch(ROW, state, asked) == answer


def plain_lookup(batches: list[list[int]], wanted_ms: int) -> FoundOffset | None:
    """The first record at or after a time, in a log of batches with these times."""
    times = [time_ms for batch in batches for time_ms in batch]
    return next((FoundOffset(time_ms, at, 0) for at, time_ms in enumerate(times) if time_ms >= wanted_ms), None)


@pytest.mark.parametrize("codec", [0, 1])
def test_the_first_record_at_or_after_a_time(world, codec):
    batches = [[100, 105, 103], [90, 91], [110], [105, 120, 119, 120], [1]]
    partition = world.create()
    options = module.LogOptions()

    def append(times):
        batch = encode_batch([(b"k", b"v", time_ms) for time_ms in times], codec=codec)
        largest = max(times) if codec else None
        assert world.log.append(0, module.NO_REQUEST, 0, batch, options, 200, max_timestamp=largest).error == 0

    for times in batches:
        append(times)
    manager, topic = manager_of(world.log), SimpleNamespace(id=partition.topic_id)
    for wanted_ms in range(123):
        assert manager.offset_for_timestamp(topic, 0, wanted_ms) == (0, plain_lookup(batches, wanted_ms))
    assert manager.offset_of_largest_timestamp(topic, 0) == (0, FoundOffset(120, 7, 0))
    for later in ([107, 121], [130]):
        world.roll(partition)
        append(later)
        batches.append(later)
    for wanted_ms in (0, 106, 120, 121, 122, 131):
        assert manager.offset_for_timestamp(topic, 0, wanted_ms) == (0, plain_lookup(batches, wanted_ms))
    assert len(world.log.segments(0)) == 3


def test_a_lookup_that_fails_says_why_and_finds_nothing():
    batch = encode_batch([(b"k", b"v", 5), (b"k", b"v", 6)], base_offset=40)
    plan = SimpleNamespace(length=len(batch), leader_epoch=3)

    def read(plan: Any, buffer: bytearray) -> tuple[int, int]:
        buffer[:] = batch
        return 0, len(batch)

    def manager(**answers: Any) -> LogManager:
        return manager_of(FakeLog(**answers))

    assert manager(find_time=(3, plan)).offset_for_timestamp(TOPIC, ROW, 5) == (3, None)
    assert manager(find_time=(0, SimpleNamespace(length=0))).offset_for_timestamp(TOPIC, ROW, 5) == (0, None)
    assert manager(find_time=(0, plan), read_into=(56, 0)).offset_for_timestamp(TOPIC, ROW, 5) == (56, None)
    assert manager(largest_time=(3, 0)).offset_of_largest_timestamp(TOPIC, ROW) == (3, None)
    found = manager(find_time=(0, plan), read_into=read).offset_for_timestamp(TOPIC, ROW, 6)
    assert found == (0, FoundOffset(6, 41, 3))


def test_a_lookup_goes_on_behind_a_batch_that_has_none_or_cannot_be_read(monkeypatch):
    """Its largest timestamp is its producer's word; it may have been stored before anybody checked that."""
    batch = encode_batch([(b"k", b"v", 5), (b"k", b"v", 5)], base_offset=40)
    asked: list[int] = []

    def find_time(ordinal: int, timestamp_ms: int, from_offset: int, topic_id: bytes) -> tuple[int, Any]:
        assert (ordinal, timestamp_ms, topic_id) == (ROW, 9, TOPIC.id)
        asked.append(from_offset)
        return 0, SimpleNamespace(length=len(batch) if len(asked) < 3 else 0, leader_epoch=3)

    def read(plan: Any, buffer: bytearray) -> tuple[int, int]:
        buffer[:] = batch
        return 0, len(batch)

    log = FakeLog(find_time=find_time, read_into=read)
    assert manager_of(log).offset_for_timestamp(TOPIC, ROW, 9) == (0, None) and asked == [0, 42, 42]

    def unreadable(*words: Any) -> None:
        raise module.BatchUnreadableError("junk")

    asked.clear()
    monkeypatch.setattr(module, "find_timestamp", unreadable)
    assert manager_of(log).offset_for_timestamp(TOPIC, ROW, 9) == (0, None) and asked == [0, 42, 42]


def test_the_native_answerers_count_into_the_processes_counters(monkeypatch):
    monkeypatch.setattr(module, "NativeProduce", lambda *words: words)
    monkeypatch.setattr(module, "NativeFetch", lambda *words: words)
    log = FakeLog()
    manager = manager_of(log)
    port, given, errors, decompress, release = manager.serve_natively("port")
    assert (port, given, errors) == ("port", log, module.Counter.PRODUCE_PARTITION_ERRORS)
    assert release == manager._decompressor.release
    monkeypatch.setattr(manager._decompressor, "decompress", lambda *words: words)
    assert decompress(2, b"data", 1 << 20) == (2, b"data", module.decompressed_limit_bytes(1 << 20))
    assert manager.fetch_natively("port", "produce") == ("port", log, "produce", module.Counter.PURGATORY_EXPIRED)
