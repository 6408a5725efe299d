"""Single steps of a partition's move: what prepares a copy, who is still wanted, what a round that ended leads to."""

import errno
from types import SimpleNamespace

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.log import deletion, disk, partition_directory, replica_mover
from mpbroker.log.checkpoint_file import HIGH_WATERMARK, LOG_START, RECOVERY_POINT
from mpbroker.log.kept_partitions import KeptPartition
from mpbroker.log.replica_move import CalledOff, Copied, SourceUnreadable, Wish
from mpbroker.log.replica_mover import Ended, ReplicaMover, Stopped, Under
from mpbroker.shm.clock import ManualClock
from tests.harness.noted_calls import Script

PARTITION = KeptPartition(7, b"t" * 16, "t", 0, None)
WISH = Wish(PARTITION, 1, 3)
COPIED = Copied(4, 2, 40, 11, 60, (1, 2, 3, 4), 9)
FUTURE = partition_directory.future_name("t-0", b"t" * 16)


class World:
    """A mover whose surroundings are scripts; `done`: every call, in order."""

    def __init__(self, tmp_path=None, log=None, **answers):
        self.done = []
        self.old, self.new = f"{tmp_path}/old", f"{tmp_path}/new"
        self.keepers = [self._keeper(number, answers) for number in (0, 1)]
        self.move = Script(self.done, "move.", {"bytes_copied": 900}, **answers.get("move", {}))
        log = {"move_of": lambda _: (1, 3), "give_up_move": lambda *_: False} | (log or {})
        self.mover = ReplicaMover(Script(self.done, "log.", **log), dict(enumerate(self.keepers)), lambda: 0)
        self.under = Under(WISH, self.move, self.keepers[0], self.keepers[1], 0.0)

    def _keeper(self, number, answers):
        path = (self.old, self.new)[number]
        name, given = ("old", "new")[number], answers.get(("old", "new")[number], {})
        holds = {
            "clock": ManualClock(), "data_dir": path, "log_dir": number,
            "events": Script(self.done, f"{name}.events."),
            "config": SimpleNamespace(replica_alter_log_dirs_io_max_bytes_per_second=0.0),
        }  # fmt: skip
        keeper = Script(
            self.done, f"{name}.", holds, **{"directory": lambda _: f"{path}/t-0", "state": "state"} | given
        )
        return SimpleNamespace(
            keeper=keeper,
            checkpoints=Script(self.done, f"{name}.", **{"expect": True} | given),
            cleaner=Script(self.done, f"{name}.cleaner.", **given),
            partition_at=lambda _: given.get("partition"),
        )

    def replace(self, *names):
        """Methods of the mover itself that are only noted."""
        for name in names:
            setattr(self.mover, name, lambda *given, _name=name: self.done.append((_name, *given)))

    def named(self, *names):
        return [one for one in self.done if one[0] in names]


# ---- the copy


@pytest.mark.parametrize(
    ("raised", "ended"),
    [
        (None, Ended(COPIED)),
        (CalledOff(), Ended(None)),
        (Stopped(), Ended(None)),
        (SourceUnreadable("old disk"), Ended(None, "old disk")),
    ],
)
@pytest.mark.parametrize("is_first", [False, True])
def test_what_a_round_comes_to(raised, ended, is_first):
    def copy():
        if raised is not None:
            raise raised
        return COPIED

    world = World(move={"copy": copy})
    world.replace("_prepare")
    assert world.mover._copy(world.under, is_first) == ended
    assert world.done == [("_prepare", world.under)] * is_first + [("move.copy",)]


@pytest.mark.parametrize(
    ("number", "called_off", "is_fault"),
    [
        (errno.ENOENT, True, False), (errno.EEXIST, True, False), (errno.ENOENT, False, True),
        (errno.EEXIST, False, True), (errno.EIO, True, True), (errno.ENOSPC, False, True),
    ],
)  # fmt: skip
def test_a_copy_that_fails_because_it_was_taken_away_is_nobodys_fault(number, called_off, is_fault):
    error = OSError(number, "no")
    world = World(move={"copy": lambda: (_ for _ in ()).throw(error), "is_called_off": called_off})
    assert world.mover._copy(world.under, False) == (Ended(None, str(error), error) if is_fault else Ended(None))


def test_a_copy_that_nobody_wants_ends_within_a_pause(monkeypatch):
    """Its files were taken away, and are open until then."""
    world, paces, off = World(), [], [False]
    monkeypatch.setattr(replica_mover, "Pace", lambda per_second, stopping: paces.append(stopping))
    monkeypatch.setattr(replica_mover, "ReplicaMove", lambda *_: SimpleNamespace(is_called_off=lambda: off[0]))
    monkeypatch.setattr(world.mover, "_start", lambda under, is_first: None)
    world.mover._begin(WISH, *world.keepers)
    assert paces[0]() is False
    off[0] = True
    assert paces[0]() is True


@pytest.mark.parametrize("is_marked", [False, True])
@pytest.mark.parametrize("is_left", [False, True])
def test_nothing_of_an_earlier_move_is_in_a_copys_way(tmp_path, monkeypatch, is_marked, is_left):
    """What marks the old directory goes once its name is on disk, and that it went is on disk before the copy is."""
    world, synced = World(tmp_path), []
    home, left = tmp_path / "old" / "t-0", tmp_path / "old" / partition_directory.left_name("t-0", b"t" * 16)
    for path in (home, tmp_path / "new", *([left] if is_left else [])):
        path.mkdir(parents=True)
    mark = home / partition_directory.MOVED_HERE
    if is_marked:
        mark.touch()
    monkeypatch.setattr(replica_mover.disk, "sync_directory", lambda path: synced.append((path, mark.exists())))
    world.mover._prepare(world.under)
    assert not mark.exists() and not left.exists() and home.exists()
    assert [path.name for path in (tmp_path / "new").iterdir()] == [FUTURE]
    of_mark = [one for one in synced if one[0] in (world.old, f"{world.old}/t-0")]
    assert of_mark[: 2 * is_marked] == [(world.old, True), (f"{world.old}/t-0", False)][: 2 * is_marked]


def test_what_somebody_put_into_what_an_earlier_move_left_gets_another_name(tmp_path):
    world = World(tmp_path)
    left = tmp_path / "old" / partition_directory.left_name("t-0", b"t" * 16)
    for path in (tmp_path / "old" / "t-0", tmp_path / "new", left / "photos"):
        path.mkdir(parents=True)
    world.mover._prepare(world.under)
    assert not left.exists()
    [kept] = [path for path in (tmp_path / "old").iterdir() if path.name != "t-0"]
    assert deletion.is_retired(kept.name) and (kept / "photos").is_dir()


# ---- what a round leads to


@pytest.mark.parametrize("stopping", [False, True])
@pytest.mark.parametrize("wanted", [False, True])
def test_a_copy_that_nobody_wants_is_taken_away(stopping, wanted):
    """At the broker's end it stays: the next start goes on with it."""
    world = World()
    world.replace("_give_up", "_remove_copy", "_change_places")
    world.mover._is_wanted = lambda wish: wanted
    world.mover._stopping, world.mover._under, world.mover._thread = stopping, world.under, "thread"
    world.mover._round_ended(world.under, Ended(None))
    removed = not stopping and not wanted
    assert world.done == [("new.expect_no_more", PARTITION)] + [("_remove_copy", world.under)] * removed
    assert world.mover._under is None and world.mover._thread is None


def test_a_round_that_failed_is_given_up_and_one_that_is_whole_changes_places():
    world = World()
    world.replace("_give_up", "_remove_copy", "_change_places")
    world.mover._under = world.under
    world.mover._round_ended(world.under, Ended(COPIED))
    assert world.done == [("_change_places", world.under, COPIED)] and world.mover._under is world.under
    failed = Ended(None, "full")
    world.mover._round_ended(world.under, failed)
    assert world.done[1:] == [("new.expect_no_more", PARTITION), ("_give_up", world.under, failed)]
    assert world.mover._under is None


@pytest.mark.parametrize(
    ("old", "new", "move_of", "wanted"),
    [
        (PARTITION, None, (1, 9), True),
        (None, PARTITION, (1, 3), True),
        (PARTITION._replace(topic_id=b"u" * 16), None, (1, 3), False),
        (None, None, (1, 3), False),
        (PARTITION, None, None, False),
        (PARTITION, None, (0, 3), False),
    ],
)
def test_who_is_still_wanted(old, new, move_of, wanted):
    """The same partition, to the same log directory, however often it was asked for."""
    world = World(log={"move_of": lambda _: move_of}, old={"partition": old}, new={"partition": new})
    assert world.mover._is_wanted(WISH) is wanted


@pytest.mark.parametrize(
    ("error", "fails"), [(None, False), (OSError(errno.EIO, "broken"), True), (OSError(errno.ENOSPC, "full"), False)]
)
@pytest.mark.parametrize(("refused", "state", "removed"), [(True, "state", 0), (False, None, 0), (False, "state", 1)])
def test_a_copy_that_failed_is_said_and_removed_where_nobody_needs_it(error, fails, refused, state, removed):
    world = World(log={"give_up_move": lambda *_: refused}, old={"state": state})
    world.replace("_remove_copy")
    world.mover._give_up(world.under, Ended(None, "why", error))
    assert len(world.named("new.io_failed")) == fails and world.named("old.count") == [
        ("old.count", "partition_moves_failed")
    ]
    [line] = world.named("old.events.warning")
    assert line[1:] == ("partition_not_moved", ("partition", "t-0"), ("to", world.new), ("reason", "why"))
    assert ("log.give_up_move", 7, 3) in world.done and world.named("_remove_copy") == [
        ("_remove_copy", world.under)
    ] * removed


def test_a_copy_is_removed_from_the_new_directory(monkeypatch):
    removed = []
    monkeypatch.setattr(deletion, "remove_partition", lambda path: removed.append(path) or 1 // 0)
    world = World()
    with pytest.raises(ZeroDivisionError):
        world.mover._remove_copy(world.under)
    assert removed == [f"{world.new}/{FUTURE}"]
    monkeypatch.setattr(deletion, "remove_partition", lambda path: disk.unlink("/there/is/no/such"))
    world.mover._remove_copy(world.under)


# ---- the end


@pytest.mark.parametrize(
    ("code", "step"),
    [
        (None, "_start"),
        (ErrorCode.REQUEST_TIMED_OUT, "_start"),
        (ErrorCode.NONE, "_moved"),
        (ErrorCode.KAFKA_STORAGE_ERROR, "_round_ended"),
    ],
)
def test_a_copy_that_is_whole_changes_places(code, step):
    """With what came since; one whose log was busy meanwhile goes on."""
    last = COPIED._replace(active_base=50)
    world = World(log={"end_move": lambda *_: code}, move={"follow": lambda _: last})
    world.replace("_start", "_moved", "_round_ended")
    world.mover._change_places(world.under, COPIED)
    offsets = {RECOVERY_POINT: 60, HIGH_WATERMARK: 60, LOG_START: 11}
    steps = [("new.expect", PARTITION, offsets), ("old.crash_point", "mover.checkpointed"), ("move.follow", COPIED)]
    assert world.done[:4] == [*steps, ("log.end_move", 7, b"t" * 16, 1, 3, *last)]
    ended = [Ended(None, f"it could not change places with its copy (error {code})")] if step == "_round_ended" else []
    assert world.done[4:] == [(step, world.under, *ended)]


@pytest.mark.parametrize(
    ("raised", "ended"),
    [
        (CalledOff("no more"), Ended(None, "")),
        (SourceUnreadable("old disk"), Ended(None, "old disk")),
        (OSError(errno.ENOENT, "gone"), "failed"),
        (None, "started"),
    ],
)
def test_what_may_hinder_the_last_of_it(raised, ended):
    def follow(copied):
        if raised is not None:
            raise raised

    world = World(move={"follow": follow})
    world.replace("_start", "_moved", "_round_ended")
    world.mover._failed = lambda under, error: "failed"
    world.mover._change_places(world.under, COPIED)
    assert world.done[3:] == [("_start", world.under) if ended == "started" else ("_round_ended", world.under, ended)]


def test_without_its_checkpoints_a_copy_does_not_change_places():
    """A start would not know how far it is to be believed."""
    world = World(new={"expect": False})
    world.replace("_start", "_moved", "_round_ended")
    world.mover._change_places(world.under, COPIED)
    told = Ended(None, "the checkpoints of the new log directory cannot be written")
    assert world.done[1:] == [("_round_ended", world.under, told)]


@pytest.mark.parametrize("cleaned_to", [None, 0, 14])
@pytest.mark.parametrize("is_left", [False, True])
def test_once_a_move_is_on_disk_its_mark_goes(tmp_path, monkeypatch, is_left, cleaned_to):
    """Not while a directory of the old name is there: of two only one is marked."""
    world = World(tmp_path, old={"cleaned_to": cleaned_to})
    home, moved = tmp_path / "old" / "t-0", tmp_path / "new" / "t-0"
    for path in (moved, *([home] if is_left else [])):
        path.mkdir(parents=True)
    mark = moved / partition_directory.MOVED_HERE
    mark.touch()
    synced = []
    monkeypatch.setattr(replica_mover.disk, "sync_directory", lambda path: synced.append((path, mark.exists())))
    world.mover._under = world.under
    world.mover._moved(world.under)
    assert synced == [(world.old, True)] and mark.exists() is is_left and world.mover._under is None
    taken = [("new.cleaner.take_in", PARTITION, cleaned_to)]
    assert world.named("new.cleaner.take_in") == (taken if cleaned_to is not None else [])
    assert world.named("old.count") == [("old.count", "partitions_moved")] and not world.named("old.io_failed")
    [line] = world.named("old.events.info")
    told = dict(line[2:])
    assert line[1] == "partition_moved" and told.pop("ms") > 0
    assert told == {"partition": "t-0", "source": world.old, "to": world.new, "bytes": 900}


def test_an_old_directory_that_cannot_be_synced_is_said(tmp_path, monkeypatch):
    world, error = World(tmp_path), OSError(errno.EIO, "broken")
    monkeypatch.setattr(replica_mover.disk, "sync_directory", lambda path: (_ for _ in ()).throw(error))
    world.mover._moved(world.under)
    assert world.named("old.io_failed") == [("old.io_failed", "directory_not_synced", error, ("partition", "t-0"))]
    assert world.named("old.count") == [("old.count", "partitions_moved")]
