"""What is sound on disk is read, whatever became of the files beside it: indexes, names, neighbours. Found by the
file-state fuzzer (`make filestates`), each with the smallest state that shows it."""

import os
import struct

import pytest

from mpbroker._native import READ_TO_END
from mpbroker.log.checkpoint_file import LOG_START, read_checkpoint, write_checkpoint
from mpbroker.log.checkpoint_writer import CheckpointWriter
from mpbroker.log.log_keeper import LogKeeper
from mpbroker.log.log_retention import LogRetention
from mpbroker.log.partition_directory import METADATA_FILE, prepare, read_topic_id
from tests.unit.log.log_world import next_offset
from tests.unit.log.test_log_recovery import make_batches, recover, write_log

HOUR_MS = 3_600_000
INDEX_ENTRY, TIME_INDEX_ENTRY = struct.Struct(">ii"), struct.Struct(">qi")


def name_of(base: int, suffix: str = ".log") -> str:
    return f"{base:020d}{suffix}"


def rolled(world, ends=(10, 20, 30), **settings):
    """A partition of some segments with an index entry for every batch."""
    partition = world.create(index_interval_bytes="0", **settings)
    for number, end in enumerate(ends):
        if number:
            world.roll(partition)
        world.fill(partition, end)
    return partition


def read_at(world, partition, offset: int) -> tuple[int, int]:
    """(error, offset of the first batch that a fetch gets)."""
    error, plan = world.log.find(partition.ordinal, offset, READ_TO_END, 1 << 20)
    if error or not plan.length:
        return error, -1
    data = bytearray(plan.length)
    error, _ = world.log.read_into(plan, data)
    return error, int.from_bytes(data[:8], "big")


def change(path, change_bytes) -> None:
    data = bytearray(path.read_bytes())
    change_bytes(data)
    path.write_bytes(data)


def damage_positions(data: bytearray) -> None:
    for at in range(4, len(data), INDEX_ENTRY.size):
        data[at + 3] ^= 0x10


def point_too_far(data: bytearray) -> None:
    """Every entry names the place of the last one."""
    _, last = INDEX_ENTRY.unpack_from(data, len(data) - INDEX_ENTRY.size)
    for at in range(0, len(data), INDEX_ENTRY.size):
        struct.pack_into(">i", data, at + 4, last)


def point_behind_the_end(data: bytearray) -> None:
    for at in range(0, len(data), INDEX_ENTRY.size):
        struct.pack_into(">i", data, at + 4, 1 << 24)


@pytest.mark.parametrize("damage", [damage_positions, point_too_far, point_behind_the_end])
def test_a_damaged_index_hides_nothing(world, damage):
    partition = rolled(world)
    change(world.path / partition.dir / name_of(0, ".index"), damage)
    world.log.close_cached(partition.ordinal)
    assert [read_at(world, partition, offset) for offset in range(10)] == [(0, offset) for offset in range(10)]


def test_behind_a_segment_that_was_cut_off_the_log_goes_on(world):
    partition = rolled(world)
    path = world.path / partition.dir / name_of(0)
    os.truncate(path, path.stat().st_size - 5)
    world.log.close_cached(partition.ordinal)
    assert read_at(world, partition, 8) == (0, 8)
    assert read_at(world, partition, 9) == (0, 10), "offset 9 is gone, and a consumer goes on behind it"


def test_a_damaged_time_index_deletes_nothing(world):
    partition = rolled(world, retention_ms=str(24 * HOUR_MS))
    path = world.path / partition.dir / name_of(0, ".timeindex")
    assert path.stat().st_size
    change(path, lambda data: data.__setitem__(slice(0, 8), bytes(8)))
    for name in world.files(partition):
        os.utime(world.path / partition.dir / name, ns=(0, world.clock.wall_ms() * 1_000_000))
    world.log.close_cached(partition.ordinal)
    retention = LogRetention(world.keeper(), lambda *_: None)
    assert retention.retain(partition) == 0
    world.clock.advance(25 * HOUR_MS)
    assert retention.retain(partition) > 0, "by the time of the file"


def five(directory, *bases: int) -> None:
    for base in bases:
        write_log(directory, base, make_batches(base, 5))


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(("source", "name"), [(15, 12), (30, 24), (15, 18)])
def test_a_segment_that_is_there_twice_hides_nothing(tmp_path, clean, source, name):
    """The copies begin before, or after, what they hold."""
    five(tmp_path, 0, 15, 30)
    for suffix in (".index", ".timeindex"):
        for base in (0, 15, 30, name):
            (tmp_path / name_of(base, suffix)).touch()
    (tmp_path / name_of(name)).write_bytes((tmp_path / name_of(source)).read_bytes())
    found = recover(tmp_path, clean=clean, recovery_point=45 if clean else 0)
    assert (found.log_start, found.active.next_offset, found.segment_count) == (0, 45, 3)
    assert {path.name for path in tmp_path.glob("*.log")} == {name_of(0), name_of(15), name_of(30)}
    assert (tmp_path / f"{name_of(name)}.cut").exists()


def test_a_segment_in_anothers_place_does_not_take_its_neighbours_with_it(tmp_path):
    five(tmp_path, 0, 15, 30, 45)
    (tmp_path / name_of(15)).write_bytes((tmp_path / name_of(45)).read_bytes())
    found = recover(tmp_path, recovery_point=60)
    assert (found.active.next_offset, found.segment_count) == (60, 3)
    assert (tmp_path / name_of(30)).exists() and (tmp_path / f"{name_of(15)}.cut").exists()


def test_an_offset_that_lies_costs_no_sound_segment(tmp_path):
    """A batch's base offset is not covered by its checksum."""
    five(tmp_path, 0, 15, 30)
    change(
        tmp_path / name_of(0),
        lambda data: data.__setitem__(slice(-len(data) // 5, -len(data) // 5 + 8), (900).to_bytes(8, "big")),
    )
    found = recover(tmp_path, recovery_point=45)
    assert (found.active.next_offset, found.segment_count) == (45, 3)
    assert {path.name for path in tmp_path.glob("*.log")} == {name_of(0), name_of(15), name_of(30)}


def test_damage_after_a_clean_stop_is_no_torn_write(tmp_path):
    """Everything was synced: what lies behind a wrong checksum is served, also in the last segment."""
    five(tmp_path, 0)
    path = tmp_path / name_of(0)
    change(path, lambda data: data.__setitem__(len(data) // 5 + 70, data[len(data) // 5 + 70] ^ 1))
    before = path.read_bytes()
    found = recover(tmp_path, clean=True, recovery_point=15)
    assert found.active.next_offset == 15 and path.read_bytes() == before
    assert len(found.cut) == 1 and "kept" in found.cut[0]


def test_metadata_that_cannot_be_read_is_kept_beside_what_takes_its_place(tmp_path):
    prepare(str(tmp_path), "t-0", bytes([7] * 16))
    path = tmp_path / "t-0" / METADATA_FILE
    path.write_bytes(path.read_bytes() + bytes(7))
    damaged = path.read_bytes()
    prepare(str(tmp_path), "t-0", bytes([7] * 16))
    assert read_topic_id(str(tmp_path / "t-0")) == bytes([7] * 16)
    assert (tmp_path / "t-0" / f"{METADATA_FILE}.cut").read_bytes() == damaged


def test_a_first_segment_that_was_missing_once_is_served_when_it_is_put_back(world):
    partition = rolled(world)
    first = [world.path / partition.dir / name_of(0, suffix) for suffix in (".log", ".index", ".timeindex")]
    contents = [path.read_bytes() for path in first]
    for path in first:
        path.unlink()
    world.reboot()
    assert world.state(partition).log_start == 10
    assert CheckpointWriter(world.keeper()).write()
    for path, content in zip(first, contents, strict=True):
        path.write_bytes(content)
    world.reboot()
    assert world.state(partition).log_start == 0 and next_offset(world.records(partition)) == 30


def test_a_log_start_that_retention_moved_is_written(world):
    partition = rolled(world, retention_ms=str(HOUR_MS))
    keeper = LogKeeper(world.keeper())
    world.clock.advance(2 * HOUR_MS)
    for name in world.files(partition):
        os.utime(world.path / partition.dir / name, ns=(0, 0))
    assert keeper.retention.retain(partition) > 0
    assert keeper.checkpoints.write()
    assert read_checkpoint(str(world.path / LOG_START)) == {("t", 0): world.state(partition).log_start}


def test_a_log_start_within_a_segment_is_written(world):
    partition = rolled(world)
    write_checkpoint(str(world.path / LOG_START), {("t", 0): 0})
    world.log.set_log_start(partition.ordinal, 4)
    assert CheckpointWriter(world.keeper()).write()
    assert read_checkpoint(str(world.path / LOG_START)) == {("t", 0): 4}
