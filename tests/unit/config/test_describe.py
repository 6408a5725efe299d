"""What DescribeConfigs shows; each case was asked of a real Kafka 3.9.2 started with the same settings."""

from mpbroker.config.describe import describe_broker, describe_topic
from mpbroker.config.table import SETTINGS

STATIC = (
    "log.retention.hours=100",
    "log.retention.minutes=5",
    "log.roll.ms=3600000",
    "log.flush.scheduler.interval.ms=5000",
    "listener.name.plaintext.max.connections=7",
    "log.retention.bytes=1000",
    "log.preallocate=TRUE",
)


def one(entries, name):
    return next(entry for entry in entries if entry.name == name)


def shown(entry):
    return entry.value, entry.source, list(map(tuple, entry.synonyms))


def test_topic_override_stands_before_the_brokers_values(configure):
    entries = describe_topic({"segment.ms": "60000"}, configure(*STATIC))
    assert shown(one(entries, "segment.ms")) == (
        "60000",
        1,
        [("segment.ms", "60000", 1), ("log.roll.ms", "3600000", 4), ("log.roll.hours", "168", 5)],
    )
    assert shown(one(entries, "retention.bytes")) == (
        "1000",
        4,
        [("log.retention.bytes", "1000", 4), ("log.retention.bytes", "-1", 5)],
    )
    # The value in force comes from a relative of log.retention.ms, which Kafka does not show as a synonym.
    assert shown(one(entries, "retention.ms")) == ("300000", 5, [])
    assert shown(one(entries, "flush.ms")) == ("5000", 5, [])
    assert len(entries) == 36
    assert not any(entry.read_only or entry.sensitive for entry in entries)


def test_static_text_is_shown_as_written_and_the_value_in_kafkas_spelling(configure):
    entry = one(describe_topic({}, configure(*STATIC)), "preallocate")
    assert shown(entry) == ("true", 4, [("log.preallocate", "TRUE", 4), ("log.preallocate", "false", 5)])


def test_override_of_a_topic(configure):
    overrides = {"cleanup.policy": "compact,delete", "retention.ms": "5"}
    entries = describe_topic(overrides, configure())
    assert shown(one(entries, "cleanup.policy")) == (
        "compact,delete",
        1,
        [("cleanup.policy", "compact,delete", 1), ("log.cleanup.policy", "delete", 5)],
    )
    assert shown(one(entries, "retention.ms")) == ("5", 1, [("retention.ms", "5", 1)])
    assert not one(entries, "retention.ms").is_default
    assert {entry.name for entry in entries if entry.source != 5} == set(overrides)


def test_names_choose_and_unknown_names_are_left_out(configure):
    config = configure()
    assert [entry.name for entry in describe_topic({}, config, ["retention.ms", "nosuch"])] == ["retention.ms"]
    assert [entry.name for entry in describe_broker(config, ["num.io.threads", "nosuch"])] == ["num.io.threads"]
    assert len(describe_topic({}, config, [])) == 36


def test_broker_settings(configure):
    entries = describe_broker(configure(*STATIC))
    assert shown(one(entries, "log.retention.hours")) == (
        "100",
        4,
        [("log.retention.hours", "100", 4), ("log.retention.hours", "168", 5)],
    )
    assert shown(one(entries, "log.retention.minutes")) == (
        "5",
        4,
        [("log.retention.minutes", "5", 4), ("log.retention.hours", "100", 4), ("log.retention.hours", "168", 5)],
    )
    assert shown(one(entries, "log.roll.ms")) == (
        "3600000",
        4,
        [("log.roll.ms", "3600000", 4), ("log.roll.hours", "168", 5)],
    )
    assert shown(one(entries, "log.roll.hours")) == ("168", 5, [("log.roll.hours", "168", 5)])
    assert shown(one(entries, "log.retention.ms")) == (None, 5, [])
    assert shown(one(entries, "inter.broker.listener.name")) == (None, 5, [])


def test_a_setting_of_one_listener_is_listed_and_falls_back_to_the_general_one(configure):
    entry = one(describe_broker(configure(*STATIC)), "listener.name.plaintext.max.connections")
    assert shown(entry) == (
        "7",
        4,
        [("listener.name.plaintext.max.connections", "7", 4), ("max.connections", "2147483647", 5)],
    )
    assert entry.read_only


def test_node_id_given_by_its_other_name(configure):
    entry = one(describe_broker(configure("broker.id=3")), "node.id")
    assert (entry.value, entry.source, entry.read_only) == ("3", 4, True)


def test_the_number_of_processes_in_force_is_shown(configure):
    assert shown(one(describe_broker(configure(cores=6)), "num.io.threads")) == ("6", 5, [("num.io.threads", "6", 5)])


def test_internal_settings_are_not_listed(configure):
    names = {entry.name for entry in describe_broker(configure())}
    assert names == {name for name, row in SETTINGS.items() if not row.internal}
    assert "log.initial.task.delay.ms" not in names
