"""What a log's calls leave in the shared memory beside a partition's state, and how far down the tables they look."""

import struct

import pytest

from mpbroker import _native
from mpbroker.record.batch_builder import encode_batch
from mpbroker.shm import layout
from mpbroker.shm.layout import ReplicaRole
from tests.harness.small_core import small_core, small_plan

TOPIC_ID = bytes(range(16))
BATCH = encode_batch([(b"k", b"v", 1)])
#: Of header's marks behind which no row was ever used.
HIGH = {name: _native.LAYOUT[f"header.{name}_high"] for name in ("topics", "partitions", "producers")}
GROUPS_HIGH = HIGH["producers"] + 16
#: Of a row of `replicas`: ids, a proposal and its like, the epochs, then a line for each place.
PLACES = 128 + 64 + 512


class World:
    """A broker of a cluster that leads some rows and follows with others."""

    def __init__(self, path, leading=(), following=(), **plan):
        self.small = small_core(replicated=True, **plan)
        self.small.core.transactions_ready = 1
        self.memory = self.small.memory[0]
        self.log = _native.Log(self.small.core, [str(path)], 118)
        for row in (*leading, *following):
            role = ReplicaRole.LEADER if row in leading else ReplicaRole.FOLLOWER
            assert self.log.create(row, TOPIC_ID, 0, row, 0, f"t-{row}", 0, 1) == 0
            assert self.log.become(row, role, 5, 5, [1, 2], [1], 1, 1, 0, leader=2 - (row in leading)) == 0

    def mark(self, name, value):
        struct.pack_into("<I", self.memory, HIGH[name], value)


def test_rows_behind_the_mark_are_not_looked_at(tmp_path):
    world = World(tmp_path, following=range(4))
    for high in range(5):
        world.mark("partitions", high)
        assert [row[0] for row in world.log.followed(0, 1)[1]] == [*range(high)]
        for only in range(5):
            assert [row[0] for row in world.log.followed(7, 1, only)[1]] == [only] * (only < high)
    world.log.close()


def test_proposals_behind_the_mark_are_not_taken(tmp_path):
    world = World(tmp_path, leading=range(4))
    for row in range(4):
        assert world.log.follower_fetched(row, 2, 9, 5, 0, 5, 0, 3)[4]
    for high in range(5):
        world.mark("partitions", high)
        assert [row[0] for row in world.log.take_isr_proposals(again=True)[0]] == [*range(high)]
    world.log.close()


def test_producers_behind_the_mark_have_no_time(tmp_path):
    world = World(tmp_path, leading=[0])
    assert world.log.load_producers(0, [(producer, 0, 0, 0, 0, 0, 70 + producer) for producer in range(4)]) == 0
    [high] = struct.unpack_from("<I", world.memory, HIGH["producers"])
    assert sorted(world.log.producer_times()[1]) == [70, 71, 72, 73], "somewhere below the mark"
    found = []
    for mark in range(high + 1):
        world.mark("producers", mark)
        rows, once, often = world.log.producer_times()
        assert rows == 64 and often == []
        found.append(len(once))
    assert found[0] == 0 and found[-2:] == [3, 4]
    world.log.close()


def test_known_rows_behind_the_mark_are_not_told():
    small = small_core()
    known, key = _native.KnownRows(small.core, False), bytes(range(16))
    for row in range(4):
        known.put(row, key, 500 + row)
    [high] = struct.unpack_from("<I", small.memory[0], GROUPS_HIGH)
    assert high == 4
    for mark in range(5):
        struct.pack_into("<I", small.memory[0], GROUPS_HIGH, mark)
        assert known.rows() == [(row, key, 500 + row) for row in range(mark)]


@pytest.mark.parametrize("members", [False, True])
def test_the_whole_table_of_known_rows(members):
    """The last row is one, the next is none; a key has 16 bytes, and a word is not 0."""
    known, key = _native.KnownRows(small_core().core, members), bytes(range(16))
    last = known.count - 1
    for row in (0, last):
        known.put(row, key, row + 1)
    assert known.rows() == [(0, key, 1), (last, key, last + 1)]
    for wrong in ((last + 1, key, 1), (0, key[:-1], 1), (0, key + b"x", 1), (0, key, 0)):
        with pytest.raises(ValueError, match=f"^row {wrong[0]}, key of {len(wrong[1])} bytes, word {wrong[2]}$"):
            known.put(*wrong)
    known.put(last, key, (1 << 64) - 1)
    known.drop(0)
    assert known.rows() == [(last, key, (1 << 64) - 1)]
    for wrong in (last + 1, -1, 1 << 40):
        with pytest.raises((IndexError, ValueError, OverflowError)):
            known.drop(wrong)
    known.drop(last)
    assert known.rows() == []


def test_what_a_follower_said_last(tmp_path):
    """Whose word it is, its ends, the leader's end, when, when it had all, and its own epoch: a line of its place."""
    world = World(tmp_path, leading=[0])
    for _ in range(3):
        assert world.log.append(0, _native.NO_REQUEST, 0, BATCH, _native.LogOptions(), 1).error == 0
    assert world.log.follower_fetched(0, 2, 77, 5, 2, 5, 1, 60)[0] == 0
    region = next(one for one in layout.core_regions(small_plan(replicated=True))[0] if one.name == "replicas")
    place = struct.unpack_from("<7q", world.memory, region.offset + PLACES + 64)
    assert place == ((5 << 32 | 2) + 1, 2, 1, 3, 60, 0, 77)
    world.log.close()


def test_an_epoch_that_is_in_no_file_yet_is_not_given_up(tmp_path):
    """There is room for so many; the next begins when the file has the oldest."""
    world = World(tmp_path, leading=[0], partitions=1)
    epoch, log = 5, world.log

    def begin():
        assert log.append(0, _native.NO_REQUEST, 0, BATCH, _native.LogOptions(), 1).error == 0
        return log.become(0, ReplicaRole.LEADER, epoch, epoch, [1, 2], [1], 1, 1, 0, leader=1)

    codes = []
    while not codes or codes[-1] == 0:
        epoch += 1
        codes.append(begin())
        assert len(codes) < 100
    kept, has_older, epochs = log.epochs(0)
    assert (kept, has_older) == (len(codes), False) and [one for one, _ in epochs] == [*range(5, epoch)]
    assert begin() == codes[-1]
    assert log.epochs_written(0, epochs[:1]) is None and begin() == 0
    begun, has_older, epochs = log.epochs(0)
    assert (begun, has_older, len(epochs)) == (kept + 1, True, kept) and epochs[-1][0] == epoch
    epoch += 1
    assert begin() == codes[-1], "of those that were lost one alone is written"
    log.close()
