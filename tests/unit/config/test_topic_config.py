"""Topic settings: every sentence of error 40 here was asked of a real Kafka 3.9.2 with the same request."""

import pytest

from mpbroker.config.kinds import LONG_MAX
from mpbroker.config.topic_config import InvalidTopicConfig, effective, validate_topic_configs

FORMAT = (
    "must be the literal '*' or a list of replicas in the following format: "
    "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
)


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("retention.ms", "abc", "Not a number of type LONG"),
        ("retention.ms", "-2", "Value must be at least -1"),
        ("retention.ms", "", "Not a number of type LONG"),
        ("retention.ms", "99999999999999999999", "Not a number of type LONG"),
        ("segment.bytes", "13", "Value must be at least 14"),
        ("segment.bytes", "99999999999", "Not a number of type INT"),
        ("cleanup.policy", "foo", "String must be one of: compact, delete"),
        ("compression.type", "GZIP", "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"),
        ("message.timestamp.type", "x", "String must be one of: CreateTime, LogAppendTime"),
        ("preallocate", "maybe", "Expected value to be either true or false"),
        ("message.downconversion.enable", "", "Expected value to be either true or false"),
        ("min.cleanable.dirty.ratio", "1.5", "Value must be no more than 1"),
        ("min.cleanable.dirty.ratio", "x", "Not a number of type DOUBLE"),
        ("min.insync.replicas", "0", "Value must be at least 1"),
        ("message.format.version", "9.9", "Version 9.9 is not a valid version"),
        ("flush.messages", "0", "Value must be at least 1"),
        ("flush.ms", "-1", "Value must be at least 0"),
        ("segment.index.bytes", "3", "Value must be at least 4"),
        ("max.message.bytes", "-1", "Value must be at least 0"),
        ("segment.ms", "0", "Value must be at least 1"),
        ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
        ("compression.gzip.level", "10", "Value must be between 1 and 9 or equal to -1"),
        ("compression.gzip.level", "-2", "Value must be between 1 and 9 or equal to -1"),
        ("compression.lz4.level", "0", "Value must be at least 1"),
        ("compression.zstd.level", "-131073", "Value must be at least -131072"),
        ("compression.lz4.level", "18", "Value must be no more than 17"),
        ("compression.zstd.level", "23", "Value must be no more than 22"),
        ("remote.storage.enable", "x", "Expected value to be either true or false"),
        ("local.retention.ms", "-3", "Value must be at least -2"),
    ],
)
def test_wrong_values(name, text, sentence):
    assert validate_topic_configs({name: text}) == ({}, f"Invalid value {text} for configuration {name}: {sentence}")


@pytest.mark.parametrize(
    ("configs", "sentence"),
    [
        ({"nosuch": "1"}, "Unknown topic config name: nosuch"),
        ({"RETENTION.MS": "1"}, "Unknown topic config name: RETENTION.MS"),
        ({"retention.ms": None}, "Null value not supported for topic configs: retention.ms"),
        ({"retention.ms": None, "nosuch": None}, "Null value not supported for topic configs: retention.ms,nosuch"),
        ({"segment.ms": "0", "nosuch": "1"}, "Unknown topic config name: nosuch"),
        (
            {"retention.ms": "-3", "segment.ms": "0"},
            "Invalid value 0 for configuration segment.ms: Value must be at least 1",
        ),
        (
            {"cleanup.policy": "delete,foo"},
            "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        (
            {"min.compaction.lag.ms": "100", "max.compaction.lag.ms": "50"},
            "conflict topic config setting min.compaction.lag.ms (100) > max.compaction.lag.ms (50)",
        ),
        (
            {"remote.storage.enable": "true"},
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        ),
        (
            {"leader.replication.throttled.replicas": "x"},
            "Invalid value [x] for configuration leader.replication.throttled.replicas: "
            "leader.replication.throttled.replicas "
            f"{FORMAT}",
        ),
    ],
)
def test_wrong_configs(configs, sentence):
    assert validate_topic_configs(configs) == ({}, sentence)


@pytest.mark.parametrize("text", ["0:1:2", "a:1", "0:b", "0", "0:1,x", "*,0:1", ":", "0:1,"])
@pytest.mark.parametrize("name", ["leader.replication.throttled.replicas", "follower.replication.throttled.replicas"])
def test_replicas_are_pairs_of_numbers_or_all(name, text):
    shown = f"[{', '.join(text.split(','))}]"
    assert validate_topic_configs({name: text}) == (
        {},
        f"Invalid value {shown} for configuration {name}: {name} {FORMAT}",
    )


@pytest.mark.parametrize(
    ("name", "text", "kept"),
    [
        ("retention.ms", " 5 ", "5"),
        ("retention.ms", "+5", "5"),
        ("retention.bytes", "-9", "-9"),
        ("cleanup.policy", " compact , delete ", "compact,delete"),
        ("cleanup.policy", "", ""),
        ("preallocate", "TRUE", "true"),
        ("min.cleanable.dirty.ratio", ".25f", "0.25"),
        ("leader.replication.throttled.replicas", "*", "*"),
        ("leader.replication.throttled.replicas", "", ""),
        ("follower.replication.throttled.replicas", "0:1,1:2", "0:1,1:2"),
        ("message.format.version", "2.8", "2.8"),
        *(("compression.gzip.level", level, level) for level in ("-1", "1", "9")),
        ("compression.lz4.level", "1", "1"),
        ("compression.lz4.level", "17", "17"),
        ("compression.zstd.level", "-131072", "-131072"),
        ("compression.zstd.level", "22", "22"),
    ],
)
def test_right_values_are_kept_in_kafkas_spelling(name, text, kept):
    assert validate_topic_configs({name: text}) == ({name: kept}, None)


def test_no_configs_are_right():
    assert validate_topic_configs({}) == ({}, None)


def test_effective_takes_the_brokers_values_where_the_topic_has_none(configure):
    settings = effective({"retention.ms": "5", "cleanup.policy": "compact"}, configure("log.segment.bytes=1000"))
    assert (settings.retention_ms, settings.cleanup_policy, settings.segment_bytes) == (5, ("compact",), 1000)
    assert settings.max_message_bytes == 1048588
    assert settings.preallocate is False
    assert settings.leader_replication_throttled_replicas == ()


@pytest.mark.parametrize(
    ("overrides", "retention_ms"),
    [
        ([], 168 * 3_600_000),
        (["log.retention.hours=2"], 7_200_000),
        (["log.retention.hours=-1"], -1),
        (["log.retention.minutes=3"], 180_000),
        (["log.retention.minutes=3", "log.retention.hours=2"], 180_000),
        (["log.retention.minutes=-1", "log.retention.hours=2"], -1),
        (["log.retention.ms=7", "log.retention.minutes=3"], 7),
        (["log.retention.ms=-1", "log.retention.minutes=3"], -1),
    ],
)
def test_retention_precedence(configure, overrides, retention_ms):
    assert effective({}, configure(*overrides)).retention_ms == retention_ms


def test_roll_jitter_and_flush_precedence(configure):
    settings = effective(
        {}, configure("log.roll.hours=2", "log.roll.jitter.hours=1", "log.flush.scheduler.interval.ms=9")
    )
    assert (settings.segment_ms, settings.segment_jitter_ms, settings.flush_ms) == (7_200_000, 3_600_000, 9)
    settings = effective(
        {},
        configure(
            "log.roll.ms=2", "log.roll.jitter.ms=1", "log.flush.interval.ms=8", "log.flush.scheduler.interval.ms=9"
        ),
    )
    assert (settings.segment_ms, settings.segment_jitter_ms, settings.flush_ms) == (2, 1, 8)


@pytest.mark.parametrize(
    ("broker", "topic", "before", "after"),
    [
        ([], {}, LONG_MAX, LONG_MAX),
        (["log.message.timestamp.difference.max.ms=5"], {}, 5, 5),
        (["log.message.timestamp.difference.max.ms=5", "log.message.timestamp.after.max.ms=6"], {}, 5, 6),
        ([], {"message.timestamp.difference.max.ms": "7"}, 7, 7),
        ([], {"message.timestamp.difference.max.ms": "7", "message.timestamp.before.max.ms": "8"}, 8, 7),
    ],
)
def test_the_older_timestamp_bound_holds_where_the_newer_are_not_set(configure, broker, topic, before, after):
    settings = effective(topic, configure(*broker))
    assert (settings.message_timestamp_before_max_ms, settings.message_timestamp_after_max_ms) == (before, after)


def test_effective_refuses_what_was_never_checked(configure):
    with pytest.raises(
        InvalidTopicConfig, match=r"^Invalid value x for configuration retention\.ms: Not a number"
    ) as told:
        effective({"retention.ms": "x"}, configure())
    assert told.value.sentence == str(told.value)
