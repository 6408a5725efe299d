"""The log cleaner on a real log: what consumers read afterwards, which partition is chosen, every codec, tombstones,
producers, swaps that died, limits of memory and of speed, and a model with random keys."""

import os
import random
import time

import pytest

from mpbroker import _native
from mpbroker._native import NO_REQUEST, LogOptions
from mpbroker.config.load_config import load_broker_config
from mpbroker.log.checkpoint_file import read_checkpoint
from mpbroker.log.log_cleaner import CLEANER_OFFSETS, Dirt, LogCleaner, Pace, Stopped
from mpbroker.record.batch_builder import encode_batch
from mpbroker.record.compression import decompress
from mpbroker.shm.layout import ReplicaRole
from tests.unit.log.log_world import LogWorld

SECOND = 1000
SMALL = {"cleanup_policy": "compact", "segment_bytes": "2000", "min_cleanable_dirty_ratio": "0.01"}


@pytest.fixture
def world(tmp_path):
    world = LogWorld(tmp_path, "log.cleaner.backoff.ms=1000", "log.cleaner.delete.retention.ms=5000")
    yield world
    world.close()


def put(world, partition, pairs, **batch):
    """One batch of (key, value) pairs, the broker's time as theirs; its base offset."""
    stamp = world.clock.wall_ms()
    options = LogOptions(segment_bytes=partition.settings.segment_bytes, index_interval_bytes=200)
    encoded = encode_batch([(key, value, stamp) for key, value in pairs], **batch)
    walked = stamp if batch.get("codec") else None
    result = world.log.append(partition.ordinal, NO_REQUEST, 0, encoded, options, stamp, max_timestamp=walked)
    assert result.error == 0
    return result.base_offset


def batches_of(data):
    at = 0
    while at < len(data):
        length = 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        yield data[at : at + length]
        at += length


def read(world, partition):
    """What a consumer sees: offset → (key, value), in order."""
    found = {}
    for batch in batches_of(world.records(partition)):
        error, records = decompress(batch[22] & 7, batch[61:], 1 << 24)
        assert error == 0
        for record in _native.records_decode(records, batch):
            assert record.offset > max(found, default=-1)
            found[record.offset] = (record.key, record.value)
    return found


class Cleaning:
    """A cleaner without a thread. `look`: one round of it."""

    def __init__(self, world):
        self.world = world
        self.removed = []
        self.counted = {}
        self.cleaner = LogCleaner(world.keeper(count=self._count), lambda partition, bases: self.removed.extend(bases))

    def _count(self, name, by=1):
        self.counted[name] = self.counted.get(name, 0) + by

    def look(self):
        self.world.clock.advance(2 * SECOND)
        self.cleaner.do_work()
        self.cleaner.do_work()


def fill(world, partition, keys, rounds, **batch):
    """`rounds` times every key with the round as its value, three records a batch; the newest: key → offset."""
    newest = {}
    for number in range(rounds):
        for at in range(0, len(keys), 3):
            base = put(world, partition, [(key, b"%d" % number * 20) for key in keys[at : at + 3]], **batch)
            newest |= {key: base + i for i, key in enumerate(keys[at : at + 3])}
    return newest


KEYS = [b"key-%d" % n for n in range(9)]


@pytest.mark.parametrize("codec", range(5), ids=["none", "gzip", "snappy", "lz4", "zstd"])
def test_only_the_newest_record_of_each_key_stays(world, codec):
    partition = world.create(**SMALL)
    newest = fill(world, partition, KEYS, 30, codec=codec)
    before, state = read(world, partition), world.state(partition)
    cleaning = Cleaning(world)
    cleaning.look()
    after = read(world, partition)
    active = {offset: pair for offset, pair in before.items() if offset >= state.active_base}
    old_keys = {key for key, offset in newest.items() if offset < state.active_base}
    assert active.items() <= after.items() and after.items() <= before.items()
    assert {pair[0] for offset, pair in after.items() if offset < state.active_base} == set(KEYS)
    assert len(after) == len(active) + len(KEYS) and old_keys <= set(KEYS)
    now = world.state(partition)
    assert (now.leo, now.log_start, now.segment_count) == (state.leo, 0, len(world.files(partition, ".log")))
    assert now.log_bytes == sum((world.path / "t-0" / name).stat().st_size for name in world.files(partition, ".log"))
    assert cleaning.counted["logs_compacted"] == 1
    assert read_checkpoint(f"{world.path}/{CLEANER_OFFSETS}") == {("t", 0): state.active_base}
    assert not world.files(partition, ".compacted") and not world.files(partition, ".swap")
    [told] = world.events.named("log_compacted")
    assert told["keys"] == 9 and told["bytes_before"] - told["bytes_after"] == state.log_bytes - now.log_bytes


def test_every_offset_can_be_asked_for_afterwards(world):
    partition = world.create(**SMALL)
    fill(world, partition, KEYS, 30)
    Cleaning(world).look()
    left = sorted(read(world, partition))
    for offset in range(world.state(partition).leo):
        error, plan = world.log.find(partition.ordinal, offset, _native.READ_TO_END, 1)
        assert error == 0
        wanted = next(each for each in left if each >= offset)
        assert plan.first_offset <= wanted
        data = bytearray(plan.length)
        assert world.log.read_into(plan, data) == (0, plan.length)
        base, last = int.from_bytes(data[:8], "big"), int.from_bytes(data[23:27], "big")
        assert base <= wanted <= base + last


def test_a_second_cleaning_has_nothing_to_do_until_there_is_more(world):
    partition = world.create(**SMALL)
    fill(world, partition, KEYS, 20)
    cleaning = Cleaning(world)
    cleaning.look()
    assert cleaning.cleaner.choose() is None
    cleaning.look()
    assert cleaning.counted["logs_compacted"] == 1
    newest = fill(world, partition, KEYS[:3], 60)
    cleaning.look()
    assert cleaning.counted["logs_compacted"] == 2
    below = {
        offset: pair for offset, pair in read(world, partition).items() if offset < world.state(partition).active_base
    }
    assert [pair[0] for pair in below.values()].count(KEYS[0]) == 1 and len(below) == len(KEYS)
    assert set(newest) == set(KEYS[:3])


def test_a_deleted_key_goes_after_its_time(world):
    partition = world.create(**SMALL)
    put(world, partition, [(b"gone", b"1"), (b"stays", b"1")])
    put(world, partition, [(b"gone", None)])
    world.roll(partition)
    put(world, partition, [(b"x", b"")])
    cleaning = Cleaning(world)
    cleaning.look()
    assert read(world, partition) == {1: (b"stays", b"1"), 2: (b"gone", None), 3: (b"x", b"")}
    for seconds, left in ((1, True), (6, False)):
        world.clock.advance(seconds * SECOND)
        world.roll(partition)
        put(world, partition, [(b"x", b"")])
        cleaning.look()
        assert (2 in read(world, partition)) == left, "delete.retention.ms is 5 s from the first cleaning on"
    assert (b"stays", b"1") in read(world, partition).values()


def test_what_a_producer_needs_to_go_on_survives_also_a_start_from_the_log_alone(world):
    partition = world.create(**SMALL)
    put(world, partition, [(b"a", b"1"), (b"b", b"1")], producer_id=7, producer_epoch=1, base_sequence=0)
    put(world, partition, [(b"a", b"2"), (b"b", b"2")], producer_id=7, producer_epoch=1, base_sequence=2)
    fill(world, partition, [b"a", b"b", b"c"], 40)
    Cleaning(world).look()
    emptied = next(batch for batch in batches_of(world.records(partition)) if int.from_bytes(batch[43:51], "big") == 7)
    assert (int.from_bytes(emptied[:8], "big"), len(emptied)) == (2, 61)
    for name in world.files(partition, ".snapshot"):
        (world.path / "t-0" / name).unlink()
    world.reboot()
    _, rows = world.log.producers(0)
    assert [(row[0], row[1], row[3]) for row in rows if row[0] == 7] == [(7, 1, 3)]
    options = LogOptions(segment_bytes=2000, index_interval_bytes=200)
    again = encode_batch([(b"a", b"2", 1), (b"b", b"2", 1)], producer_id=7, producer_epoch=1, base_sequence=2)
    assert world.log.append(0, NO_REQUEST, 0, again, options, 1).base_offset == 2, "it is a duplicate of the batch at 2"


@pytest.mark.parametrize("point", ["cleaner.written", "cleaner.marked", "cleaner.swapped"])
def test_a_start_after_a_death_in_between_serves_the_same_records(world, point):
    partition = world.create(**SMALL)
    fill(world, partition, KEYS, 20)
    fill(world, partition, KEYS[:3], 40)
    state = world.state(partition)

    class Died(BaseException):
        pass

    def die(name):
        if name == point:
            raise Died

    keeper = world.keeper(crash_point=die)
    cleaner = LogCleaner(keeper, lambda partition, bases: None)
    world.clock.advance(2 * SECOND)
    with pytest.raises(Died):
        cleaner.do_work()
    left = {pair for offset, pair in read(world, partition).items() if offset < state.active_base}
    world.reboot()
    assert not world.files(partition, ".swap") and not world.files(partition, ".compacted")
    now = read(world, partition)
    newest = {key: offset for offset, (key, _) in now.items()}
    assert world.state(partition).leo == state.leo and set(newest) == set(KEYS)
    if point != "cleaner.written":  # it could only go forward
        assert sum(offset < state.active_base for offset in now) < len(left) * 4
    Cleaning(world).look()
    again = read(world, partition)
    assert {key: offset for offset, (key, _) in again.items()} == newest
    assert sum(offset < state.active_base for offset in again) == len(KEYS)


def test_a_swap_file_alone_takes_nothing_away(world):
    partition = world.create(**SMALL)
    fill(world, partition, KEYS, 20)
    before = read(world, partition)
    end = int(world.files(partition, ".log")[3][:20])
    (world.path / "t-0" / f"{0:020d}-{end:020d}.swap").touch()
    world.reboot()
    assert read(world, partition) == before
    assert not world.files(partition, ".swap")


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-7], lambda data: data[:80] + b"!" + data[81:], lambda data: b"x"]
)
def test_a_cleaned_log_that_is_not_sound_takes_nothing_away(world, damage):
    partition = world.create(**SMALL)
    fill(world, partition, KEYS, 20)
    before = read(world, partition)
    directory, logs = world.path / "t-0", world.files(partition, ".log")
    (directory / f"{logs[0]}.compacted").write_bytes(damage((directory / logs[0]).read_bytes()))
    (directory / f"{0:020d}-{int(logs[3][:20]):020d}.swap").touch()
    (directory / logs[2]).rename(directory / f"{logs[2]}.deleted")  # the swap had come so far
    world.reboot()
    assert read(world, partition) == before
    assert world.files(partition, ".cut") == [f"{logs[0]}.compacted.cut"] and not world.files(partition, ".swap")


def test_without_its_swap_file_the_only_copy_is_set_aside(world):
    partition = world.create(**SMALL)
    fill(world, partition, KEYS, 20)
    directory, logs = world.path / "t-0", world.files(partition, ".log")
    content = (directory / logs[0]).read_bytes()
    (directory / f"{logs[0]}.compacted").write_bytes(content)
    (directory / logs[1]).rename(directory / f"{logs[1]}.deleted")
    world.reboot()
    assert (directory / f"{logs[0]}.compacted.cut").read_bytes() == content


def test_leftovers_of_a_compaction_that_died_are_cleared_by_the_next_one(world):
    partition = world.create(**SMALL)
    newest = fill(world, partition, KEYS, 20)
    directory = world.path / "t-0"
    (directory / f"{0:020d}.log.compacted").write_bytes(b"half of")
    (directory / f"{0:020d}-{54:020d}.swap").touch()
    (directory / "mine.compacted").write_bytes(b"somebody's")
    cleaning = Cleaning(world)
    cleaning.look()
    assert cleaning.counted["logs_compacted"] == 1
    assert world.files(partition, ".compacted") == ["mine.compacted"] and not world.files(partition, ".swap")
    assert {key: offset for offset, (key, _) in read(world, partition).items()} == newest


def test_a_damaged_batch_is_said_once_and_nothing_is_changed(world):
    partition = world.create(**SMALL)
    fill(world, partition, KEYS, 20)
    path = world.path / "t-0" / f"{0:020d}.log"
    damaged = bytearray(path.read_bytes())
    damaged[200] ^= 1
    path.write_bytes(damaged)
    other = world.create("other", ordinal=1, **SMALL)
    fill(world, other, KEYS, 5)
    cleaning = Cleaning(world)
    for _ in range(4):
        cleaning.look()
    (line,) = world.events.named("log_not_compacted")
    assert line["partition"] == "t-0" and "damaged at byte" in line["reason"]
    assert path.read_bytes() == bytes(damaged)
    assert cleaning.counted["logs_compacted"] == 1, "the other one was compacted"


def test_the_dirtiest_first_and_who_is_overdue_before_it(world):
    little = world.create("little", ordinal=0, **SMALL)
    much = world.create("much", ordinal=1, **SMALL)
    world.create("plain", ordinal=2, segment_bytes="2000")
    never = world.create("never", ordinal=3, **SMALL | {"min_cleanable_dirty_ratio": "1.0"})
    cleaning = Cleaning(world)
    for partition in (little, much, never):
        fill(world, partition, KEYS, 20)
    while cleaning.cleaner.choose() is not None:
        cleaning.look()
    fill(world, little, KEYS, 8)
    fill(world, much, KEYS, 40)
    fill(world, never, KEYS, 40)
    assert cleaning.cleaner.choose().partition is much
    world.partitions.all[3] = never._replace(
        settings=world.create("x", ordinal=4, **SMALL | {"max_compaction_lag_ms": "1"}).settings
    )
    world.partitions.all.pop()
    world.clock.now_ms = int(time.time() * 1000) + 10 * SECOND
    assert cleaning.cleaner.choose().partition.topic == "never"


def test_what_is_compacted_is_not_dirty(world):
    partition = world.create(**SMALL)
    cleaning = Cleaning(world)
    fill(world, partition, KEYS, 20)
    cleaning.look()
    fill(world, partition, KEYS, 20)
    first, until = cleaning.cleaner.cleaned_to(partition), world.state(partition).active_base
    sizes = {int(path.stem): path.stat().st_size for path in (world.path / partition.dir).glob("*.log")}
    dirty = sum(size for base, size in sizes.items() if first <= base < until)
    clean = sum(size for base, size in sizes.items() if base < first)
    assert clean and cleaning.cleaner.choose().ratio == dirty / (clean + dirty)


def test_records_that_are_too_young_stay(world):
    world.clock.now_ms = int(time.time() * 1000)
    partition = world.create(**SMALL | {"min_compaction_lag_ms": "60000"})
    fill(world, partition, KEYS, 20)
    cleaning = Cleaning(world)
    assert cleaning.cleaner.choose() is None
    oldest = world.path / "t-0" / f"{0:020d}.log"
    os.utime(oldest, (1, 1))
    chosen = cleaning.cleaner.choose()
    assert chosen.first_dirty == 0 and chosen.until == int(world.files(partition, ".log")[1][:20])


def test_what_may_still_be_undone_is_not_compacted(tmp_path):
    """Nothing at or above the last stable offset."""
    world = LogWorld(tmp_path, replicated=True)
    partition = world.create(**SMALL)
    options = LogOptions(segment_bytes=2000, index_interval_bytes=200)
    assert world.log.become(0, ReplicaRole.LEADER, 0, 0, [0, 1], [0, 1], 0, 1, 0) == 0
    for number in range(60):
        batch = encode_batch([(b"k", b"%d" % number * 20, 1)])
        assert world.log.append(0, NO_REQUEST, 0, batch, options, 1).error == 0
    cleaning = Cleaning(world)
    assert world.state(partition).lso == 0 and cleaning.cleaner.choose() is None
    assert world.log.set_high_watermark(0, 30) == 0
    stable = world.state(partition).lso
    assert 0 < stable <= 30 and cleaning.cleaner.choose().until == stable
    cleaning.look()
    assert [offset for offset in read(world, partition) if offset >= stable] == list(range(stable, 60))


@pytest.mark.parametrize("behind", [0, 1])
def test_segments_below_the_log_start_are_left_to_retention(world, behind):
    partition = world.create(**SMALL)
    newest = fill(world, partition, KEYS, 20)
    logs = world.files(partition, ".log")
    start = int(logs[2][:20]) + behind
    below = {name: (world.path / partition.dir / name).read_bytes() for name in logs[:2]}
    assert world.log.set_log_start(0, start) == 0
    cleaning = Cleaning(world)
    cleaning.look()
    assert cleaning.counted["logs_compacted"] == 1
    assert {name: (world.path / partition.dir / name).read_bytes() for name in below} == below
    left = {key: offset for offset, (key, _) in read(world, partition).items()}
    assert left == newest and world.state(partition).log_start == start


def test_when_the_keys_do_not_fit_it_goes_on_the_next_time(world):
    partition = world.create(**SMALL | {"segment_bytes": "100000"})
    many = [b"%06d" % n for n in range(3000)]
    newest = fill(world, partition, many, 2)
    world.roll(partition)
    put(world, partition, [(b"x", b"")])
    cleaning = Cleaning(world)
    limits = cleaning.cleaner.limits
    cleaning.cleaner.limits = lambda dirt: limits(dirt)._replace(memory_bytes=24 * 1000)
    looks = 0
    while cleaning.cleaner.choose() is not None:
        before = cleaning.cleaner.choose().first_dirty
        cleaning.look()
        looks += 1
        assert looks < 40 and read_checkpoint(f"{world.path}/{CLEANER_OFFSETS}")[("t", 0)] > before
    assert looks > 3
    left = read(world, partition)
    assert {key: offset for offset, (key, _) in left.items() if key != b"x"} == newest


def test_random_logs_against_a_model(world):
    rng = random.Random(3)
    partition = world.create(**SMALL)
    cleaning = Cleaning(world)
    model = {}
    for _ in range(400):
        pairs = [
            (b"%d" % rng.randrange(25), rng.choice([None, b"v" * rng.randrange(40)]))
            for _ in range(rng.randrange(1, 5))
        ]
        base = put(world, partition, pairs, codec=rng.choice([0, 0, 3, 4]))
        for i, (key, value) in enumerate(pairs):
            model[key] = (base + i, value)
        if rng.random() < 0.08:
            cleaning.look()
            world.clock.advance(rng.choice([0, 0, 6 * SECOND]))
        if rng.random() < 0.03:
            world.reboot()
            cleaning = Cleaning(world)
    seen = {}
    for offset, (key, value) in read(world, partition).items():
        seen[key] = (offset, value)
    for key, (offset, value) in model.items():
        if value is not None or key in seen:
            assert seen[key] == (offset, value)
    assert len(read(world, partition)) < 400


def test_no_disk_error_changes_what_consumers_read(world):
    """Every call of a compaction fails once; the next one ends well."""
    partition = world.create(**SMALL)
    newest = fill(world, partition, KEYS, 12)
    for first in range(200):
        _native.io_fail(first, 1, 24)  # EMFILE: it passes
        cleaning = Cleaning(world)
        try:
            cleaning.look()
        finally:
            _native.io_fail(0, 0, 0)
        assert {key: offset for offset, (key, _) in read(world, partition).items()} == newest
        if cleaning.counted.get("logs_compacted") and first > 40:
            break
    Cleaning(world).look()
    assert {key: offset for offset, (key, _) in read(world, partition).items()} == newest
    assert not world.files(partition, ".compacted") and not world.files(partition, ".swap")


def test_the_pace_is_kept_and_a_stop_is_noticed():
    began = time.monotonic()
    pace = Pace(1e6, lambda: False)
    for _ in range(10):
        pace(20_000)
    assert time.monotonic() - began >= 0.19
    with pytest.raises(Stopped):
        Pace(1e300, lambda: True)(1)


@pytest.mark.parametrize("codec", [0, 1, 3])
def test_what_was_aborted_neither_stays_nor_replaces_anything(world, codec):
    """A record of an aborted transaction is no key's newest one; nothing of it stays, and no .txnindex for it."""
    partition = world.create(**SMALL)
    put(world, partition, [(b"a", b"first"), (b"b", b"first")])
    for producer, committed, key in ((5, False, b"a"), (6, True, b"b"), (5, False, b"c")):
        assert world.log.verify(partition.ordinal, producer, 0) == 0
        put(
            world,
            partition,
            [(key, b"newer")],
            codec=codec,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=1 if key == b"c" else 0,
            transactional=True,
        )
        options, now_ms = LogOptions(segment_bytes=2000), world.clock.wall_ms()
        assert world.log.append_marker(partition.ordinal, producer, 0, 0, committed, options, now_ms).error == 0
    fill(world, partition, KEYS, 20)
    Cleaning(world).look()
    kept = {key: value for key, value in read(world, partition).values() if key in (b"a", b"b", b"c")}
    assert kept == {b"a": b"first", b"b": b"newer"}
    names = os.listdir(os.path.join(world.path, partition.dir))
    assert [name for name in names if "txnindex" in name] == []
    assert world.reboot() is not None
    assert world.log.state(partition.ordinal).open_transactions == 0


@pytest.mark.parametrize("size", [0, 60])
def test_what_is_shorter_than_a_batchs_header_is_not_sealed(size):
    short = bytearray(size)
    with pytest.raises(ValueError, match="61 bytes"):
        _native.seal_batch(short)
    assert short == bytes(size)


@pytest.mark.parametrize(
    ("settings", "memory", "buffer", "load"),
    [
        ((), 100 << 20, 1 << 19, 0.9),
        (("log.cleaner.dedupe.buffer.size=1", "log.cleaner.io.buffer.size=0"), 1 << 20, 1 << 16, 0.9),
        (("log.cleaner.dedupe.buffer.size=5000000", "log.cleaner.io.buffer.size=100000"), 5_000_000, 100_000, 0.9),
        (("log.cleaner.io.buffer.size=2147483647", "log.cleaner.io.buffer.load.factor=2"), 100 << 20, 1 << 20, 0.95),
        (("log.cleaner.io.buffer.load.factor=0",), 100 << 20, 1 << 19, 0.01),
    ],
)
def test_what_a_compaction_may_use_is_bounded_whatever_is_set(world, settings, memory, buffer, load):
    partition = world.create(cleanup_policy="compact")
    config = load_broker_config(overrides=[f"log.dirs={world.path}", *settings], environ={})
    cleaner = LogCleaner(world.keeper(config=config), lambda *_: None)
    found = cleaner.limits(Dirt(partition, 3, 9, 0.5, False))
    assert (found.first_dirty, found.until) == (3, 9)
    assert (found.memory_bytes, found.buffer_bytes, found.load_factor) == (memory, buffer, load)
