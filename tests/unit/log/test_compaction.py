"""Parts of a compaction, one by one: what is overdue, whole batches of a piece, its pace, the order of a swap."""

import pytest

from mpbroker.log import compaction
from mpbroker.log.compaction import Compaction, LogChanged, NotCompacted, Segment
from mpbroker.log.log_cleaner import Pace
from mpbroker.record.batch_builder import encode_batch
from tests.unit.log.log_world import LogWorld
from tests.unit.log.test_log_cleaner import KEYS, SMALL, Cleaning, fill


@pytest.fixture(name="world")
def small_world(tmp_path):
    world = LogWorld(tmp_path, "log.cleaner.backoff.ms=1000")
    yield world
    world.close()


@pytest.mark.parametrize(("age_ms", "overdue"), [(99, False), (100, False), (101, True)])
def test_the_oldest_dirty_segment_says_whether_compaction_is_overdue(world, monkeypatch, age_ms, overdue):
    partition = world.create(**SMALL, max_compaction_lag_ms="100")
    cleaner = Cleaning(world).cleaner
    clean, dirty, last = Segment(0, 5, 10), Segment(5, 9, 10), Segment(9, 12, 10)
    monkeypatch.setattr(cleaner, "_age_ms", lambda _, segment: {5: age_ms, 0: 999, 9: 0}[segment.base])
    assert cleaner._is_overdue(partition, [clean, dirty, last], 5) is overdue
    assert not cleaner._is_overdue(partition, [clean], 5), "nothing is dirty"


def test_how_much_of_a_piece_is_whole_batches():
    batch = encode_batch([(b"k", b"v", 5)])
    size = len(batch)
    assert size > 61
    for more, need in ((b"", 0), (batch[:1], 61), (batch[:60], 61), (batch[:61], size), (batch[:-1], size)):
        assert compaction._whole_batches(batch * 2 + more) == (2 * size, need)
    broken = batch[:8] + (48).to_bytes(4, "big") + batch[12:]
    assert compaction._whole_batches(batch + broken) == (size, 60)


def test_what_is_read_is_paced(world, monkeypatch):
    partition = world.create(**SMALL)
    fill(world, partition, KEYS, 20)
    paced, read_bytes = [], []
    pieces = Compaction._pieces

    def note(self, segment):
        for piece, at in pieces(self, segment):
            read_bytes.append(len(piece))
            yield piece, at

    monkeypatch.setattr(Compaction, "_pieces", note)
    monkeypatch.setattr(Pace, "__call__", lambda self, count: paced.append(count))
    Cleaning(world).look()
    written = sum(paced) - sum(read_bytes)
    assert read_bytes and 0 < written <= sum(read_bytes)


class Swapping:
    """A compaction that notes what its swap does, in order; `error`: what the swap comes to."""

    def __init__(self, monkeypatch, error):
        self.done, self.error = [], error
        note = self.done.append
        monkeypatch.setattr(compaction.disk, "write_file", lambda path, data, sync_it: note(f"mark {sync_it}"))
        monkeypatch.setattr(compaction.disk, "sync_directory", lambda path: note("sync"))
        monkeypatch.setattr(compaction.disk, "unlink", lambda path: note("unmark"))
        made = Compaction.__new__(Compaction)
        made._directory, made._ordinal, made._topic_id, made._log = "/d", 3, b"T", self
        made._crash_point = note
        self.compaction = made

    def swap(self, *words):
        self.done.append(words)
        return self.error

    def run(self):
        self.compaction._swap(0, 20, 7)


BEGINNING = ["cleaner.written", "mark True", "sync", "cleaner.marked", (3, b"T", 0, 20, 7)]


def test_the_mark_is_on_disk_before_a_swap_and_goes_when_the_swap_is(monkeypatch):
    swapping = Swapping(monkeypatch, 0)
    swapping.run()
    assert swapping.done == [*BEGINNING, "cleaner.swapped", "sync", "unmark"]


@pytest.mark.parametrize(
    ("error", "raised", "then"), [(None, LogChanged, ["unmark"]), (56, NotCompacted, [])], ids=["changed", "failed"]
)
def test_the_mark_of_a_swap_that_failed_stays_for_whoever_is_next(monkeypatch, error, raised, then):
    swapping = Swapping(monkeypatch, error)
    with pytest.raises(raised):
        swapping.run()
    assert swapping.done == [*BEGINNING, *then]
