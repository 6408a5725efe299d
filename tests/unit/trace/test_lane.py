"""Lanes as named shared memory (their accounting under kills: native/tests/trace/test_trace_lane.c)."""

import errno
import os

import posix_ipc
import pytest

from mpbroker.trace import lane, record
from mpbroker.trace.record import TraceRecord


@pytest.fixture
def name():
    name = f"/mpbroker-test-{os.getpid()}-lane"
    yield name
    lane.unlink(name)
    assert not os.path.exists("/dev/shm" + name)


def test_records_pass_and_are_accounted_for(name):
    writer = lane.create(name, processor=3, boot_id=99, capacity_records=4)
    reader = lane.attach(name)
    assert (reader.processor, reader.boot_id) == (3, 99)
    for number in range(6):
        writer.native.put(TraceRecord(t0_ns=5, corr_id=number).pack())
    assert reader.counters() == lane.LaneCounters(finished=6, written=4, dropped=2, sampled_out=0, drained=0)
    seen = reader.peek(3)
    assert [record.unpack(seen, at).corr_id for at in range(0, len(seen), 128)] == [0, 1, 2]
    assert reader.counters().drained == 0
    reader.release(seen)
    assert [record.unpack(reader.drain(9)).seq_lo, reader.drain(9), reader.counters().drained] == [3, b"", 4]


def test_a_name_in_use_is_refused(name):
    lane.create(name, 0, 1, capacity_records=4)
    with pytest.raises(lane.LaneError, match="exists already"):
        lane.create(name, 0, 1, capacity_records=4)


def test_a_missing_or_foreign_lane_is_refused(name):
    with pytest.raises(lane.LaneError, match="no trace lane"):
        lane.attach(name)
    with open("/dev/shm" + name, "wb") as file:
        file.write(bytes(10000))
    with pytest.raises(lane.LaneError, match="no lane"):
        lane.attach(name)


def test_too_small_a_dev_shm_is_one_sentence_and_leaves_nothing(name, monkeypatch):
    def full(*_arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(lane.LaneError, match="/dev/shm is too small: a trace lane needs 4608 bytes") as caught:
        lane.create(name, 0, 1, capacity_records=4)
    assert caught.value.exit_code == 2
    assert not os.path.exists("/dev/shm" + name)


def test_another_failure_of_dev_shm_is_told_as_it_is_and_leaves_nothing(name, monkeypatch):
    closed = []
    close = posix_ipc.SharedMemory.close_fd

    def broken(*_arguments):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    class Counted(posix_ipc.SharedMemory):
        def close_fd(self):
            closed.append(self.fd)
            close(self)

    monkeypatch.setattr(lane.posix_ipc, "SharedMemory", Counted)
    monkeypatch.setattr(os, "posix_fallocate", broken)
    with pytest.raises(OSError, match="Input/output error") as caught:
        lane.create(name, 0, 1, capacity_records=4)
    assert caught.value.errno == errno.EIO and len(closed) == 1
    assert not os.path.exists("/dev/shm" + name)


def test_a_lane_is_its_brokers_users_alone(name):
    lane.create(name, 0, 1, capacity_records=4)
    assert os.stat("/dev/shm" + name).st_mode & 0o777 == 0o600
    assert os.stat("/dev/shm" + name).st_size == lane.lane_bytes(4) == 4608
    assert lane.attach(name).name == name


def test_a_successor_tracer_seeks_forward_only(name):
    both = lane.create(name, 0, 1, capacity_records=8)
    for number in range(5):
        both.native.put(TraceRecord(t0_ns=5, corr_id=number).pack())
    both.drain(2)
    assert not both.native.seek(1) and not both.native.seek(6)
    assert both.native.seek(4)
    assert record.unpack(both.drain(9)).corr_id == 4


def test_sampling_is_set_within_bounds(name):
    native = lane.create(name, 0, 1, capacity_records=4).native
    assert (native.sample_shift, native.slow_ns, native.bell_fd) == (0, -1, -1)
    native.bell_fd = 7
    assert native.bell_fd == 7
    for none in (-1, -5, 1 << 40):
        native.bell_fd = none
        assert native.bell_fd == -1
    native.sample_shift, native.slow_ns = 15, 1_000_000
    assert (native.sample_shift, native.slow_ns) == (15, 1_000_000)
    native.slow_ns = 10**15  # longer than a record can say: what is saturated
    assert native.slow_ns == record.SATURATED << record.TICK_SHIFT
    native.slow_ns = -1
    assert native.slow_ns == -1
    for wrong in (-1, 16):
        with pytest.raises(ValueError):
            native.sample_shift = wrong


def test_a_lane_that_is_just_being_made_is_none(name):
    segment = posix_ipc.SharedMemory(name, posix_ipc.O_CREX, mode=0o600)
    try:
        with pytest.raises(lane.LaneError, match="not made yet"):
            lane.attach(name)
        os.posix_fallocate(segment.fd, 0, lane.lane_bytes(4))
        with pytest.raises(lane.LaneError):
            lane.attach(name)
    finally:
        segment.close_fd()


def test_what_cannot_be_made_ends_a_start_with_the_code_of_what_can_be_corrected():
    assert lane.LaneError.exit_code == 2
