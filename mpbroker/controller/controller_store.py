"""Topics and settings in the metadata store: what is read at start, and the one transaction of each change.
Controller process only.

Every transaction checks what the controller believes; if a check fails somebody else writes to the store, and the
controller has to start over (StoreChanged). The answer to a command is written by the same transaction as its effect.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from mpbroker.controller.controller_context import TopicState
from mpbroker.errors import MpbrokerError
from mpbroker.metadata.features import FeatureLevels
from mpbroker.metadata.keys import Keys
from mpbroker.metadata.meta_store import (
    Absent,
    Check,
    Committed,
    Delete,
    DeletePrefix,
    Entry,
    MetaStore,
    ModRev,
    Op,
    Put,
    Value,
    Version,
)
from mpbroker.metadata.topic_record import (
    BrokerConfigRecord,
    FeaturesRecord,
    GroupConfigRecord,
    ProducerIdBlock,
    TopicConfigRecord,
    TopicDeletion,
    TopicRecord,
    decode_record,
    encode_record,
)

MAX_OPERATIONS_KEPT: Final = 512
"""Answers kept for re-runs: more than commands can be under way (the command table has fewer rows)."""
PRODUCER_ID_BLOCK: Final = 1000
MAX_PRODUCER_ID: Final = 2**63 - 1


class BrokerLayer(NamedTuple):
    """Settings of one broker, or (None) of all, that were changed while they ran. `version` counts their writes."""

    broker: int | None
    configs: dict[str, str]
    version: int = 0


class GroupLayer(NamedTuple):
    """Settings of one group. `version`: 0 while nothing is stored."""

    group: str
    configs: dict[str, str]
    version: int = 0


class StoreChanged(MpbrokerError):
    """The store does not hold what the controller believed, or its answer is unknown: read everything again."""


class ControllerStore:
    """The store as the controller uses it. `boot_id` tells this start's operation ids from those of others;
    `waiting(True)` is called before, `waiting(False)` after the store may take its time."""

    def __init__(
        self, store: MetaStore, keys: Keys, boot_id: int, waiting: Callable[[bool], object] = lambda begins: None
    ) -> None:
        self._waiting = waiting
        self._store = store
        self._keys = keys
        self._boot_id = boot_id
        self._operations: deque[int] = deque()
        self._features_revision = 0  # 0: nothing is stored

    def load_topics(self) -> list[TopicState]:
        """All topics with their settings."""
        configs: dict[str, tuple[dict[str, str], int, int]] = {}
        for page in self._store.scan(self._keys.topic_configs):
            for entry in page.entries:
                record = decode_record(TopicConfigRecord, entry.value, entry.key)
                configs[entry.key.removeprefix(self._keys.topic_configs)] = (
                    record.configs,
                    entry.version,
                    entry.mod_rev,
                )
        topics = []
        for page in self._store.scan(self._keys.topics):
            for entry in page.entries:
                topic = decode_record(TopicRecord, entry.value, entry.key)
                own, config_version, revision = configs.get(topic.name, ({}, 0, 0))
                topics.append(
                    TopicState(
                        id=bytes.fromhex(topic.id),
                        name=topic.name,
                        replicas=topic.replicas,
                        configs=own,
                        created_ms=topic.created_ms,
                        directories=list(topic.directories),
                        record_version=entry.version,
                        config_version=config_version,
                        revision=max(entry.mod_rev, revision),
                    )
                )
        return topics

    def load_deletions(self) -> list[TopicDeletion]:
        """Topics that are gone from the store while their directories may not be."""
        pages = self._store.scan(self._keys.deletions)
        return [decode_record(TopicDeletion, entry.value, entry.key) for page in pages for entry in page.entries]

    def load_broker_configs(self) -> dict[int | None, BrokerLayer]:
        """Dynamic settings by broker; None: of all brokers."""
        layers: dict[int | None, BrokerLayer] = {}
        for page in self._store.scan(self._keys.broker_configs):
            for entry in page.entries:
                name = entry.key.removeprefix(self._keys.broker_configs)
                broker = None if name == "default" else int(name)
                record = decode_record(BrokerConfigRecord, entry.value, entry.key)
                layers[broker] = BrokerLayer(broker, record.configs, entry.version)
        return layers

    def load_group_configs(self) -> dict[str, GroupLayer]:
        """Settings of groups that have any."""
        layers: dict[str, GroupLayer] = {}
        for page in self._store.scan(self._keys.group_configs):
            for entry in page.entries:
                group = entry.key.removeprefix(self._keys.group_configs)
                record = decode_record(GroupConfigRecord, entry.value, entry.key)
                layers[group] = GroupLayer(group, record.configs, entry.version)
        return layers

    def load_operations(self) -> None:
        """Find this start's answers again and drop those of earlier starts."""
        mine = self._keys.operations_of(self._boot_id)
        keys = [entry.key for page in self._store.scan(self._keys.operations) for entry in page.entries]
        self._operations = deque(int(key.removeprefix(mine)) for key in keys if key.startswith(mine))
        others = sorted({key[: len(mine)] for key in keys if not key.startswith(mine)})
        if others:
            self._commit([], [DeletePrefix(prefix) for prefix in others], "forget operations")

    def answer_of(self, operation: int) -> bytes | None:
        """The answer of a command that was carried out before; None: it was not, or it has no operation id (0)."""
        if operation == 0 or operation not in self._operations:
            return None
        _, entry = self._store.get(self._keys.operation(self._boot_id, operation))
        return None if entry is None else entry.value

    def create_topics(self, topics: Sequence[TopicState], operation: int, answer: bytes) -> None:
        """The topics exist from here on."""
        checks: list[Check] = [Absent(self._keys.topic_name(topic.name)) for topic in topics]
        ops: list[Op] = []
        for topic in topics:
            ops.append(Put(self._keys.topic_name(topic.name), topic.id.hex().encode()))
            ops.append(Put(self._keys.topic(topic.id), _encode_topic(topic)))
            if topic.configs:
                ops.append(Put(self._keys.topic_config(topic.name), encode_record(TopicConfigRecord(topic.configs))))
        revision = self._commit(checks, ops, "create topics", operation, answer)
        for topic in topics:
            topic.config_version = 1 if topic.configs else 0
            topic.revision = revision

    def add_partitions(self, topics: Sequence[TopicState], operation: int, answer: bytes) -> None:
        """The topics have the partitions that their `replicas` name, in the log directories that `directories` does."""
        checks = [Version(self._keys.topic(topic.id), topic.record_version) for topic in topics]
        ops = [Put(self._keys.topic(topic.id), _encode_topic(topic)) for topic in topics]
        revision = self._commit(checks, ops, "create partitions", operation, answer)
        for topic in topics:
            topic.record_version += 1
            topic.revision = revision

    def alter_configs(
        self,
        changed: Sequence[tuple[TopicState, dict[str, str]]],
        layers: Sequence[BrokerLayer | GroupLayer],
        operation: int,
        answer: bytes,
    ) -> list[BrokerLayer | GroupLayer]:
        """The topics have these settings of their own, and no others, from here on; so have brokers and groups, whose
        layers are returned with their new versions."""
        checks: list[Check] = []
        ops: list[Op] = []
        for topic, configs in changed:
            key, version = self._keys.topic_config(topic.name), topic.config_version
            checks.append(Version(self._keys.topic(topic.id), topic.record_version))
            checks.append(Version(key, version) if version else Absent(key))
            ops.append(Put(key, encode_record(TopicConfigRecord(configs))) if configs else Delete(key))
        for layer in layers:
            op = self._layer_written(layer)
            checks.append(Version(op.key, layer.version) if layer.version else Absent(op.key))
            ops.append(op)
        revision = self._commit(checks, ops, "alter configs", operation, answer)
        for topic, configs in changed:
            topic.config_version = topic.config_version + 1 if configs else 0
            topic.configs, topic.revision = configs, revision
        return [layer._replace(version=_next_version(layer)) for layer in layers]

    def _layer_written(self, layer: BrokerLayer | GroupLayer) -> Put | Delete:
        if isinstance(layer, BrokerLayer):
            return Put(self._keys.broker_config(layer.broker), encode_record(BrokerConfigRecord(layer.configs)))
        key = self._keys.group_config(layer.group)
        return Put(key, encode_record(GroupConfigRecord(layer.configs))) if layer.configs else Delete(key)

    def delete_topics(self, topics: Sequence[TopicState], operation: int, answer: bytes) -> list[TopicDeletion]:
        """The topics are gone; what is left to do is kept in the store until `finish_deletion`."""
        checks = [Version(self._keys.topic(topic.id), topic.record_version) for topic in topics]
        deletions = [TopicDeletion(topic.id.hex(), topic.name, len(topic.replicas)) for topic in topics]
        ops: list[Op] = []
        for topic, deletion in zip(topics, deletions, strict=True):
            ops += [Delete(self._keys.topic_name(topic.name)), Delete(self._keys.topic(topic.id))]
            ops += [Delete(self._keys.topic_config(topic.name))]
            ops += [Put(self._keys.deletion(topic.id), encode_record(deletion))]
        self._commit(checks, ops, "delete topics", operation, answer)
        return deletions

    def finish_deletion(self, topic_id: bytes) -> None:
        """Nothing of the topic is left under its old names."""
        self._commit([], [Delete(self._keys.deletion(topic_id))], "finish deletion")

    def load_features(self) -> FeatureLevels:
        """The finalized levels of features."""
        _, entry = self._store.get(self._keys.features)
        self._features_revision = 0 if entry is None else entry.mod_rev
        if entry is None:
            return FeatureLevels()
        record = decode_record(FeaturesRecord, entry.value, self._keys.features)
        of_kafka_4 = (record.transaction_version, record.group_version)
        return FeatureLevels(record.epoch, record.metadata_version, record.kraft_version, *of_kafka_4)

    def update_features(self, after: FeatureLevels, operation: int, answer: bytes) -> None:
        """These levels are finalized from here on."""
        key = self._keys.features
        seen = self._features_revision
        check: Check = ModRev(key, seen) if seen else Absent(key)
        put = Put(key, encode_record(FeaturesRecord(*after)))
        self._features_revision = self._commit([check], [put], "update features", operation, answer)

    def allocate_producer_ids(self) -> int | None:
        """First id of a block of PRODUCER_ID_BLOCK, never handed out again; None when ids are used up.

        A command that runs again gets another block, unlike a change of topics, whose answer is kept: the handler that
        died with the first one may have given ids of it to other clients, and an id given out twice would be fatal,
        while a block nobody uses costs nothing of 2^63.
        """
        entry, first = self._next_producer_id()
        if first > MAX_PRODUCER_ID - PRODUCER_ID_BLOCK:
            return None
        self._begin_producer_ids(entry, first + PRODUCER_ID_BLOCK, "allocate producer ids")
        return first

    def pass_producer_ids(self, highest: int) -> bool:
        """No id up to that one is handed out; whether any would have been. Not of ids that no broker comes to: somebody
        chose them, and for the sake of one there would be none left."""
        entry, first = self._next_producer_id()
        if not first <= highest <= MAX_PRODUCER_ID // 2:
            return False
        self._begin_producer_ids(entry, highest + 1, "pass producer ids")
        return True

    def _next_producer_id(self) -> tuple[Entry | None, int]:
        key = self._keys.producer_id_block
        _, entry = self._store.get(key)
        return entry, 0 if entry is None else decode_record(ProducerIdBlock, entry.value, key).next_id

    def _begin_producer_ids(self, entry: Entry | None, first: int, tag: str) -> None:
        key = self._keys.producer_id_block
        check: Check = Absent(key) if entry is None else Value(key, entry.value)
        self._commit([check], [Put(key, encode_record(ProducerIdBlock(first)))], tag)

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def _commit(
        self, checks: Sequence[Check], ops: Sequence[Op], tag: str, operation: int = 0, answer: bytes = b""
    ) -> int:
        kept = [] if operation == 0 else self._kept_answers(operation, answer)
        self._waiting(True)
        try:
            outcome = self._store.txn(checks, [*ops, *kept], tag=f"{tag} {self._boot_id:x}/{operation}")
        finally:
            self._waiting(False)
        if not isinstance(outcome, Committed):
            raise StoreChanged(f"{tag}: {outcome}")
        if operation:
            self._operations.append(operation)
            if len(self._operations) > MAX_OPERATIONS_KEPT:
                self._operations.popleft()
        return outcome.rev

    def _kept_answers(self, operation: int, answer: bytes) -> list[Op]:
        """The answer is kept; the oldest one goes when there are enough."""
        ops: list[Op] = [Put(self._keys.operation(self._boot_id, operation), answer)]
        if len(self._operations) >= MAX_OPERATIONS_KEPT:
            ops.append(Delete(self._keys.operation(self._boot_id, self._operations[0])))
        return ops


def _next_version(layer: BrokerLayer | GroupLayer) -> int:
    is_kept = isinstance(layer, BrokerLayer) or layer.configs
    return layer.version + 1 if is_kept else 0


def _encode_topic(topic: TopicState) -> bytes:
    directories = topic.directories[: len(topic.replicas)]
    return encode_record(TopicRecord(topic.id.hex(), topic.name, topic.replicas, topic.created_ms, directories))
