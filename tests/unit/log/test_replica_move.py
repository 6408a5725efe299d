"""Copying a partition for its move, step by step: what is paced, what is synced and when, how much is missing."""

import os
from types import SimpleNamespace

import pytest

from mpbroker.log import replica_move
from mpbroker.log.replica_move import FILES, LOG, TXN_INDEX, ReplicaMove, SourceUnreadable
from mpbroker.log.segment_swap import segment_path

BASE = 5


class World:
    """A source directory with a segment; `paced`, `shown` and `looked`: what was called for each piece."""

    def __init__(self, tmp_path):
        self.source, self.target = tmp_path / "source", tmp_path / "target"
        self.source.mkdir()
        self.target.mkdir()
        self.paced, self.shown, self.looked, self.points = [], [], [], []
        made = self.made = ReplicaMove.__new__(ReplicaMove)
        made._source, made._target = str(self.source), str(self.target)
        made._pace, made._crash_point = self.paced.append, self.points.append
        made._closed, made._lengths, made._unsynced, made.bytes_copied = set(), {}, set(), 0
        made._positions = lambda base: []
        made._show = lambda base, positions, at: self.shown.append((base, at))
        made._state = lambda: self.looked.append(1)

    def write(self, suffix, content, base=BASE):
        path = segment_path(str(self.source), base, suffix)
        with open(path, "wb") as file:
            file.write(content)
        os.utime(path, ns=(7_000_000_000, 7_000_000_000))

    def copied(self, suffix, base=BASE):
        with open(segment_path(str(self.target), base, suffix), "rb") as file:
            return file.read()


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.setattr(replica_move, "PIECE_BYTES", 4)
    return World(tmp_path)


@pytest.fixture
def synced(monkeypatch):
    found = []
    monkeypatch.setattr(replica_move.disk, "sync", found.append)
    return found


@pytest.mark.parametrize("paced", [False, True])
@pytest.mark.parametrize("sync", [False, True])
def test_a_file_is_copied_in_pieces_up_to_a_length(world, synced, sync, paced):
    world.write(LOG, b"0123456789")
    with open(segment_path(str(world.target), BASE, LOG), "wb") as file:
        file.write(b"a longer one of a predecessor")
    assert world.made._copy_file(BASE, LOG, 9, sync=sync, paced=paced) == 9
    assert world.copied(LOG) == b"012345678" and world.made.bytes_copied == 9
    assert world.paced == ([4, 4, 1] if paced else []) and len(synced) == sync and len(world.looked) == 3
    assert world.shown == [(BASE, 4), (BASE, 8), (BASE, 9)]
    assert world.made._copy_file(BASE, LOG, 10, sync=False, paced=True) == 1, "what came since"
    assert world.copied(LOG) == b"0123456789" and world.made.bytes_copied == 10
    assert world.made._copy_file(BASE, LOG, 10, sync=False, paced=True) == 0


def test_only_of_the_log_itself_offsets_are_shown(world, synced):
    for suffix in FILES:
        world.write(suffix, b"01")
        world.made._copy_file(BASE, suffix, 2, sync=False, paced=False)
    assert world.shown == [(BASE, 2)]


def test_a_file_that_retention_may_remove_is_not_open_while_the_next_piece_waits(world, synced):
    """At a slow pace it would keep its space for minutes."""
    world.write(LOG, b"0123456789")
    path = segment_path(str(world.source), BASE, LOG)

    def pace(_):
        open_now = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
        world.paced.append(path in {os.readlink(link) for link in open_now if os.path.exists(link)})

    world.made._pace = pace
    world.made._copy_file(BASE, LOG, 10, sync=False, paced=True)
    assert world.paced == [False] * 3


def test_a_file_that_is_shorter_than_was_said_is_no_copy(world):
    world.write(LOG, b"01234")
    with pytest.raises(SourceUnreadable, match="ends at 5, before 9"):
        world.made._copy_file(BASE, LOG, 9, sync=False, paced=False)


@pytest.mark.parametrize("paced", [False, True])
def test_closed_segments_keep_the_time_of_their_last_write(world, synced, paced):
    """Those that were copied in the background are synced all together, later ones at once."""
    for base in (BASE, 9):
        world.write(LOG, b"0123456", base)
    world.write(FILES[1], b"01", BASE)
    assert world.made._copy_closed([BASE, 9], paced=paced) == 16
    paths = [
        segment_path(str(world.target), base, suffix) for base, suffix in ((BASE, LOG), (BASE, FILES[1]), (9, LOG))
    ]
    assert world.made._unsynced == (set(paths) if paced else set()) and len(synced) == (0 if paced else 3)
    assert {os.stat(path).st_mtime_ns for path in (paths[0], paths[2])} == {7_000_000_000}
    assert world.made._closed == {BASE, 9} and world.made._lengths == {}
    assert world.points == ["mover.segment_copied"] * 2
    assert world.made._copy_closed([BASE, 9], paced=paced) == 0


def test_of_the_active_segment_what_counts_is_copied(world, synced):
    for suffix in FILES:
        world.write(suffix, b"0123456789")
    state = SimpleNamespace(active_base=BASE, position=9, index_bytes=4, time_index_bytes=0, txn_index_bytes=0)
    assert world.made._copy_active(state, paced=False) == 13
    assert not os.path.exists(segment_path(str(world.target), BASE, TXN_INDEX)), "nothing was aborted"
    state.txn_index_bytes = 3
    assert world.made._copy_active(state, paced=False) == 3 and world.copied(TXN_INDEX) == b"012"


def test_a_round_says_how_much_it_copied(world):
    made, state = world.made, SimpleNamespace(active_base=9, truncations=1)
    made._bases = lambda state: [BASE, 7, 9]
    made._drop_others = world.points.append
    made._copy_closed = lambda bases, *, paced: world.points.append((bases, paced)) or 30
    made._copy_active = lambda state, *, paced: world.points.append(paced) or 4
    assert made._round(state, paced=True) == 34
    assert world.points == [[BASE, 7, 9], ([BASE, 7], True), True]
    made._bases = lambda state: [BASE, 7]
    assert made._round(state, paced=True) is None and len(world.points) == 3, "it has rolled"


@pytest.mark.parametrize(("truncations", "bases", "raises"), [(1, [9], True), (2, [9], False), (1, [8, 9], False)])
def test_a_file_that_is_gone_is_an_error_where_the_log_is_the_same(world, truncations, bases, raises):
    def fail(*_, **__):
        raise FileNotFoundError

    made, found = world.made, iter([[9], bases])
    made._bases = lambda state: next(found)
    made._drop_others, made._copy_closed = lambda bases: None, fail
    made._state = lambda: SimpleNamespace(truncations=truncations)
    if raises:
        with pytest.raises(FileNotFoundError):
            made._round(SimpleNamespace(active_base=9, truncations=1), paced=True)
    else:
        assert made._round(SimpleNamespace(active_base=9, truncations=1), paced=True) is None


def test_a_segment_that_is_no_more_leaves_nothing_in_the_copy(world):
    for base in (BASE, 9, 12):
        for suffix in FILES[:2]:
            with open(segment_path(str(world.target), base, suffix), "wb"):
                pass
    made = world.made
    made._closed, made._lengths = {BASE, 9}, {(12, LOG): 5}
    made._unsynced = {segment_path(str(world.target), base, LOG) for base in (BASE, 9, 12)}
    made._drop_others([9])
    assert sorted(os.listdir(world.target)) == sorted(
        os.path.basename(segment_path("", 9, suffix)) for suffix in FILES[:2]
    )
    assert made._closed == {9} and made._lengths == {} and made._unsynced == {segment_path(str(world.target), 9, LOG)}


@pytest.mark.parametrize(("known", "allowed"), [(-1, 0), (0, 1), (3, 1)])
def test_a_copy_that_had_caught_up_before_may_lack_more(world, known, allowed):
    made, state, more = world.made, SimpleNamespace(truncations=max(known, 0)), []
    made._truncations, made._near = known, 10
    made._allow_more = lambda: more.append(1)
    made._state = lambda: state
    made._begin_anew = lambda given: setattr(made, "_truncations", given.truncations)
    rounds = [None, 11, 10]
    made._round = lambda given, *, paced: rounds.pop(0)
    made._settle = lambda given: "settled"
    assert made.copy() == "settled" and rounds == [] and len(more) == allowed


def test_a_log_that_grows_too_fast_is_not_followed_for_ever(world, monkeypatch):
    monkeypatch.setattr(replica_move, "MAX_ROUNDS", 40)
    made, more = world.made, []
    made._truncations, made._near = 1, 10
    made._allow_more = lambda: more.append(1)
    made._state = lambda: SimpleNamespace(truncations=1)
    made._round = lambda given, *, paced: 11
    with pytest.raises(replica_move.CalledOff):
        made.copy()
    assert len(more) == 1 + 39 // replica_move.PATIENCE_ROUNDS


def test_what_was_copied_of_a_file_is_not_copied_again_when_the_rest_comes_later(world):
    """A truncation and what was appended since may look like a file that ends too early."""
    world.write(LOG, b"01234567")
    with pytest.raises(SourceUnreadable, match="ends at 8, before 10"):
        world.made._copy_file(BASE, LOG, 10, sync=False, paced=True)
    assert world.made._lengths == {(BASE, LOG): 8} and world.made.bytes_copied == 8
    world.write(LOG, b"0123456789")
    assert world.made._copy_file(BASE, LOG, 10, sync=False, paced=True) == 2
    assert world.copied(LOG) == b"0123456789" and world.made.bytes_copied == 10 and world.paced == [4, 4, 2]
