"""The marker of a clean stop: there if and only if everything is on disk and whole."""

import errno
import json
import os

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.log import clean_stop, disk
from mpbroker.log.checkpoint_file import RECOVERY_POINT, read_checkpoint
from mpbroker.log.clean_shutdown import MARKER, remove_marker, take_marker, write_marker
from mpbroker.log.log_keeper import LogKeeper
from mpbroker.log.producer_snapshot import snapshot_offsets
from mpbroker.log.syncs import InlineSyncs, Synced

ONLINE = 2


def test_the_marker_is_kafkas_and_can_be_taken_once(tmp_path):
    assert take_marker(str(tmp_path)).clean is False
    write_marker(str(tmp_path))
    assert json.loads((tmp_path / MARKER).read_text()) == {"version": 0, "brokerEpoch": -1}
    assert take_marker(str(tmp_path)).clean is True
    assert take_marker(str(tmp_path)).clean is False


def test_the_marker_speaks_for_the_directories_that_were_stopped(tmp_path):
    write_marker(str(tmp_path), unknown={"b-0", "a-1"})
    assert json.loads((tmp_path / MARKER).read_text())["unknown"] == ["a-1", "b-0"]
    found = take_marker(str(tmp_path))
    assert [found.of(name) for name in ("a-0", "a-1", "b-0")] == [True, False, False]


def test_the_marker_says_where_logs_began(world):
    first, last = world.create(), world.create(partition=1, ordinal=1)
    world.append(last, 4)
    assert world.log.set_log_start(last.ordinal, 3) == 0
    world.log.set_flags(world.create(partition=2, ordinal=2).ordinal, 0, ONLINE)
    assert LogKeeper(world.keeper()).stop()
    assert json.loads((world.path / MARKER).read_text())["logStarts"] == {"t-0": 0, "t-1": 3}
    assert take_marker(str(world.path)).log_starts == {first.dir: 0, last.dir: 3}


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"[]", b"{", b'{"unknown": 5}', b"\xff", b'{"logStarts": 5}', b'{"logStarts": {"t-0": "x"}}'),
        *(b'{"logStarts": {"t-0": null}}', b'{"logStarts": {"t-0": Infinity}}', b'{"logStarts": {"t-0": NaN}}'),
    ],
)
def test_a_marker_that_cannot_be_understood_is_none(tmp_path, content):
    (tmp_path / MARKER).write_bytes(content)
    assert not take_marker(str(tmp_path)).clean
    assert not (tmp_path / MARKER).exists()


def test_a_start_that_was_refused_leaves_what_the_last_stop_said(world):
    """The controller ended before it took the marker: nothing was loaded, and nothing is known of the files."""
    world.create()
    write_marker(str(world.path))
    world.partitions.loaded = False
    assert LogKeeper(world.keeper()).stop() is False
    assert take_marker(str(world.path)).of("t-0")


def test_a_stop_speaks_for_what_was_made_last(world, monkeypatch):
    """The keeper may not have looked since."""
    first, last = world.create(), world.create(partition=1, ordinal=1)
    world.partitions.all = [first]
    monkeypatch.setattr(world.partitions, "refresh", lambda: world.partitions.all.append(last))
    assert LogKeeper(world.keeper()).stop() is True
    found = take_marker(str(world.path))
    assert found.of(first.dir) and found.of(last.dir) and not world.events.named("not_all_logs_stopped")


def test_everything_is_synced_and_written_down_first(world):
    partition = world.create()
    world.append(partition, 4, producer_id=3, producer_epoch=0, base_sequence=0)
    assert LogKeeper(world.keeper()).stop() is True
    assert world.state(partition).flushed_offset == 4
    assert read_checkpoint(str(world.path / RECOVERY_POINT)) == {("t", 0): 4}
    assert snapshot_offsets(str(world.path / partition.dir)) == [4]
    assert (world.path / MARKER).exists()


def test_a_second_stop_changes_nothing(world):
    partition = world.create()
    world.fill(partition, 4)
    assert LogKeeper(world.keeper()).stop() and LogKeeper(world.keeper()).stop()
    assert snapshot_offsets(str(world.path / partition.dir)) == [4]


@pytest.mark.parametrize("damage", ["offline", "not loaded", "missing"])
def test_the_marker_names_what_it_does_not_speak_for(world, damage):
    sound, partition = world.create(), world.create(partition=1, ordinal=1)
    world.append(sound, 4)
    if damage == "not loaded":
        (world.path / "unknown-0").mkdir()
    else:
        world.log.set_flags(partition.ordinal, 0, ONLINE)
    if damage == "missing":
        (world.path / partition.dir).rename(world.path / "elsewhere")
    assert LogKeeper(world.keeper()).stop() is True
    unknown = "unknown-0" if damage == "not loaded" else partition.dir
    assert world.events.named("not_all_logs_stopped")[0]["first"] == unknown
    found = take_marker(str(world.path))
    assert found[:2] == (True, {unknown}) and found.of(sound.dir)


def test_a_partition_whose_replicas_are_elsewhere_is_no_doubt(world):
    held = world.create()
    elsewhere = held._replace(ordinal=1, topic_id=bytes(15) + b"e", partition=1)
    who = {"ordinal": 1, "topic_id": elsewhere.topic_id, "topic_row": 0, "partition": 1, "log_dir": 0}
    assert world.log.publish(**who, dir="", state={}, hidden=True) == 0
    assert world.log.set_flags(1, 1, 0) == 0
    world.partitions.all.append(elsewhere)
    assert LogKeeper(world.keeper()).stop() is True
    assert not world.events.named("not_all_logs_stopped")
    assert take_marker(str(world.path)) == (True, frozenset(), {"t-0": 0})


@pytest.mark.parametrize("damage", ["not synced", "snapshot", "checkpoint"])
def test_no_marker_when_anything_is_not_as_it_should_be(world, damage):
    partition = world.create()
    world.append(partition, 4, producer_id=3, producer_epoch=0, base_sequence=0)
    if damage == "not synced":
        world.log.fail_log_dir(0)
    elif damage == "snapshot":
        (world.path / partition.dir / f"{4:020d}.snapshot.tmp").mkdir()
    else:
        os.mkdir(world.path / (RECOVERY_POINT + ".tmp"))
    assert LogKeeper(world.keeper()).stop() is False
    assert not (world.path / MARKER).exists()
    assert world.events.named("not_stopped_cleanly")[0]["next_start"] == "reads the logs"


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ("producer_snapshots.write_snapshot", "a producer snapshot could not be written"),
        ("checkpoint_writer.write_checkpoint", "a checkpoint could not be written"),
    ],
)
def test_no_marker_when_there_were_no_descriptors_left(world, monkeypatch, call, why):
    """Which is no reason to take the directory offline."""

    def fail(*_, **__):
        raise OSError(errno.EMFILE, "too many open files")

    world.append(world.create(), 4, producer_id=3, producer_epoch=0, base_sequence=0)
    monkeypatch.setattr(f"mpbroker.log.{call}", fail)
    assert LogKeeper(world.keeper()).stop() is False
    assert world.log.log_dir_online(0) and not (world.path / MARKER).exists()
    assert world.events.named("not_stopped_cleanly")[0]["why"] == why


class RefusedSyncs(InlineSyncs):
    """Syncs that are not made, though the directory stays online: a lock that is not to be had, say."""

    def start(self, ordinal):
        self._done.append(Synced(ordinal, self.error, 0))


@pytest.mark.parametrize("error", [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR])
def test_no_marker_when_a_last_sync_was_not_made(world, error):
    partition = world.create()
    world.append(partition, 4)
    syncs = RefusedSyncs(world.log)
    syncs.error = error
    assert LogKeeper(world.keeper(pool=syncs)).stop() is False
    assert not (world.path / MARKER).exists()
    assert world.events.named("not_stopped_cleanly")[0]["why"] == "a log could not be synced"


def test_a_partition_whose_state_cannot_be_read_is_in_doubt(world):
    """Nobody can say that there is no replica of it here."""
    partition = world.create()
    keeper = world.keeper(log=UnreadableLog())
    assert keeper.is_absent(partition) is False and keeper.state(partition) is None


class UnreadableLog:
    """Rows whose lock is not to be had."""

    def state(self, _):
        raise RuntimeError("partition row 0 cannot be locked")


@pytest.mark.parametrize(("number", "online"), [(errno.ENOSPC, True), (errno.EIO, False)])
def test_a_marker_that_could_not_be_written_is_none(world, monkeypatch, number, online):
    def refuse(*_, **__):
        raise OSError(number, "no")

    world.create()
    monkeypatch.setattr(clean_stop, "write_marker", refuse)
    assert LogKeeper(world.keeper()).stop() is False
    [said] = world.events.named("marker_not_written")
    assert said["error"].errno == number and world.log.log_dir_online(0) is online


def test_a_directory_that_somebody_changed_has_no_marker(tmp_path):
    write_marker(str(tmp_path), broker_epoch=5)
    assert json.loads((tmp_path / MARKER).read_text()) == {"version": 0, "brokerEpoch": 5}
    remove_marker(str(tmp_path))
    assert not (tmp_path / MARKER).exists()


@pytest.mark.parametrize(("at", "synced"), [("there", True), ("missing", False)])
def test_a_marker_that_was_taken_does_not_come_back(tmp_path, monkeypatch, at, synced):
    """After a power loss it would speak of what was written since."""
    done = []
    if at == "there":
        write_marker(str(tmp_path))
    monkeypatch.setattr(disk, "sync_directory", done.append)
    assert take_marker(str(tmp_path)).clean is synced
    assert done == [str(tmp_path)] * synced
