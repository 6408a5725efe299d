"""The log's calls: settings at their bounds, what a default stands for, lists that are longer than one look."""

import time

import pytest

from mpbroker._native import NO_REQUEST, READ_TO_END, Core, Log, LogOptions
from mpbroker.record.batch_builder import encode_batch
from tests.harness.small_core import small_core

TOPIC_ID = bytes(range(16))
NOW_MS = 1_700_000_000_000
EXISTS, ONLINE = 1, 2
RECORDS = [(b"k", b"v", NOW_MS), (b"k", b"w", NOW_MS + 5)]
BATCH = encode_batch(RECORDS)


def opened(path, slot=118, **plan) -> tuple[Core, Log]:
    """A core, and a log in it with one partition."""
    core = small_core(**plan).core
    log = Log(core, [str(path)], slot)
    assert log.create(0, TOPIC_ID, 0, 0, 0, "t-0", 7, NOW_MS) == 0
    return core, log


@pytest.fixture
def log(tmp_path):
    _, made = opened(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("name", "least"), [("segment_bytes", 61), ("index_interval_bytes", 0), ("index_max_bytes", 12)]
)
def test_the_smallest_settings(log, name, least):
    LogOptions(**{name: least})
    for wrong in (least - 1, -1 << 31):
        with pytest.raises(ValueError, match="segment_bytes, index_interval_bytes or index_max_bytes is too small"):
            LogOptions(**{name: wrong})
    for wrong, error in (("x", TypeError), (1 << 31, OverflowError)):
        with pytest.raises(error):
            LogOptions(**{name: wrong})
    with pytest.raises(TypeError):
        LogOptions(least)


def appended(log, batch=BATCH, options=None, **more):
    return log.append(0, NO_REQUEST, 0, batch, options or LogOptions(), NOW_MS, **more)


def test_kafkas_own_defaults(log):
    """Of max.message.bytes, segment.bytes, segment.ms, and times that differ from the broker's by any amount."""
    large = encode_batch([(None, bytes(1_048_588 - 90), NOW_MS)])
    room = 1_048_588 - len(large)
    for extra, code in ((room, 0), (room + 1, 10)):
        assert appended(log, encode_batch([(None, bytes(1_048_588 - 90 + extra), NOW_MS)])).error == code


def test_times_and_ages_that_are_taken_by_default(tmp_path):
    """Any difference from the broker's clock; a segment is as old as a week."""
    for late_ms, segments in ((604_800_000, [0]), (604_800_001, [0, 1])):
        (tmp_path / str(late_ms)).mkdir()
        _, log = opened(tmp_path / str(late_ms))
        later = encode_batch([(None, b"x", NOW_MS + late_ms)])
        assert appended(log, encode_batch([(None, b"x", NOW_MS)])).error == 0
        assert log.append(0, NO_REQUEST, 0, later, LogOptions(), NOW_MS + late_ms).error == 0
        assert log.segments(0) == segments
        for time_ms in (0, 1 << 50):
            assert appended(log, encode_batch([(None, b"x", time_ms)])).error == 0
        log.close()


def test_times_that_are_allowed(log):
    options = LogOptions(timestamp_before_max_ms=10, timestamp_after_max_ms=20)
    for time_ms, code in ((-10, 0), (-11, 32), (20, 0), (21, 32)):
        assert appended(log, encode_batch([(None, b"x", NOW_MS + time_ms)]), options).error == code, time_ms


def test_what_a_client_may_not_write(log):
    """A coordinator may write control batches' likes: it is no client."""
    result = appended(log, encode_batch([(None, b"x", NOW_MS)]), LogOptions(compacted=True))
    assert result.error == 87
    keyed = encode_batch([(b"k", b"x", NOW_MS)])
    assert appended(log, keyed, LogOptions(compacted=True)).error == 0
    later = encode_batch([(b"k", b"x", NOW_MS)], base_offset=55)
    assert appended(log, later, LogOptions()).error == 87
    assert appended(log, later, LogOptions(from_client=False)).error == 0


def test_defaults_of_an_append(log):
    """Of a leader's epoch that is not looked at, a time that is looked for, and acks of the leader alone."""
    first = appended(log)
    assert (first.error, first.base_offset, first.end_offset, first.leader_epoch, first.waits) == (0, 0, 2, 7, False)
    assert appended(log, leader_epoch=7).error == appended(log, leader_epoch=-1).error == 0
    assert appended(log, leader_epoch=6).error == appended(log, leader_epoch=8).error == 6
    assert log.largest_time(0) == (0, NOW_MS + 5)
    told = appended(log, max_timestamp=NOW_MS + 90)
    assert told.error == 0 and log.largest_time(0) == (0, NOW_MS + 90)
    compressed = encode_batch(RECORDS, codec=1)
    with pytest.raises(ValueError, match="give max_timestamp"):
        appended(log, compressed)
    assert appended(log, compressed, max_timestamp=NOW_MS + 5).error == 0
    for wrong, error in (("x", TypeError), (1 << 63, OverflowError)):
        with pytest.raises(error):
            appended(log, max_timestamp=wrong)
    zstd = encode_batch(RECORDS, codec=4)
    assert appended(log, zstd, max_timestamp=1, produce_version=6).error == 76
    assert appended(log, zstd, max_timestamp=1, produce_version=7).error == 0
    assert appended(log, zstd, max_timestamp=1).error == 0
    assert appended(log, BATCH[:-1]).error == 87


def test_a_log_in_a_row_of_directories(tmp_path):
    core = small_core().core
    with pytest.raises(ValueError, match=r"at most \d+ log directories") as refused:
        Log(core, [str(tmp_path)] * 999, 118)
    most = int(str(refused.value).split()[2])
    paths = [tmp_path / str(number) for number in range(most + 1)]
    for path in paths:
        path.mkdir()
    log = Log(core, paths[:most], 118)
    assert all(log.log_dir_online(number) and log.takes_appends(number) for number in range(most))
    calls = (log.log_dir_online, log.fail_log_dir, log.takes_appends)
    for call in (*calls, lambda number: log.refuse_appends(number, True)):
        with pytest.raises(ValueError, match=f"no log directory {most}"):
            call(most)
    log.close()
    with pytest.raises(ValueError, match=f"at most {most} log directories"):
        Log(core, paths, 118)
    for segments in (0, 1, 65_536):
        Log(core, paths[:1], 118, segments).close()
    with pytest.raises(ValueError, match="open_segments is at most 65536"):
        Log(core, paths[:1], 118, 65_537)
    Log(core, paths[:1], 127).close()
    with pytest.raises(OSError, match="Invalid argument"):
        Log(core, paths[:1], 128)
    with pytest.raises(RuntimeError, match="opened already"):
        again = Log(core, paths[:1])
        again.__init__(core, paths[:1])


def test_what_is_done_to_a_log_directory(tmp_path):
    core = small_core().core
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    log = Log(core, [tmp_path / "a", tmp_path / "b"], 118)
    log.refuse_appends(1, True)
    assert [log.takes_appends(number) for number in (0, 1)] == [True, False]
    log.refuse_appends(1, False), log.refuse_appends(0, 1)
    assert [log.takes_appends(number) for number in (0, 1)] == [False, True]
    log.fail_log_dir(1)
    assert [log.log_dir_online(number) for number in (0, 1)] == [True, False]
    core.fail_log_dir(0)
    assert [log.log_dir_online(number) for number in (0, 1)] == [False, False]
    log.close()


@pytest.mark.parametrize("number", [1, 255, 256, 257, 511, 512, 513, 600])
def test_however_many_are_asked_for_all_are_told(tmp_path, number):
    """One look finds 256: log starts to be written down, and moves."""
    core = small_core(partitions=700).core
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    log = Log(core, [tmp_path / "a", tmp_path / "b"], 118)
    for row in range(number):
        state = {"leo": 9, "hw": 9, "active_base": 0}
        assert log.publish(row, TOPIC_ID, 0, row, 0, f"t-{row}", state) == 0
    assert log.starts_asked() == log.moves() == []
    for row in range(number):
        assert log.delete_records(row, 5, TOPIC_ID) == (0, 5)
        assert log.ask_move(row, TOPIC_ID, 1) == 0
    assert log.starts_asked() == log.moves() == list(range(number))
    assert log.move_of(0) == (1, log.move_of(0)[1], 0, 0)
    log.show_future(0, 77, 88)
    assert log.move_of(0)[2:] == (77, 88) and log.move_of(number) is None
    assert log.start_written(0, 5, TOPIC_ID) == 0
    assert log.starts_asked() == list(range(1, number))
    log.close()


def test_what_deleting_records_answers(log):
    appended(log)
    for offset, told in ((0, (0, 0)), (1, (0, 1)), (-1, (0, 2)), (2, (0, 2)), (3, (1, -1))):
        assert log.delete_records(0, offset, None) == told, offset
    assert log.delete_records(0, 2, bytes(16))[0] == 3 and log.start_written(0, 2, bytes(16)) == 3


def test_the_last_batch_of_a_producer_whose_transaction_began_at_0(tmp_path):
    """Its open transaction says when that batch came, not when the broker was told."""
    core, log = opened(tmp_path)
    core.transactions_ready = 1
    assert log.load_producers(0, [(95, 3, 0, 1, 0, 1, 71)]) == 0
    assert log.load_transactions(0, [(95, 3, 45, 0, 86)]) == 0
    assert log.open_transactions(0)[1] == [(95, 3, 45, 0, 86, 71)]
    assert log.producer_entries(0)[1] == [(95, 3, 1, 1, 1, 71, 45, 0)]
    log.close()


def test_a_table_of_producers_that_is_full(tmp_path):
    _, log = opened(tmp_path, producers=2)
    rows = [(producer, 0, 0, 0, producer, 0, 71) for producer in (1, 2, 3)]
    assert log.load_producers(0, rows[:2]) == 0
    assert log.load_producers(0, rows) == 89 == log.load_transactions(0, [(4, 0, 0, 1, 1)])
    assert [row[0] for row in log.producers(0)[1]] == [1, 2]
    assert log.producer_times()[0] == 2
    assert log.sweep_producers() == 0
    log.close()


def test_a_producer_of_the_future_is_forgotten_like_one_of_today(tmp_path):
    """A snapshot's batch may have any time; the broker's clock is the one that counts."""
    _, log = opened(tmp_path)
    before_ms = time.time_ns() // 1_000_000
    assert log.load_producers(0, [(1, 0, 0, 0, 0, 0, 1 << 50), (2, 0, 0, 0, 1, 0, 5)]) == 0
    times = sorted(log.producer_times()[1])
    assert times[0] == 5 and before_ms <= times[1] <= time.time_ns() // 1_000_000
    assert log.expire_producers(0, 6, 6) == 1 and log.expire_producers(0, 1 << 42, 1 << 42) == 1
    log.close()


def test_a_plan_and_its_room(log):
    appended(log), appended(log)
    error, plan = log.find(0, 0, READ_TO_END, 1 << 20)
    assert error == 0 and plan.length == 2 * len(BATCH)
    for spare in (0, 1, 99):
        room = bytearray(plan.length + spare)
        assert log.read_into(plan, room) == (0, plan.length) and not any(room[plan.length :])
    for length in (0, plan.length - 1):
        with pytest.raises(ValueError, match=f"the plan needs {plan.length} bytes"):
            log.read_into(plan, bytearray(length))
    assert log.find(0, 0, READ_TO_END, 1)[1].length == len(BATCH), "one at least"
    assert log.find(0, 0, READ_TO_END, 1, False)[1].length == 0
    assert log.find(0, 0, READ_TO_END, len(BATCH), min_one=False)[1].length == len(BATCH)
    assert log.find_time(0, NOW_MS + 5)[1].first_offset == 0 and log.find_time(0, NOW_MS, 2)[1].first_offset == 2
    assert log.find_time(0, NOW_MS + 6)[1].length == 0
    with pytest.raises(TypeError, match="a ReadPlan is needed"):
        log.aborted(None, 0)
    assert log.set_flags(0, 0, ONLINE) == 0 and log.state(0).flags == EXISTS
    assert log.set_flags(0, ONLINE, EXISTS) == 0 and log.state(0).flags == ONLINE
    assert log.set_flags(0, EXISTS, 0) == 0 and log.state(0).flags == EXISTS | ONLINE


def test_a_time_is_looked_for_from_the_first_record_on(log):
    """Unless an offset is told: the second batch has the same time."""
    one = encode_batch([(None, b"x", NOW_MS)])
    appended(log, one), appended(log, one)
    found = [log.find_time(0, NOW_MS, *more)[1].first_offset for more in ((), (0,), (1,))]
    assert found == [0, 0, 1] and log.find_time(0, NOW_MS, 2)[1].length == 0


@pytest.mark.parametrize(("length", "entries"), [(4095, [0, 0, 1]), (4096, [0, 0, 1]), (4097, [0, 1, 2])])
def test_an_index_entry_comes_behind_more_than_4096_bytes_unless_told(log, length, entries):
    batch = encode_batch([(None, bytes(length - 70), NOW_MS)])
    assert len(batch) == length
    found = []
    for _ in entries:
        appended(log, batch)
        found.append(log.state(0).index_bytes // 8)
    assert found == entries
