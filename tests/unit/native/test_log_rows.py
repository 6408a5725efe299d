"""What the log's methods return, place by place: whole rows, in which no two numbers are the same."""

import pytest

from mpbroker._native import NO_REQUEST, READ_TO_END, Log, LogOptions, PartitionState
from mpbroker.record.batch_builder import encode_batch
from mpbroker.shm.layout import ReplicaRole
from tests.harness.small_core import small_core

TOPIC_ID = bytes(range(16))
ONLINE = 2
FIXED = ("role", "min_isr", "isr", "maximal_isr")  # told, never loaded
FIELDS = [name for name in PartitionState.__match_args__[:28] if name not in FIXED]


def opened(path, slot=118, **plan):
    return Log(small_core(**plan).core, [str(path)], slot)


@pytest.fixture
def replicated(tmp_path):
    """Rows 0 to 4, in a broker of a cluster."""
    log = opened(tmp_path, replicated=True, partitions=6)
    for row in range(5):
        assert log.create(row, bytes([row]) * 16, 0, 10 + row, 0, f"t-{row}", 0, 1) == 0
    yield log
    log.close()


def told(result):
    """All that an object says."""
    return {name: getattr(result, name) for name in dir(result) if not name.startswith("_")}


def become(log, row, role, epoch, leader=2, isr=(1,)):
    code = log.become(row, role, epoch, epoch + 20, [3, 1, 2], list(isr), 1, 2, 50, leader)
    assert code == 0


def put(log, row, **settings):
    batch = encode_batch([(b"k", b"v", 70), (b"k", b"w", 71)], **settings)
    assert log.append(row, NO_REQUEST, 0, batch, LogOptions(), 80).error == 0


def test_a_state_is_told_as_it_was_loaded(tmp_path):
    """But for what counts here: the number of the segment's commit, and that of truncations, which is even."""
    log = opened(tmp_path)
    numbers = {name: 1000 + at for at, name in enumerate(FIELDS)}
    for times in (1, 2):
        assert log.publish(3, TOPIC_ID, 5, 6, 0, "t-6", numbers, hidden=times == 1) == 0
        told, counted = log.state(3), {"segment_id": times, "truncations": 2 * times}
        assert {name: getattr(told, name) for name in FIELDS} == numbers | counted
        rest = (told.flags, told.flushed_offset, told.dir, told.start_written, told.log_dir)
        assert rest == (3 if times == 2 else 0, 1000, "t-6", 0, 0)
        assert (told.role, told.min_isr, told.isr, told.maximal_isr) == (0, 0, 0, 0)
    for large in (-(1 << 62), (1 << 63) - 1):
        assert log.publish(3, TOPIC_ID, 5, 6, 0, "t-6", {"leo": large, "lso": 5, "leader_epoch": -3}) == 0
        assert log.state(3)[:4] == (0, large, 0, 5) and log.state(3).leader_epoch == -3
    for name in FIXED:
        with pytest.raises(ValueError, match=f"^{name} is not loaded but told$"):
            log.publish(3, TOPIC_ID, 5, 6, 0, "t-6", {name: 1})
    for state in ({5: 1}, {"leo": "5"}, {"leo": 1 << 63}, {"size": 5}):
        with pytest.raises((TypeError, ValueError, OverflowError)):
            log.publish(3, TOPIC_ID, 5, 6, 0, "t-6", state)
    assert log.state(3).leo == large
    log.close()


#: What is not 0 in a partition that has never been written.
EMPTY = dict.fromkeys(FIELDS, 0) | {"segment_count": 1} | dict.fromkeys(
    ("max_timestamp", "max_timestamp_offset", "first_timestamp", "indexed_timestamp"), -1
)  # fmt: skip
#: Numbers of 4 bytes.
SHORT = {"index_bytes", "time_index_bytes", "bytes_since_index", "leader_epoch", "truncations", "segment_count",
         "open_transactions", "txn_index_bytes", "leader_since"}  # fmt: skip


@pytest.mark.parametrize("name", FIELDS)
def test_what_is_missing_means_empty(tmp_path, name):
    """One number is loaded alone: its neighbours stay what they are where nothing is."""
    log = opened(tmp_path)
    for times, number in enumerate((-2, 7, 1 << 30, *(() if name in SHORT else (1 << 40,))), 1):
        assert log.publish(3, TOPIC_ID, 5, 6, 0, "t-6", {name: number}) == 0
        told = log.state(3)
        found = {field: getattr(told, field) for field in FIELDS}
        counted = {"segment_id": times, "truncations": 2 * times}  # whatever is loaded
        assert found == EMPTY | {name: number} | counted
    log.close()


def test_every_part_of_a_role_has_its_place(replicated):
    log = replicated
    assert tuple(log.replica_state(0)) == (2, -1, 0, 0, 0, 0, 0, 0, 0, 0, (), (), (), ())
    become(log, 0, ReplicaRole.LEADER, 3)
    put(log, 0)
    become(log, 0, ReplicaRole.LEADER, 4, isr=(2, 1))
    put(log, 0)
    assert tuple(log.replica_state(0)) == (0, 1, 4, 3, 24, 2, 0, 4, 0, 2, (3, 1, 2), (1, 2), (1, 2), ())
    assert log.follower_fetched(0, 2, 77, 4, 1, 0, 0, 61) == (0, False, 0, 0, False), "nothing of epoch 0"
    assert log.follower_fetched(0, 3, 78, 4, 3, 3, 0, 62) == (0, False, 3, 2, False), "epoch 3 ended before"
    assert log.follower_fetched(0, 3, 78, 5, 3, 2, 0, 62) == (75, False, -1, -1, False)
    assert log.follower_fetched(0, 3, 78, 4, 1, 3, 0, 62) == (0, False, -1, -1, False)
    assert log.follower_fetched(0, 2, 77, 4, 3, 4, 0, 63, bytes(16)) == (0, False, -1, -1, False)
    fetched = ((3, 1, 0, 78), (2, 3, 50, 77))
    assert tuple(log.replica_state(0))[7:] == (4, 3, 2, (3, 1, 2), (1, 2), (1, 2), fetched)
    assert log.take_isr_proposals() == ([], False)
    assert log.follower_fetched(0, 3, 78, 4, 4, 4, 0, 64) == (0, False, -1, -1, True)
    fetched = ((3, 4, 64, 78), (2, 3, 50, 77))
    assert tuple(log.replica_state(0))[7:] == (4, 3, 2, (3, 1, 2), (1, 2), (3, 1, 2), fetched)


def test_what_is_proposed_and_what_is_answered(replicated):
    log = replicated
    become(log, 0, ReplicaRole.LEADER, 4, isr=(2, 1))
    put(log, 0)
    for broker, offset in ((2, 1), (3, 2)):
        log.follower_fetched(0, broker, 70 + broker, 4, offset, 4, 0, 64)
    grown = [(0, 4, 24, (3, 1, 2))]
    assert log.take_isr_proposals() == (grown, False)
    assert log.take_isr_proposals() == ([], False), "it was taken"
    assert log.take_isr_proposals(again=True) == (grown, False)
    assert log.isr_answered(0, 4, 25, [1, 2, 3], 0) == 0
    fetched = ((3, 2, 64, 73), (2, 1, 50, 72))
    now = (0, 1, 4, 4, 25, 0, 0, 2, 1, 2, (3, 1, 2), (3, 1, 2), (3, 1, 2), fetched)
    assert tuple(log.replica_state(0)) == now
    put(log, 0)
    assert log.take_isr_proposals(-1, 90_000) == log.take_isr_proposals(now_ms=90_000) == ([], False)
    assert log.take_isr_proposals(100, 164) == ([(0, 4, 25, (3, 1))], False), "one of them was there at 50"
    assert log.isr_answered(0, 4, 26, [1, 3], 0) == 0
    assert log.take_isr_proposals(100, 164) == ([], False)
    assert log.take_isr_proposals(100, 165) == ([(0, 4, 26, (1,))], False)
    assert log.stop(0) == 0
    stopped = (2, -1, 4, 4, 26, 0, 0, 4, 2, 2, (3, 1, 2), (), (), fetched)
    assert tuple(log.replica_state(0)) == stopped


def test_epochs_as_they_were_begun(replicated):
    log = replicated
    for epoch in (3, 4):
        become(log, 0, ReplicaRole.LEADER, epoch)
        put(log, 0)
    assert log.epochs(0) == (2, False, [(3, 0), (4, 2)])
    assert log.scan_epochs(0, 0) == (0, [(3, 0), (4, 2)])
    put(log, 0)
    assert log.scan_epochs(0, 4) == (0, [(4, 4)]) and log.scan_epochs(0, 6) == (0, [])
    assert log.load_epochs(0, [(1, 0), (4, 2), (9, 5)]) == 0
    assert log.epochs(0) == (3, False, [(1, 0), (4, 2), (9, 5)])
    state = log.replica_state(0)
    assert (state.role, state.leader) == (ReplicaRole.NONE, -1)
    for wrong in ([(1,)], [(1, "x")], [(4, 2), (1 << 40, 5)]):
        with pytest.raises((TypeError, OverflowError)):
            log.load_epochs(0, wrong)
    assert log.epochs(0) == (3, False, [(1, 0), (4, 2), (9, 5)])
    assert log.load_epochs(0, []) == 0 and log.epochs(0) == (0, False, [])


def test_who_is_followed(replicated):
    """The fetchers share the rows; a leader, nobody's follower, and one that is not online are left out."""
    log = replicated
    for row, leader in ((0, 2), (1, 3), (2, 2), (3, -1)):
        become(log, row, ReplicaRole.FOLLOWER, 5 + row, leader, isr=())
    become(log, 4, ReplicaRole.LEADER, 9)
    batches = encode_batch([(b"k", b"v", 70), (b"k", b"w", 71)])
    assert log.append_follower(1, 6, 0, batches, 1, 0, LogOptions(), 80, bytes([1]) * 16) == (0, 1, 2, 1, -1, 0)
    ids = [bytes([row]) * 16 for row in range(3)]
    rows = [(0, ids[0], 10, 2, 5, 0, -1, 0, 0), (1, ids[1], 11, 3, 6, 2, -1, 0, 1), (2, ids[2], 12, 2, 7, 0, -1, 0, 0)]
    assert log.followed(0, 1) == (0, rows)
    assert log.followed(0, 2) == (0, [rows[0], rows[2]]) and log.followed(1, 2) == (0, [rows[1]])
    assert log.followed(2, 3) == (0, [rows[2]]) and log.followed(5, 1) == log.followed(6, 1) == (0, [])
    for only in range(6):
        assert log.followed(0, 1, only) == (0, [row for row in rows if row[0] == only])
    assert log.set_flags(2, 0, ONLINE) == 0
    assert log.followed(0, 1) == (0, rows[:2])


def test_a_leader_that_nobody_names_is_none(replicated):
    assert replicated.become(0, ReplicaRole.FOLLOWER, 3, 3, [1, 2], [], 1, 1, 0) == 0
    assert replicated.replica_state(0).leader == -1 and replicated.followed(0, 1) == (0, [])


def test_a_role_without_replicas_is_refused_by_the_log(replicated):
    for replicas, isr in (([], []), ([1], [2]), ([2], [])):
        assert replicated.become(1, ReplicaRole.LEADER, 3, 3, replicas, isr, 1, 1, 0) == 42
    assert replicated.replica_state(1).leader_epoch == 0


def test_a_broker_that_is_alone(tmp_path):
    log = opened(tmp_path)
    assert log.create(0, TOPIC_ID, 0, 0, 0, "t-0", 7, 1) == 0
    put(log, 0)
    assert not log.is_replicated() and log.replica_state(0) is None
    assert log.followed(0, 1) == (0, []) and log.take_isr_proposals() == ([], False)
    assert log.epochs(0) == (0, False, []) and log.epochs_written(0, [(7, 0)]) is None
    assert log.scan_epochs(0, 0) == (0, [(7, 0)])
    assert log.load_ended(0, [(0, 9)]) == 0 and log.state(0).lso == 2
    log.close()


def producing(path):
    """Four producers: two without transactions, one whose transaction is over, one whose is open."""
    core = small_core().core
    core.transactions_ready = 1
    log = Log(core, [str(path)], 118)
    assert log.create(0, TOPIC_ID, 0, 0, 0, "t-0", 7, 1) == 0
    put(log, 0, producer_id=90, producer_epoch=3, base_sequence=5)
    for sequence in (1, 3):
        put(log, 0, producer_id=91, producer_epoch=4, base_sequence=sequence)
    for producer, epoch in ((92, 2), (93, 6)):
        assert log.verify(0, producer, epoch, TOPIC_ID) == 0
        put(log, 0, producer_id=producer, producer_epoch=epoch, base_sequence=0, transactional=True)
    return log


def test_a_word_of_the_coordinator_is_taken_with_its_guard_only(tmp_path):
    log = producing(tmp_path)
    assert log.verify(0, 95, 6, topic_id=bytes(16)) == 3
    assert log.guard(0, 95, 6, -5, TOPIC_ID) == log.guard(0, 95, 6, -7, None) == (0, -5)
    assert log.guard(0, 95, 6, -5, bytes(16))[0] == 3
    assert [log.verify(0, 95, 6, TOPIC_ID, guard) for guard in (-7, -5)] == [48, 0]
    assert log.guard(0, 95, 6, -5, TOPIC_ID) == (0, 6), "it is verified"
    log.close()


def test_rows_of_producers(tmp_path):
    log = producing(tmp_path)
    ended = log.append_marker(0, 92, 2, 44, True, LogOptions(), 85)
    assert told(ended) == {
        "error": 0, "duplicate": False, "replayed": False, "flush_due": False, "busy": False, "base_offset": 10,
        "end_offset": 11, "append_time_ms": -1, "log_start": 0, "leader_epoch": 7, "unverified": False, "waits": False,
    }  # fmt: skip
    once = [(92, 2, 0, 1, 6, 1, 71), (93, 6, 0, 1, 8, 1, 71)]
    often = [(90, 3, 5, 6, 0, 1, 71), (91, 4, 1, 2, 2, 1, 71), (91, 4, 3, 4, 4, 1, 71)]
    assert log.producers(0) == (11, often + once)
    entries = [(90, 3, 6, 1, 1, 71, -1, -1), (91, 4, 4, 5, 1, 71, -1, -1)]
    entries += [(92, 2, 1, 7, 1, 85, 44, -1), (93, 6, 1, 9, 1, 71, -1, 8)]
    assert log.producer_entries(0) == (11, entries)
    assert log.open_transactions(0) == (8, [(93, 6, -1, 8, 80, 71)])
    assert log.producer_times() == (64, [80, 85], [80, 80]), "an open transaction is no single batch"
    assert log.expire_producers(0, 80, 80) == 0
    assert log.expire_producers(0, 81, 80) == 1 and log.producers(0) == (11, often[:1] + once)
    assert log.expire_producers(0, 80, 81) == 1 and log.producers(0) == (11, once)
    assert log.expire_producers(0, 1 << 40, 1 << 40) == 1 and log.producers(0) == (11, once[1:])
    log.close()


def test_transactions_that_are_loaded(tmp_path):
    log = producing(tmp_path)
    assert log.load_transactions(0, [(95, 3, 45, 2, 86), (96, -1, -1, -1, 87), (97, 4, 46, -9, 88)]) == 0
    assert log.open_transactions(0)[1][1:] == [(93, 6, -1, 8, 80, 71), (95, 3, 45, 2, 86, 86)]
    loaded = [(95, 3, -1, -1, 0, 86, 45, 2), (97, 4, -1, -1, 0, 88, 46, -1)]
    assert log.producer_entries(0)[1][4:] == loaded, "of 96 nothing is known"
    for wrong in ([(1,)], [(1 << 70, 1, 1, 1, 1)], [(99, 1 << 20, 1, 1, 1)]):
        with pytest.raises((TypeError, OverflowError)):
            log.load_transactions(0, wrong)
    log.close()


def test_every_part_of_a_plan_has_its_place(tmp_path):
    log = producing(tmp_path)
    for row in (1, 2):
        assert log.create(row, TOPIC_ID, 0, row, 0, f"t-{row}", 8, 1) == 0
    assert log.append_marker(0, 92, 2, 44, False, LogOptions(), 85).error == 0
    assert log.roll(0, 90) == 0
    put(log, 0)
    put(log, 0)
    assert log.set_log_start(0, 3) == 0
    error, plan = log.find(0, 12, READ_TO_END, 500)
    assert error == 0 and told(plan) == {
        "ordinal": 0, "base": 11, "segment_id": 8, "position": 0, "length": 158, "first_batch_bytes": 79,
        "first_offset": 11, "log_start": 3, "high_watermark": 15, "last_stable": 8, "end_offset": 15,
        "leader_epoch": 7, "truncations": 2, "aborted_end": 11,
    }  # fmt: skip
    error, plan = log.find(0, 4, READ_TO_END, 100)
    assert (error, plan.base, plan.position, plan.length, plan.first_offset) == (0, 0, 158, 100, 4)
    assert log.aborted(log.find(0, 3, READ_TO_END, 5000)[1], 3) == (0, [(92, 6)])
    assert log.largest_time(0) == (0, 85) and log.segments(0) == [0, 11]
    log.close()


@pytest.mark.parametrize("number", [63, 64, 65, 200])
def test_however_many_were_aborted_all_are_told(tmp_path, number):
    """The first look has room for 64."""
    log = producing(tmp_path)
    for producer, epoch in ((92, 2), (93, 6)):
        assert log.append_marker(0, producer, epoch, 44, True, LogOptions(), 85).error == 0
    begin = log.state(0).leo
    for sequence in range(0, 2 * number, 2):
        assert log.verify(0, 95, 1) == 0
        put(log, 0, producer_id=95, producer_epoch=1, base_sequence=sequence, transactional=True)
        assert log.append_marker(0, 95, 1, 44, False, LogOptions(), 85).error == 0
    plan = log.find(0, 0, READ_TO_END, 1 << 20)[1]
    assert log.aborted(plan, 0) == (0, [(95, begin + 3 * which) for which in range(number)])
    log.close()


@pytest.mark.parametrize("number", [255, 256, 257, 600])
def test_however_many_rows_are_unflushed_all_are_told(tmp_path, number):
    """One look finds 256."""
    log = opened(tmp_path, partitions=700)
    for row in range(700):
        state = {"leo": 9, "hw": 9, "log_start": 9 if row >= number else 3, "active_base": 3 if row % 2 else 5}
        assert log.publish(row, TOPIC_ID, 0, row, 0, f"t-{row}", state) == 0
    assert log.unflushed(False) == list(range(number))
    assert log.unflushed(True) == [row for row in range(number) if row % 2 == 0], "below the active segment"
    log.close()
