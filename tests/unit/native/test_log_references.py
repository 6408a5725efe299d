"""What the log's methods return and refuse leaves nothing behind: neither an object, nor a buffer that cannot grow."""

import sys
from contextlib import suppress

import pytest

from mpbroker import _native
from mpbroker._native import NO_REQUEST, LogOptions
from mpbroker.record.batch_builder import encode_batch
from mpbroker.shm.layout import ReplicaRole
from tests.harness.kept_blocks import ROUNDS, kept
from tests.unit.log.test_followers_transactions import LEADER, Replica
from tests.unit.native.test_log import NOW_MS

LATE_MS = 1 << 45  # no whole number that Python keeps anyway
OPTIONS = LogOptions(segment_bytes=400, index_interval_bytes=100)


@pytest.fixture
def leader(tmp_path) -> Replica:
    """Several segments, a finished and an open transaction, two epochs, a follower that fetched."""
    one = Replica(tmp_path / "one", ReplicaRole.LEADER, (LEADER, 1))
    for number in range(8):
        plain = encode_batch([(b"k", bytes(60), LATE_MS + number)])
        assert one.log.append(0, NO_REQUEST, 0, plain, OPTIONS, LATE_MS).error == 0
    for producer in (1 << 40, (1 << 40) + 1):
        fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
        assert one.log.verify(0, producer, 0) == 0
        assert one.log.append(0, NO_REQUEST, 0, encode_batch([(b"k", b"v", 5)], **fields), OPTIONS, LATE_MS).error == 0
    assert one.log.append_marker(0, 1 << 40, 0, 7, False, OPTIONS, LATE_MS).error == 0
    assert one.log.become(0, ReplicaRole.LEADER, 2, 2, [0, 1], (0, 1), 0, 1, LATE_MS, leader=0) == 0
    assert one.log.follower_fetched(0, 1, 1 << 40, 2, 11, -1, 0, LATE_MS)[0] == 0
    return one


def test_what_is_looked_up(leader):
    log = leader.log

    def work():
        assert log.state(0).leo == 11 and log.replica_state(0).followers
        assert log.epochs(0)[2] and log.scan_epochs(0, 0)[1] and log.segments(0)
        error, plan = log.find(0, 0, _native.READ_TO_END, 1 << 20)
        assert error == 0 and log.read_into(plan, bytearray(plan.length))[0] == 0
        assert log.aborted(plan, 0)[1] and log.find_time(0, LATE_MS)[0] == 0
        assert log.largest_time(0) == (0, LATE_MS + 7)
        assert log.producers(0)[1] and log.open_transactions(0)[1] and log.producer_entries(0)[1]
        assert log.producer_times()[1] and log.unflushed(False) == [0]
        assert log.followed(0, 1) == (0, []) and log.take_isr_proposals()[1] is False
        assert log.starts_asked() == log.moves() == [] and log.move_of(0) is None
        assert log.follower_fetched(0, 1, 1 << 40, 2, 11, -1, 0, LATE_MS)[0] == 0
        assert log.retain(0, -1, -1, LATE_MS) == (0, []) and log.delete_records(0, 0, None)[0] == 0

    assert kept(work) < ROUNDS // 2


def test_what_is_proposed_and_followed(tmp_path):
    leads = Replica(tmp_path / "leads", ReplicaRole.LEADER)
    follows = Replica(tmp_path / "follows")

    def work():
        leads.log.follower_fetched(0, 1, 1 << 40, 1, 0, -1, 0, LATE_MS)
        assert leads.log.take_isr_proposals(again=True)[0] == [(0, 1, 1, (0, 1))]
        assert follows.log.followed(0, 1)[1]

    assert kept(work) < ROUNDS // 2


def test_what_is_refused(leader):
    log = leader.log
    calls = [
        (log.append, (4_000_000_000, NO_REQUEST, 0, b"x" * 100, OPTIONS, NOW_MS)),
        (log.append, (0, NO_REQUEST, 0, b"x" * 100, None, NOW_MS)),
        (log.append_follower, (4_000_000_000, 1, 0, b"x" * 100, 0, 0, OPTIONS, NOW_MS)),
        (log.append_follower, (0, 1, 0, b"x" * 100, 0, 0, OPTIONS, NOW_MS, b"short")),
        (log.become, (0, ReplicaRole.LEADER, 3, 3, [0, "one"], (0,), 0, 1, NOW_MS)),
        (log.become, (0, ReplicaRole.LEADER, 3, 3, [0, 1], (0, 1 << 70), 0, 1, NOW_MS)),
        (log.isr_answered, (0, 1, 1, [0, "one"], 0)),
        (log.load_epochs, (0, [(1, 2), ("x", 1)])),
        (log.epochs_written, (0, [(1, 2), (2, "x")])),
        (log.load_producers, (0, [(1,)])),
        (log.load_ended, (0, [(1, "x")])),
        (log.load_transactions, (0, [(1, 2)])),
        (log.retain, (0, -1, -1, NOW_MS, b"short")),
    ]

    def work():
        for method, arguments in calls:
            with pytest.raises((TypeError, ValueError, OverflowError)):
                method(*arguments)

    assert kept(work) < ROUNDS // 2


def test_a_buffer_may_grow_again(leader, tmp_path):
    """Whatever became of it: taken, refused by the log, or refused with its arguments."""
    records = bytearray(encode_batch([(b"k", b"v", 5)]))
    follower = Replica(tmp_path / "follower")
    log = leader.log
    target = bytearray(4096)
    _, plan = log.find(0, 0, _native.READ_TO_END, 1 << 20)
    for work in (
        lambda: log.append(0, NO_REQUEST, 0, records, OPTIONS, NOW_MS),
        lambda: log.append(0, NO_REQUEST, 0, records, OPTIONS, NOW_MS, leader_epoch=9),
        lambda: log.append(4_000_000_000, NO_REQUEST, 0, records, OPTIONS, NOW_MS),
        lambda: log.append(0, NO_REQUEST, 0, records, OPTIONS, NOW_MS, topic_id=b"short"),
        lambda: log.append(0, NO_REQUEST, 0, records, OPTIONS, NOW_MS, max_timestamp="x"),
        lambda: follower.log.append_follower(0, 9, 0, records, 0, 0, OPTIONS, NOW_MS),
        lambda: follower.log.append_follower(0, 9, 0, records, 0, 0, OPTIONS, NOW_MS, b"short"),
        lambda: follower.log.append_follower(0, 1, 0, records, 0, 0, OPTIONS, NOW_MS),
        lambda: log.read_into(plan, target),
        lambda: log.read_into(None, target),
    ):
        with suppress(TypeError, ValueError):
            work()
        for buffer in (records, target):
            buffer.append(0)
            del buffer[-1:]


def test_the_type_of_an_answer_is_let_go_of_with_it(leader):
    log, batch = leader.log, encode_batch([(b"k", b"v", 5)])
    calls = (
        lambda: log.find(0, 0, _native.READ_TO_END, 1 << 20)[1],
        lambda: log.find_time(0, LATE_MS)[1],
        lambda: log.append(0, NO_REQUEST, 0, batch, OPTIONS, LATE_MS),
        lambda: log.refuse(0, NO_REQUEST, 0, 1, None),
        lambda: log.not_synced(0, NO_REQUEST, 0, 1),
        lambda: log.append_marker(0, (1 << 40) + 1, 0, 7, True, OPTIONS, LATE_MS),
        lambda: log.state(0),
        lambda: log.replica_state(0),
    )
    for call in calls:
        kind = type(call())
        before = sys.getrefcount(kind)
        for _ in range(ROUNDS):
            call()
        assert sys.getrefcount(kind) - before < ROUNDS // 2, kind
