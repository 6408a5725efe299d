"""The cluster as the store has it: brokers, topics, partitions, settings. Of the elected controller; pure.

It changes by what the store says and by nothing else: scanned pages, batches of the watch, the operations of an own
committed transaction, the entries of a conflict. So what a batch tells may be known already, or older than what is
known: an entry counts only if its revision is newer than the one of its key.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from mpbroker.metadata.cluster_records import BrokerRecord, PartitionRecord, broker_epoch, partition_epoch
from mpbroker.metadata.keys import Keys
from mpbroker.metadata.meta_store import Delete, DeletePrefix, Entry, Event, Op, Put
from mpbroker.metadata.topic_names import collision_key
from mpbroker.metadata.topic_record import TopicConfigRecord, TopicRecord, decode_record

NO_LEADER = -1
DELETED_LEADER = -2
NO_CONFIGS: Mapping[str, str] = {}


class PartitionId(NamedTuple):
    """A partition, by its topic's id."""

    topic_id: bytes
    number: int


class LiveBroker(NamedTuple):
    """A registered broker. `mod_rev`: to check in a transaction that it is still this registration."""

    id: int
    epoch: int
    mod_rev: int
    record: BrokerRecord


class Assignment(NamedTuple):
    """Who holds a partition; `adding` and `removing` are the parts of `replicas` that a reassignment moves."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def target(self) -> tuple[int, ...]:
        """Who is to hold it in the end."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)

    @property
    def original(self) -> tuple[int, ...]:
        """Who held it before the reassignment."""
        return tuple(broker for broker in self.replicas if broker not in self.adding)


class Topic(NamedTuple):
    """A topic. `version` of its key."""

    id: bytes
    name: str
    version: int
    record: TopicRecord
    assignments: tuple[Assignment, ...]


class Partition(NamedTuple):
    """The state of a partition as its key has it."""

    record: PartitionRecord
    version: int
    mod_rev: int

    @property
    def epoch(self) -> int:
        """The partition epoch."""
        return partition_epoch(self.version)


class Change(NamedTuple):
    """Something in the image that is another than before. `kind`: broker, topic, partition or configs."""

    kind: str
    id: int | bytes | PartitionId | str
    before: LiveBroker | Topic | Partition | None
    after: LiveBroker | Topic | Partition | None


class ClusterImage:
    """Everything the controller knows, by id."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
        self.rev = 0
        self.brokers: dict[int, LiveBroker] = {}
        self.topics: dict[bytes, Topic] = {}
        self.by_name: dict[str, bytes] = {}
        self.partitions: dict[PartitionId, Partition] = {}
        self.configs: dict[str, tuple[Mapping[str, str], int]] = {}
        self.producer_id_block: Entry | None = None
        self.hosted: defaultdict[int, set[PartitionId]] = defaultdict(set)
        self._states: dict[bytes, set[int]] = {}
        self._collisions: dict[str, str] = {}
        self._known: dict[str, Entry] = {}
        self._gone: dict[str, int] = {}

    def load(self, rev: int, entries: Iterable[Entry]) -> None:
        """Take over a page of a scan at revision `rev`."""
        for entry in entries:
            self._take(entry.key, entry, entry.mod_rev)
        self.rev = max(self.rev, rev)

    def apply(self, rev: int, events: Sequence[Event]) -> list[Change]:
        """Take over a batch of the watch. All of one transaction comes at once."""
        changes = [self._take(event.key, event.entry, rev) for event in events]
        self.rev = max(self.rev, rev)
        for key in [key for key, gone in self._gone.items() if gone <= rev]:
            del self._gone[key]
        return [change for change in changes if change]

    def commit(self, rev: int, ops: Sequence[Op]) -> list[Change]:
        """Take over an own transaction that committed at `rev`."""
        changes: list[Change | None] = []
        for op in ops:
            match op:
                case Put(key, value, session):
                    known = self._known.get(key)
                    version, created = (known.version + 1, known.create_rev) if known else (1, rev)
                    changes.append(self._take(key, Entry(key, value, version, created, rev, session), rev))
                case Delete(key):
                    changes.append(self._take(key, None, rev))
                case DeletePrefix(prefix):
                    changes += [self._take(key, None, rev) for key in self._below(prefix)]
        return [change for change in changes if change]

    def correct(self, entries: Mapping[str, Entry | None]) -> list[Change]:
        """Take over what the store has now for some keys: of a conflict, or read again."""
        changes = []
        for key, entry in entries.items():
            known = self._known.get(key)
            if entry is None and known:
                changes.append(self._take(key, None, known.mod_rev))
            elif entry:
                changes.append(self._take(key, entry, entry.mod_rev))
        return [change for change in changes if change]

    def entry(self, key: str) -> Entry | None:
        """What is known of a key."""
        return self._known.get(key)

    def alive(self, broker: int) -> bool:
        """Whether a broker is registered."""
        return broker in self.brokers

    def topic(self, name: str) -> Topic | None:
        """The topic of this name."""
        topic_id = self.by_name.get(name)
        return None if topic_id is None else self.topics[topic_id]

    def assignment(self, partition: PartitionId) -> Assignment | None:
        """Who holds a partition; None: there is no such partition."""
        topic = self.topics.get(partition.topic_id)
        return topic.assignments[partition.number] if topic and partition.number < len(topic.assignments) else None

    def configs_of(self, name: str) -> Mapping[str, str]:
        """A topic's own settings."""
        return self.configs.get(name, (NO_CONFIGS, 0))[0]

    def colliding(self, name: str) -> str | None:
        """A topic whose metrics could not be told from this one's."""
        return self._collisions.get(collision_key(name))

    def partitions_of(self, topic: Topic) -> list[PartitionId]:
        """All partitions of a topic, in their order."""
        return [PartitionId(topic.id, index) for index in range(len(topic.assignments))]

    def orphans(self) -> list[PartitionId]:
        """States of partitions that no topic has: a creation was not finished."""
        return [partition for partition in self.partitions if self.assignment(partition) is None]

    def _below(self, prefix: str) -> list[str]:
        """Known keys below a prefix; those of one topic's partitions without a look at all others."""
        topic_id = prefix.removeprefix(self.keys.partitions).rstrip("/")
        if prefix.startswith(self.keys.partitions) and topic_id:
            states = self._states.get(bytes.fromhex(topic_id), set())
            return [self.keys.partition(bytes.fromhex(topic_id), index) for index in sorted(states)]
        return [key for key in self._known if key.startswith(prefix)]

    def _take(self, key: str, entry: Entry | None, rev: int) -> Change | None:
        known = self._known.get(key)
        if known and (known.mod_rev > rev or (entry and known.mod_rev == rev)):
            return None
        if self._gone.get(key, -1) >= rev or (entry is None and not known):
            return None
        if entry is None:
            del self._known[key]
            if rev > self.rev:
                self._gone[key] = rev
        else:
            self._known[key] = entry
        return self._interpret(key, entry)

    def _interpret(self, key: str, entry: Entry | None) -> Change | None:
        keys = self.keys
        if key.startswith(keys.partitions):
            return self._partition(key, entry)
        if key.startswith(keys.topics):
            return self._topic(bytes.fromhex(key.removeprefix(keys.topics)), entry)
        if key.startswith(keys.brokers):
            return self._broker(int(key.removeprefix(keys.brokers)), entry)
        if key.startswith(keys.topic_configs):
            return self._configs(key.removeprefix(keys.topic_configs), entry)
        if key == keys.producer_id_block:
            self.producer_id_block = entry
        return None

    def _broker(self, broker: int, entry: Entry | None) -> Change | None:
        before, after = self.brokers.pop(broker, None), None
        if entry:
            record = decode_record(BrokerRecord, entry.value, entry.key)
            after = self.brokers[broker] = LiveBroker(broker, broker_epoch(entry.create_rev), entry.mod_rev, record)
        return Change("broker", broker, before, after)

    def _partition(self, key: str, entry: Entry | None) -> Change:
        topic_id, _, index = key.removeprefix(self.keys.partitions).partition("/")
        partition = PartitionId(bytes.fromhex(topic_id), int(index))
        before, after = self.partitions.pop(partition, None), None
        if entry:
            record = decode_record(PartitionRecord, entry.value, key)
            after = self.partitions[partition] = Partition(record, entry.version, entry.mod_rev)
            self._states.setdefault(partition.topic_id, set()).add(partition.number)
        elif before:
            left = self._states[partition.topic_id]
            left.discard(partition.number)
            if not left:
                del self._states[partition.topic_id]  # topics come and go as long as a term lasts
        return Change("partition", partition, before, after)

    def _topic(self, topic_id: bytes, entry: Entry | None) -> Change:
        before = self.topics.pop(topic_id, None)
        after = None
        if before:
            self._forget(before)
        if entry:
            after = _topic_of(topic_id, entry)
            self.topics[topic_id] = after
            self.by_name[after.name] = topic_id
            self._collisions[collision_key(after.name)] = after.name
            for index, assignment in enumerate(after.assignments):
                for broker in assignment.replicas:
                    self.hosted[broker].add(PartitionId(topic_id, index))
        return Change("topic", topic_id, before, after)

    def _forget(self, topic: Topic) -> None:
        if self.by_name.get(topic.name) == topic.id:
            del self.by_name[topic.name]
            self._collisions.pop(collision_key(topic.name), None)
        for index, assignment in enumerate(topic.assignments):
            for broker in assignment.replicas:
                self.hosted[broker].discard(PartitionId(topic.id, index))

    def _configs(self, name: str, entry: Entry | None) -> Change:
        self.configs.pop(name, None)
        if entry:
            self.configs[name] = (decode_record(TopicConfigRecord, entry.value, entry.key).configs, entry.version)
        return Change("configs", name, None, None)


def _topic_of(topic_id: bytes, entry: Entry) -> Topic:
    record = decode_record(TopicRecord, entry.value, entry.key)
    adding = record.adding or [[]] * len(record.replicas)
    removing = record.removing or [[]] * len(record.replicas)
    adding = adding + [[]] * (len(record.replicas) - len(adding))
    removing = removing + [[]] * (len(record.replicas) - len(removing))
    assignments = tuple(
        Assignment(tuple(replicas), tuple(coming), tuple(going))
        for replicas, coming, going in zip(record.replicas, adding, removing, strict=True)
    )
    return Topic(topic_id, record.name, entry.version, record, assignments)
