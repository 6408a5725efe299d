"""Settings of topics that are changed: what is stored and shown, what is refused, a second run of the same command."""

import pytest

from mpbroker.controller.config_manager import BROKER
from mpbroker.metadata.commands import AlterConfigs, ConfigChange, ConfigChanges, CreateTopics, NewTopic
from mpbroker.metadata.keys import Keys
from tests.harness.controller_world import Killed, World

TOPIC = 2
SET, DELETE, APPEND, SUBTRACT = range(4)


def world_with(tmp_path, **configs: str) -> World:
    world = World(tmp_path, partitions=24)
    own = {name.replace("_", "."): value for name, value in configs.items()}
    world.run(CreateTopics([NewTopic("t", 1, configs=own), NewTopic("u", 1)]), operation=1)
    return world


def alter(*changes: tuple[str, int, str | None], topic: str = "t", **how: bool) -> AlterConfigs:
    return AlterConfigs([ConfigChanges(TOPIC, topic, [ConfigChange(*change) for change in changes])], **how)


def shown(world: World, topic: str = "t") -> dict[str, str]:
    world.cache.refresh()
    return world.cache.topic(topic).overrides


def stored(world: World, topic: str = "t") -> bytes | None:
    entry = world.store.get(Keys("c").topic_config(topic))[1]
    return entry and entry.value


def test_a_setting_is_set_changed_and_deleted_and_a_new_start_finds_it(tmp_path):
    world = world_with(tmp_path)
    for value in ("5000", "6000"):
        assert world.codes(alter(("retention.ms", SET, value))) == {"t": 0}
        assert shown(world) == {"retention.ms": value}
        assert world.cache.topic("t").settings.retention_ms == int(value)
        world.boot()
        assert shown(world) == {"retention.ms": value}
    assert world.codes(alter(("retention.ms", DELETE, None))) == {"t": 0}
    assert (shown(world), stored(world)) == ({}, None)
    assert world.codes(alter(("retention.ms", SET, "7000"))) == {"t": 0}
    world.successor()
    assert (shown(world), shown(world, "u")) == ({"retention.ms": "7000"}, {})
    world.check()


def test_lists_begin_with_what_is_in_force_by_default(tmp_path):
    world = world_with(tmp_path)
    steps = ((APPEND, "compact", "delete,compact"), (SUBTRACT, "delete", "compact"), (APPEND, "compact", "compact"))
    for operation, value, after in steps:
        assert world.codes(alter(("cleanup.policy", operation, value))) == {"t": 0}
        assert shown(world) == {"cleanup.policy": after}
    (refused,) = world.run(alter(("retention.ms", APPEND, "1"))).results
    assert (refused.error_code, refused.error_message) == (
        40,
        "Can't APPEND to key retention.ms because its type is not LIST.",
    )


def test_to_replace_drops_what_is_not_named(tmp_path):
    world = world_with(tmp_path, retention_ms="5", segment_bytes="5000")
    assert world.codes(alter(("segment.bytes", SET, "6000"), replace=True)) == {"t": 0}
    assert shown(world) == {"segment.bytes": "6000"}


def test_nothing_changes_where_it_is_only_checked_refused_or_so_already(tmp_path):
    world = world_with(tmp_path, retention_ms="5")
    before = world.store.get(Keys("c").topic_config("t"))
    for command, code in (
        (alter(("retention.ms", SET, "6"), validate_only=True), 0),
        (alter(("retention.ms", SET, "x")), 40),
        (alter(("segment.bytes", SET, "6000"), ("no.such", SET, "x")), 40),
        (alter(("retention.ms", SET, " 5")), 0),
        (alter(("no.such", DELETE, None)), 0),
        (alter(("leader.replication.throttled.replicas", SET, "1:1," * 900 + "1:1")), 44),
    ):
        assert world.codes(command, operation=9) == {"t": code}
        assert world.store.get(Keys("c").topic_config("t")) == before
    assert shown(world) == {"retention.ms": "5"}


def test_each_topic_has_its_own_result(tmp_path):
    world = world_with(tmp_path)
    names = ("u", "nowhere", "", "bad name", "t")
    command = AlterConfigs([ConfigChanges(TOPIC, name, [ConfigChange("retention.ms", SET, "9")]) for name in names])
    answer = world.run(command)
    assert [(result.name, result.error_code) for result in answer.results] == list(
        zip(names, (0, 3, 42, 17, 0), strict=True)
    )
    assert answer.results[1].error_message == "The topic 'nowhere' does not exist."
    assert shown(world) == shown(world, "u") == {"retention.ms": "9"}


def test_a_command_that_runs_again_gets_its_first_answer(tmp_path):
    world = world_with(tmp_path)
    command = alter(("cleanup.policy", APPEND, "compact"))
    assert world.codes(command, operation=5) == {"t": 0}
    world.run(alter(("cleanup.policy", DELETE, None)), operation=6)
    world.successor()
    assert world.codes(command, operation=5) == {"t": 0}
    assert shown(world) == {}, "the second run changed nothing"


def test_the_log_names_what_changed(tmp_path):
    world = world_with(tmp_path, retention_ms="5")
    world.run(alter(("retention.ms", DELETE, None), ("segment.bytes", SET, "6000"), ("flush.ms", DELETE, None)))
    assert world.lines.named("topic_settings_changed") == [{"topic": "t", "settings": "retention.ms,segment.bytes"}]


BOTH = AlterConfigs([ConfigChanges(TOPIC, name, [ConfigChange("cleanup.policy", APPEND, "compact")]) for name in "tu"])
AFTER = {"cleanup.policy": "delete,compact"}


def test_a_kill_at_every_point_and_of_every_successor_leaves_all_or_nothing(tmp_path):
    world = world_with(tmp_path / "all")
    world.passed.clear()
    world.run(BOTH, operation=77)
    points = [(name, nth) for name, count in world.passed.items() for nth in range(1, count + 1)]
    assert {name for name, _ in points} == {"controller.prepared", "controller.committed", "controller.shown"}
    for number, point in enumerate(points):
        for second in (None, ("controller.topic_recovered", 1), ("controller.topic_recovered", 2)):
            world = world_with(tmp_path / f"{number}-{second[1] if second else 0}")
            world.passed.clear()
            world.armed = point
            with pytest.raises(Killed):
                world.run(BOTH, operation=77)
            committed = point[0] != "controller.prepared"
            assert (stored(world) is not None, stored(world, "u") is not None) == (committed, committed)
            if second:
                world.armed = second
                with pytest.raises(Killed):
                    world.successor()
            world.successor()
            assert shown(world) == shown(world, "u") == (AFTER if committed else {})
            assert world.codes(BOTH, operation=77) == {"t": 0, "u": 0}
            assert shown(world) == shown(world, "u") == AFTER
            world.boot()
            assert shown(world) == shown(world, "u") == AFTER


def test_resources_of_brokers_have_kafkas_number():
    assert BROKER == 4
