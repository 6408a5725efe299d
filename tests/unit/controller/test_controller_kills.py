"""The controller is killed at every crash point of every command, and its successor again; nothing is half done.

A kill is an exception that nothing catches: the next controller finds memory, store and directories as they were at
that moment. `test_controller_process` does the same to real processes with SIGKILL.
"""

import pytest

from mpbroker.log import unfinished_creation
from mpbroker.metadata.commands import CreatePartitions, CreateTopics, DeleteTopics, NewTopic, PartitionCount
from mpbroker.metadata.keys import Keys
from tests.harness.controller_world import Killed, World

pytestmark = pytest.mark.slow

COMMANDS = {
    "create": CreateTopics([NewTopic("new", 2, configs={"retention.ms": "5"}), NewTopic("also", 1)]),
    "delete": DeleteTopics(["keep-not", "gone"]),
    "extend": CreatePartitions([PartitionCount("stays", 3)]),
}
AFTER = {
    "create": {"stays": 2, "keep-not": 1, "gone": 2, "new": 2, "also": 1},
    "delete": {"stays": 2},
    "extend": {"stays": 3, "keep-not": 1, "gone": 2},
}
OPERATION = 77


def prepared(tmp_path) -> World:
    world = World(tmp_path, partitions=24)
    world.run(CreateTopics([NewTopic("stays", 2), NewTopic("keep-not", 1), NewTopic("gone", 2)]), operation=1)
    world.passed.clear()
    return world


def points(world: World) -> list[tuple[str, int]]:
    return [(name, nth) for name, count in world.passed.items() for nth in range(1, count + 1)]


def sizes(world: World) -> dict[str, int]:
    return {name: len(ordinals) for name, ordinals in world.topics().items()}


def nothing_half_visible(world: World, before: dict[str, int], after: dict[str, int]) -> None:
    """Whoever looks right after the kill sees each topic as it was or as it will be."""
    keys = Keys("c")
    for name, partitions in sizes(world).items():
        assert partitions in (before.get(name), after.get(name))
        known = world.store.get(keys.topic_name(name))[1] is not None
        assert known or world.store.get(keys.deletion(world.cache.topic(name).id))[1] is not None


def finish(world: World, command: str) -> None:
    """The request behind the command is run again by another handler, as after its own handler's death."""
    world.run(COMMANDS[command], operation=OPERATION)
    world.controller.tidy()
    answer = world.run(COMMANDS[command], operation=OPERATION)
    assert {result.error_code for result in answer.results} == {0}
    assert sizes(world) == AFTER[command]
    world.check()
    world.boot()
    assert sizes(world) == AFTER[command]
    world.check()


def all_points(tmp_path, command: str) -> list[tuple[str, int]]:
    world = prepared(tmp_path)
    world.run(COMMANDS[command], operation=OPERATION)
    return points(world)


def killed_at(tmp_path, command: str, point: tuple[str, int]) -> World:
    world = prepared(tmp_path)
    before = sizes(world)
    world.armed = point
    with pytest.raises(Killed):
        world.run(COMMANDS[command], operation=OPERATION)
    nothing_half_visible(world, before, AFTER[command])
    world.passed.clear()
    return world


@pytest.mark.parametrize("command", COMMANDS)
def test_a_kill_at_every_point_of_a_command(tmp_path, command):
    every = all_points(tmp_path / "all", command)
    assert len(every) >= 6
    for number, point in enumerate(every):
        world = killed_at(tmp_path / str(number), command, point)
        world.successor()
        assert sizes(world) in (AFTER[command], {"stays": 2, "keep-not": 1, "gone": 2}), point
        world.check()
        finish(world, command)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_kill_of_the_successor_while_it_recovers(tmp_path, command):
    seconds = 0
    for number, point in enumerate(all_points(tmp_path / "all", command)):
        world = killed_at(tmp_path / f"{number}-dry", command, point)
        world.successor()
        for second in points(world):
            world = killed_at(tmp_path / f"{number}-{second[0]}-{second[1]}", command, point)
            world.armed = second
            with pytest.raises(Killed):
                world.successor()
            world.successor()
            world.check()
            finish(world, command)
            seconds += 1
    assert seconds > 20


@pytest.mark.parametrize("command", COMMANDS)
def test_the_whole_broker_stops_at_every_point(tmp_path, command):
    for number, point in enumerate(all_points(tmp_path / "all", command)):
        world = killed_at(tmp_path / str(number), command, point)
        world.boot()
        assert sizes(world) in (AFTER[command], {"stays": 2, "keep-not": 1, "gone": 2}), point
        world.check()


def test_a_kill_while_what_an_uncommitted_creation_left_is_put_away(tmp_path):
    world = prepared(tmp_path)
    for name in ("stranger-0", "stranger-1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "00000000000000000000.log").write_bytes(b"")
    unfinished_creation.note(str(tmp_path), "stranger", bytes(16))
    for nth in (1, 1):
        world.armed = ("controller.stray_renamed", nth)
        world.passed.clear()
        with pytest.raises(Killed):
            world.boot()
    world.boot()
    world.check()
    assert sum(name.startswith("stranger-") and name.endswith("-delete") for name in world.directories()) == 2
