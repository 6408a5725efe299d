"""Partitions that move to another log directory while somebody writes: what is read afterwards, from memory and
after a start, what goes along, and what becomes of moves that cannot be made."""

import errno
import shutil
from types import SimpleNamespace

import pytest

from mpbroker._native import Log
from mpbroker.log import disk, partition_directory, replica_move, replica_mover
from mpbroker.log.checkpoint_file import LOG_START, RECOVERY_POINT, read_checkpoint
from mpbroker.log.checkpoint_writer import CheckpointWriter
from mpbroker.log.kept_partitions import KeptPartition
from mpbroker.log.log_loader import LogLoader
from mpbroker.log.producer_snapshot import ProducerEntry, snapshot_offsets, write_snapshot
from mpbroker.log.replica_move import ReplicaMove, SourceUnreadable, Wish
from mpbroker.log.replica_mover import ReplicaMover
from mpbroker.shm.clock import ManualClock
from tests.unit.log.log_world import LogWorld, to_load

SMALL = {"segment_bytes": "1000", "index_interval_bytes": "200"}
OLD, NEW = 0, 1


class Cleaner:
    """What the mover asks a log directory's cleaner."""

    def __init__(self):
        self.offsets = {}
        self.busy = False

    def is_at(self, partition):
        return self.busy

    def cleaned_to(self, partition):
        return self.offsets.get(partition.who)

    def take_in(self, partition, cleaned_to):
        self.offsets[partition.who] = cleaned_to


class Moving:
    """Two log directories, a mover without a thread, and one partition. `at[point]()` is called at a crash point."""

    def __init__(self, tmp_path, **settings):
        (tmp_path / "new").mkdir()
        (tmp_path / "old").mkdir()
        self.path = tmp_path
        self.world = world = LogWorld(tmp_path / "old")
        world.log.close()
        world.log = Log(world.core, [str(tmp_path / "old"), str(tmp_path / "new")], 1)
        self.log = world.log
        self.partition = world.create(**(settings or SMALL))
        self.at, self.counted = {}, {}
        self.keepers = {OLD: self._keeper(OLD), NEW: self._keeper(NEW)}
        self.mover = ReplicaMover(self.log, self.keepers, lambda: world.core.moves)

    def _keeper(self, log_dir):
        path = self.path / ("old", "new")[log_dir]
        keeper = self.world.keeper(data_dir=str(path), log_dir=log_dir, crash_point=self._point, count=self._count)
        is_mine = lambda ordinal: self.log.state(ordinal).log_dir == log_dir  # noqa: E731
        return SimpleNamespace(
            keeper=keeper,
            checkpoints=CheckpointWriter(keeper),
            cleaner=Cleaner(),
            partition_at=lambda ordinal: self.partition if ordinal == 0 and is_mine(0) else None,
            state=keeper.state,
        )

    def _point(self, name):
        if name in self.at:
            self.at.pop(name)()

    def _count(self, name, by=1):
        self.counted[name] = self.counted.get(name, 0) + by

    def future(self, log_dir=NEW):
        name = partition_directory.future_name(self.partition.dir, self.partition.topic_id)
        return self.path / ("old", "new")[log_dir] / name

    def ask(self, to=NEW):
        if to != self.log.state(0).log_dir:
            partition_directory.prepare(
                str(self.path / ("old", "new")[to]), self.future().name, self.partition.topic_id
            )
        assert self.log.ask_move(0, self.partition.topic_id, to) == 0

    def work(self, turns=12):
        for _ in range(turns):
            self.mover.do_work()

    def records(self):
        return self.world.records(self.partition)

    def loaded(self, log_dir=NEW):
        """The records after a start that finds the partition there; its log start."""
        world = self.world
        world.log.close()
        world.boot()
        world.log.close()
        world.log = Log(world.core, [str(self.path / "old"), str(self.path / "new")], 1)
        loader = LogLoader(world.log, str(self.path / ("old", "new")[log_dir]), world.events, world.clock)
        loader([to_load(self.partition)._replace(log_dir=log_dir)])
        return self.records(), self.world.state(self.partition).log_start


@pytest.fixture
def moving(tmp_path):
    made = Moving(tmp_path)
    yield made
    made.world.close()


def test_all_of_it_is_there_afterwards_and_after_a_start(moving):
    world, partition = moving.world, moving.partition
    world.fill(partition, 30)
    assert world.log.delete_records(0, 11, partition.topic_id)[0] == 0
    entry = ProducerEntry(1, 0, 0, 0, 0, 0, 0)
    write_snapshot(str(moving.path / "old" / partition.dir), 20, [entry], durable=False)
    moving.keepers[OLD].cleaner.offsets[partition.who] = 14
    before, state = moving.records(), world.state(partition)
    moving.ask()
    assert moving.log.move_of(0) == (NEW, 1, 0, 0) and moving.log.moves() == [0]
    moving.work()
    after = world.state(partition)
    assert after.log_dir == NEW and moving.records() == before and moving.log.move_of(0) is None
    same = ("log_start", "leo", "hw", "lso", "log_bytes", "segment_count", "position", "index_bytes", "active_base")
    assert [getattr(after, name) for name in same] == [getattr(state, name) for name in same]
    new = moving.path / "new"
    assert sorted(entry.name for entry in new.iterdir() if entry.is_dir()) == [partition.dir]
    assert not (new / partition.dir / partition_directory.MOVED_HERE).exists()
    left = partition_directory.left_name(partition.dir, partition.topic_id)
    assert [entry.name for entry in (moving.path / "old").iterdir() if entry.is_dir()] == [left]
    assert read_checkpoint(str(new / LOG_START)) == {partition.who: 11}
    assert read_checkpoint(str(new / RECOVERY_POINT)) == {partition.who: 30}
    assert snapshot_offsets(str(new / partition.dir)) == [20]
    assert moving.keepers[NEW].cleaner.offsets == {partition.who: 14} and moving.counted == {"partitions_moved": 1}
    assert world.append(partition).error == 0
    records = moving.records()
    assert moving.loaded() == (records, 11)


def _retain(moving):
    error, bases = moving.log.retain(0, -1, 2000, moving.world.clock.wall_ms())
    assert not error and bases


@pytest.mark.parametrize("point", ["mover.segment_copied", "mover.copied", "mover.checkpointed"])
@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.world.fill(m.partition, 33),
        lambda m: m.world.fill(m.partition, 80),
        lambda m: m.world.roll(m.partition),
        _retain,
        lambda m: m.log.delete_records(0, 22, m.partition.topic_id),
        lambda m: m.log.truncate(0, 27),
        lambda m: m.log.truncate(0, 5),
        lambda m: m.world.append(m.partition, size=600_000),
    ],
    ids=["append", "segments", "roll", "retention", "delete records", "truncate", "truncate much", "large batch"],
)
def test_what_happens_meanwhile_happens_to_the_copy_too(moving, point, change):
    moving.world.fill(moving.partition, 30)
    moving.at[point] = lambda: change(moving)
    moving.ask()
    moving.work()
    assert not moving.at and moving.world.state(moving.partition).log_dir == NEW
    records, log_start = moving.records(), moving.world.state(moving.partition).log_start
    assert read_checkpoint(str(moving.path / "new" / LOG_START)) == {moving.partition.who: log_start}
    copied = [int(one.stem) for one in (moving.path / "new" / moving.partition.dir).glob("*.log")]
    assert sorted(copied) == moving.log.segments(0), "what went meanwhile is not there either"
    assert len(copied) == moving.world.state(moving.partition).segment_count, "not even as one that is to go"
    assert moving.loaded() == (records, log_start)


def test_it_moves_back_and_forth(moving):
    for number, to in enumerate((NEW, OLD, NEW, OLD)):
        moving.world.fill(moving.partition, 10 * (number + 1))
        moving.ask(to)
        moving.work()
        assert moving.world.state(moving.partition).log_dir == to
    records = moving.records()
    assert moving.loaded(OLD) == (records, 0)


@pytest.mark.parametrize("point", ["mover.segment_copied", "mover.copied", "mover.checkpointed"])
def test_one_that_is_called_off_or_asked_for_anew_ends_as_it_was_asked_for_last(moving, point):
    moving.world.fill(moving.partition, 30)
    before = moving.records()
    moving.at[point] = lambda: moving.ask(OLD)
    moving.ask()
    moving.work()
    assert moving.world.state(moving.partition).log_dir == OLD and moving.records() == before
    assert not moving.counted and not moving.world.events.named("partition_not_moved")

    def twice():
        moving.ask(OLD)
        moving.ask(NEW)

    moving.at[point] = twice
    moving.ask()
    moving.work()
    assert moving.world.state(moving.partition).log_dir == NEW and moving.records() == before


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("step", ["names", "write_at", "set_modified", "sync", "write_file", "sync_directory"])
def test_a_copy_that_is_taken_away_while_it_is_made_fails_no_directory(moving, monkeypatch, step, again):
    """As a request handler does that calls the move off, before any step of the copy."""
    moving.world.fill(moving.partition, 30)
    before = moving.records()
    moving.ask()
    real, left = getattr(disk, step), [1]

    def call_off(*given, **named):
        if left:
            left.pop()
            moving.ask(OLD)
            shutil.rmtree(moving.future())
            if again:
                moving.ask(NEW)
        return real(*given, **named)

    monkeypatch.setattr(disk, step, call_off)
    moving.work()
    assert not left and moving.log.log_dir_online(NEW)
    assert moving.world.state(moving.partition).log_dir == (NEW if again else OLD) and moving.records() == before
    assert "partition_moves_failed" not in moving.counted
    assert not moving.world.events.named("partition_not_moved")


def test_a_deleted_partition_is_left_alone(moving):
    moving.world.fill(moving.partition, 30)
    moving.at["mover.segment_copied"] = lambda: moving.log.set_flags(0, 4, 3)
    moving.ask()
    moving.work()
    assert not moving.counted and moving.log.log_dir_online(NEW)


@pytest.mark.parametrize(("number", "online"), [(errno.ENOSPC, True), (errno.EIO, False)])
def test_a_new_directory_that_fails_or_fills_keeps_nothing(moving, monkeypatch, number, online):
    moving.world.fill(moving.partition, 30)
    before = moving.records()

    def fail(*_):
        raise OSError(number, "no")

    monkeypatch.setattr(disk, "write_at", fail)
    moving.ask()
    moving.work()
    assert moving.log.move_of(0) is None and moving.log.log_dir_online(NEW) is online and moving.log.log_dir_online(OLD)
    assert moving.world.state(moving.partition).log_dir == OLD and moving.records() == before
    assert (
        moving.counted == {"partition_moves_failed": 1} and len(moving.world.events.named("partition_not_moved")) == 1
    )
    assert not moving.future().exists()


def test_a_stranger_in_its_place_is_not_touched(moving):
    moving.world.fill(moving.partition, 30)
    stranger = moving.path / "new" / moving.partition.dir
    stranger.mkdir()
    (stranger / "x").touch()
    moving.ask()
    moving.work()
    assert moving.world.state(moving.partition).log_dir == OLD and moving.log.log_dir_online(NEW)
    assert moving.counted == {"partition_moves_failed": 1} and (stranger / "x").exists()


def test_it_waits_for_a_compaction_of_the_partition(moving):
    moving.world.fill(moving.partition, 30)
    moving.keepers[OLD].cleaner.busy = True
    moving.ask()
    moving.work()
    assert moving.log.moves() == [0] and not moving.counted
    moving.keepers[OLD].cleaner.busy = False
    moving.world.clock.advance(2000)
    moving.work()
    assert moving.counted == {"partitions_moved": 1}


def test_a_log_that_grows_faster_than_it_is_copied_moves_all_the_same(tmp_path, monkeypatch):
    moving = Moving(tmp_path, segment_bytes="100000000")
    grown, write_at = [], disk.write_at

    def grow(descriptor, piece, position):
        write_at(descriptor, piece, position)
        if len(grown) < 300:  # far more than is ever needed: a move without an end fails below
            grown.append(moving.world.append(moving.partition, size=300_000))

    moving.world.append(moving.partition, size=300_000)
    monkeypatch.setattr(disk, "write_at", grow)
    moving.ask()
    moving.work()
    assert moving.world.state(moving.partition).log_dir == NEW and 0 < len(grown) < 200
    assert all(answer.error == 0 for answer in grown)
    state = moving.world.state(moving.partition)
    assert state.leo == len(grown) + 1 and state.log_bytes > 300_000 * state.leo
    assert sum(path.stat().st_size for path in (tmp_path / "new").glob("t-0/*.log")) == state.log_bytes
    moving.world.close()


def pieces_of(tmp_path, name, at, end):
    move = ReplicaMove(None, Wish(KeptPartition("t", b"t" * 16, 0, 0, None), NEW, 1), "", "", None, None)
    return [bytes(piece) for piece in move._pieces(str(tmp_path / name), at, end)]


def test_a_file_is_read_from_where_the_copy_ends_to_where_the_log_did(tmp_path, monkeypatch):
    """What is appended meanwhile belongs to the next round: its records may be cut again."""
    monkeypatch.setattr(replica_move, "PIECE_BYTES", 4)
    (tmp_path / "log").write_bytes(bytes(range(20)))
    for at, end, lengths in ((0, 4, [4]), (6, 13, [4, 3]), (5, 6, [1]), (18, 20, [2]), (7, 7, [])):
        found = pieces_of(tmp_path, "log", at, end)
        assert [len(piece) for piece in found] == lengths and b"".join(found) == bytes(range(at, end))


def test_a_file_that_cannot_be_read_is_the_old_directorys_fault(tmp_path):
    (tmp_path / "log").write_bytes(bytes(20))
    (tmp_path / "directory").mkdir()
    with pytest.raises(SourceUnreadable, match="ends at 20, before 21"):
        pieces_of(tmp_path, "log", 15, 21)
    with pytest.raises(SourceUnreadable, match="Is a directory"):
        pieces_of(tmp_path, "directory", 0, 1)
    with pytest.raises(FileNotFoundError):
        pieces_of(tmp_path, "gone", 0, 1)


def test_a_file_of_the_copy_is_as_long_as_it_shall_be_and_synced_when_it_is_to_be(tmp_path, monkeypatch):
    """What a predecessor wrote beyond it is cut; a second call goes on where the first one ended."""
    synced = []
    monkeypatch.setattr(replica_move.disk, "sync", synced.append)
    for name, content in (("old", bytes(range(30))), ("new", bytes(50))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "00000000000000000000.index").write_bytes(content)
    wish = Wish(KeptPartition("t", b"t" * 16, 0, 0, None), NEW, 1)
    move = ReplicaMove(None, wish, str(tmp_path / "old"), str(tmp_path / "new"), None, None)
    monkeypatch.setattr(move, "_state", lambda: None)
    copy = tmp_path / "new" / "00000000000000000000.index"
    assert move._copy_file(0, ".index", 10, sync=False, paced=False) == 10
    assert copy.read_bytes() == bytes(range(10)) and not synced and move._lengths == {(0, ".index"): 10}
    assert move._copy_file(0, ".index", 24, sync=True, paced=False) == 14
    assert copy.read_bytes() == bytes(range(24)) and len(synced) == 1 and move.bytes_copied == 24
    assert move._copy_file(0, ".index", 20, sync=False, paced=False) == 0
    assert copy.read_bytes() == bytes(range(20)) and move._lengths == {(0, ".index"): 20}


def test_it_looks_for_moves_when_one_was_asked_for_or_has_ended_else_now_and_then(moving, monkeypatch):
    looked, moves = [], [3]
    mover, due = moving.mover, []
    monkeypatch.setattr(mover, "_moves", lambda: moves[0])
    monkeypatch.setattr(mover, "_begin_next", lambda: looked.append(1))
    monkeypatch.setattr(mover, "_look", SimpleNamespace(due=lambda: bool(due)))
    moving.work(3)
    assert len(looked) == 1
    moves[0] = 4
    moving.work(3)
    assert len(looked) == 2
    due.append(1)
    moving.work(1)
    assert len(looked) == 3


class Threaded:
    """A mover with a thread, whose round is `copy(under, is_first)`; `rung`: how often it woke the keeper."""

    def __init__(self, monkeypatch, copy):
        self.rung, self.moves, self.begun, self.changed = [], 0, [], []
        keeper = SimpleNamespace(clock=ManualClock(), config=SimpleNamespace(), log_dir=0)
        made = ReplicaMover(
            SimpleNamespace(),
            {0: SimpleNamespace(keeper=keeper)},
            lambda: self.moves,
            object,
            lambda: self.rung.append(1),
        )
        self.mover, self.clock = made, keeper.clock
        made._copy = copy
        made._begin_next = lambda: self.begun.append(1)
        made._change_places = lambda under, copied: self.changed.append((under, copied))


def test_a_round_ends_in_the_thread_and_wakes_the_keeper(monkeypatch):
    world = Threaded(monkeypatch, lambda under, is_first: replica_mover.Ended((under, is_first)))
    mover = world.mover
    mover._under = "under"
    mover._start("under", is_first=True)
    mover._thread.join(10)
    assert world.rung == [1] and world.changed == []
    mover.do_work()
    assert world.changed == [("under", ("under", True))] and mover._thread is None
    mover.do_work()
    assert len(world.changed) == 1, "there is no further one"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_is_broken_ends_the_process(monkeypatch):
    """Another one takes over."""
    codes = []

    def leave(code):
        codes.append(code)
        raise SystemExit

    monkeypatch.setattr(replica_mover.os, "_exit", leave)
    world = Threaded(monkeypatch, lambda under, is_first: 1 // 0)
    world.mover._under = "under"
    world.mover._start("under", is_first=True)
    world.mover._thread.join(10)
    assert (codes, world.rung, world.changed) == ([1], [], [])


def test_it_looks_for_moves_when_one_is_asked_for_and_now_and_then(monkeypatch):
    world = Threaded(monkeypatch, None)
    for _ in range(3):
        world.mover.do_work()
    assert len(world.begun) == 2, "at once, and by its own look"
    assert 0 < world.mover.remaining_ms() <= replica_mover.LOOK_MS
    world.moves = 1
    world.mover.do_work()
    world.mover.do_work()
    assert len(world.begun) == 3
    world.clock.advance(replica_mover.LOOK_MS)
    world.mover.do_work()
    assert len(world.begun) == 4
    world.mover._under = "under"
    assert world.mover.remaining_ms() == replica_mover.LOOK_MS


def test_at_the_end_a_copy_stops_where_it_is(monkeypatch):
    joined = []
    world = Threaded(monkeypatch, None)
    world.mover._thread = SimpleNamespace(join=lambda timeout: joined.append(timeout))
    world.mover.stop()
    assert world.mover._stopping and len(joined) == 1


@pytest.mark.parametrize(
    ("to", "at_home", "is_busy", "is_known", "online", "begun"),
    [
        (1, True, False, True, True, [1]),
        (0, True, False, True, True, []),
        (1, True, True, True, True, []),
        (1, False, False, True, True, []),
        (2, True, False, False, True, "given up"),
        (1, True, False, True, False, "given up"),
    ],
    ids=["moves", "is there", "is being cleaned", "nowhere here", "unknown directory", "offline directory"],
)
def test_which_move_is_begun(to, at_home, is_busy, is_known, online, begun):
    given_up, moves, partition = [], [], object()
    log = SimpleNamespace(
        moves=lambda: [7], move_of=lambda ordinal: (to, 3), log_dir_online=lambda log_dir: online,
        give_up_move=lambda *which: given_up.append(which),
    )  # fmt: skip
    keeper = SimpleNamespace(clock=ManualClock(), log_dir=0)
    source = SimpleNamespace(
        keeper=keeper,
        partition_at=lambda _: partition if at_home else None,
        cleaner=SimpleNamespace(is_at=lambda _: is_busy),
    )
    target = SimpleNamespace(keeper=SimpleNamespace(log_dir=1), partition_at=lambda _: None)
    mover = ReplicaMover(log, {0: source, 1: target}, lambda: 0)
    mover._begin = lambda wish, *where: moves.append((wish.to, wish.number, *where))
    mover._begin_next()
    assert given_up == ([(7, 3)] if begun == "given up" else [])
    assert moves == ([(1, 3, source, target)] if begun == [1] else [])
