"""Dynamic settings of brokers: stored before they are published, published again by a successor, all or nothing."""

import pytest

from mpbroker.config.dynamic import DynamicSettings
from mpbroker.config.load_config import load_broker_config
from mpbroker.controller.broker_settings import BrokerSettings, Room
from mpbroker.controller.controller_store import BrokerLayer, GroupLayer
from mpbroker.metadata.commands import AlterConfigs, ConfigChange, ConfigChanges, CreateTopics, NewTopic
from tests.harness.controller_world import Killed, World

TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1
KEY = "log.segment.bytes"


def alter(*resources: tuple[str, str | None], **how: bool) -> AlterConfigs:
    """(broker, value) of each resource; no value: deleted."""
    return AlterConfigs(
        [
            ConfigChanges(BROKER, name, [ConfigChange(KEY, DELETE if value is None else SET, value)])
            for name, value in resources
        ],
        **how,
    )


def test_both_layers_are_kept_and_published(tmp_path):
    world = World(tmp_path)
    assert world.codes(alter(("0", "2000"), ("", "3000"))) == {"0": 0, "": 0}
    assert world.published[-1] == DynamicSettings({KEY: "3000"}, {KEY: "2000"})
    assert world.codes(alter(("0", None))) == {"0": 0}
    for again in (world.successor, world.boot):
        again()
        assert world.published == [DynamicSettings({KEY: "3000"}, {})], "at every start, before any command"
    assert world.codes(AlterConfigs([ConfigChanges(BROKER, "", [])], replace=True)) == {"": 0}
    assert world.published[-1] == DynamicSettings({}, {})


def test_what_is_only_checked_or_refused_changes_nothing(tmp_path):
    world = World(tmp_path)
    assert world.codes(alter(("0", "2000"), validate_only=True)) == {"0": 0}
    assert world.codes(alter(("0", "13"))) == {"0": 42}
    assert not world.published[-1]
    results = world.run(alter(("0", "2000"), ("", "x"))).results
    assert [result.error_code for result in results] == [0, 42]
    assert world.published[-1] == DynamicSettings({}, {KEY: "2000"})


def test_more_processes_than_there_is_room_for(tmp_path):
    world = World(tmp_path, "num.io.threads=40", handlers=2)
    change = ConfigChanges(BROKER, "0", [ConfigChange("num.io.threads", SET, "50")])
    (refused,) = world.run(AlterConfigs([change])).results
    assert (refused.error_code, "There is room for 2 request handlers" in refused.error_message) == (42, True)


def test_too_many_settings(tmp_path):
    world = World(tmp_path)
    change = ConfigChanges(BROKER, "0", [ConfigChange("no.such", SET, "x" * 20000)])
    assert world.codes(AlterConfigs([change])) == {"0": 0}
    more = [ConfigChanges(BROKER, "0", [ConfigChange(f"no.such{n}", SET, "x" * 25000)]) for n in range(2)]
    assert [world.codes(AlterConfigs([one])) for one in more] == [{"0": 0}, {"0": 44}]


@pytest.mark.parametrize("point", ["controller.prepared", "controller.committed", "controller.settings_published"])
def test_a_controller_that_dies_leaves_all_or_nothing_with_its_successor(tmp_path, point):
    world = World(tmp_path)
    world.run(CreateTopics([NewTopic("t", 1)]), operation=1)
    both = AlterConfigs(
        [
            ConfigChanges(TOPIC, "t", [ConfigChange("retention.ms", SET, "5")]),
            ConfigChanges(BROKER, "0", [ConfigChange(KEY, SET, "2000")]),
        ]
    )
    world.armed = (point, world.passed[point] + 1)
    with pytest.raises(Killed):
        world.run(both, operation=2)
    world.successor()
    world.cache.refresh()
    done = point != "controller.prepared"
    assert bool(world.published[-1]) == bool(world.cache.topic("t").overrides) == done
    assert world.codes(both, operation=2) == {"t": 0, "0": 0}
    assert world.published[-1] == DynamicSettings({}, {KEY: "2000"})


@pytest.mark.parametrize(
    ("processors", "handlers", "sentence"),
    [
        (4, 8, None),
        (3, 8, "room for 3 processors over all listeners, not for 4"),
        (4, 7, "room for 7 request handlers, not for 8"),
    ],
)
def test_no_more_processes_than_memory_was_laid_out_for(processors, handlers, sentence):
    settings = [
        "listeners=A://:1,CTL://:2", "listener.security.protocol.map=A:PLAINTEXT,CTL:PLAINTEXT",
        "control.plane.listener.name=CTL", "inter.broker.listener.name=A", "mpbroker.control.reserved.handlers=2",
        "num.network.threads=3", "num.io.threads=6",
    ]  # fmt: skip
    config = load_broker_config(overrides=settings, environ={}, cores=4)
    assert config.reserved_handlers == 2
    kept = BrokerSettings.__new__(BrokerSettings)
    kept._room = Room(processors, handlers)
    found = kept._beyond_room(config, DynamicSettings({}, {}))
    assert found is None if sentence is None else found.endswith(sentence)


def test_the_settings_that_changed_are_named():
    kept, told = BrokerSettings.__new__(BrokerSettings), []
    kept.announce = lambda: told.append(1)
    kept.groups, kept.cluster = {}, BrokerLayer(None, {"a": "1", "b": "2"})
    kept.broker = BrokerLayer(0, {"c": "1"})
    layers = [BrokerLayer(None, {"b": "3", "d": "4"}), BrokerLayer(0, {"c": "1", "e": "5"})]
    assert kept.committed(layers) == ["a", "b", "d", "e"] and told == [1]
    assert (kept.cluster, kept.broker) == tuple(layers)
    kept.committed([GroupLayer("g", {"x": "1"})])
    assert kept.groups == {"g": GroupLayer("g", {"x": "1"})}
    assert kept.committed([GroupLayer("g", {})]) == ["x"] and kept.groups == {}
