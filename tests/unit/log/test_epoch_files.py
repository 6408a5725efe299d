"""Files of leader epochs: written once when there is something new, and what becomes of one that cannot be written."""

import errno
from pathlib import Path

import pytest

from mpbroker.log import disk, epoch_files
from mpbroker.log.epoch_files import EpochFiles
from mpbroker.log.leader_epochs import read_epochs
from mpbroker.shm.layout import ReplicaRole
from tests.unit.log.log_world import LogWorld


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
