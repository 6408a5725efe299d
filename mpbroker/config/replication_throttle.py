"""Throttled replication (KIP-73): which replicas are, and how fast they may go. Pure.

The rates are settings of a broker that exist only as changes made while it runs, as in Kafka: no file knows them, and
DescribeConfigs shows them without their values.
"""

from typing import Final

from mpbroker.config.broker_config import BrokerConfig
from mpbroker.config.kinds import LONG_MAX, Kind, parse
from mpbroker.config.setting import check_bounds

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
RATES: Final = frozenset((LEADER_RATE, FOLLOWER_RATE))
UNLIMITED: Final = LONG_MAX
EVERY_REPLICA: Final = ("*",)


def parse_rate(text: str) -> int:
    """Bytes a second; BadValue."""
    rate: int = parse(Kind.LONG, text)
    check_bounds(rate, 0, None)
    return rate


def throttled_rate(config: BrokerConfig, name: str) -> int:
    """What holds on this broker."""
    text = config.dynamic.broker.get(name, config.dynamic.cluster.get(name))
    return UNLIMITED if text is None else parse_rate(text)


def is_throttled(listed: tuple[str, ...], partition: int, node_id: int) -> bool:
    """Whether a topic's list names this broker's replica of a partition."""
    return bool(listed) and (listed == EVERY_REPLICA or f"{partition}:{node_id}" in listed)
