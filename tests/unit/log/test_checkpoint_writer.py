"""Kafka's three checkpoint files: right offsets at the right times, and nothing forgotten that is not gone."""

import os
from types import SimpleNamespace

import pytest

from mpbroker.log.checkpoint_file import HIGH_WATERMARK, LOG_START, RECOVERY_POINT, read_checkpoint, write_checkpoint
from mpbroker.log.checkpoint_writer import FIELDS, CheckpointWriter
from mpbroker.log.log_keeper import LogKeeper
from tests.unit.log.log_world import config_of

ONLINE = 2


def written(world, name):
    return read_checkpoint(str(world.path / name))


def test_each_file_has_its_offsets_and_its_interval(world):
    partition = world.create()
    world.fill(partition, 10)
    world.log.set_log_start(partition.ordinal, 4)
    world.log.set_flushed(partition.ordinal, 7)
    job = CheckpointWriter(world.keeper(first_delay_ms=30_000))
    job.do_work()
    assert not (world.path / HIGH_WATERMARK).exists()
    world.clock.advance(30_000)
    job.do_work()
    assert [written(world, name) for name in (RECOVERY_POINT, HIGH_WATERMARK, LOG_START)] == [
        {("t", 0): 7},
        {("t", 0): 10},
        {("t", 0): 4},
    ]
    world.fill(partition, 12)
    world.log.set_flushed(partition.ordinal, 12)
    world.clock.advance(5_000)
    job.do_work()
    assert written(world, HIGH_WATERMARK) == {("t", 0): 12} and written(world, RECOVERY_POINT) == {("t", 0): 7}
    world.clock.advance(55_000)
    job.do_work()
    assert written(world, RECOVERY_POINT) == {("t", 0): 12}
    assert job.remaining_ms() == 5_000


def test_a_file_that_would_say_the_same_is_not_written(world):
    partition = world.create()
    world.fill(partition, 3)
    job = CheckpointWriter(world.keeper())
    assert job.write()
    before = os.stat(world.path / HIGH_WATERMARK).st_ino
    assert job.write() and os.stat(world.path / HIGH_WATERMARK).st_ino == before
    world.fill(partition, 4)
    assert job.write() and os.stat(world.path / HIGH_WATERMARK).st_ino != before


def test_partitions_not_loaded_or_offline_keep_what_was_said_and_deleted_ones_go(world):
    said = {("t", 0): 1, ("loading", 0): 2, ("gone", 3): 3}
    write_checkpoint(str(world.path / LOG_START), said)
    (world.path / "loading-0").mkdir()
    partition = world.create()
    world.fill(partition, 5)
    world.log.set_flags(partition.ordinal, 0, ONLINE)
    CheckpointWriter(world.keeper()).write()
    assert written(world, LOG_START) == {("t", 0): 1, ("loading", 0): 2}
    world.log.set_flags(partition.ordinal, ONLINE, 0)
    CheckpointWriter(world.keeper()).write()
    assert written(world, LOG_START) == {("t", 0): 0, ("loading", 0): 2}


def test_what_is_expected_stands_in_the_files_until_it_is_here(world):
    """From then on its own offsets do, also when it is offline later."""
    partition = world.create()
    world.fill(partition, 5)
    world.log.set_flags(partition.ordinal, 0, ONLINE)
    job = CheckpointWriter(world.keeper())
    assert job.expect(partition, {LOG_START: 2, HIGH_WATERMARK: 90})
    assert written(world, LOG_START) == {("t", 0): 2} and job.written(HIGH_WATERMARK, partition) == 90
    assert not (world.path / RECOVERY_POINT).exists() and job.written(RECOVERY_POINT, partition) == 0
    world.log.set_flags(partition.ordinal, ONLINE, 0)
    assert (
        job.write() and written(world, LOG_START) == {("t", 0): 0} and written(world, HIGH_WATERMARK) == {("t", 0): 5}
    )
    world.log.set_flags(partition.ordinal, 0, ONLINE)
    assert (
        job.write() and written(world, LOG_START) == {("t", 0): 0} and written(world, HIGH_WATERMARK) == {("t", 0): 5}
    )
    assert job.expect(partition, {LOG_START: 3})
    job.expect_no_more(partition)
    job.expect_no_more(partition)
    assert job.write() and written(world, LOG_START) == {("t", 0): 3}, "what was said last"


def test_a_change_of_topics_is_written_at_once(world):
    partition = world.create()
    keeper = LogKeeper(world.keeper())
    keeper.do_work()
    assert written(world, RECOVERY_POINT) == {("t", 0): 0}
    world.partitions.all = []
    world.partitions.changed = True
    os.rename(world.path / partition.dir, world.path / "t-0.00-delete")
    keeper.do_work()
    assert written(world, RECOVERY_POINT) == {} == written(world, LOG_START)


def test_a_file_that_cannot_be_written_is_said_and_tried_again(world, monkeypatch):
    partition = world.create()
    world.fill(partition, 3)
    job = CheckpointWriter(world.keeper())
    os.mkdir(world.path / (HIGH_WATERMARK + ".tmp"))
    assert job.write([HIGH_WATERMARK]) is False
    assert world.events.named("checkpoint_not_written")[0]["file"] == HIGH_WATERMARK
    os.rmdir(world.path / (HIGH_WATERMARK + ".tmp"))
    assert job.write([HIGH_WATERMARK]) is True and written(world, HIGH_WATERMARK) == {("t", 0): 3}


@pytest.mark.parametrize(
    ("name", "value", "moved", "written"),
    [
        (LOG_START, 4, False, 4),
        (LOG_START, 5, False, 3),
        (LOG_START, 5, True, 5),
        (LOG_START, 9, False, 9),
        (LOG_START, 2, False, 2),
        (LOG_START, 3, False, 3),
        (HIGH_WATERMARK, 5, False, 5),
        (RECOVERY_POINT, 5, False, 5),
    ],
)
def test_a_log_start_that_is_only_the_first_segments_is_not_written_down(world, name, value, moved, written):
    job = CheckpointWriter(world.keeper(log=SimpleNamespace(segments=lambda ordinal: [5, 9, 20])))
    job._written[name] = {("t", 0): 3}
    partition = SimpleNamespace(who=("t", 0), topic_id=b"T", partition=0, ordinal=7)
    if moved:
        job.log_start_moved(partition)
    state = SimpleNamespace(**{"flushed_offset": 0, "hw": 0, "log_start": 0, FIELDS[name]: value})
    assert job._offset(name, partition, state) == written


def test_whose_log_start_moved_is_forgotten_with_the_topic(world):
    """A younger one of its name, or of its row, has moved nothing."""
    partition, other = world.create(), world.create("u", ordinal=1)
    job = CheckpointWriter(world.keeper())
    job.log_start_moved(partition)
    job.log_start_moved(other)
    assert job.write() and job._moved == {(partition.topic_id, 0), (other.topic_id, 0)}
    world.partitions.all.remove(partition)
    assert job.write() and job._moved == {(other.topic_id, 0)}


def test_intervals_follow_the_configuration(world):
    job = CheckpointWriter(world.keeper())
    job.do_work()
    assert job.remaining_ms() == 5_000
    job._keeper.config = config_of("replica.high.watermark.checkpoint.interval.ms=90000")
    world.clock.advance(5_000)
    job.do_work()
    assert job.remaining_ms() == 55_000
