"""Files taken out of use stay for file.delete.delay.ms, then go; a successor finds what its predecessor left."""

import os

from mpbroker.log.log_retention import LogRetention
from mpbroker.log.segment_deletion import SEARCH_INTERVAL_MS, SegmentDeletion

DELAY_MS = 60_000


def retired(world):
    """A partition of which two segments were renamed; with the job that knows of them."""
    partition = world.create(retention_ms="1", file_delete_delay_ms=str(DELAY_MS))
    for end in (5, 10, 15):
        world.fill(partition, end)
        world.roll(partition)
    world.clock.advance(1000)
    deletion = SegmentDeletion(world.keeper())
    assert LogRetention(world.keeper(), deletion.removed).retain(partition) == 3
    return partition, deletion


def test_renamed_files_stay_for_their_delay(world):
    partition, deletion = retired(world)
    assert len(world.files(partition, ".deleted")) == 9 == deletion.waiting
    world.clock.advance(DELAY_MS - 1)
    deletion.do_work()
    assert len(world.files(partition, ".deleted")) == 9
    world.clock.advance(1)
    deletion.do_work()
    assert world.files(partition, ".deleted") == [] and deletion.waiting == 0
    assert world.files(partition, ".log") == ["00000000000000000015.log"]


def test_a_successor_finds_them(world):
    partition, _ = retired(world)
    successor = SegmentDeletion(world.keeper())
    successor.do_work()
    assert successor.waiting == 9
    world.clock.advance(DELAY_MS)
    successor.do_work()
    assert world.files(partition, ".deleted") == []


def test_files_of_a_topic_that_went_meanwhile_are_no_error(world):
    partition, deletion = retired(world)
    os.rename(world.path / partition.dir, world.path / "gone")
    world.clock.advance(DELAY_MS)
    deletion.do_work()
    assert deletion.waiting == 0
    assert not [line for line in world.events.lines if line[0] == "ERROR"]


def test_what_nobody_told_of_is_found_by_the_next_search(world):
    partition, deletion = retired(world)
    stray = world.path / partition.dir / "00000000000000000099.log.deleted"
    deletion.do_work()
    stray.write_bytes(b"")
    world.clock.advance(SEARCH_INTERVAL_MS)
    deletion.do_work()
    world.clock.advance(DELAY_MS)
    deletion.do_work()
    assert not stray.exists()


def test_directories_of_deleted_topics_go_after_the_delay(world):
    directory = world.path / "t-0.0123-delete"
    directory.mkdir()
    (directory / "00000000000000000000.log").write_bytes(b"x")
    deletion = SegmentDeletion(world.keeper())
    world.clock.now_ms = int(directory.stat().st_ctime * 1000) + DELAY_MS - 1000
    deletion.do_work()
    assert directory.exists()
    world.clock.advance(10_000)
    deletion.do_work()
    assert not directory.exists()
    assert world.events.named("directory_removed") == [{"directory": "t-0.0123-delete"}]
