"""Settings of single groups: what Kafka 4.3.1 was seen to answer to each change, and what is in force."""

import pytest

from mpbroker.config.describe import describe_group
from mpbroker.config.dynamic import DynamicSettings
from mpbroker.config.group_changes import changed_group_configs, group_refusal
from mpbroker.config.group_table import SESSION, in_force
from mpbroker.config.load_config import build_broker_config
from mpbroker.config.sources import Given
from mpbroker.config.topic_changes import NotAList
from mpbroker.errors import ConfigError
from mpbroker.metadata.commands import ConfigChange

SESSION_MS, HEARTBEAT_MS, INTERVAL_MS = (
    "consumer.session.timeout.ms",
    "consumer.heartbeat.interval.ms",
    "consumer.assignment.interval.ms",
)


def config_with(groups=None, **static):
    texts = {name.replace("_", "."): text for name, text in static.items()}
    return build_broker_config(Given(texts, {}, ()), 2, DynamicSettings({}, {}, groups or {}))


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        (SESSION_MS, "50000", None),
        (SESSION_MS, "5", f"{SESSION_MS} must be greater than or equal to group.consumer.min.session.timeout.ms"),
        (SESSION_MS, "70000", f"{SESSION_MS} must be less than or equal to group.consumer.max.session.timeout.ms"),
        (
            HEARTBEAT_MS,
            "1",
            f"{HEARTBEAT_MS} must be greater than or equal to group.consumer.min.heartbeat.interval.ms",
        ),
        (
            HEARTBEAT_MS,
            "16000",
            f"{HEARTBEAT_MS} must be less than or equal to group.consumer.max.heartbeat.interval.ms",
        ),
        (INTERVAL_MS, "0", None),
        (INTERVAL_MS, "-1", f"Invalid value -1 for configuration {INTERVAL_MS}: Value must be at least 0"),
        (
            INTERVAL_MS,
            "500000",
            f"{INTERVAL_MS} must be less than or equal to group.consumer.max.assignment.interval.ms",
        ),
        (SESSION_MS, "0", f"Invalid value 0 for configuration {SESSION_MS}: Value must be at least 1"),
        (SESSION_MS, "abc", f"Invalid value abc for configuration {SESSION_MS}: Not a number of type INT"),
        ("consumer.nothing", "abc", "Unknown group config name: consumer.nothing"),
    ],
)
def test_what_is_refused(name, text, sentence):
    assert group_refusal({name: text}, config_with()) == sentence


def test_changes():
    own = {SESSION_MS: "50000"}
    set_it = ConfigChange(HEARTBEAT_MS, 0, "6000")
    assert changed_group_configs(own, [set_it]) == {SESSION_MS: "50000", HEARTBEAT_MS: "6000"}
    assert changed_group_configs(own, [ConfigChange(SESSION_MS, 1, None)]) == {}
    sentence = f"Can't APPEND to key {SESSION_MS} because its type is not LIST."
    with pytest.raises(NotAList, match=sentence):
        changed_group_configs(own, [ConfigChange(SESSION_MS, 2, "1")])


def test_a_session_lasts_longer_than_the_pause_between_heartbeats():
    config = config_with(group_consumer_min_session_timeout_ms="1", group_consumer_session_timeout_ms="6000")
    sentence = f"{SESSION_MS} must be greater than {HEARTBEAT_MS}"
    assert group_refusal({SESSION_MS: "5000"}, config) == sentence
    assert group_refusal({SESSION_MS: "5001"}, config) is None


def test_what_is_shown():
    config = config_with({"g": {SESSION_MS: "50000"}})
    [own, other] = describe_group(config.dynamic.groups["g"], config, [SESSION_MS, HEARTBEAT_MS, "x"])[::-1]
    assert (own.name, own.value, own.source, own.read_only) == (SESSION_MS, "50000", 8, False)
    assert own.synonyms == ((SESSION_MS, "50000", 8), ("group.consumer.session.timeout.ms", "45000", 5))
    assert (other.name, other.value, other.source) == (HEARTBEAT_MS, "5000", 5)
    assert other.synonyms == (("group.consumer.heartbeat.interval.ms", "5000", 5),)
    assert len(describe_group({}, config)) == 3


def test_bounds_that_were_narrowed_since():
    narrowed = config_with(group_consumer_max_session_timeout_ms="48000")
    assert in_force(SESSION, {SESSION_MS: "50000"}, narrowed) == 48000
    assert in_force(SESSION, {}, narrowed) == 45000


def test_a_broker_must_keep_to_its_own_bounds():
    with pytest.raises(ConfigError, match="at least group.consumer.min.session.timeout.ms"):
        config_with(group_consumer_session_timeout_ms="20000")
    with pytest.raises(ConfigError, match="less than group.consumer.session.timeout.ms"):
        config_with(
            group_consumer_min_session_timeout_ms="1000",
            group_consumer_session_timeout_ms="4000",
        )
