"""A directory, or all that was in it, is not there at a start: expected until it is back, and told."""

import os
import shutil

import pytest

from mpbroker.log.checkpoint_file import HIGH_WATERMARK, LOG_START, RECOVERY_POINT, write_checkpoint
from mpbroker.log.clean_shutdown import MARKER
from mpbroker.log.log_keeper import LogKeeper
from tests.unit.log.test_log_loader import ONLINE, compared, filled

IDENTITY = ("partition.metadata", "leader-epoch-checkpoint")


@pytest.mark.parametrize("clean", [True, False])
def test_a_directory_that_is_gone_stays_expected_until_it_is_back(world, tmp_path_factory, clean):
    """Start, stop and start again without it: its partition is offline each time, and nothing is made in its place."""
    partition = filled(world)
    other = filled(world, ordinal=1, partition=1)
    before = compared(world, partition)
    assert LogKeeper(world.keeper()).stop()
    away = tmp_path_factory.mktemp("away") / "it"
    (world.path / partition.dir).rename(away)
    if not clean:
        (world.path / MARKER).unlink()
    for _ in range(2):
        loader = world.reboot()
        assert not world.state(partition).flags & ONLINE and world.state(other).flags & ONLINE
        assert [world.keeper().is_offline(one) for one in (partition, other)] == [True, False]
        assert loader.written_up_to("t", 0) == 60
        assert "put the directory back" in world.events.named("partition_offline")[-1]["remedy"]
        assert not (world.path / partition.dir).exists()
        assert LogKeeper(world.keeper()).stop()
        assert world.events.named("not_all_logs_stopped")[-1]["first"] == partition.dir
    away.rename(world.path / partition.dir)
    world.reboot()
    assert compared(world, partition) == before


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("left", ["nothing", "its identity", "a younger identity"])
def test_a_directory_that_is_empty_stays_expected_until_its_files_are_back(world, tmp_path_factory, left, clean):
    """As one that is gone. Nothing is made in it, whatever the times of its own files say."""
    partition = filled(world)
    before, directory = compared(world, partition), world.path / partition.dir
    assert LogKeeper(world.keeper()).stop()
    away = tmp_path_factory.mktemp("away") / "it"
    shutil.copytree(directory, away)
    kept = [] if left == "nothing" else sorted(IDENTITY)
    for name in set(world.files(partition)) - set(kept):
        (directory / name).unlink()
    for name in kept if left == "a younger identity" else []:
        os.utime(directory / name, (2_000_000_000, 2_000_000_000))
    if not clean:
        (world.path / MARKER).unlink()
    for starts in (1, 2):
        world.reboot()
        assert not world.state(partition).flags & ONLINE and world.files(partition) == kept
        line = world.events.named("partition_offline")[-1]
        assert "records up to offset 60 were synced" in str(line["error"]) and "put the files back" in line["remedy"]
        assert world.counted == ["partitions_offline_at_start"] * starts
        assert LogKeeper(world.keeper()).stop()
    shutil.copytree(away, directory, dirs_exist_ok=True)
    world.reboot()
    assert compared(world, partition) == before
    assert len(world.counted) == 2


@pytest.mark.parametrize("emptied", [True, False])
def test_a_log_that_was_served_but_never_synced_begins_anew_with_a_line(world, emptied):
    """A power cut may leave that. Its directory gets its own files again."""
    partition = filled(world)
    LogKeeper(world.keeper()).checkpoints.write([HIGH_WATERMARK])
    for name in world.files(partition):
        if emptied or name not in IDENTITY:
            (world.path / partition.dir / name).unlink()
    world.reboot()
    assert world.state(partition).flags & ONLINE and world.state(partition).leo == 0
    [line] = world.events.named("log_cut")
    assert "up to offset 60 were served" in line["what"] and "put them back" in line["what"]
    assert world.counted == ["recovery_doubts"]
    assert set(IDENTITY) < set(world.files(partition)) and len(world.files(partition)) == 5


def test_after_a_clean_stop_whatever_was_served_was_synced(world):
    partition = filled(world)
    assert LogKeeper(world.keeper()).stop()
    (world.path / RECOVERY_POINT).unlink()
    for name in world.files(partition):
        (world.path / partition.dir / name).unlink()
    world.reboot()
    assert not world.state(partition).flags & ONLINE and world.files(partition) == []
    assert "records up to offset 60" in str(world.events.named("partition_offline")[0]["error"])


@pytest.mark.parametrize("checkpoint", [None, 0, 25])
def test_an_empty_log_is_made_without_a_word_where_nothing_is_missing(world, checkpoint):
    """Nothing was written, or all that was is deleted."""
    partition = world.create()
    if checkpoint is not None:
        for name in (LOG_START, HIGH_WATERMARK):
            write_checkpoint(str(world.path / name), {("t", 0): checkpoint})
    for name in set(world.files(partition)) - set(IDENTITY):
        (world.path / partition.dir / name).unlink()
    world.reboot()
    assert world.state(partition).flags & ONLINE and world.state(partition).leo == (checkpoint or 0)
    assert world.events.named("log_cut") == world.counted == []


def lose_segment(world, partition, base, target):
    """Every file of it, to another place."""
    for name in world.files(partition):
        if name.startswith(f"{base:020d}."):
            (world.path / partition.dir / name).rename(target / name)


def test_a_first_segment_that_is_missing_after_a_clean_stop_is_told_once(world, tmp_path_factory):
    partition, away = filled(world), tmp_path_factory.mktemp("away")
    before, records = compared(world, partition), world.records(partition)
    assert LogKeeper(world.keeper()).stop()
    lose_segment(world, partition, 0, away)
    for _ in range(2):
        world.reboot()
        assert (world.state(partition).log_start, world.state(partition).leo) == (21, 60)
        [line] = world.events.named("log_cut")
        assert "offsets 0 to 20 were there at the last stop" in line["what"] and "put them back" in line["what"]
        assert world.counted == ["recovery_doubts"]
        assert LogKeeper(world.keeper()).stop()
    for path in away.iterdir():
        path.rename(world.path / partition.dir / path.name)
    world.reboot()
    assert compared(world, partition) == before and world.records(partition) == records
    assert len(world.counted) == 1


@pytest.mark.parametrize(
    ("policy", "start", "told"),
    [
        ("delete", 0, True),
        ("delete", 21, True),
        ("delete", 30, True),
        ("compact", 0, False),
    ],
)
def test_a_segment_in_the_middle_that_is_missing_after_a_clean_stop_is_told_until_it_is_back(
    world, tmp_path_factory, policy, start, told
):
    """No log is read behind a clean stop, but where each segment ends."""
    partition, away = filled(world, cleanup_policy=policy), tmp_path_factory.mktemp("away")
    world.roll(partition)
    assert world.append(partition, size=300).error == 0
    keeper = LogKeeper(world.keeper())
    assert world.log.set_log_start(partition.ordinal, start) == 0
    keeper.checkpoints.log_start_moved(partition)
    assert keeper.stop()
    lose_segment(world, partition, 41, away)
    for starts in (1, 2):
        world.reboot()
        assert world.state(partition).leo == 61
        lines = [line["what"] for line in world.events.named("log_cut")]
        assert len(lines) == len(world.counted) == told * starts
        assert all("offsets 41 to 59 are missing; the rest is served" in line for line in lines)
        assert LogKeeper(world.keeper()).stop()
    for path in away.iterdir():
        path.rename(world.path / partition.dir / path.name)
    world.reboot()
    assert world.log.segments(partition.ordinal)[-3:] == [21, 41, 60] and len(world.counted) == 2 * told


def test_what_recovery_misses_itself_is_told_once(world):
    """It reads a segment whose index is gone, and so sees the gap behind it."""
    partition = filled(world)
    world.roll(partition)
    assert LogKeeper(world.keeper()).stop()
    for name in world.files(partition):
        if name.startswith(f"{41:020d}.") or name == f"{21:020d}.index":
            (world.path / partition.dir / name).unlink()
    world.reboot()
    [line] = world.events.named("log_cut")
    assert "offsets 41 to 59 are missing" in line["what"]


@pytest.mark.parametrize("case", ["killed", "compacted", "another log directory's", "deleted", "below the log start"])
def test_a_first_segment_that_nobody_misses_is_not_told(world, tmp_path_factory, case):
    partition = filled(world, cleanup_policy="compact" if case == "compacted" else "delete")
    keeper = LogKeeper(world.keeper())
    if case in ("deleted", "below the log start"):
        assert world.log.set_log_start(partition.ordinal, 30) == 0
        keeper.checkpoints.log_start_moved(partition)
    if case == "deleted":
        keeper.retention.retain(partition)
    assert keeper.stop()
    if case == "killed":
        (world.path / MARKER).unlink()
    if case == "another log directory's":
        (world.path / MARKER).write_text('{"version": 0}')
    if case != "deleted":
        lose_segment(world, partition, 0, tmp_path_factory.mktemp("away"))
    world.reboot()
    assert world.state(partition).log_start == (30 if case in ("deleted", "below the log start") else 21)
    assert world.events.named("log_cut") == world.counted == []


@pytest.mark.parametrize(("lost", "told"), [(".", 1), (".log", 2)])
def test_a_gap_and_the_indexes_of_a_lost_log_are_told_and_counted(world, lost, told):
    partition = filled(world)
    for name in world.files(partition):
        if name.startswith(f"{21:020d}{lost}"):
            (world.path / partition.dir / name).unlink()
    world.reboot()
    lines = [line["what"] for line in world.events.named("log_cut")]
    assert len(lines) == told and world.counted == ["recovery_doubts"] * told
    assert "offsets 21 to 40 are missing; the rest is served" in lines[-1]
    if told == 2:
        assert f"2 index files without a log were set aside as .cut, the first is {21:020d}.index" in lines[0]
        assert len(world.files(partition, ".cut")) == 2
    assert all("put them back and start again" in line for line in lines)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(("lost", "missing"), [("all of it", "21 to 40"), ("its end", "40 to 40")])
def test_what_is_missing_between_synced_segments_is_told(world, tmp_path_factory, clean, lost, missing):
    """Their indexes are sound, so that nothing of them is read anew; what is there is served. Each start tells it."""
    partition = filled(world)
    assert LogKeeper(world.keeper()).stop()
    if not clean:
        (world.path / MARKER).unlink()
    if lost == "all of it":
        lose_segment(world, partition, 21, tmp_path_factory.mktemp("away"))
    else:
        log = world.path / partition.dir / f"{21:020d}.log"
        os.truncate(log, log.stat().st_size - 20)
    for starts in (1, 2):
        world.reboot()
        lines = [line["what"] for line in world.events.named("log_cut")]
        assert len(lines) == len(world.counted) == starts
        assert f"offsets {missing} are missing; the rest is served" in lines[-1]
        assert world.state(partition).leo == 60 and world.state(partition).log_start == 0
