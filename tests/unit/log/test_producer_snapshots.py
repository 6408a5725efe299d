"""Producer snapshots: taken behind a roll and now and then, two of them kept."""

from types import SimpleNamespace

import pytest

from mpbroker.log.producer_snapshot import (
    ProducerEntry,
    newest_snapshot,
    read_snapshot,
    snapshot_offsets,
    snapshot_path,
    write_snapshot,
)
from mpbroker.log.producer_snapshots import SNAPSHOT_INTERVAL_MS, ProducerSnapshots
from tests.unit.log.log_world import Instead


def offsets(world, partition):
    return snapshot_offsets(str(world.path / partition.dir))


def produce(world, partition, producer_id, sequence, count=1):
    return world.append(partition, count, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)


def test_a_snapshot_is_taken_behind_a_roll(world):
    partition = world.create()
    job = ProducerSnapshots(world.keeper())
    produce(world, partition, 5, 0, count=3)
    job.look(partition)
    assert offsets(world, partition) == [], "it has not rolled"
    world.roll(partition)
    produce(world, partition, 6, 0)
    job.look(partition)
    assert offsets(world, partition) == [4]
    end, entries = newest_snapshot(str(world.path / partition.dir), 4)
    assert end == 4 and {(e.producer_id, e.last_sequence, e.last_offset, e.offset_delta) for e in entries} == {
        (5, 2, 2, 2),
        (6, 0, 3, 0),
    }
    produce(world, partition, 6, 1)
    job.look(partition)
    assert offsets(world, partition) == [4], "one per roll"


def test_a_log_without_producers_gets_one_too_so_that_it_need_not_be_read(world):
    partition = world.create()
    world.fill(partition, 3)
    world.roll(partition)
    ProducerSnapshots(world.keeper()).look(partition)
    assert offsets(world, partition) == [3]
    assert read_snapshot(str(world.path / partition.dir / f"{3:020d}.snapshot")) == []


def test_now_and_then_when_records_came_and_two_are_kept(world):
    partition, silent = world.create(), world.create(partition=1, ordinal=1)
    world.fill(silent, 2)
    job = ProducerSnapshots(world.keeper())
    for number, kept in enumerate(([1], [1, 2], [2, 3])):
        produce(world, partition, 5, number)
        job.do_work()
        job.do_work()
        assert offsets(world, partition) == kept
        world.clock.advance(SNAPSHOT_INTERVAL_MS)
    assert offsets(world, silent) == [], "no producer, nothing to keep"


def test_a_successor_goes_on_from_what_is_on_disk(world):
    partition = world.create()
    produce(world, partition, 5, 0)
    world.roll(partition)
    ProducerSnapshots(world.keeper()).look(partition)
    successor = ProducerSnapshots(world.keeper())
    successor.look(partition)
    assert offsets(world, partition) == [1]
    world.fill(partition, 3)
    world.roll(partition)
    successor.look(partition)
    assert offsets(world, partition) == [1, 3]


def test_snapshots_of_what_a_truncation_cut_are_not_kept(world):
    partition = world.create()
    job = ProducerSnapshots(world.keeper())
    produce(world, partition, 5, 0, count=4)
    job.take(partition, even_empty=False)
    assert offsets(world, partition) == [4]
    assert world.log.truncate(partition.ordinal, 0) == 0
    produce(world, partition, 8, 0, count=4)
    produce(world, partition, 8, 4)
    job.take(partition, even_empty=False)
    assert offsets(world, partition) == [5]


def test_a_row_taken_by_another_partition_is_not_written_into_this_one(world):
    partition = world.create()
    produce(world, partition, 5, 0)
    other = partition._replace(topic="other")
    (world.path / other.dir).mkdir()
    job = ProducerSnapshots(world.keeper())
    assert job.take(other, even_empty=True) is False
    assert offsets(world, other) == []


def test_nothing_is_written_where_nothing_came_since(world):
    partition, silent = world.create(), world.create(partition=1, ordinal=1)
    world.fill(silent, 2)
    job = ProducerSnapshots(world.keeper())
    assert job.take(silent, even_empty=False) is True and offsets(world, silent) == []
    produce(world, partition, 5, 0)
    assert job.take(partition, even_empty=False) is True and offsets(world, partition) == [1]
    (world.path / partition.dir / f"{1:020d}.snapshot").unlink()
    assert job.take(partition, even_empty=True) is True
    assert offsets(world, partition) == [], "the log still ends where the newest one was taken"


def test_a_log_that_cannot_be_read_now_is_taken_later(world):
    def busy(_ordinal):
        raise RuntimeError("busy")

    partition = world.create()
    produce(world, partition, 5, 0)
    keeper = world.keeper(log=Instead(world.log, producer_entries=busy))
    assert ProducerSnapshots(keeper).take(partition, even_empty=False) is False


@pytest.mark.parametrize(
    ("last", "delta", "first"), [(7, 2, 5), (0, 0, 0), (1, 3, 2**31 - 2), (2**31 - 1, 0, 2**31 - 1)]
)
def test_the_first_sequence_of_a_batch_goes_round(last, delta, first):
    assert ProducerEntry(1, 0, last, 100, delta, 5).first_sequence == first


def test_a_snapshot_with_a_wrong_sum_or_length_is_none(tmp_path):
    write_snapshot(str(tmp_path), 4, [ProducerEntry(1, 0, 3, 3, 3, 5), ProducerEntry(2, 0, 3, 3, 3, 5)])
    path = snapshot_path(str(tmp_path), 4)
    with open(path, "rb") as file:
        content = file.read()
    assert len(read_snapshot(path)) == 2
    for damaged in (content[:-1], content + b"x", content[:-1] + bytes([content[-1] ^ 1]), b"\0\7" + content[2:]):
        with open(path, "wb") as file:
            file.write(damaged)
        assert read_snapshot(path) is None


@pytest.mark.parametrize(("taken", "busy", "again"), [(True, True, 0), (False, True, 1), (False, False, 0)])
def test_a_partition_whose_lock_is_held_has_its_turn_again(world, monkeypatch, taken, busy, again):
    partition, repeated = world.create(), []
    job = ProducerSnapshots(world.keeper())
    monkeypatch.setattr(job, "take", lambda one, even_empty: taken)
    job._keeper = SimpleNamespace(is_busy=lambda one: busy)
    job._round.take, job._round.again = lambda: [partition], repeated.append
    job.do_work()
    assert repeated == [partition] * again


def test_what_is_remembered_of_partitions_that_are_gone_goes(world):
    job = ProducerSnapshots(world.keeper())
    for table in (job._offsets, job._truncations):
        table.update({(b"a", 0): 1, (b"a", 1): 2, (b"b", 0): 3})
    job.forget({(b"a", 1)})
    assert set(job._offsets) == set(job._truncations) == {(b"a", 1)}


def test_what_is_written_is_counted_and_one_that_cannot_be_is_told(world, monkeypatch):
    partition, counted, failed = world.create(), [], []
    events = SimpleNamespace(error=lambda event, error, **about: failed.append((event, str(error), about)))
    job = ProducerSnapshots(world.keeper(count=counted.append, events=events))
    produce(world, partition, 5, 0)
    world.roll(partition)
    job.look(partition)
    assert (counted, failed, offsets(world, partition)) == (["producer_snapshots"], [], [1])
    produce(world, partition, 5, 1)
    world.roll(partition)
    monkeypatch.setattr(
        "mpbroker.log.producer_snapshots.write_snapshot", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "full"))
    )
    job.look(partition)
    assert counted == ["producer_snapshots"] and failed == [
        ("snapshot_not_written", "[Errno 28] full", {"partition": partition.dir})
    ]


def test_which_snapshot_is_the_newest_and_that_a_truncation_leaves_none(world):
    partition, job = world.create(), ProducerSnapshots(world.keeper())
    directory, state = str(world.path / partition.dir), SimpleNamespace(truncations=4)
    for offset in (3, 9):
        write_snapshot(directory, offset, [], durable=False)
    assert [job._newest(partition, state) for _ in range(2)] == [9, 9]
    write_snapshot(directory, 12, [], durable=False)
    assert job._newest(partition, state) == 9, "it knows what it wrote, and looks once"
    state.truncations = 5
    assert [job._newest(partition, state) for _ in range(2)] == [-1, -1] and snapshot_offsets(directory) == []


def test_ones_that_cannot_be_removed_are_said(world, monkeypatch):
    def fail(*_):
        raise OSError(28, "full")

    partition, job = world.create(), ProducerSnapshots(world.keeper())
    job._newest(partition, SimpleNamespace(truncations=4))
    monkeypatch.setattr("mpbroker.log.producer_snapshots.remove_snapshots", fail)
    assert job._newest(partition, SimpleNamespace(truncations=5)) == -1
    [told] = world.events.named("snapshot_not_removed")
    assert told["partition"] == partition.dir and told["error"].errno == 28
