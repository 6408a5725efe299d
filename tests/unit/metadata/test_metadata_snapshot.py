"""The metadata snapshot and the cache that follows it: what one writes the other sees, at the cost of the change."""

import random
import struct

import pytest

from mpbroker._native import LAYOUT
from mpbroker.config.load_config import load_broker_config
from mpbroker.errors import MpbrokerError
from mpbroker.metadata import metadata_cache
from mpbroker.metadata.metadata_cache import MetadataCache
from mpbroker.metadata.metadata_snapshot import MetadataSnapshot, TopicImage, encode_overrides
from mpbroker.shm import layout
from mpbroker.shm.topic_table import (
    journal_append,
    metadata_generation,
    partition_link,
    rows_high,
    rows_raise,
    topic_read,
    topic_write,
)
from tests.harness.small_core import small_core, small_plan

TOPIC_BLOB = LAYOUT["topic_copy"] - LAYOUT["topic_copy.name"] - 256
CONFIG = load_broker_config(overrides=["listeners=PLAINTEXT://127.0.0.1:0"], environ={}, cores=2)


def _id(n: int) -> bytes:
    return n.to_bytes(16, "big")


class World:
    """A snapshot writer, a cache, and topics whose partition rows exist."""

    def __init__(self, **plan: int) -> None:
        self.memory = small_core(**plan)
        self.core = self.memory.core
        self.snapshot = MetadataSnapshot(self.core)
        self.snapshot.recover()
        self.cache = MetadataCache(self.core, CONFIG)

    def image(self, n: int, name: str, ordinals: list[int], configs: dict[str, str] | None = None) -> TopicImage:
        for number, ordinal in enumerate(ordinals):
            self.memory.partition(ordinal, _id(n), number)
            following = ordinals[number + 1] + 1 if number + 1 < len(ordinals) else 0
            partition_link(self.core, ordinal, following)
        overrides = encode_overrides(configs or {})
        return TopicImage(_id(n), name, len(ordinals), ordinals[0], name.startswith("__"), overrides, n)

    def names(self) -> list[str]:
        return sorted(topic.name for topic in self.cache.topics())


@pytest.fixture
def world():
    return World()


def test_a_cache_that_is_made_knows_what_was_published_before(world):
    row = world.snapshot.reserve()
    world.snapshot.publish(row, world.image(1, "orders", [5, 2, 9]))
    cache = MetadataCache(world.core, CONFIG)
    assert cache.topic("orders").row == row and cache.topic_by_id(_id(1)) is cache.topic("orders")
    assert not cache.refresh() and cache.generation == metadata_generation(world.core) > 0


def test_a_published_topic_is_seen_after_a_refresh(world):
    row = world.snapshot.reserve()
    world.snapshot.publish(row, world.image(1, "orders", [5, 2, 9], {"retention.ms": "1000"}))
    assert world.cache.topic("orders") is None
    assert world.cache.refresh()
    topic = world.cache.topic("orders")
    assert (topic.id, topic.partitions, topic.internal, topic.row, topic.version) == (_id(1), [5, 2, 9], False, row, 1)
    assert topic.overrides == {"retention.ms": "1000"}
    assert topic.settings.retention_ms == 1000
    assert topic.settings.segment_bytes == CONFIG.log_segment_bytes
    assert world.cache.topic_by_id(_id(1)) is topic
    assert not world.cache.refresh()


@pytest.mark.parametrize(("field", "impossible"), [("name_length", 256), ("overrides_length", TOPIC_BLOB + 1)])
def test_a_row_with_impossible_lengths_is_not_read(world, field, impossible):
    row = world.snapshot.reserve()
    world.snapshot.publish(row, world.image(1, "orders", [5]))
    copy = next(region for region in layout.core_regions(small_plan())[0] if region.name == "topics").offset
    copy += row * LAYOUT["topics"] + LAYOUT["topic.copy"]
    for base in (copy, copy + LAYOUT["topic_copy"]):
        struct.pack_into(
            "<I", world.memory.memory[0], base + {"name_length": 28, "overrides_length": 32}[field], impossible
        )
    with pytest.raises(RuntimeError, match="impossible lengths"):
        topic_read(world.core, row)


def test_the_longest_name_and_settings_are_read(world):
    row = world.snapshot.reserve()
    settings = b"x" * TOPIC_BLOB
    topic_write(world.core, row, 1, _id(1), b"n" * 255, 1, 0, settings, 7)
    _, flags, _, name, count, _, overrides, version = topic_read(world.core, row)
    assert (flags, name, count, overrides, version) == (1, "n" * 255, 1, settings, 7)


def test_who_looked_while_a_partitions_row_was_written_looks_again(world, monkeypatch):
    """A cluster's agent makes and removes logs of topics that are shown; their own rows stay what they were."""
    world.snapshot.publish(world.snapshot.reserve(), world.image(1, "orders", [5, 2]))
    with monkeypatch.context() as patch:
        patch.setattr(metadata_cache, "topic_partitions", lambda *_: None)
        world.cache.refresh()
        assert world.names() == []
    assert not world.cache.refresh(), "nobody has said that it is written"
    world.snapshot.announce_all()
    assert world.cache.refresh()
    assert world.names() == ["orders"]


def test_a_topic_is_not_gone_while_a_partitions_row_is_written(world, monkeypatch):
    """The coordinator deletes the offsets of topics that are gone, and gives its own topic up."""
    row = world.snapshot.reserve()
    world.snapshot.publish(row, world.image(1, "orders", [5, 2]))
    world.cache.refresh()
    with monkeypatch.context() as patch:
        patch.setattr(metadata_cache, "topic_partitions", lambda *_: None)
        world.snapshot.publish(row, world.image(1, "orders", [5, 2], {"retention.ms": "7"}))
        assert world.cache.refresh()
        assert world.cache.topic("orders").partitions == [5, 2] and world.cache.topic_by_id(_id(1)) is not None
    world.snapshot.announce_all()
    assert world.cache.refresh() and world.cache.topic("orders").overrides == {"retention.ms": "7"}


def test_another_topic_in_the_row_is_not_the_one_before(world, monkeypatch):
    row = world.snapshot.reserve()
    world.snapshot.publish(row, world.image(1, "orders", [5]))
    world.cache.refresh()
    monkeypatch.setattr(metadata_cache, "topic_partitions", lambda *_: None)
    world.snapshot.publish(row, world.image(2, "orders", [6]))
    world.cache.refresh()
    assert world.names() == [] and not world.cache.has_read_everything
    monkeypatch.undo()
    world.snapshot.announce_all()
    world.cache.refresh()
    assert world.names() == ["orders"] and world.cache.has_read_everything


def test_internal_topics_are_marked(world):
    world.snapshot.publish(world.snapshot.reserve(), world.image(1, "__consumer_offsets", [0]))
    world.cache.refresh()
    assert world.cache.topic("__consumer_offsets").internal


def test_only_changed_rows_are_read(world, monkeypatch):
    for n in range(4):
        world.snapshot.publish(world.snapshot.reserve(), world.image(n + 1, f"t{n}", [n]))
    world.cache.refresh()
    reads = []
    monkeypatch.setattr(metadata_cache, "topic_read", lambda core, row: reads.append(row) or topic_read(core, row))
    world.snapshot.publish(2, world.image(3, "t2", [2, 7]))
    world.cache.refresh()
    assert reads == [2]
    assert world.cache.topic("t2").partitions == [2, 7]


def test_publishing_what_is_shown_already_changes_nothing(world):
    image = world.image(1, "orders", [0])
    row = world.snapshot.reserve()
    assert world.snapshot.publish(row, image)
    generation = metadata_generation(world.core)
    assert not world.snapshot.publish(row, image)
    assert metadata_generation(world.core) == generation


def test_a_retired_topic_is_gone(world):
    row = world.snapshot.reserve()
    world.snapshot.publish(row, world.image(1, "orders", [0]))
    world.cache.refresh()
    world.snapshot.retire(row)
    world.snapshot.retire(row)
    world.cache.refresh()
    assert world.cache.topic("orders") is None
    assert world.cache.topic_by_id(_id(1)) is None
    assert world.names() == []


@pytest.mark.parametrize("look_between", [True, False])
def test_a_name_created_again_is_the_new_topic(world, look_between):
    first, second = world.snapshot.reserve(), world.snapshot.reserve()
    world.snapshot.publish(second, world.image(1, "orders", [0]))
    world.cache.refresh()
    world.snapshot.retire(second)
    if look_between:
        world.cache.refresh()
    world.snapshot.publish(first, world.image(2, "orders", [3]))
    world.cache.refresh()
    assert world.cache.topic("orders").id == _id(2)
    assert world.cache.topic_by_id(_id(1)) is None
    assert world.names() == ["orders"]


def test_a_row_used_again_shows_the_new_topic(world):
    row = world.snapshot.reserve()
    world.snapshot.publish(row, world.image(1, "old", [0]))
    world.cache.refresh()
    world.snapshot.retire(row)
    world.snapshot.release(row)
    assert world.snapshot.reserve() == row
    world.snapshot.publish(row, world.image(2, "new", [1]))
    world.cache.refresh()
    assert world.names() == ["new"]


def test_a_reader_away_for_too_long_looks_at_every_row(world):
    world.snapshot.publish(world.snapshot.reserve(), world.image(1, "steady", [0]))
    row = world.snapshot.reserve()
    for n in range(layout.JOURNAL_ROWS + 10):
        world.snapshot.publish(row, world.image(n + 2, f"t{n}", [1]))
    world.cache.refresh()
    assert world.names() == ["steady", f"t{layout.JOURNAL_ROWS + 9}"]
    assert world.cache.generation == metadata_generation(world.core)


def test_more_changes_than_are_read_at_once(world):
    row = world.snapshot.reserve()
    for n in range(1000):
        world.snapshot.publish(row, world.image(n + 2, f"t{n}", [1]))
    world.cache.refresh()
    assert world.names() == ["t999"]


def test_announce_all_shows_a_row_nobody_journalled(world):
    world.cache.refresh()
    image = world.image(1, "orders", [0])
    row = world.snapshot.reserve()
    topic_write(world.core, row, 1, image.id, image.name, 1, 0, image.overrides, 1)  # and then the writer died
    assert not world.cache.refresh()
    world.snapshot.announce_all()
    world.cache.refresh()
    assert world.names() == ["orders"]


def test_a_topic_whose_partitions_are_being_deleted_is_left_out(world):
    world.snapshot.publish(world.snapshot.reserve(), world.image(1, "orders", [0, 1]))
    world.memory.partition(1, _id(1), 1, flags=4)
    world.cache.refresh()
    assert world.cache.topic("orders") is None


def test_a_successor_finds_used_and_free_rows(world):
    rows = [world.snapshot.reserve() for _ in range(3)]
    for n, row in enumerate(rows):
        world.snapshot.publish(row, world.image(n + 1, f"t{n}", [n]))
    world.snapshot.retire(rows[1])
    successor = MetadataSnapshot(world.core)
    assert successor.recover() == {_id(1): rows[0], _id(3): rows[2]}
    assert successor.free_rows == 8 - 2
    assert successor.reserve() == rows[1]
    assert successor.reserve(5) == 3  # 5 was never used: rows are taken in order
    assert [successor.reserve() for _ in range(4)] == [4, 5, 6, 7]
    with pytest.raises(IndexError):
        successor.reserve()


def test_rows_beyond_the_used_ones_are_not_looked_at(world):
    assert rows_high(world.core) == (0, 0)
    world.snapshot.reserve()
    assert rows_high(world.core) == (1, 0)
    rows_raise(world.core, 0, 9)
    assert rows_high(world.core) == (1, 9)
    rows_raise(world.core, 0, 2)
    assert rows_high(world.core) == (1, 9)
    with pytest.raises(IndexError):
        rows_raise(world.core, 9, 0)


def test_new_broker_settings_reach_every_topic(world):
    world.snapshot.publish(world.snapshot.reserve(), world.image(1, "own", [0], {"retention.ms": "7"}))
    world.snapshot.publish(world.snapshot.reserve(), world.image(2, "inherits", [1]))
    world.cache.refresh()
    world.cache.use_config(load_broker_config(overrides=["log.retention.ms=99"], environ={}, cores=2))
    assert world.cache.topic("own").settings.retention_ms == 7
    assert world.cache.topic("inherits").settings.retention_ms == 99
    assert world.cache.topic_by_id(_id(2)) is world.cache.topic("inherits")


def test_settings_too_long_for_a_row_are_told_before(world):
    fits = {"k": "v" * (3584 - len('{"k":""}'))}
    assert len(encode_overrides(fits)) == 3584
    assert encode_overrides({"k": fits["k"] + "v"}) is None
    row = world.snapshot.reserve()
    world.snapshot.publish(row, world.image(1, "t" * 249, [0]))
    with pytest.raises(ValueError, match="3584"):
        topic_write(world.core, row, 1, _id(1), "t", 1, 0, b"x" * 3585, 1)


@pytest.mark.parametrize("row", [8, 2**31])
def test_rows_outside_the_table(world, row):
    with pytest.raises(IndexError):
        topic_read(world.core, row)


def test_a_cache_agrees_with_the_writer_after_any_history():
    world, rng = World(), random.Random(7)
    expected: dict[str, tuple[bytes, int]] = {}
    for step in range(400):
        name = f"t{rng.randrange(6)}"
        if name in expected and rng.random() < 0.6:
            world.snapshot.retire(expected[name][1])
            world.snapshot.release(expected.pop(name)[1])
        elif name not in expected:
            row = world.snapshot.reserve()
            world.snapshot.publish(row, world.image(step + 1, name, [row, row + 8]))
            expected[name] = (_id(step + 1), row)
        if rng.random() < 0.4:
            world.cache.refresh()
            assert {topic.name: (topic.id, topic.row) for topic in world.cache.topics()} == expected


def test_a_row_that_shows_no_topic_is_not_retired_again(world):
    """Each announcement makes every process look."""
    row = world.snapshot.reserve()
    announced = metadata_generation(world.core)
    world.snapshot.retire(row)
    assert metadata_generation(world.core) == announced, "nothing was ever shown in it"
    world.snapshot.publish(row, world.image(1, "orders", [5]))
    before = topic_read(world.core, row)
    for _ in range(2):
        world.snapshot.retire(row)
        assert metadata_generation(world.core) == announced + 2
    gone = topic_read(world.core, row)
    assert gone[1] == layout.TopicFlags.DELETING and gone[2:] == before[2:]
    world.snapshot.announce(row)
    assert metadata_generation(world.core) == announced + 3


def test_a_row_that_is_wanted_is_given_where_it_is_free(world):
    """A topic keeps its row over a controller's death."""
    for row in (3, 1, 2):
        world.snapshot.release(row)
    assert world.snapshot.reserve(1) == 1 and world.snapshot.reserve(1) == 3, "it is free no more"
    assert world.snapshot.free_rows == 1 + 8 and world.snapshot.reserve(7) == 2
    assert [world.snapshot.reserve() for _ in range(2)] == [0, 1] and rows_high(world.core)[0] == 2


def test_rows_beyond_the_table_are_not_to_be_had(world):
    assert [world.snapshot.reserve() for _ in range(world.snapshot.free_rows)] == list(range(8))
    assert world.snapshot.free_rows == 0
    with pytest.raises(IndexError):
        world.snapshot.reserve()
    world.snapshot.release(5)
    assert world.snapshot.free_rows == 1 and world.snapshot.reserve() == 5


def test_topics_that_change_faster_than_they_are_read_are_an_error(world, monkeypatch):
    monkeypatch.setattr(metadata_cache, "MAX_ROUNDS", 3)
    rounds = []

    def journal_since(core, generation):
        rounds.append(generation)
        return generation + 1, []

    monkeypatch.setattr(metadata_cache, "journal_since", journal_since)
    world.snapshot.publish(world.snapshot.reserve(), world.image(1, "orders", [5]))
    for _ in range(10):
        world.snapshot.announce(0)
    with pytest.raises(MpbrokerError, match="3 times"):
        world.cache.refresh()
    assert len(rounds) == 3
    assert world.cache.generation == 3, "it goes on from there"


def test_one_selector_is_kept_of_each_row_up_to_the_last(world):
    for row in (2, 5, 0):
        topic_write(world.core, row, int(layout.TopicFlags.EXISTS), _id(row + 1), f"t{row}", 1, 5, b"{}", 1)
        journal_append(world.core, row)
        world.cache.refresh()
        assert len(world.cache._selectors) == (3 if row == 2 else 6)


def test_a_topic_that_has_not_changed_is_the_same_one_whoever_looks_again(world):
    world.snapshot.publish(world.snapshot.reserve(), world.image(1, "orders", [5]))
    world.cache.refresh()
    topic = world.cache.topic("orders")
    world.snapshot.announce_all()
    assert world.cache.refresh() and world.cache.topic("orders") is topic, "its row was not read"


def test_a_second_look_of_the_writer_finds_no_row_twice(world):
    world.snapshot.publish(world.snapshot.reserve(), world.image(1, "orders", [5]))
    world.snapshot.release(world.snapshot.reserve())
    for _ in range(2):
        assert world.snapshot.recover() == {_id(1): 0} and world.snapshot.free_rows == 7
    assert [world.snapshot.reserve() for _ in range(2)] == [1, 2]
