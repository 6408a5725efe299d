"""Log starts that DeleteRecords moved: synced, written down, told, in this order; nothing goes back over a crash."""

import os
from types import SimpleNamespace

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.log import checkpoint_writer
from mpbroker.log.checkpoint_file import LOG_START, read_checkpoint
from mpbroker.log.log_keeper import LogKeeper
from mpbroker.log.record_deletion import RecordDeletion
from mpbroker.shm.clock import ManualClock
from tests.unit.log.log_world import Instead


def move(world, partition, offset):
    return world.log.delete_records(partition.ordinal, offset, partition.topic_id)


def written(world):
    return read_checkpoint(str(world.path / LOG_START))


def test_it_is_synced_then_written_down_then_told(world, monkeypatch):
    partition = world.create()
    keeper = LogKeeper(world.keeper(first_delay_ms=60_000))
    keeper.do_work()
    world.fill(partition, 10)
    assert move(world, partition, 6) == (0, 6)
    seen = []
    write = checkpoint_writer.write_checkpoint

    def watched(path, offsets):
        seen.append(
            (os.path.basename(path), world.state(partition).flushed_offset, world.state(partition).start_written)
        )
        write(path, offsets)

    monkeypatch.setattr(checkpoint_writer, "write_checkpoint", watched)
    world.moved.clear()
    for _ in range(3):
        keeper.do_work()
    assert seen == [(LOG_START, 10, 0)]
    assert written(world) == {("t", 0): 6} and world.state(partition).start_written == 6
    assert world.log.starts_asked() == []


@pytest.mark.parametrize("synced", [0, 10])
def test_after_a_crash_the_log_begins_where_somebody_was_told(world, synced):
    partition = world.create()
    world.fill(partition, 10)
    if synced:
        world.log.flush(partition.ordinal)
    keeper = LogKeeper(world.keeper(first_delay_ms=60_000))
    keeper.do_work()
    move(world, partition, 4)
    for _ in range(3):
        keeper.do_work()
    assert world.state(partition).start_written == 4
    world.reboot()
    assert world.state(partition).log_start == 4
    assert world.state(partition).start_written == 0, "what a start only found in the files is not written down"


def test_a_successor_writes_down_what_its_predecessor_did_not(world):
    partition = world.create()
    world.fill(partition, 10)
    LogKeeper(world.keeper(first_delay_ms=60_000))
    move(world, partition, 4)
    successor = LogKeeper(world.keeper(first_delay_ms=60_000))
    for _ in range(2):
        successor.do_work()
    assert written(world) == {("t", 0): 4} and world.state(partition).start_written == 4


def test_a_checkpoint_that_cannot_be_written_is_told_to_nobody_and_tried_again(world, monkeypatch):
    partition = world.create()
    world.fill(partition, 10)
    world.log.flush(partition.ordinal)
    keeper = LogKeeper(world.keeper(first_delay_ms=60_000))
    keeper.do_work()
    move(world, partition, 4)
    failing = [OSError(28, "full")] * 2

    def fail(path, offsets):
        raise failing.pop()

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint_writer, "write_checkpoint", fail)
        for _ in range(5):
            keeper.do_work()
    assert len(failing) == 1, "not at every turn"
    assert world.state(partition).start_written == 0
    world.clock.advance(1000)
    keeper.do_work()
    assert world.state(partition).start_written == 4


def test_the_start_moves_to_the_middle_of_a_segment_and_retention_gives_back_what_is_below(world):
    partition = world.create(retention_ms="-1")
    for end in (3, 6, 9):
        world.fill(partition, end)
        world.roll(partition)
    world.fill(partition, 12)
    keeper = LogKeeper(world.keeper(first_delay_ms=60_000))
    assert move(world, partition, 7) == (0, 7)
    keeper.do_work()
    keeper.retention.retain(partition)
    assert world.log.segments(partition.ordinal) == [6, 9]
    state = world.state(partition)
    assert (state.log_start, state.segment_count) == (7, 2)
    assert len(world.records(partition)) > 0
    assert move(world, partition, -1) == (0, 12)
    assert world.state(partition).lso == 12


def test_what_it_refuses(world):
    partition = world.create()
    world.fill(partition, 5)
    other = (9).to_bytes(16, "big")
    assert move(world, partition, 6)[0] == move(world, partition, -2)[0] == ErrorCode.OFFSET_OUT_OF_RANGE
    assert world.log.delete_records(partition.ordinal, 1, other)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.log.start_written(partition.ordinal, 1, other) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.log.starts_asked() == []


def test_who_cannot_be_told_now_is_told_a_second_later(world):
    """A log start that is written down, whose partition's lock is held: not tried at every turn."""
    partition = world.create()
    world.fill(partition, 10)
    world.log.flush(partition.ordinal)
    told, busy = [], [ErrorCode.REQUEST_TIMED_OUT]

    def start_written(*of):
        told.append(of)
        return busy[0] if busy else world.log.start_written(*of)

    keeper = LogKeeper(world.keeper(first_delay_ms=60_000, log=Instead(world.log, start_written=start_written)))
    keeper.do_work()
    move(world, partition, 4)
    for _ in range(5):
        keeper.do_work()
    assert len(told) == 1 and written(world) == {("t", 0): 4}
    busy.clear()
    world.clock.advance(1000)
    keeper.do_work()
    assert len(told) == 2 and world.state(partition).start_written == 4


class Steps:
    """The job by itself: partitions by their rows, and in `done` what it asked for."""

    def __init__(self):
        self.asked, self.done, self.can_write, self.error = [], [], True, 0
        self.partitions = [SimpleNamespace(ordinal=ordinal, topic_id=f"id {ordinal}") for ordinal in (3, 4, 5)]
        self.states = {3: (10, 6), 4: (6, 6), 5: (5, 6)}  # flushed up to, log start
        note = lambda *what: self.done.append(what)  # noqa: E731
        keeper = SimpleNamespace(
            clock=ManualClock(),
            log=SimpleNamespace(
                starts_asked=lambda: self.asked, start_written=lambda *words: note("told", *words) or self.error
            ),
            partitions=SimpleNamespace(all=self.partitions),
            syncs=SimpleNamespace(start=lambda ordinal: note("sync", ordinal)),
            state=self.state,
            crash_point=lambda name: None,
        )
        checkpoints = SimpleNamespace(
            log_start_moved=lambda partition: note("moved", partition.ordinal),
            write=lambda names: note("write", *names) or self.can_write,
            written=lambda name, partition: 100 + partition.ordinal,
        )
        self.clock, self.job = keeper.clock, RecordDeletion(keeper, checkpoints)

    def state(self, partition):
        if partition.ordinal not in self.states:
            return None
        flushed, start = self.states[partition.ordinal]
        return SimpleNamespace(flushed_offset=flushed, log_start=start)

    def work(self):
        self.done.clear()
        self.job.do_work()
        return list(self.done)


ALL_OF_3 = [("moved", 3), ("write", LOG_START), ("told", 3, 103, "id 3")]


def test_only_who_was_asked_about_is_looked_at_and_only_what_is_synced_written_down():
    steps = Steps()
    assert steps.work() == [] and steps.job.remaining_ms() == 1000
    steps.asked = [3]
    assert steps.work() == ALL_OF_3
    steps.asked = [3, 4, 5, 9]
    assert steps.work() == [
        *[("sync", 5), ("moved", 3), ("moved", 4), ("write", LOG_START)],
        *[("told", 3, 103, "id 3"), ("told", 4, 104, "id 4")],
    ]
    steps.asked = [5]
    assert steps.work() == [("sync", 5)], "there is nothing to write yet"


def test_one_that_cannot_be_read_waits_until_it_can():
    steps = Steps()
    steps.asked, steps.states = [3], {}
    assert steps.work() == []


@pytest.mark.parametrize("failure", ["the disk", "a lock"])
def test_behind_a_failure_it_pauses_for_a_second(failure):
    steps = Steps()
    steps.asked = [3]
    steps.can_write, steps.error = failure != "the disk", ErrorCode.REQUEST_TIMED_OUT if failure == "a lock" else 0
    assert steps.work() == (ALL_OF_3 if failure == "a lock" else ALL_OF_3[:2])
    for wait_ms, works in ((0, False), (999, False), (1, True), (0, False), (1000, True)):
        steps.clock.advance(wait_ms)
        assert bool(steps.work()) is works
    steps.can_write, steps.error = True, 0
    steps.clock.advance(1000)
    for _ in range(2):
        assert steps.work() == ALL_OF_3, "it is as it was"


def test_a_partition_that_is_another_by_now_is_no_failure():
    steps = Steps()
    steps.asked, steps.error = [3], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for _ in range(2):
        assert steps.work() == ALL_OF_3
