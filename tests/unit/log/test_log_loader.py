"""Whatever stood in the files before stands in the rows afterwards, after a clean stop and after any other."""

import errno
import os
import struct
from types import SimpleNamespace

import pytest

from mpbroker.errors import ErrorCode, KafkaError
from mpbroker.log import log_loader
from mpbroker.log.checkpoint_file import LOG_START, RECOVERY_POINT, write_checkpoint
from mpbroker.log.clean_shutdown import MARKER
from mpbroker.log.log_keeper import LogKeeper
from mpbroker.log.log_loader import LogLoader, latest_epoch
from mpbroker.log.log_recovery import LogRecovery
from mpbroker.log.partition_directory import METADATA_FILE
from tests.unit.log.log_world import Instead, to_load

ONLINE = 2
COMPARED = (
    "log_start",
    "leo",
    "hw",
    "lso",
    "active_base",
    "position",
    "index_bytes",
    "time_index_bytes",
    "max_timestamp",
    "max_timestamp_offset",
    "first_timestamp",
    "indexed_timestamp",
    "log_bytes",
    "bytes_since_index",
    "leader_epoch",
    "segment_count",
)


def filled(world, ordinal=0, partition=0, **settings):
    """Three segments, enough bytes for index entries, two idempotent producers."""
    made = world.create(partition=partition, ordinal=ordinal, **settings)
    for number in range(60):
        world.clock.advance(10)
        producer = {"producer_id": 7 + number % 2, "producer_epoch": 0, "base_sequence": number // 2}
        assert world.append(made, size=300, **producer).error == 0
        if number in (20, 40):
            world.roll(made)
    return made


def compared(world, partition):
    state = world.state(partition)
    return {name: getattr(state, name) for name in COMPARED}


@pytest.mark.parametrize("clean", [True, False])
def test_the_rows_and_the_records_come_back_as_they_were(world, clean):
    partition = filled(world)
    before, records = compared(world, partition), world.records(partition)
    if clean:
        assert LogKeeper(world.keeper()).stop()
    loader = world.reboot()
    assert loader.last_stop.clean is clean
    assert compared(world, partition) == before
    assert world.records(partition) == records
    assert world.state(partition).flushed_offset == (before["leo"] if clean else 0), "read back is not on disk"
    assert world.append(partition).base_offset == before["leo"]


def test_clean_and_unclean_starts_end_with_the_same_files(world):
    partition = filled(world)
    contents = []
    for clean in (True, False):
        if clean:
            assert LogKeeper(world.keeper()).stop()
        world.reboot()
        contents.append(
            {
                name: (world.path / partition.dir / name).read_bytes()
                for name in world.files(partition)
                if not name.endswith(".snapshot")
            }
        )
    assert contents[0] == contents[1]


def test_the_marker_is_gone_before_anything_is_loaded(world):
    filled(world)
    assert LogKeeper(world.keeper()).stop()
    assert (world.path / MARKER).exists()
    assert world.reboot().last_stop.clean is True
    assert not (world.path / MARKER).exists()
    assert world.reboot().last_stop.clean is False, "it was not stopped cleanly a second time"


def test_repeated_batches_are_recognised_after_a_crash(world):
    partition = world.create()
    for sequence in range(7):
        world.append(partition, producer_id=9, producer_epoch=3, base_sequence=sequence)
    world.reboot()
    for sequence in (2, 3, 4, 5, 6):
        again = world.append(partition, producer_id=9, producer_epoch=3, base_sequence=sequence)
        assert (again.error, again.duplicate, again.base_offset) == (0, True, sequence)
    assert world.append(partition, producer_id=9, producer_epoch=3, base_sequence=1).error == 45
    assert world.append(partition, producer_id=9, producer_epoch=2, base_sequence=7).error == 47
    assert world.append(partition, producer_id=9, producer_epoch=3, base_sequence=7).base_offset == 7


def test_producers_come_back_from_the_snapshot_of_a_clean_stop(world):
    partition = filled(world)
    assert LogKeeper(world.keeper()).stop()
    assert world.reboot().highest_producer_id == 8
    assert world.append(partition, producer_id=7, producer_epoch=0, base_sequence=29).duplicate
    assert world.append(partition, producer_id=8, producer_epoch=0, base_sequence=30).base_offset == 60
    assert world.append(partition, producer_id=7, producer_epoch=0, base_sequence=31).error == 45


def test_a_damaged_segment_is_cut_with_a_line(world):
    partition = filled(world)
    path = world.path / partition.dir / world.files(partition, ".log")[1]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    world.reboot()
    state = world.state(partition)
    assert 21 < state.leo < 41 and state.active_base == 21
    lines = world.events.named("log_cut")
    assert len(lines) == 2 and "cut from" in lines[0]["what"] and "set aside as .cut" in lines[1]["what"]
    assert world.counted == ["recovery_doubts"] * 2
    assert (world.path / partition.dir / f"{41:020d}.log.cut").exists(), "nothing is unlinked"
    assert world.append(partition, producer_id=99, producer_epoch=0, base_sequence=0).base_offset == state.leo


@pytest.mark.parametrize("clean", [True, False])
def test_indexes_not_as_a_clean_stop_leaves_them_are_made_again_with_one_line(world, clean):
    partitions = [filled(world, ordinal=n, partition=n) for n in range(2)]
    assert LogKeeper(world.keeper()).stop()
    for partition in partitions:
        for name in world.files(partition, ".index"):
            (world.path / partition.dir / name).write_bytes(b"\xff" * 13)
    if not clean:
        (world.path / MARKER).unlink()
    world.reboot()
    assert [world.state(partition).leo for partition in partitions] == [60, 60]
    lines = world.events.named("indexes_rebuilt")
    assert [(line["files"], line["first"]) for line in lines] == ([(6, f"t-0/{0:020d}.index")] if clean else [])
    assert world.counted == ["recovery_doubts"] * (6 if clean else 0)


def test_a_sound_start_says_nothing_of_indexes_and_checkpoints(world):
    filled(world)
    world.create(partition=1, ordinal=1)
    assert LogKeeper(world.keeper()).stop()
    world.reboot()
    assert world.events.named("indexes_rebuilt") == world.events.named("checkpoint_not_understood") == []


@pytest.mark.parametrize(
    "content", [b"", b"garbage", b"0\n2\nt 0 5\n", b"1\n1\nt 0 5\n", b"0\n1\nt 0 x\n", b"\xff\xfe"]
)
def test_a_checkpoint_that_is_none_is_named(world, content):
    partition = filled(world)
    (world.path / RECOVERY_POINT).write_bytes(content)
    world.reboot()
    [line] = world.events.named("checkpoint_not_understood")
    assert line["file"] == str(world.path / RECOVERY_POINT) and "not flushed" in line["instead"]
    assert world.state(partition).leo == 60


def test_a_directory_that_cannot_be_read_makes_its_partition_offline(world, monkeypatch):
    broken, sound = filled(world), filled(world, ordinal=1, partition=1)
    run = LogRecovery.run

    def failing(recovery):
        if recovery.directory.endswith(broken.dir):
            raise OSError(errno.EIO, "Input/output error")
        return run(recovery)

    monkeypatch.setattr(LogRecovery, "run", failing)
    world.reboot()
    assert not world.state(broken).flags & ONLINE and world.state(sound).flags & ONLINE
    [line] = world.events.named("logs_loaded")
    assert (line["partitions"], line["offline"]) == (2, 1)
    assert world.append(broken).error == 56
    assert world.append(sound).base_offset == 60
    assert world.events.named("partition_offline")[0]["partition"] == broken.dir
    assert LogKeeper(world.keeper()).stop()
    assert world.events.named("not_all_logs_stopped")[0]["first"] == broken.dir, "nobody knows what stands there"
    monkeypatch.undo()
    world.reboot()
    assert world.state(broken).leo == 60, "nothing of it was lost"


@pytest.mark.parametrize(
    ("policy", "allowed"), [("delete", False), ("compact", True), ("compact,delete", True), ("delete,compact", True)]
)
def test_only_a_compacted_log_may_have_gaps(world, monkeypatch, policy, allowed):
    filled(world, cleanup_policy=policy)
    given, init = [], LogRecovery.__init__
    monkeypatch.setattr(
        log_loader.LogRecovery, "__init__", lambda *words, **named: given.append(named) or init(*words, **named)
    )
    world.reboot()
    assert [one["gaps_allowed"] for one in given] == [allowed]


def test_checkpoints_are_used(world, monkeypatch):
    partition = filled(world)
    assert world.log.set_log_start(partition.ordinal, 25) == 0
    LogKeeper(world.keeper()).checkpoints.write()
    given = []
    original = LogRecovery.__init__

    def seen(recovery, *args, **settings):
        given.append(settings)
        original(recovery, *args, **settings)

    monkeypatch.setattr(log_loader.LogRecovery, "__init__", seen)
    world.reboot()
    assert world.state(partition).log_start == 25
    assert given[0]["log_start"] == 25 and given[0]["recovery_point"] == 0


def test_what_was_synced_before_a_crash_still_counts_and_the_rest_is_synced_by_the_keeper(world):
    partition = filled(world)
    world.log.set_flushed(partition.ordinal, 45)
    LogKeeper(world.keeper()).checkpoints.write()
    world.reboot()
    assert world.state(partition).flushed_offset == 45
    world.log.set_flushed(partition.ordinal, 30)
    LogKeeper(world.keeper()).checkpoints.write()
    world.reboot()
    assert world.state(partition).flushed_offset == 30
    LogKeeper(world.keeper()).do_work()
    assert world.state(partition).flushed_offset == 60, "its first turn: a rolled segment was not synced"


def test_a_checkpoint_older_than_the_directory_is_not_believed(world):
    """A topic deleted and created again under its name must not inherit the old one's log start or recovery point."""
    write_checkpoint(str(world.path / LOG_START), {("t", 0): 25})
    write_checkpoint(str(world.path / RECOVERY_POINT), {("t", 0): 60})
    for name in (LOG_START, RECOVERY_POINT):
        os.utime(world.path / name, (1_000_000_000, 1_000_000_000))
    partition = filled(world)
    world.reboot()
    assert world.state(partition).log_start == 0


def test_the_leader_epoch_is_the_last_one_written_down(tmp_path):
    assert latest_epoch(str(tmp_path)) == 0
    (tmp_path / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n5 120\n")
    assert latest_epoch(str(tmp_path)) == 5
    (tmp_path / "leader-epoch-checkpoint").write_bytes(b"\x00\xff")
    assert latest_epoch(str(tmp_path)) == 0


def test_batches_left_whole_by_a_kill_before_their_commit_are_kept(world):
    """A complete uncommitted batch may reappear: it was never acknowledged, and producers are rebuilt with it."""
    partition = filled(world)
    path = world.path / partition.dir / f"{41:020d}.log"
    before = path.read_bytes()
    world.append(partition, producer_id=50, producer_epoch=0, base_sequence=0)
    written = path.read_bytes()
    world.close()
    path.write_bytes(before + written[len(before) :])
    world.boot()
    world.reboot()
    assert world.state(partition).leo == 61
    assert world.append(partition, producer_id=50, producer_epoch=0, base_sequence=0).duplicate


def test_a_torn_batch_at_the_end_is_cut(world):
    partition = filled(world)
    before = compared(world, partition)
    path = world.path / partition.dir / f"{41:020d}.log"
    path.write_bytes(path.read_bytes() + struct.pack(">qi", 60, 400) + bytes(100))
    world.reboot()
    assert compared(world, partition) == before
    assert len(world.events.named("log_cut")) == 1


def test_a_row_is_shown_only_when_its_producers_are_loaded(world):
    """A controller killed in between leaves the row free, so that its successor loads the partition again."""
    partition = filled(world)
    world.close()
    world.boot()
    seen = []

    def crash_point(name):
        seen.append((name, world.state(partition).flags, len(world.log.producers(partition.ordinal)[1]) > 0))
        raise InterruptedError

    with pytest.raises(InterruptedError):
        LogLoader(world.log, str(world.path), world.events, world.clock, crash_point)([to_load(partition)])
    assert seen == [("loader.hidden", 0, True)]
    LogLoader(world.log, str(world.path), world.events, world.clock)([to_load(partition)])
    assert world.append(partition, producer_id=7, producer_epoch=0, base_sequence=29).duplicate


@pytest.mark.parametrize("call", ["publish", "set_flushed"])
def test_a_row_that_cannot_be_written_ends_the_start(world, call):
    """It must not look as if the partition were there."""
    partition = filled(world)
    world.close()
    world.boot()

    refusing = Instead(world.log, **{call: lambda *_, **__: ErrorCode.KAFKA_STORAGE_ERROR})
    with pytest.raises(KafkaError, match=partition.dir) as caught:
        LogLoader(refusing, str(world.path), world.events, world.clock)([to_load(partition)])
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_directory_of_another_topic_makes_its_partition_offline(world):
    partition = filled(world)
    path = world.path / partition.dir
    (path / "partition.metadata").write_text("version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw")
    before = {name: (path / name).read_bytes() for name in world.files(partition)}
    world.reboot()
    assert not world.state(partition).flags & ONLINE
    assert "another id (AAECAwQFBgcICQoLDA0ODw)" in str(world.events.named("partition_offline")[0]["error"])
    assert {name: (path / name).read_bytes() for name in world.files(partition)} == before


def test_a_lost_partition_metadata_file_costs_no_checkpoint(world):
    partition = filled(world)
    assert world.log.set_log_start(partition.ordinal, 25) == 0
    assert LogKeeper(world.keeper()).stop()
    path = world.path / partition.dir / "partition.metadata"
    written = path.read_bytes()
    path.unlink()
    world.reboot()
    assert world.state(partition).log_start == 25
    assert path.read_bytes() == written, "it is there again"


@pytest.mark.parametrize("offset", [0, 1, 7])
def test_a_checkpoint_holds_for_a_directory_that_is_older_than_it(tmp_path, offset):
    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / METADATA_FILE).write_text("")
    os.utime(directory / METADATA_FILE, ns=(5, 5))
    write_checkpoint(str(tmp_path / RECOVERY_POINT), {("t", 0): offset})
    taken = log_loader.Checkpointed(str(tmp_path), RECOVERY_POINT, None)
    assert taken.offset(("t", 0), str(directory)) == offset and taken.offset(("u", 0), str(directory)) == 0
    os.utime(directory / METADATA_FILE)
    os.utime(tmp_path / RECOVERY_POINT, ns=(9, 9))
    later = log_loader.Checkpointed(str(tmp_path), RECOVERY_POINT, None)
    assert later.offset(("t", 0), str(directory)) == 0 and later.written(("t", 0)) == offset


@pytest.mark.parametrize(
    ("written", "ended", "hw", "lso"),
    [
        (50, [], 50, 50),
        (0, [], 10, 10),
        (99, [], 80, 60),
        (50, [(30, 55)], 50, 30),
        (50, [(30, 50)], 50, 50),
        (50, [(5, 55)], 50, 10),
    ],
    ids=["checkpoint", "below the start", "above the end", "undecided", "decided", "undecided below the start"],
)
def test_what_lies_above_the_high_watermark_may_be_nowhere_else(written, ended, hw, lso):
    loader = LogLoader.__new__(LogLoader)
    loader._high_watermarks = SimpleNamespace(offset=lambda who, directory: written)
    recovered = SimpleNamespace(log_start=10, ended=ended)
    state = {"hw": 80, "leo": 80, "lso": 60}
    loader._take_back_high_watermark(SimpleNamespace(topic="t", partition=0), "/d", recovered, state)
    assert (state["hw"], state["lso"]) == (hw, lso)


@pytest.mark.parametrize(("clean", "known", "reads"), [(True, 1, 0), (False, 1, 1), (False, 0, 0), (True, 0, 0)])
def test_the_last_batches_are_read_after_an_unclean_stop_where_there_are_producers(monkeypatch, clean, known, reads):
    read = []
    monkeypatch.setattr(log_loader, "recent_batches", lambda *words: read.append(words) or {})
    monkeypatch.setattr(log_loader, "producer_rows", lambda producers, recent: "rows")
    loader = LogLoader.__new__(LogLoader)
    loader.last_stop = SimpleNamespace(of=lambda name: clean)
    recovered = SimpleNamespace(producers={7: "producer"} if known else {}, active=SimpleNamespace(base=40))
    assert loader._producers(SimpleNamespace(dir="t-0"), recovered, "/d") == "rows"
    assert read == [("/d", 40)] * reads


@pytest.mark.parametrize("cut", [[], ["5 bytes of segment 0"]])
def test_what_was_set_aside_does_not_come_back(monkeypatch, cut):
    """When the log has grown up to it."""
    synced, recovered = [], SimpleNamespace(cut=cut)
    monkeypatch.setattr(log_loader.disk, "sync_directory", synced.append)
    monkeypatch.setattr(log_loader, "latest_epoch", lambda directory: 4)
    loader = LogLoader.__new__(LogLoader)
    loader._recovery = lambda partition, directory: SimpleNamespace(run=lambda: recovered)
    partition = SimpleNamespace(topic_id=None, dir="t-0")
    monkeypatch.setattr(log_loader, "read_topic_id", lambda directory: None)
    loader._producers = lambda partition, found, directory: ["producer"]
    loader._flushed = lambda partition, directory, found: 9
    assert loader._recover(partition, "/d") == (recovered, ["producer"], 4, 9)
    assert synced == ["/d"] * bool(cut)


@pytest.mark.parametrize(("clean", "point", "flushed"), [(True, 3, 10), (False, 3, 3), (False, 12, 10)])
def test_what_is_on_disk_for_certain(clean, point, flushed):
    loader = LogLoader.__new__(LogLoader)
    loader.last_stop = SimpleNamespace(of=lambda name: clean)
    loader._recovery_points = SimpleNamespace(offset=lambda who, directory: point)
    partition = SimpleNamespace(dir="t-0", topic="t", partition=0)
    assert loader._flushed(partition, "/d", SimpleNamespace(active=SimpleNamespace(next_offset=10))) == flushed


BATCHES = [(10, 20, 1), (20, 40, 1), (50, 55, 3), (55, 60, 3), (60, 80, 4)]  # from, to, epoch; compaction took some


@pytest.mark.parametrize(
    ("clean", "written", "asked", "loaded"),
    [
        (True, [(1, 0), (3, 50)], [], [(1, 0), (3, 50)]),
        (True, [(1, 0), (3, 79), (4, 80)], [], [(1, 0), (3, 79)]),
        (False, [(1, 0), (3, 50)], [50], [(1, 0), (3, 50), (4, 60)]),
        (False, [(1, 0), (3, 50), (4, 60)], [60], [(1, 0), (3, 50), (4, 60)]),
        (False, [(1, 5)], [10], [(1, 5), (3, 50), (4, 60)]),
        (False, [], [10], [(1, 10), (3, 50), (4, 60)]),
        (False, [(1, 0), (2, 20), (3, 52)], [52, 20, 10], [(1, 0), (3, 50), (4, 60)]),
        (False, [(1, 0), (2, 55)], [55, 10], [(1, 0), (3, 50), (4, 60)]),  # 3 to 55 was cut, and is another's now
        (False, [(0, 0), (2, 5), (5, 70)], [70, 10, 10, 10], [(1, 10), (3, 50), (4, 60)]),
        (False, [(1, 0), (3, 40)], [40], [(1, 0), (3, 40), (4, 60)]),  # compaction took its first records
        (False, [(1, 0), (2, 30)], [30, 10], [(1, 0), (3, 50), (4, 60)]),  # and all of this one
    ],
)
def test_which_leader_epochs_are_believed(monkeypatch, clean, written, asked, loaded):
    """After an unclean stop those up to the last one that the batches agree with."""
    scanned, done = [], []
    starts = [SimpleNamespace(epoch=epoch, start_offset=offset) for epoch, offset in written]
    monkeypatch.setattr(log_loader, "read_epochs", lambda directory: starts)
    loader = LogLoader.__new__(LogLoader)
    loader.last_stop = SimpleNamespace(of=lambda name: clean)
    loader._check = lambda partition, error: done.append(error)

    def scan(ordinal, first):
        scanned.append((ordinal, first))
        behind = [(epoch, base) for base, end, epoch in BATCHES if end > first]
        return 0, [(epoch, min(base for each, base in behind if each == epoch)) for epoch in sorted(dict(behind))]

    loader._log = SimpleNamespace(
        is_replicated=lambda: True,
        scan_epochs=scan,
        load_epochs=lambda ordinal, epochs: done.append((ordinal, epochs)) or 7,
    )
    partition = SimpleNamespace(dir="t-0", ordinal=5)
    loader._load_epochs(partition, "/d", {"leo": 80, "log_start": 10})
    assert scanned == [(5, first) for first in asked]
    assert done == [*[0] * len(asked), (5, loaded), 7]
    loader._log.is_replicated = lambda: False
    loader._load_epochs(partition, "/d", {})
    assert len(done) == 2 + len(asked)
