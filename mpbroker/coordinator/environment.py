"""What all shards of groups share: settings, counts, and what a Workbench has.

Runs in the coordinator process; nothing here does I/O or reads a clock.
"""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

from mpbroker.coordinator.any_group import Topics
from mpbroker.coordinator.group_settings import GroupSettings, OwnSettings
from mpbroker.coordinator.group_table import GroupTable
from mpbroker.coordinator.workbench import Workbench

#: Whether a partition of a topic exists: (topic, partition).
HasPartition: TypeAlias = Callable[[str, int], bool]


class Counts(msgspec.Struct):
    """Present amounts, then events since the start; the shell copies them into its counters."""

    groups: int = 0
    members: int = 0  # with ids that were issued and not used yet
    offsets: int = 0
    parked: int = 0
    rebalances: int = 0
    members_expired: int = 0
    offsets_expired: int = 0
    groups_refused: int = 0
    members_refused: int = 0
    offsets_refused: int = 0
    parked_refused: int = 0
    loading_refused: int = 0
    records_skipped: int = 0


class Environment(Workbench):
    """Made once for a coordinator. `boot_secret`: bytes of this boot, the same after a restart of the process."""

    def __init__(
        self,
        settings: GroupSettings,
        table: GroupTable,
        has_partition: HasPartition,
        boot_secret: bytes,
        topics: Topics,
    ) -> None:
        super().__init__(settings.max_parked)
        self.settings = settings
        self.table = table
        self.has_partition = has_partition
        self.topics = topics
        self.counts = Counts()
        self._boot_secret = boot_secret
        self.own_settings: Mapping[str, OwnSettings] = {}
        self._common = settings.common

    def settings_of(self, group_id: str) -> OwnSettings:
        """What may differ from group to group."""
        return self.own_settings.get(group_id, self._common)

    def count_parked(self, lane: int, difference: int) -> None:
        super().count_parked(lane, difference)
        self.counts.parked += difference

    def new_member_id(self, prefix: str, identity: bytes) -> str:
        """An id nobody can guess, the same whenever this request runs: prefix and something that looks like a UUID."""
        digest = self._digest(identity).hex()
        return f"{prefix}-{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:]}"

    def new_short_id(self, identity: bytes) -> str:
        """Likewise, as Kafka writes 16 bytes of its own making: the ids of members of the new protocol."""
        return urlsafe_b64encode(self._digest(identity)).decode().rstrip("=")

    def _digest(self, identity: bytes) -> bytes:
        return hashlib.blake2b(identity, key=self._boot_secret, digest_size=16).digest()
