"""What a log's calls answer for a row whose lock another holds, and for one that was never used: each says so, changes
nothing, and answers when the lock is free."""

import pytest

from mpbroker import _native
from mpbroker.errors import ErrorCode
from mpbroker.shm.counters import Counter
from mpbroker.shm.layout import ReplicaRole
from tests.harness.small_core import small_core
from tests.unit.native.test_log_arguments import CALLS
from tests.unit.native.test_rows_that_are_none import LOADED

TOPIC_ID = bytes(range(16))
LEADING, FOLLOWING, NEVER_USED = 0, 1, 9
ONLINE = 2
BUSY, UNKNOWN = ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
#: Calls that need the lock and answer with a code, alone or first.
CODED = [
    "set_flags", "set_high_watermark", "set_log_start", "become", "stop", "load_epochs", "truncate_follower",
    "start_at", "isr_answered", "roll", "truncate", "ask_move", "give_up_move", "end_move", "swap", "start_written",
    "set_flushed", "verify", "load_ended", "follower_fetched", "append_follower", "retain", "delete_records", "guard",
]  # fmt: skip
#: What stands behind the code of those that answer more.
BEHIND = {
    "follower_fetched": (False, -1, -1, False),
    "append_follower": (0, -1, -1),
    "retain": ([],),
    "delete_records": (-1,),
}
#: Those that tell by an exception, because what they give has no place for a code.
RAISING = {
    "replica_state": TimeoutError, "epochs": TimeoutError, "producers": RuntimeError,
    "open_transactions": RuntimeError, "producer_entries": RuntimeError,
}  # fmt: skip


class World:
    """A broker of a cluster that leads row 0 and follows with row 1."""

    def __init__(self, path):
        self.small = small_core(replicated=True)
        self.small.core.transactions_ready = 1
        self.log = _native.Log(self.small.core, [str(path)], 118)
        for row, role in ((LEADING, ReplicaRole.LEADER), (FOLLOWING, ReplicaRole.FOLLOWER)):
            assert self.log.create(row, TOPIC_ID, 0, row, 0, f"t-{row}", 0, 1) == 0
            assert self.log.become(row, role, 5, 5, [1, 2], [1], 1, 1, 0, leader=1 + row) == 0

    def rows(self):
        return [(*self.log.state(row), *self.log.replica_state(row)) for row in (LEADING, FOLLOWING)]


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    yield made
    made.log.close()


def row_of(name):
    return FOLLOWING if name in ("append_follower", "truncate_follower", "start_at") else LEADING


@pytest.mark.parametrize("name", CODED)
def test_a_code_says_that_the_lock_is_held(world, name):
    call, row, before = getattr(world.log, name), row_of(name), world.rows()
    with world.small.held(row):
        busy = call(row, *CALLS[name])
    assert world.rows() == before
    unknown, answered = call(NEVER_USED, *CALLS[name]), call(row, *CALLS[name])
    for found, code in ((busy, BUSY), (unknown, UNKNOWN)):
        told, *behind = found if isinstance(found, tuple) else (found,)
        assert told == code
        if name in BEHIND:
            assert tuple(behind[: len(BEHIND[name])]) == BEHIND[name]
    assert (answered[0] if isinstance(answered, tuple) else answered) in (0, None)


@pytest.mark.parametrize("name", RAISING)
def test_an_exception_says_that_the_lock_is_held(world, name):
    """One that will be free is a TimeoutError where it is tried again."""
    call = getattr(world.log, name)
    before = call(LEADING)
    with world.small.held(LEADING), pytest.raises(RAISING[name], match="^partition row 0 cannot be locked: error 7$"):
        call(LEADING)
    assert call(LEADING) == before
    with pytest.raises(RuntimeError, match="^partition row 9 cannot be locked: error 3$"):
        call(NEVER_USED)


@pytest.mark.parametrize("name", ["append", "refuse", "append_marker"])
def test_a_result_says_that_the_lock_is_held(world, name):
    """It is busy, which is no error to be told a client."""
    call = getattr(world.log, name)
    with world.small.held(LEADING):
        busy = call(LEADING, *CALLS[name])
    assert (busy.error, busy.busy, busy.base_offset) == (BUSY, True, -1)
    unknown, answered = call(NEVER_USED, *CALLS[name]), call(LEADING, *CALLS[name])
    assert (unknown.error, unknown.busy, unknown.base_offset) == (UNKNOWN, False, -1)
    assert (answered.error, answered.busy) == (1 if name == "refuse" else 0, False)


@pytest.mark.parametrize("name", ["publish", "create"])
def test_a_row_that_is_made_anew_is_locked(world, name):
    """One that was never used gets its lock."""
    call = getattr(world.log, name)
    with world.small.held(LEADING):
        assert call(LEADING, *CALLS[name]) == BUSY
    assert call(NEVER_USED, *CALLS[name]) == 0 == call(LEADING, *CALLS[name])


@pytest.mark.parametrize("name", LOADED)
def test_what_is_loaded_waits_for_the_lock(world, name):
    call = getattr(world.log, name)
    with world.small.held(LEADING):
        assert call(LEADING, LOADED[name]) == BUSY
    assert world.log.producer_entries(LEADING)[1] == [] and world.log.epochs(LEADING)[2] == [(5, 0)]
    assert call(NEVER_USED, LOADED[name]) == UNKNOWN and call(LEADING, LOADED[name]) == 0


def test_nobody_is_forgotten_without_the_lock(world):
    assert world.log.load_producers(LEADING, [(7, 5, 0, 1, 0, 1, 71)]) == 0
    with world.small.held(LEADING):
        assert world.log.expire_producers(LEADING, 1 << 40, 1 << 40) == 0
    assert world.log.expire_producers(NEVER_USED, 1 << 40, 1 << 40) == 0
    assert len(world.log.producers(LEADING)[1]) == 1
    assert world.log.expire_producers(LEADING, 1 << 40, 1 << 40) == 1


def test_who_is_followed_is_counted_when_it_is_busy(world):
    """The leader's row is none of them, held or not."""
    assert [row[0] for row in world.log.followed(0, 1)[1]] == [FOLLOWING]
    with world.small.held(FOLLOWING):
        assert world.log.followed(0, 1) == (1, []) == world.log.followed(1, 2)
        assert world.log.followed(0, 2) == (0, [])
    with world.small.held(LEADING):
        busy, rows = world.log.followed(0, 1)
        assert busy == 0 and [row[0] for row in rows] == [FOLLOWING]


def test_a_row_that_is_offline_is_not_waited_for(world):
    """It is followed no more, whoever holds its lock."""
    assert world.log.set_flags(FOLLOWING, 0, ONLINE) == 0
    with world.small.held(FOLLOWING):
        assert world.log.followed(0, 1) == (0, [])
    assert world.log.set_flags(FOLLOWING, ONLINE, 0) == 0
    assert len(world.log.followed(0, 1)[1]) == len(world.log.followed(5, 1, FOLLOWING)[1]) == 1


def test_a_proposal_behind_a_lock_is_taken_later(world):
    """A row without a proposal is not waited for, nor one whose leader is alone."""
    with world.small.held(FOLLOWING):
        assert world.log.take_isr_proposals() == ([], False) == world.log.take_isr_proposals(1, 1)
    assert world.log.follower_fetched(LEADING, 2, 9, 5, 0, 5, 0, 3)[4]
    with world.small.held(LEADING):
        assert world.log.take_isr_proposals() == ([], True)
    assert world.log.take_isr_proposals() == ([(LEADING, 5, 5, (1, 2))], False)


def test_who_has_nobody_to_leave_out_is_not_waited_for(world):
    """A leader that is alone, one that is offline, a follower: each is left alone without its lock."""

    def waited(row):
        counter = _native.ProcessRow(world.small.core, 118).counter(Counter.LOG_LOCKS_BUSY)
        with world.small.held(row):
            assert world.log.take_isr_proposals(0, 99)[0] == []
        return _native.ProcessRow(world.small.core, 118).counter(Counter.LOG_LOCKS_BUSY) - counter

    assert (waited(LEADING), waited(FOLLOWING)) == (0, 0)
    assert world.log.become(LEADING, ReplicaRole.LEADER, 6, 6, [1, 2], [1, 2], 1, 1, 0, leader=1) == 0
    assert waited(LEADING) == 1
    assert world.log.set_flags(LEADING, 0, ONLINE) == 0
    assert waited(LEADING) == 0


def test_a_row_is_busy_when_somebody_waited_in_vain(world):
    assert not world.log.is_busy(LEADING)
    with world.small.held(LEADING):
        assert not world.log.is_busy(LEADING)
        world.log.stop(LEADING)
        assert world.log.is_busy(LEADING) and not world.log.is_busy(FOLLOWING)
    assert not world.log.is_busy(LEADING) and not world.log.is_busy(NEVER_USED)


def test_what_is_read_without_the_lock(world):
    before = (world.log.state(LEADING), world.log.segments(LEADING), world.log.largest_time(LEADING))
    with world.small.held(LEADING):
        assert (world.log.state(LEADING), world.log.segments(LEADING), world.log.largest_time(LEADING)) == before
        assert world.log.find(LEADING, 0, _native.READ_TO_END, 100)[0] == world.log.find_time(LEADING, 5)[0] == 0
        assert world.log.scan_epochs(LEADING, 0) == (0, []) and world.log.move_of(LEADING) is None
    assert world.log.scan_epochs(NEVER_USED, 0) == (ErrorCode.KAFKA_STORAGE_ERROR, [])
    assert world.log.segments(NEVER_USED) == [] and world.log.largest_time(NEVER_USED)[0] == UNKNOWN
    for call in (world.log.find(NEVER_USED, 0, 1, 1), world.log.find_time(NEVER_USED, 1), world.log.flush(NEVER_USED)):
        assert call[0] == UNKNOWN
