"""THE table of topic settings: name, kind, the broker setting that gives its default, bounds. Pure data.

The rows stand in the order in which Kafka checks them, so that of several wrong values the same one is named.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from mpbroker.config.broker_config import BrokerConfig
from mpbroker.config.kinds import LONG_MAX, BadValue, Kind, parse, render
from mpbroker.config.message_format import is_message_format_version
from mpbroker.config.setting import attribute_name, check_allowed, check_bounds
from mpbroker.config.table import SETTINGS


class TopicSetting(NamedTuple):
    """A setting a topic may override. `broker`: its name as a broker setting, '' when there is none.

    `inherit` gives the value without an override where that is more than reading `broker`; `check` adds a rule of its
    own. `later`: accepted and shown, but nothing reads it yet.
    """

    name: str
    kind: Kind
    broker: str
    sentence: str
    least: int | float | None = None
    most: int | float | None = None
    allowed: tuple[str, ...] = ()
    inherit: Callable[[BrokerConfig], Any] | None = None
    check: Callable[[Any], None] | None = None
    later: bool = False

    @property
    def attribute(self) -> str:
        """The Python name."""
        return attribute_name(self.name)

    def inherited(self, config: BrokerConfig) -> Any:
        """The value of a topic that does not override the setting."""
        return self.inherit(config) if self.inherit else config.value(self.broker)

    def parse(self, text: str) -> Any:
        """The checked value of a text; BadValue in Kafka's words otherwise."""
        value = parse(self.kind, text)
        check_bounds(value, self.least, self.most)
        check_allowed(value, self.allowed)
        if self.check:
            self.check(value)
        return value

    def render(self, value: Any) -> str | None:
        """The text of a value, as DescribeConfigs shows it."""
        return render(self.kind, value)


def _retention_ms(config: BrokerConfig) -> int:
    if config.log_retention_ms is not None:
        return int(config.log_retention_ms)
    minutes = config.log_retention_minutes
    if minutes is None:
        minutes = config.log_retention_hours * 60 if config.log_retention_hours >= 0 else -1
    return int(minutes * 60_000) if minutes >= 0 else -1


def _segment_ms(config: BrokerConfig) -> int:
    return int(config.log_roll_hours * 3_600_000 if config.log_roll_ms is None else config.log_roll_ms)


def _segment_jitter_ms(config: BrokerConfig) -> int:
    return int(config.log_roll_jitter_hours * 3_600_000 if config.log_roll_jitter_ms is None else config.log_roll_jitter_ms)


def _flush_ms(config: BrokerConfig) -> int:
    interval = config.log_flush_interval_ms
    return int(config.log_flush_scheduler_interval_ms if interval is None else interval)


def _timestamp_before_ms(config: BrokerConfig) -> int:
    return _unless_default(config.log_message_timestamp_before_max_ms, config)


def _timestamp_after_ms(config: BrokerConfig) -> int:
    return _unless_default(config.log_message_timestamp_after_max_ms, config)


def _unless_default(value: int, config: BrokerConfig) -> int:
    """The older setting holds where the newer one still has its default."""
    return int(config.log_message_timestamp_difference_max_ms if value == LONG_MAX else value)


def _check_gzip_level(level: int) -> None:
    if level != -1 and not 1 <= level <= 9:
        raise BadValue("Value must be between 1 and 9 or equal to -1", level)


def _check_format_version(text: str) -> None:
    if not is_message_format_version(text):
        raise BadValue(f"Version {text} is not a valid version", text)


def _throttled_replicas(name: str) -> Callable[[tuple[str, ...]], None]:
    """`*`, nothing, or PARTITION:BROKER pairs."""

    def check(items: tuple[str, ...]) -> None:
        pairs = [item.split(":") for item in items]
        if items not in ((), ("*",)) and not all(len(p) == 2 and all(n.isdecimal() for n in p) for p in pairs):
            raise BadValue(f"{name} must be the literal '*' or a list of replicas in the following format: "
                           "[partitionId]:[brokerId],[partitionId]:[brokerId],...", f"[{', '.join(items)}]")

    return check


def _nothing(config: BrokerConfig) -> tuple[str, ...]:
    return ()


def _off(config: BrokerConfig) -> bool:
    return False


INT, LONG, STRING, BOOLEAN, DOUBLE, LIST = Kind.INT, Kind.LONG, Kind.STRING, Kind.BOOLEAN, Kind.DOUBLE, Kind.LIST
LEADER_THROTTLE, FOLLOWER_THROTTLE = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"

_ROWS = (
    TopicSetting("segment.bytes", INT, "log.segment.bytes", "Size at which the log begins a new segment.", least=14),
    TopicSetting("segment.ms", LONG, "log.roll.ms", "Age at which the log begins a new segment.", least=1,
                 inherit=_segment_ms),
    TopicSetting("segment.jitter.ms", LONG, "log.roll.jitter.ms", "Up to so much is taken off that age at random.",
                 least=0, inherit=_segment_jitter_ms),
    TopicSetting("segment.index.bytes", INT, "log.index.size.max.bytes", "Largest offset index of a segment.", least=4),
    TopicSetting("flush.messages", LONG, "log.flush.interval.messages", "Records after which the log is synced.", least=1),
    TopicSetting("flush.ms", LONG, "log.flush.interval.ms", "Longest time records stay unsynced.", least=0,
                 inherit=_flush_ms),
    TopicSetting("retention.bytes", LONG, "log.retention.bytes",
                 "Size of a partition above which its oldest segments are deleted; -1: none."),
    TopicSetting("retention.ms", LONG, "log.retention.ms", "Age at which a segment is deleted; -1: never.", least=-1,
                 inherit=_retention_ms),
    TopicSetting("max.message.bytes", INT, "message.max.bytes", "Largest record batch accepted.", least=0),
    TopicSetting("index.interval.bytes", INT, "log.index.interval.bytes", "Bytes between two entries of the offset index.",
                 least=0),
    TopicSetting("delete.retention.ms", LONG, "log.cleaner.delete.retention.ms",
                 "How long a compacted log keeps the mark of a deleted key.", least=0),
    TopicSetting("min.compaction.lag.ms", LONG, "log.cleaner.min.compaction.lag.ms",
                 "Records younger than this are not compacted.", least=0),
    TopicSetting("max.compaction.lag.ms", LONG, "log.cleaner.max.compaction.lag.ms",
                 "A log with older uncompacted records is compacted.", least=1),
    TopicSetting("file.delete.delay.ms", LONG, "log.segment.delete.delay.ms",
                 "How long a deleted segment's renamed file is kept.", least=0),
    TopicSetting("min.cleanable.dirty.ratio", DOUBLE, "log.cleaner.min.cleanable.ratio",
                 "Share of the log that must be uncompacted before it is cleaned.", least=0, most=1),
    TopicSetting("cleanup.policy", LIST, "log.cleanup.policy", "`delete` by age and size, `compact`, or both.",
                 allowed=("compact", "delete")),
    TopicSetting("unclean.leader.election.enable", BOOLEAN, "unclean.leader.election.enable",
                 "Let a replica that is not in sync become leader, losing records."),
    TopicSetting("min.insync.replicas", INT, "min.insync.replicas", "In-sync replicas that acks=all needs.", least=1),
    TopicSetting("compression.type", STRING, "compression.type",
                 "Compression of stored batches; `producer` keeps each as it came.",
                 allowed=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
    TopicSetting("compression.gzip.level", INT, "compression.gzip.level", "Level when the broker compresses with gzip; -1: its default, 6.", check=_check_gzip_level),
    TopicSetting("compression.lz4.level", INT, "compression.lz4.level", "Level when the broker compresses with lz4; 9: fast.",
                 least=1, most=17),
    TopicSetting("compression.zstd.level", INT, "compression.zstd.level", "Level when the broker compresses with zstd.",
                 least=-131072, most=22),
    TopicSetting("preallocate", BOOLEAN, "log.preallocate", "Reserve a segment's whole size when it is created.",
                 later=True),
    TopicSetting("message.format.version", STRING, "log.message.format.version",
                 "Kafka's older record formats; only the newest is written.", check=_check_format_version, later=True),
    TopicSetting("message.timestamp.type", STRING, "log.message.timestamp.type",
                 "Whose clock stamps records: the producer's or the log's.", allowed=("CreateTime", "LogAppendTime")),
    TopicSetting("message.timestamp.difference.max.ms", LONG, "log.message.timestamp.difference.max.ms",
                 "The older form of the next two; holds where they are not set.", least=0),
    TopicSetting("message.timestamp.before.max.ms", LONG, "log.message.timestamp.before.max.ms",
                 "How far before the broker's clock a producer's timestamp may lie.", least=0,
                 inherit=_timestamp_before_ms),
    TopicSetting("message.timestamp.after.max.ms", LONG, "log.message.timestamp.after.max.ms",
                 "How far after the broker's clock a producer's timestamp may lie.", least=0, inherit=_timestamp_after_ms),
    TopicSetting(LEADER_THROTTLE, LIST, "", "Leading replicas, PARTITION:BROKER or `*`, that send to others which are not in sync "
                 "at `leader.replication.throttled.rate` at most.", inherit=_nothing,
                 check=_throttled_replicas(LEADER_THROTTLE)),
    TopicSetting(FOLLOWER_THROTTLE, LIST, "", "Following replicas, PARTITION:BROKER or `*`, that fetch at "
                 "`follower.replication.throttled.rate` at most while they lag.", inherit=_nothing,
                 check=_throttled_replicas(FOLLOWER_THROTTLE)),
    TopicSetting("message.downconversion.enable", BOOLEAN, "log.message.downconversion.enable",
                 "Converting records for fetches older than version 4; such fetches are not served.", later=True),
    TopicSetting("remote.storage.enable", BOOLEAN, "", "Tiered storage; cannot be switched on.", inherit=_off),
    TopicSetting("local.retention.ms", LONG, "log.local.retention.ms", "Local part of a tiered log by age.", least=-2,
                 later=True),
    TopicSetting("local.retention.bytes", LONG, "log.local.retention.bytes", "Local part of a tiered log by size.",
                 least=-2, later=True),
    TopicSetting("remote.log.copy.disable", BOOLEAN, "", "Tiered storage; has no effect.", inherit=_off, later=True),
    TopicSetting("remote.log.delete.on.disable", BOOLEAN, "", "Tiered storage; has no effect.", inherit=_off, later=True),
)

TOPIC_SETTINGS: dict[str, TopicSetting] = {row.name: row for row in _ROWS}
assert all(row.broker in SETTINGS or row.inherit for row in _ROWS)
