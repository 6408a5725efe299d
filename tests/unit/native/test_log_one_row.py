"""A log whose table has one row: what is asked of all rows asks for none behind it, and a closed log says nothing."""

import os
import struct

import pytest

from mpbroker import _native
from mpbroker.record.batch_builder import encode_batch
from mpbroker.shm.layout import ReplicaRole
from tests.harness.small_core import small_core

TOPIC_ID = bytes(range(16))
#: What a call about no row in particular takes, and what it says of a broker that leads row 0 alone.
WHOLE = {
    "producer_times": ((), (64, [], [])),
    "unflushed": ((False,), []),
    "starts_asked": ((), []),
    "moves": ((), []),
    "take_isr_proposals": ((), ([], False)),
    "followed": ((0, 1), (0, [])),
    "sweep_producers": ((), 0),
    "close_stale": ((), 0),
    "log_dir_online": ((0,), True),
    "takes_appends": ((0,), True),
    "refuse_appends": ((0, False), None),
    "repair_slot": ((117,), 0),
}


@pytest.fixture
def log(tmp_path):
    made = _native.Log(small_core(replicated=True, partitions=1).core, [str(tmp_path)], 118)
    assert made.create(0, TOPIC_ID, 0, 0, 0, "t-0", 0, 1) == 0
    assert made.become(0, ReplicaRole.LEADER, 1, 1, [0], [0], 0, 1, 0, leader=0) == 0
    yield made
    made.close()


@pytest.mark.parametrize("name", WHOLE)
def test_what_all_rows_say(log, name):
    arguments, told = WHOLE[name]
    assert getattr(log, name)(*arguments) == told
    with pytest.raises(ValueError, match="no partition row 1"):
        log.state(1)


@pytest.mark.parametrize("name", [*WHOLE, "fail_log_dir"])
def test_a_closed_log_says_nothing(log, name):
    log.close()
    with pytest.raises(ValueError, match="^the log is closed$"):
        getattr(log, name)(*WHOLE.get(name, ((0,), None))[0])


def test_who_wants_an_open_log(log):
    """It is one as long as it has a row."""
    bell = os.eventfd(0)
    _native.SteadyFetches(log, bell)
    log.close()
    with pytest.raises(ValueError, match="^the log is closed$"):
        _native.SteadyFetches(log, bell)
    os.close(bell)


def test_the_only_row_may_follow(log):
    assert log.become(0, ReplicaRole.FOLLOWER, 2, 2, [0, 1], [1], 0, 1, 0, leader=1) == 0
    row = (0, TOPIC_ID, 0, 1, 2, 0, 1, 0, 0)
    assert log.followed(0, 1) == log.followed(0, 1, 0) == log.followed(0, 1, -1) == (0, [row])
    assert log.followed(0, 1, 1) == log.followed(1, 1) == (0, [])


def test_who_falls_behind_at_time_0(log):
    """A time that nobody told is none that has passed."""
    assert log.become(0, ReplicaRole.LEADER, 2, 2, [0, 1], [0, 1], 0, 1, 0, leader=0) == 0
    batch = encode_batch([(b"k", b"v", 1)])
    assert log.append(0, _native.NO_REQUEST, 0, batch, _native.LogOptions(), 1).error == 0
    for arguments in ((), (0,), (0, 0), (5, 5), (-1, 99)):
        assert log.take_isr_proposals(*arguments) == ([], False), arguments
    assert log.take_isr_proposals(0, 1) == ([(0, 2, 2, (0,))], False)


def test_one_look_finds_65536_epochs(log, tmp_path):
    """Each with a batch of its own, as a file has them that was never truncated."""
    most, count = 65536, 65537
    header = struct.Struct(">qiiBIhiqqqhii")
    batches = [header.pack(at, 49, at, 2, 0, 0, 0, 1, 1, -1, -1, -1, 0) for at in range(count)]
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(b"".join(batches))
    state = {"leo": count, "hw": count, "position": count * header.size, "log_bytes": count * header.size}
    assert log.publish(0, TOPIC_ID, 0, 0, 0, "t-0", state) == 0
    error, found = log.scan_epochs(0, 0)
    assert error == 0 and len(found) == most
    assert found[0] == (0, 0) and found[-1] == (most - 1, most - 1)
    assert log.scan_epochs(0, most - 1) == (0, [(most - 1, most - 1), (most, most)])
