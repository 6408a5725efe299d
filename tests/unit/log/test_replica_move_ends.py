"""Copying a partition for its move: whose move it is, what is shown of it, and how it comes to its end."""

import os
import struct
from types import SimpleNamespace

import pytest

from mpbroker.log import replica_move
from mpbroker.log.kept_partitions import KeptPartition
from mpbroker.log.partition_directory import EPOCH_FILE, METADATA_FILE, MOVED_HERE
from mpbroker.log.replica_move import (
    FILES,
    INDEX,
    LOG,
    MOST_NEAR_BYTES,
    NEAR_BYTES,
    TIME_INDEX,
    TXN_INDEX,
    CalledOff,
    Copied,
    ReplicaMove,
    SourceUnreadable,
    Wish,
)
from mpbroker.log.segment_swap import segment_path
from mpbroker.shm.layout import PARTITION_EXISTS, PARTITION_ONLINE
from tests.harness.noted_calls import Script

SHOWN = PARTITION_EXISTS | PARTITION_ONLINE
STATE = SimpleNamespace(
    flags=SHOWN, dir="t-0", truncations=4, log_start=2, segment_count=3, active_base=50, leo=70, position=0
)  # fmt: skip
COPIED = Copied(4, 2, 40, 2, 60, (1, 2, 3, 4), 9)


class World:
    """A move of t-0 from `old` to `new`; `done`: what it asked of the log, and where it passed."""

    def __init__(self, tmp_path, **answers):
        self.done = []
        self.source, self.target = tmp_path / "old", tmp_path / "new"
        for path in (self.source, self.target):
            path.mkdir()
        given = {
            "move_of": lambda _: (1, 3),
            "state": lambda _: STATE,
            "segments": lambda _: [30, 40, 45, 50],
        } | answers
        log = Script(self.done, "", **given)
        wish = Wish(KeptPartition(7, b"t" * 16, "t", 0, None), 1, 3)
        self.made = ReplicaMove(
            log, wish, str(self.source), str(self.target), lambda _: None, lambda point: self.done.append(point)
        )

    def write(self, name, content=b"", directory=None):
        path = (directory or self.source) / name
        path.write_bytes(content)
        return path


def segment(base, suffix):
    return os.path.basename(segment_path("", base, suffix))


@pytest.mark.parametrize(
    ("answers", "raised"),
    [
        ({}, None),
        ({"move_of": lambda _: None}, CalledOff),
        ({"move_of": lambda _: (1, 2)}, CalledOff),
        ({"move_of": lambda _: (1, 4)}, CalledOff),
        ({"state": lambda _: SimpleNamespace(flags=SHOWN | 64, dir="t-0")}, None),
        ({"state": lambda _: SimpleNamespace(flags=PARTITION_EXISTS, dir="t-0")}, CalledOff),
        ({"state": lambda _: SimpleNamespace(flags=PARTITION_ONLINE, dir="t-0")}, CalledOff),
        ({"state": lambda _: SimpleNamespace(flags=SHOWN, dir="u-0")}, CalledOff),
    ],
)
def test_a_move_goes_on_while_it_is_wanted_and_its_partition_there(tmp_path, answers, raised):
    world = World(tmp_path, **answers)
    assert world.made.is_called_off() is (raised is not None)
    if raised is None:
        assert world.made._state().dir == "t-0"
    else:
        with pytest.raises(raised):
            world.made._state()
    assert world.done[0] == ("move_of", 7) and world.done[1:2] in ([("state", 7)], [("move_of", 7)])


def test_a_log_that_cannot_be_read_is_not_called_off(tmp_path):
    def broken(ordinal):
        raise RuntimeError("its row is being written")

    world = World(tmp_path, state=broken)
    with pytest.raises(SourceUnreadable, match="its row is being written"):
        world.made._state()
    assert world.made.is_called_off() is False


@pytest.mark.parametrize(("count", "bases"), [(1, [50]), (3, [40, 45, 50]), (4, [30, 40, 45, 50])])
def test_segments_that_are_being_deleted_are_not_on_the_logs_books(tmp_path, count, bases):
    assert World(tmp_path).made._bases(SimpleNamespace(segment_count=count)) == bases


def test_of_another_log_nothing_is_kept_but_whose_directory_it_is(tmp_path):
    world = World(tmp_path)
    made = world.made
    for name in (METADATA_FILE, EPOCH_FILE, MOVED_HERE, segment(0, LOG)):
        world.write(name, directory=world.target)
    made._closed, made._lengths, made._unsynced = {0}, {(5, LOG): 7}, {"path"}
    assert made._truncations == -1, "no log at all yet"
    made._begin_anew(STATE)
    assert os.listdir(world.target) == [METADATA_FILE]
    assert (made._closed, made._lengths, made._unsynced, made._truncations) == (set(), {}, set(), 4)


def test_a_log_that_grows_too_fast_is_allowed_more_up_to_a_bound(tmp_path):
    made, allowed = World(tmp_path).made, []
    for _ in range(8):
        allowed.append(made._near)
        made._allow_more()
    assert allowed == [NEAR_BYTES << min(number, 6) for number in range(8)] and allowed[-1] == MOST_NEAR_BYTES
    assert (NEAR_BYTES, MOST_NEAR_BYTES) == (128 * 1024, 8 * 1024 * 1024)


def following(tmp_path, rounds, near=10, **state):
    """A copy that had caught up; `rounds`: what each further one missed."""
    world = World(tmp_path)
    world.made._near = near
    world.made._state = lambda: SimpleNamespace(**vars(STATE) | state)
    left = iter(rounds)
    world.made._round = lambda found, *, paced: world.done.append(paced) or next(left)
    world.made._lengths = {(50, suffix): number for number, suffix in enumerate(FILES, 11)}
    return world, world.made.follow(COPIED)


@pytest.mark.parametrize(
    "rounds",
    [[0], [10], [11, 10], [None, 0], [11] * 7 + [10], [None, 11, None, 3]],
    ids=lambda rounds: str(len(rounds)),
)
def test_the_last_of_it_is_copied_unthrottled(tmp_path, rounds):
    """Half of what may be copied under the lock, then as much again may have come."""
    world, found = following(tmp_path, rounds)
    assert found == Copied(4, 3, 50, 2, 60, (11, 12, 13, 14), 20)
    assert world.done == [False] * len(rounds) and world.made._near == 10


@pytest.mark.parametrize("rounds", [[11] * 8, [None] * 8])
def test_who_cannot_catch_up_copies_again_and_is_allowed_more(tmp_path, rounds):
    world, found = following(tmp_path, [*rounds, 0])
    assert found is None and len(world.done) == 8 and world.made._near == 20


@pytest.mark.parametrize("state", [{"truncations": 5}, {"log_start": 3}, {"truncations": 2, "log_start": 4}])
def test_another_log_is_copied_again(tmp_path, state):
    world, found = following(tmp_path, [0], **state)
    assert found is None and world.done == [] and world.made._near == 10


@pytest.mark.parametrize("missing", [0, 9, 10])
def test_a_copy_that_has_caught_up_is_settled(tmp_path, missing):
    made = World(tmp_path).made
    made._near, made._settle = 10, lambda state: ("settled", state)
    made._round = lambda state, *, paced: missing if paced else 99
    assert made.copy() == ("settled", STATE) and made._truncations == 4


@pytest.mark.parametrize(("odd", "there"), [(0, True), (1, True), (7, True), (0, False)])
def test_positions_of_batches_are_those_of_the_index(tmp_path, odd, there):
    """Half an entry at its end is being written."""
    world = World(tmp_path)
    if there:
        world.write(segment(50, INDEX), struct.pack(">iiii", 3, 400, 9, 900) + bytes(odd))
    assert world.made._positions(50) == ([(400, 53), (900, 59)] if there else [])


@pytest.mark.parametrize(("at", "offset"), [(1, 50), (399, 50), (400, 50), (401, 53), (900, 53), (901, 59), (5000, 59)])
def test_rather_less_than_more_is_shown(tmp_path, at, offset):
    """What ends where a batch begins has nothing of that batch."""
    world = World(tmp_path)
    for name, size in ((segment(40, LOG), 5), (segment(50, LOG), 8), (segment(50, INDEX), 100), (EPOCH_FILE, 30)):
        world.write(name, bytes(size), world.target)
    positions = [(400, 53), (900, 59)]
    world.made._show(50, positions, at)
    world.made._show(50, [], at)
    assert world.done == [("show_future", 7, offset, 13), ("show_future", 7, 50, 13)]


@pytest.mark.parametrize(("length", "asks"), [(NEAR_BYTES, False), (NEAR_BYTES + 1, True)])
@pytest.mark.parametrize("suffix", [LOG, INDEX])
def test_the_index_is_asked_where_there_is_much_to_copy(tmp_path, length, asks, suffix):
    world, asked = World(tmp_path), []
    world.write(segment(50, suffix), bytes(length + 9))
    world.made._positions = lambda base: asked.append(base) or []
    world.made._lengths[50, suffix] = 9
    assert world.made._copy_file(50, suffix, length + 9, sync=False, paced=False) == length
    assert asked == [50] * (asks and suffix == LOG)


@pytest.mark.parametrize("transactions", [False, True])
def test_at_its_end_a_copy_is_synced_as_a_whole_before_it_is_marked(tmp_path, monkeypatch, transactions):
    world, synced = World(tmp_path), []
    made, monkey = world.made, monkeypatch.setattr
    names = [segment(40, LOG), segment(40, TIME_INDEX), segment(50, LOG), segment(50, INDEX)]
    for name in names + [segment(50, TXN_INDEX)] * transactions:
        world.write(name, bytes(4), world.target)
    made._unsynced = {str(world.target / name) for name in names[:2]}
    made._lengths = {(50, suffix): number for number, suffix in enumerate(FILES, 11)}
    made._copy_others = lambda: synced.append("others")
    monkey(replica_move.disk, "sync", lambda to: synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{to}"))))
    monkey(replica_move.disk, "sync_directory", lambda path: synced.append((path, max(os.listdir(path)))))
    monkey(
        replica_move.disk, "write_file", lambda path, data, sync_it: synced.append(sync_it) or open(path, "xb").close()
    )
    found = made._settle(STATE)
    assert found == Copied(4, 3, 50, 2, 70, (11, 12, 13, 14), 2 * NEAR_BYTES)
    files = sorted(names[:2]) + [segment(50, LOG)] + [segment(50, TXN_INDEX)] * transactions
    assert synced == [*files, "others", True, (str(world.target), MOVED_HERE)]
    assert made._unsynced == set()
    assert world.done == [("show_future", 7, 70, 4 * 2), "mover.copied"]


@pytest.mark.parametrize("has_epochs", [False, True])
@pytest.mark.parametrize("offsets", [[], [5], [5, 20], [5, 20, 100]])
def test_the_newest_two_snapshots_of_producers_go_along(tmp_path, has_epochs, offsets):
    world = World(tmp_path)
    names = [f"{offset:020d}.snapshot" for offset in offsets]
    for name in names + [EPOCH_FILE] * has_epochs + [segment(40, LOG)]:
        world.write(name, name.encode())
    world.made._copy_others()
    expected = names[-2:] + [EPOCH_FILE] * has_epochs
    assert {name: (world.target / name).read_bytes() for name in os.listdir(world.target)} == {
        name: name.encode() for name in expected
    }
