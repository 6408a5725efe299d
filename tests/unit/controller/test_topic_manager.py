"""Single steps of a topic's creation and growth at a broker that is alone: what is durable before what, and what is
left when a partition cannot be made."""

from types import SimpleNamespace

import pytest

from mpbroker.controller.topic_manager import TopicManager
from mpbroker.metadata.commands import CreatePartitions, CreateTopics, NewTopic, PartitionCount, TopicResult
from tests.harness.controller_world import World


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def test_directories_are_durable_before_the_store_names_them(world):
    """After a power cut in between, nothing is named that is not there."""
    manager, done = world.controller._topics, []
    sync, store = manager._logs.sync, manager._store
    create, add = store.create_topics, store.add_partitions
    manager._logs.sync = lambda: done.append("sync") or sync()
    store.create_topics = lambda *words: done.append("create") or create(*words)
    store.add_partitions = lambda *words: done.append("add") or add(*words)
    world.run(CreateTopics([NewTopic("t", 1)]))
    world.run(CreatePartitions([PartitionCount("t", 3)]))
    assert done == ["sync", "create", "sync", "add"]
    world.run(CreateTopics([NewTopic("t", 1), NewTopic("u", 1)], validate_only=True))
    world.run(CreatePartitions([PartitionCount("t", 4)], validate_only=True))
    assert done[4:] == [], "what is only checked makes nothing"


def test_what_is_only_checked_has_no_id(world):
    [result] = world.run(CreateTopics([NewTopic("t", 2, 1)], validate_only=True)).results
    assert result == TopicResult("t", 0, None, bytes(16), 2, 1)


def test_partitions_of_which_one_cannot_be_made_leave_the_topic_as_it_was(world):
    world.run(CreateTopics([NewTopic("t", 2)]))
    before = world.directories()
    [first, second] = world.topics()["t"]
    world.logs.errors[second + 2] = 56
    [result] = world.run(CreatePartitions([PartitionCount("t", 5)])).results
    assert (result.error_code, result.error_message) == (56, "The data directory cannot hold the partition.")
    topic = world.controller._topics._context.by_name["t"]
    assert (len(topic.replicas), topic.ordinals) == (2, [first, second]) and len(topic.directories) <= 2
    assert [name for name in world.directories() if not name.endswith("-delete")] == before
    assert world.codes(CreatePartitions([PartitionCount("t", 5)])) == {"t": 0}
    world.check()


def test_whoever_makes_a_topic_where_records_of_another_lie_is_told_so(world):
    """As after a store that was put back is older than its logs: what helps is not more room."""
    directory = world.data_dir / "t-1"
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes(b"records")
    [result] = world.run(CreateTopics([NewTopic("t", 2)])).results
    assert (result.error_code, result.error_message) == (
        56,
        "Records of an unknown topic lie in t-1: `mpbroker adopt` takes them in, or move it away.",
    )
    assert [path.name for path in directory.iterdir()] == [f"{0:020d}.log"]


def test_a_topic_of_which_a_partition_cannot_be_made_is_none(world):
    world.logs.errors[1] = 56
    [result] = world.run(CreateTopics([NewTopic("t", 3)])).results
    assert result.error_code == 56 and world.topics() == {} and world.live_rows() == 0
    assert world.codes(CreateTopics([NewTopic("t", 3)])) == {"t": 0}
    world.check()


def test_what_is_thrown_away_goes_from_the_directories_that_were_noted_too():
    done = []
    manager = object.__new__(TopicManager)
    manager._logs = SimpleNamespace(
        hide=lambda ordinal: done.append(("hide", ordinal)), retire=lambda *words: done.append(("retire", *words))
    )
    manager._rows = SimpleNamespace(release=lambda made: done.append(("release", made)))
    topic = SimpleNamespace(name="t", id=b"T", directories=["a", "b", "c"])
    manager._throw_away(topic, range(1, 4), [8, 9])
    assert topic.directories == ["a"], "of the partitions there were"
    assert done == [
        ("hide", 8), ("hide", 9), ("retire", "t-1", b"T"), ("retire", "t-2", b"T"), ("release", [8, 9]),
    ]  # fmt: skip
