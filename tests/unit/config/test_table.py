"""The settings table against what a real Kafka 3.9.2 says of itself (captured from DescribeConfigs)."""

import json
from pathlib import Path

import pytest

from mpbroker.config import limits
from mpbroker.config.kinds import Kind
from mpbroker.config.setting import Change
from mpbroker.config.table import GROUPS, SETTINGS, locate, unknown_setting
from tests.harness.c_headers import defined

#: Of Kafka 4.3.1: settings of groups of the next-generation protocol.
KAFKA_4 = {
    "group.coordinator.rebalance.protocols": (7, True, "classic,consumer,streams"),
    "group.consumer.session.timeout.ms": (3, True, "45000"),
    "group.consumer.heartbeat.interval.ms": (3, True, "5000"),
    "group.consumer.min.session.timeout.ms": (3, True, "45000"),
    "group.consumer.max.session.timeout.ms": (3, True, "60000"),
    "group.consumer.min.heartbeat.interval.ms": (3, True, "5000"),
    "group.consumer.max.heartbeat.interval.ms": (3, True, "15000"),
    "group.consumer.min.assignment.interval.ms": (3, True, "0"),
    "group.consumer.max.assignment.interval.ms": (3, True, "15000"),
    "group.consumer.max.size": (3, True, "2147483647"),
    "group.consumer.assignors": (7, True, "uniform,range"),
    "group.consumer.migration.policy": (2, True, "bidirectional"),
    "group.consumer.assignment.interval.ms": (3, True, "1000"),
}
KAFKA = KAFKA_4 | json.loads((Path(__file__).parent / "data" / "kafka_3_9_broker.json").read_text())
# Where our default differs on purpose; docs/configuration.md says so.
OWN_DEFAULTS = {
    "node.id",
    "broker.id",
    "listeners",
    "log.dir",
    "num.network.threads",
    "num.io.threads",
    "listener.security.protocol.map",
    "group.coordinator.rebalance.protocols",
}


def test_every_kafka_name_is_one_that_kafka_has():
    ours = {name for name, row in SETTINGS.items() if not name.startswith("mpbroker.") and not row.internal}
    assert ours == set(KAFKA)


@pytest.mark.parametrize("name", sorted(KAFKA))
def test_type_change_and_default_are_kafkas(name):
    kind, read_only, default = KAFKA[name]
    row = SETTINGS[name]
    assert (int(row.kind), row.change is Change.READ_ONLY) == (kind, read_only)
    if name not in OWN_DEFAULTS:
        assert row.render(row.default) == default


def test_no_setting_stands_twice_and_attributes_are_distinct():
    rows = [row for _, rows in GROUPS for row in rows]
    assert len(rows) == len(SETTINGS) == len({row.attribute for row in rows})


def test_every_default_is_allowed_by_its_own_row():
    for row in SETTINGS.values():
        for cores in (1, 2, 8):
            row.check(row.default_for(cores))


def test_every_row_has_a_sentence():
    for row in SETTINGS.values():
        assert row.sentence.endswith((".", ".)")), row.name
        assert row.kind in Kind


def test_process_defaults_come_from_the_cores():
    network, handlers = SETTINGS["num.network.threads"], SETTINGS["num.io.threads"]
    assert [(network.default_for(cores), handlers.default_for(cores)) for cores in (1, 2, 4, 8)] == [
        (1, 2),
        (1, 2),
        (2, 4),
        (4, 8),
    ]


def test_listener_prefix_finds_the_longest_listener_name():
    assert locate("listener.name.a.b.max.connections").listener == "A.B"
    assert locate("listener.name.internal.num.network.threads").name == "listener.name.internal.num.network.threads"
    assert locate("listener.name.internal.num.io.threads") is None
    assert locate("listener.name..max.connections") is None


def test_unknown_names_get_a_hint():
    assert unknown_setting("num.io.thread") == "unknown setting num.io.thread; did you mean num.io.threads?"
    assert "did you mean" not in unknown_setting("qqqqqqqq")


def test_slot_limits_are_those_of_the_shared_memory():
    layout = "shm/layout.h"
    assert defined(layout, "MPB_MAX_PROCESSORS") == limits.MAX_PROCESSORS
    assert defined(layout, "MPB_MAX_HANDLERS") == limits.MAX_HANDLERS
    assert 1 << defined(layout, "MPB_INDEX_BITS") == limits.MAX_ENTRIES
