"""Features of the cluster and their finalized levels (KIP-584, KIP-778): those that a KRaft node of Kafka 3.9 knows,
and two that Kafka 4 added: `transaction.version` (KIP-890), whose clients speak version 2 of transactions where it is
finalized, and `group.version` (KIP-848).

Pure but for the one word of shared memory that shows what is finalized. The controller alone writes it, behind its
store; any process reads it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mpbroker.shm.core import Core

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
TRANSACTION_VERSION: Final = "transaction.version"
GROUP_VERSION: Final = "group.version"
KAFKA_3_9: Final = 21  # its metadata.version
SUPPORTED: Final = {
    KRAFT_VERSION: (0, 1),
    METADATA_VERSION: (1, KAFKA_3_9),
    TRANSACTION_VERSION: (0, 2),
    GROUP_VERSION: (0, 1),
}
"""Feature → lowest and highest level that this program could run."""

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
_KRAFT_SINCE: Final = 4  # metadata.version 3.3-IV0, the first that a node without ZooKeeper may have
_FIELDS: Final = {
    METADATA_VERSION: "metadata_version",
    KRAFT_VERSION: "kraft_version",
    TRANSACTION_VERSION: "transaction_version",
    GROUP_VERSION: "group_version",
}
_SAME_METADATA_SINCE: Final = 17  # from here on up to 3.9 no level brought records that an older one does not know


class FeatureLevels(NamedTuple):
    """What is finalized; `epoch` counts the changes. A level of 0: not finalized."""

    epoch: int = 0
    metadata_version: int = KAFKA_3_9
    kraft_version: int = 0
    transaction_version: int = 2
    group_version: int = 1

    def of(self, name: str) -> int:
        """The finalized level of a feature."""
        return getattr(self, _FIELDS[name]) if name in _FIELDS else 0

    def with_level(self, name: str, level: int) -> FeatureLevels:
        """The same with one feature at another level; features that nobody knows have none."""
        return self._replace(**{_FIELDS[name]: level}) if name in _FIELDS else self


def publish(core: Core, levels: FeatureLevels) -> None:
    """Show what is finalized; one store."""
    of_groups = levels.group_version << 8 | levels.transaction_version
    core.features = levels.epoch << 32 | of_groups << 16 | levels.kraft_version << 8 | levels.metadata_version


def finalized(core: Core) -> FeatureLevels:
    """What is finalized; before the controller has shown anything, what a new cluster begins with."""
    word = core.features
    if not word:
        return FeatureLevels()
    return FeatureLevels(word >> 32, word & 0xFF, word >> 8 & 0xFF, word >> 16 & 0xFF, word >> 24 & 0xFF)


def finalized_level(core: Core, name: str) -> int:
    """The finalized level of one feature, 0: none."""
    return finalized(core).of(name)


def refusal(name: str, level: int, kind: int, finalized: FeatureLevels, node_id: int) -> str | None:
    """Why Kafka's controller does not change a feature to a level, in its order; None: it does."""
    why = _why_not(name, level, kind, finalized.of(name), node_id)
    if why is not None:
        return f"Invalid update version {level} for feature {name}. {why}"
    return _metadata_refusal(level, kind, finalized) if name == METADATA_VERSION else None


def _why_not(name: str, level: int, kind: int, present: int, node_id: int) -> str | None:
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    low, high = SUPPORTED.get(name, (0, 0))
    if name not in SUPPORTED and level:
        return f"Local controller {node_id} does not support this feature."
    if not low <= level <= high:
        return f"Local controller {node_id} only supports versions {low}-{high}"
    if level < present and kind == UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    return "Can't downgrade to a newer version." if level > present and kind != UPGRADE else None


def _metadata_refusal(level: int, kind: int, finalized: FeatureLevels) -> str | None:
    if level < _KRAFT_SINCE:
        return f"Invalid metadata.version {level}. Unable to set a metadata.version less than 3.3-IV0"
    if level >= min(_SAME_METADATA_SINCE, finalized.metadata_version):
        return None
    if kind == UNSAFE_DOWNGRADE:
        return f"Invalid metadata.version {level}. Unsafe metadata downgrade is not supported in this version."
    return (
        f"Invalid metadata.version {level}. Refusing to perform the requested downgrade because it might delete "
        "metadata information."
    )
