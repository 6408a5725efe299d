"""Files of leader epochs: written once when there is something new, and what becomes of one that cannot be written."""

import contextlib
import errno
from pathlib import Path
from types import SimpleNamespace

import pytest

from mpbroker.log import disk, epoch_files
from mpbroker.log.epoch_files import EpochFiles
from mpbroker.log.keeper_context import NEVER_MS
from mpbroker.log.leader_epochs import read_epochs
from mpbroker.shm.layout import PARTITION_ONLINE, ReplicaRole
from tests.unit.log.log_world import Instead, LogWorld


@pytest.fixture
def world(tmp_path):
    made = LogWorld(tmp_path, replicated=True)
    yield made
    made.close()


def lead(world, partition, epoch):
    assert world.log.become(partition.ordinal, ReplicaRole.LEADER, epoch, epoch, [1], [1], 1, 1, 0) == 0


def failed(world, code):
    def fail(*_):
        raise OSError(code, "no")

    return fail


def test_an_epoch_is_written_once(world, monkeypatch):
    partition, files = world.create(), EpochFiles(world.keeper())
    lead(world, partition, 3)
    assert files.write() and read_epochs(str(world.path / partition.dir)) == [(3, 0)]
    monkeypatch.setattr(epoch_files, "_write", failed(world, errno.EIO))
    assert files.write(), "nothing is new"
    world.fill(partition, 4)
    monkeypatch.undo()
    lead(world, partition, 5)
    assert files.write() and read_epochs(str(world.path / partition.dir)) == [(3, 0), (5, 4)]


@pytest.mark.parametrize(("code", "stays"), [(errno.EIO, False), (errno.ENOSPC, True), (errno.EMFILE, True)])
def test_one_that_cannot_be_written_is_said_tried_again_and_keeps_no_other_back(world, monkeypatch, code, stays):
    first, second = world.create(), world.create("u", ordinal=1)
    for partition in (first, second):
        lead(world, partition, 1)
    files, write = EpochFiles(world.keeper()), epoch_files._write
    fail = failed(world, code)
    monkeypatch.setattr(
        epoch_files, "_write", lambda path, of: (fail if first.dir in Path(path).parts else write)(path, of)
    )
    assert not files.write()
    [told] = world.events.named("checkpoint_not_written")
    assert told["file"] == "leader-epoch-checkpoint" and told["error"].errno == code
    assert world.log.log_dir_online(0) is stays is not disk.condemns(told["error"])
    if stays:
        assert read_epochs(str(world.path / second.dir)) == [(1, 0)]
        assert read_epochs(str(world.path / first.dir)) == [(0, 0)], "of its creation"
        monkeypatch.undo()
        assert files.write() and read_epochs(str(world.path / first.dir)) == [(1, 0)]


def test_what_was_written_is_remembered_for_as_long_as_the_partition_is_here(world, monkeypatch):
    partition, files, written = world.create(), EpochFiles(world.keeper()), []
    lead(world, partition, 3)
    monkeypatch.setattr(epoch_files, "_write", lambda *words: written.append(words))
    assert files.write() and files.write() and len(written) == 1
    world.partitions.all.remove(partition)
    assert files.write() and len(written) == 1
    world.partitions.all.append(partition)
    assert files.write() and len(written) == 2, "it came back: from another log directory perhaps"


def test_files_are_written_once_a_second(world):
    partition, job = world.create(), EpochFiles(world.keeper())
    lead(world, partition, 3)
    job.do_work()
    assert job.remaining_ms() == 1000 and read_epochs(str(world.path / partition.dir)) == [(0, 0)]
    world.clock.advance(999)
    job.do_work()
    assert job.remaining_ms() == 1 and read_epochs(str(world.path / partition.dir)) == [(0, 0)]
    world.clock.advance(1)
    job.do_work()
    assert job.remaining_ms() == 1000 and read_epochs(str(world.path / partition.dir)) == [(3, 0)]
    path = world.path / partition.dir / "leader-epoch-checkpoint"
    assert path.read_text() == "0\n1\n3 0\n" and not list(path.parent.glob("*.tmp")), "as Kafka writes it"


def test_where_no_epoch_ever_begins_there_is_nothing_to_do(tmp_path):
    with contextlib.closing(LogWorld(tmp_path)) as world:
        world.create()
        job = EpochFiles(world.keeper())
        world.clock.advance(5000)
        path = tmp_path / "t-0" / "leader-epoch-checkpoint"
        path.unlink()
        job.do_work()
        assert job.remaining_ms() == NEVER_MS and job.write() is True and not path.exists()


def test_a_partition_that_somebody_holds_is_left_for_the_next_turn(world):
    partition, keeper = world.create(), world.keeper()
    lead(world, partition, 3)
    job = EpochFiles(keeper)

    def held(ordinal):
        raise TimeoutError

    keeper.log = Instead(world.log, epochs=held)
    assert job.write() is False and world.events.lines == []
    keeper.log = world.log
    assert job.write() is True and read_epochs(str(world.path / partition.dir)) == [(3, 0)]


def test_one_that_is_offline_is_nobodys_fault_and_its_file_stays(world):
    partition, job = world.create(), EpochFiles(world.keeper())
    lead(world, partition, 3)
    assert world.log.set_flags(0, 0, PARTITION_ONLINE) == 0
    assert job.write() is True and read_epochs(str(world.path / partition.dir)) == [(0, 0)]


def test_what_is_written_may_be_forgotten_by_memory(world):
    """Else a table of few epochs would be full for ever."""
    partition, told = world.create(), []
    lead(world, partition, 3)
    job = EpochFiles(world.keeper(log=Instead(world.log, epochs_written=lambda *words: told.append(words))))
    assert job.write() and job.write() and told == [(0, world.log.epochs(0)[2])]


def test_a_partition_that_somebody_holds_meanwhile_is_told_at_the_next_turn(world):
    partition, told = world.create(), []
    lead(world, partition, 3)

    def held(*_):
        raise TimeoutError

    job = EpochFiles(world.keeper(log=Instead(world.log, epochs_written=held)))
    assert job.write() is False and read_epochs(str(world.path / partition.dir)) == [(3, 0)]
    job._keeper.log = Instead(world.log, epochs_written=lambda *words: told.append(words))
    assert job.write() is True and told == [(0, [(3, 0)])]


def test_when_all_that_memory_kept_was_cut_the_file_loses_what_began_beyond_the_end(world):
    """And it is looked at again: the end that was seen may be older than what was kept."""
    partition, seen = world.create(), {"leo": 40}
    path = world.path / partition.dir / "leader-epoch-checkpoint"
    now = world.log.state(0)
    fields = now.__match_args__
    path.write_text("0\n4\n1 0\n2 20\n3 30\n4 40\n")
    log = Instead(
        world.log,
        epochs=lambda ordinal: (50, True, []),
        state=lambda ordinal: SimpleNamespace(**dict(zip(fields, now, strict=False)) | seen),
    )
    job = EpochFiles(world.keeper(log=log))
    assert job.write() is True and path.read_text() == "0\n3\n1 0\n2 20\n3 30\n"
    seen["leo"] = 30
    assert job.write() is True and path.read_text() == "0\n2\n1 0\n2 20\n"


@pytest.mark.parametrize(("has_older", "expected"), [(False, [(5, 4)]), (True, [(0, 0), (5, 4)])])
def test_epochs_that_memory_has_no_room_for_stand_in_the_file_alone(world, has_older, expected):
    partition = world.create()
    keeper = world.keeper(log=Instead(world.log, epochs=lambda ordinal: (9, has_older, [(5, 4)])))
    assert EpochFiles(keeper).write() and read_epochs(str(world.path / partition.dir)) == expected


def test_a_file_is_not_synced_every_second(world, monkeypatch):
    """A start after a power loss asks the log's own batches."""
    partition, synced = world.create(), []
    lead(world, partition, 3)
    monkeypatch.setattr(disk, "sync", synced.append)
    assert EpochFiles(world.keeper()).write() and synced == []


def test_after_a_kill_an_epoch_that_was_cut_does_not_count(world):
    """The file was written before: its last epoch began where another one's records are by now."""
    partition, files = world.create(), EpochFiles(world.keeper())
    for epoch, end in ((5, 4), (6, 8)):
        lead(world, partition, epoch)
        world.fill(partition, end)
    assert files.write() and read_epochs(str(world.path / partition.dir)) == [(5, 0), (6, 4)]
    assert world.log.truncate(partition.ordinal, 2) == 0
    lead(world, partition, 7)
    world.fill(partition, 9)
    assert world.log.epochs(partition.ordinal)[2] == [(5, 0), (7, 2)]
    world.reboot()
    assert world.log.epochs(partition.ordinal)[2] == [(5, 0), (7, 2)]
