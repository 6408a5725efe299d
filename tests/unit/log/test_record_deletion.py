"""Log starts that DeleteRecords moved: synced, written down, told, in this order; nothing goes back over a crash."""

import os

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.log import checkpoint_writer
from mpbroker.log.checkpoint_file import LOG_START, read_checkpoint
from mpbroker.log.log_keeper import LogKeeper


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

    class Log:
        def start_written(self, *of):
            told.append(of)
            return busy[0] if busy else world.log.start_written(*of)

        def __getattr__(self, name):
            return getattr(world.log, name)

    keeper = LogKeeper(world.keeper(first_delay_ms=60_000, log=Log()))
    keeper.do_work()
    move(world, partition, 4)
    for _ in range(5):
        keeper.do_work()
    assert len(told) == 1 and written(world) == {("t", 0): 4}
    busy.clear()
    world.clock.advance(1000)
    keeper.do_work()
    assert len(told) == 2 and world.state(partition).start_written == 4
