"""The settings that the coordinator's logic reads. Fixed at start but for those of single groups."""

from __future__ import annotations

import msgspec

from mpbroker.config.broker_config import BrokerConfig
from mpbroker.config.group_table import ASSIGNMENT, HEARTBEAT, SESSION, in_force
from mpbroker.coordinator.workbench import most_parked


class OwnSettings(msgspec.Struct, frozen=True):
    """What may be set for a single group."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


def own_settings(config: BrokerConfig) -> dict[str, OwnSettings]:
    """Of the groups that have any, by id."""
    return {
        group: OwnSettings(*(in_force(row, own, config) for row in (SESSION, HEARTBEAT, ASSIGNMENT)))
        for group, own in config.dynamic.groups.items()
    }


class GroupSettings(msgspec.Struct, frozen=True):
    """Kafka's settings for groups, then the bounds of mpbroker; `max_parked` is for one processor's requests."""

    min_session_timeout_ms: int = 6000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3000
    max_group_size: int = 2**31 - 1
    max_metadata_bytes: int = 4096
    partitions: int = 50
    retention_ms: int = 604_800_000
    retention_check_ms: int = 600_000
    max_groups: int = 65_536
    max_members: int = 131_072
    max_offsets: int = 1_048_576
    max_parked: int = 6144
    rebalance_protocols: tuple[str, ...] = ("classic", "consumer")
    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5000
    consumer_max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    migration_policy: str = "bidirectional"
    assignment_interval_ms: int = 1000
    regex_refresh_interval_ms: int = 600_000

    @property
    def serves_consumer_protocol(self) -> bool:
        """Whether the next-generation protocol is on."""
        return "consumer" in self.rebalance_protocols

    @property
    def common(self) -> OwnSettings:
        """Of a group that has none of its own."""
        times = (self.consumer_session_timeout_ms, self.consumer_heartbeat_interval_ms, self.assignment_interval_ms)
        return OwnSettings(*times)

    @classmethod
    def of(cls, config: BrokerConfig, entries: int) -> GroupSettings:
        """Read off the broker's configuration; `entries`: requests in flight that a processor has room for."""
        return cls(
            min_session_timeout_ms=config.group_min_session_timeout_ms,
            max_session_timeout_ms=config.group_max_session_timeout_ms,
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            max_group_size=config.group_max_size,
            max_metadata_bytes=config.offset_metadata_max_bytes,
            partitions=config.offsets_topic_num_partitions,
            retention_ms=config.offsets_retention_minutes * 60_000,
            retention_check_ms=config.offsets_retention_check_interval_ms,
            max_groups=config.mpbroker_max_groups,
            max_members=config.mpbroker_max_group_members,
            max_offsets=config.mpbroker_max_committed_offsets,
            max_parked=most_parked(entries),
            rebalance_protocols=config.group_coordinator_rebalance_protocols,
            consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
            consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
            consumer_max_size=config.group_consumer_max_size,
            assignors=config.group_consumer_assignors,
            migration_policy=config.group_consumer_migration_policy.lower(),
            assignment_interval_ms=config.group_consumer_assignment_interval_ms,
            regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
        )
