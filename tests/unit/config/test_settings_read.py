"""Every setting that is documented as working is read by the broker, and none that is marked `later`.

A setting is read where code outside mpbroker/config takes it off a configuration: as an attribute (`config.x`,
`settings.x`) or by name (`value("x")`). Some work through others: then a change of theirs changes something that is
read, which is tried here.
"""

import ast
import functools

import pytest

from mpbroker.config.group_table import GROUP_SETTINGS
from mpbroker.config.kinds import INT_MAX, Kind
from mpbroker.config.table import SETTINGS
from mpbroker.config.topic_config import effective
from mpbroker.config.topic_table import TOPIC_SETTINGS
from tests.tidy.source_tree import last_name, modules, nodes

OWNERS = {"config", "_config", "settings", "log_config"}
BY_NAME = {"value", "for_listener", "source", "processors"}
#: What a BrokerConfig works out of its settings for others to read.
DERIVED = (
    "end_points",
    "data_dir",
    "trace_dir",
    "connection_overrides",
    "reserved_handlers",
    "handlers_discipline",
    "node_id",
    "admin_address",
    "cluster_store",
)
#: Another value than the default, where it cannot be worked out from the row.
OTHER = {
    "listeners": "PLAINTEXT://h:1",
    "advertised.listeners": "PLAINTEXT://h:2",
    "control.plane.listener.name": "B",
    "controller.listener.names": "A",
    "inter.broker.listener.name": "B",
    "security.inter.broker.protocol": "SSL",
    "log.dirs": "/elsewhere",
    "log.dir": "/elsewhere",
    "mpbroker.trace.dir": "/elsewhere",
    "mpbroker.admin.listener": "h:1",
    "mpbroker.cluster.store": "sqlite:/elsewhere",
    "log.cleaner.min.cleanable.ratio": "0.25",
    "max.connections.per.ip.overrides": "h:1",
    "broker.rack": "r",
    "log.roll.ms": "5",
    "log.roll.jitter.ms": "5",
    "log.roll.jitter.hours": "5",
    "log.retention.ms": "5",
    "log.retention.minutes": "5",
    "log.flush.interval.ms": "5",
    "log.message.timestamp.difference.max.ms": "5",
    "group.consumer.min.session.timeout.ms": "5000",
    "group.consumer.min.heartbeat.interval.ms": "5",
}
#: Settings without which the other value would be refused or mean nothing.
TWO = ("listeners=A://h:1,B://h:2", "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT")
BESIDE = {
    "control.plane.listener.name": TWO,
    "controller.listener.names": TWO,
    "inter.broker.listener.name": TWO,
    "security.inter.broker.protocol": (
        "listeners=PLAINTEXT://h:1,SSL://h:2",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SSL:PLAINTEXT",
    ),
    "mpbroker.control.reserved.handlers": (*TWO, "control.plane.listener.name=B"),
}


@functools.cache
def _reads():
    """Names and attributes that code outside mpbroker/config takes off a configuration. At the first test and not while
    tests are collected: every process of a run does that."""
    found = set()
    for module, path in modules().items():
        if module.startswith("mpbroker.config"):
            continue
        for node in nodes(path):
            if isinstance(node, ast.Attribute) and last_name(node.value) in OWNERS:
                found.add(node.attr)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in BY_NAME:
                found |= {arg.value for arg in node.args if isinstance(arg, ast.Constant)}
    return found


@functools.cache
def _methods():
    """Methods that code outside mpbroker/config calls on a configuration."""
    return {
        node.func.attr
        for module, path in modules().items()
        if not module.startswith("mpbroker.config")
        for node in nodes(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and last_name(node.func.value) in OWNERS
    }


def _read_directly(row):
    return row.attribute in _reads() or row.name in _reads()


def _other(row):
    if row.name in OTHER:
        return OTHER[row.name]
    if row.kind is Kind.BOOLEAN:
        return "false" if row.default else "true"
    if row.allowed:
        return next(
            text
            for text in row.allowed
            if text not in (row.default, *(row.default if isinstance(row.default, tuple) else ()))
        )
    default = row.default_for(2)
    return str(default + 1 if default + 1 <= (row.most or 2**31 - 1) else default - 1)


def _seen_from_outside(config):
    """All that is read outside and may follow from a setting."""
    assert set(DERIVED) <= _reads() and "processors" in _methods()
    topic = effective({}, config)
    topics = {
        row.attribute: getattr(topic, row.attribute) for row in TOPIC_SETTINGS.values() if row.attribute in _reads()
    }
    processors = {"processors": config.processors(config.end_points.data[0].listener_name)}
    groups = {row.name: (row.within(0, config), row.within(INT_MAX, config)) for row in GROUP_SETTINGS.values()}
    return {name: getattr(config, name) for name in DERIVED} | topics | processors | groups


@pytest.mark.parametrize("name", [name for name, row in SETTINGS.items() if not row.later])
def test_every_setting_that_has_an_effect_is_read(name, configure):
    row = SETTINGS[name]
    if name == "listener.security.protocol.map" or (name not in OTHER and _read_directly(row)):
        return  # the map: without it the listeners of TWO are refused (test_listeners.py)
    beside = BESIDE.get(name, ())
    before = _seen_from_outside(configure(*beside))
    after = _seen_from_outside(configure(*beside, f"{name}={_other(row)}"))
    assert after != before or _read_directly(row), (
        f"{name} is documented as working, and nothing reads it: wire it, or later=True"
    )


@pytest.mark.parametrize("name", [name for name, row in SETTINGS.items() if row.later])
def test_no_setting_without_effect_is_read(name):
    assert not _read_directly(SETTINGS[name]), f"{name} is read: it is not `later`"


#: Topic settings that change others, or are refused.
THROUGH_OTHERS = {"message.timestamp.difference.max.ms", "remote.storage.enable"}


@pytest.mark.parametrize("name", TOPIC_SETTINGS)
def test_topic_settings_likewise(name, configure):
    row = TOPIC_SETTINGS[name]
    if name in THROUGH_OTHERS:
        assert not row.later and not _read_directly(row)
    else:
        assert (row.attribute in _reads()) != row.later, name


def test_the_older_timestamp_bound_changes_what_is_read(configure):
    assert {"message_timestamp_before_max_ms", "message_timestamp_after_max_ms"} <= _reads()
    assert effective({"message.timestamp.difference.max.ms": "5"}, configure()).message_timestamp_before_max_ms == 5
