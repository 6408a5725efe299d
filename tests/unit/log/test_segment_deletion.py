"""Files taken out of use stay for file.delete.delay.ms, then go; a successor finds what its predecessor left."""

import errno
import os
from types import SimpleNamespace

import pytest

from mpbroker.log import segment_deletion
from mpbroker.log.log_retention import LogRetention
from mpbroker.log.segment_deletion import DIRECTORY_INTERVAL_MS, MAX_A_TURN, SEARCH_INTERVAL_MS, SegmentDeletion
from tests.unit.log.log_world import config_of

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
    directory = world.path / f"t-0.{bytes(16).hex()}-delete"
    directory.mkdir()
    (directory / "00000000000000000000.log").write_bytes(b"x")
    deletion = SegmentDeletion(world.keeper())
    world.clock.now_ms = int(directory.stat().st_ctime * 1000) + DELAY_MS - 1000
    deletion.do_work()
    assert directory.exists()
    world.clock.advance(10_000)
    deletion.do_work()
    assert not directory.exists()
    assert world.events.named("directory_removed") == [{"directory": directory.name}]


def test_somebodys_files_in_a_deleted_topics_directory_stay_and_harm_nothing(world):
    """A folder there failed the removal, and that took the log directory offline with every topic in it."""
    directory = world.path / f"t-0.{bytes(16).hex()}-delete"
    (directory / "photos").mkdir(parents=True)
    (directory / "photos" / "a.jpg").write_bytes(b"x")
    (directory / "notes.txt").write_bytes(b"x")
    (directory / "00000000000000000000.index.deleted").mkdir()
    for name in ("00000000000000000000.log", "partition.metadata", "00000000000000000007.log.7.cut.1", "moved-here"):
        (directory / name).write_bytes(b"x")
    failed, counted = [], []
    log = SimpleNamespace(close_stale=lambda: None, fail_log_dir=failed.append)
    deletion = SegmentDeletion(world.keeper(log=log, count=counted.append))
    for _ in range(2):
        world.clock.now_ms = int(directory.stat().st_ctime * 1000) + DELAY_MS + 10_000
        world.clock.advance(DIRECTORY_INTERVAL_MS)
        deletion.do_work()
    left = ["00000000000000000000.index.deleted", "notes.txt", "photos", "photos/a.jpg"]
    assert sorted(str(path.relative_to(directory)) for path in directory.rglob("*")) == left
    [said] = world.events.named("deleted_directory_stays")
    assert (said["directory"], said["found"]) == (str(directory), left[0])
    assert (failed, counted) == ([], ["stray_directories"]) and not world.events.named("directory_not_removed")
    for name in left[::-1]:
        (directory / name).rmdir() if (directory / name).is_dir() else (directory / name).unlink()
    world.clock.advance(10 * DELAY_MS)
    deletion.do_work()
    assert not directory.exists()


class Unlinking:
    """A deletion that unlinks nothing real: what it did, in order."""

    def __init__(self, world, monkeypatch, *overrides):
        self.world, self.done = world, []
        self.error = None
        monkeypatch.setattr(segment_deletion.disk, "unlink", self.unlink)
        monkeypatch.setattr(segment_deletion, "remove_deleted", self.remove)
        self.removed = []
        log = SimpleNamespace(close_stale=lambda: self.done.append("stale"), fail_log_dir=self.done.append)
        keeper = world.keeper(log=log, config=config_of(*overrides), crash_point=lambda name: None)
        self.job = SegmentDeletion(keeper, lambda: self.done.append("gone"))
        self.partition = world.create(file_delete_delay_ms=str(DELAY_MS))
        self.job.do_work()
        self.done.clear()

    def unlink(self, path):
        self.done.append(os.path.basename(path))
        if self.error:
            raise OSError(self.error, "no")

    def remove(self, data_dir, now_ms, delay_ms, foreign):
        self.done.append(("directories", now_ms - self.world.clock.wall_ms(), delay_ms))
        if self.error:
            raise OSError(self.error, "no")
        return self.removed

    def pass_ms(self, ms):
        self.world.clock.advance(ms)
        self.job.do_work()
        done, self.done = self.done, []
        return done


SLOW = "log.segment.delete.delay.ms=60000"


def test_three_files_of_a_segment_wait_once_each_and_go_with_one_look_at_what_is_open(world, monkeypatch):
    unlinking = Unlinking(world, monkeypatch, SLOW)
    unlinking.job._directories.interval_ms = 10**9
    monkeypatch.setattr(unlinking.job, "_remove_directories", lambda: None)
    for _ in range(2):
        unlinking.job.removed(unlinking.partition, [5])
    assert unlinking.job.waiting == 3
    names = [f"{5:020d}{suffix}.deleted" for suffix in (".index", ".log", ".timeindex")]
    assert unlinking.pass_ms(DELAY_MS - 1) == [] and unlinking.job.remaining_ms() <= 1
    assert unlinking.pass_ms(1) == [*names, "stale", "gone"]
    assert unlinking.pass_ms(1) == [] and unlinking.job.waiting == 0


@pytest.mark.parametrize(("number", "condemned"), [(errno.EIO, [0]), (errno.ENOSPC, [])])
def test_a_file_that_cannot_be_unlinked_is_said(world, monkeypatch, number, condemned):
    unlinking = Unlinking(world, monkeypatch, SLOW)
    monkeypatch.setattr(unlinking.job, "_remove_directories", lambda: None)
    unlinking.job._wait(unlinking.partition, "x.deleted")
    unlinking.error = number
    assert unlinking.pass_ms(DELAY_MS) == ["x.deleted", *condemned, "stale", "gone"]
    [said] = world.events.named("segment_not_removed")
    assert said["path"] == f"{world.path}/t-0/x.deleted" and said["error"].errno == number


def test_so_many_files_a_turn_and_no_more(world, monkeypatch):
    unlinking = Unlinking(world, monkeypatch, SLOW)
    monkeypatch.setattr(unlinking.job, "_remove_directories", lambda: None)
    for number in range(MAX_A_TURN + 1):
        unlinking.job._wait(unlinking.partition, f"{number:04d}.deleted")
    assert len(unlinking.pass_ms(DELAY_MS)) == MAX_A_TURN + 2 and unlinking.job.remaining_ms() == 0
    assert unlinking.pass_ms(0) == [f"{MAX_A_TURN:04d}.deleted", "stale", "gone"]


def test_what_is_too_much_to_remember_is_found_by_the_next_search(world, monkeypatch):
    monkeypatch.setattr(segment_deletion, "MAX_WAITING", 2)
    unlinking = Unlinking(world, monkeypatch, SLOW)
    for name in "abc":
        unlinking.job._wait(unlinking.partition, f"{name}.deleted")
    assert unlinking.job.waiting == 2


@pytest.mark.parametrize(
    ("delay_ms", "interval_ms"),
    [(0, 100), (99, 100), (100, 100), (101, 101), (DIRECTORY_INTERVAL_MS, 5000), (DIRECTORY_INTERVAL_MS + 1, 5000)],
)
def test_directories_are_looked_for_as_often_as_their_delay_asks(world, monkeypatch, delay_ms, interval_ms):
    unlinking = Unlinking(world, monkeypatch, f"log.segment.delete.delay.ms={delay_ms}")
    assert unlinking.job.remaining_ms() == interval_ms
    assert unlinking.pass_ms(interval_ms - 1) == []
    assert unlinking.pass_ms(1) == [("directories", 0, delay_ms)]
    unlinking.removed = ["t-0.1-delete"]
    assert unlinking.pass_ms(interval_ms) == [("directories", 0, delay_ms), "stale", "gone"]
    assert world.events.named("directory_removed") == [{"directory": "t-0.1-delete"}]


def test_directories_that_cannot_be_removed_are_said(world, monkeypatch):
    unlinking = Unlinking(world, monkeypatch, "log.segment.delete.delay.ms=100")
    unlinking.error, unlinking.removed = errno.EIO, ["t-0.1-delete"]
    assert unlinking.pass_ms(100) == [("directories", 0, 100), 0]
    assert world.events.named("directory_not_removed")[0]["error"].errno == errno.EIO
    assert world.events.named("directory_removed") == []


def test_when_something_may_be_due(world, monkeypatch):
    unlinking = Unlinking(world, monkeypatch, SLOW)
    assert unlinking.job.remaining_ms() == DIRECTORY_INTERVAL_MS
    quick = unlinking.partition._replace(settings=world.create("u", ordinal=1, file_delete_delay_ms="7").settings)
    unlinking.job._wait(quick, "x.deleted")
    assert unlinking.job.remaining_ms() == 7
    world.clock.advance(9)
    assert unlinking.job.remaining_ms() == 0


def test_a_delay_that_was_changed_holds_from_the_next_look_on(world, monkeypatch):
    unlinking = Unlinking(world, monkeypatch, "log.segment.delete.delay.ms=1000")
    assert unlinking.pass_ms(1000) == [("directories", 0, 1000)]
    unlinking.job._keeper.config = config_of("log.segment.delete.delay.ms=200")
    assert unlinking.pass_ms(1000) == [("directories", 0, 200)] and unlinking.job.remaining_ms() == 200
