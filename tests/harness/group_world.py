"""The coordinator's logic in a small world: a log, a table, a clock, clients, deaths. Everything is deterministic.

It sees that each request is answered exactly once and in its own API; `group_clients.Book` that generations never fall
and never have two leaders, that a member hears exactly the bytes that its leader sent, and that no diligent client is
called unknown.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from mpbroker.coordinator.effects import Answer, Append, GroupRequest, Now
from mpbroker.coordinator.group_coordinator import GroupCoordinator
from mpbroker.coordinator.group_settings import GroupSettings
from mpbroker.coordinator.group_table import GroupRow, Seen
from mpbroker.protocol.codec import decode, encode
from mpbroker.protocol.messages_by_key import RESPONSES
from mpbroker.protocol.schema import schema_of

GROUP, TOPIC, LANE = "g", "t", 0


class MemoryTable:
    """The shell's table as two dictionaries. It outlives the coordinator."""

    def __init__(self, most: int = 1000) -> None:
        self.groups: dict[str, GroupRow] = {}
        self.members: dict[tuple[str, str], bool] = {}  # → confirmed since the last restart
        self.seen: dict[tuple[str, str], Seen] = {}
        self.most = most

    def restart(self) -> None:
        """A successor took over."""
        self.members = dict.fromkeys(self.members, False)

    def group(self, group_id: str) -> GroupRow | None:
        return self.groups.get(group_id)

    def put_group(self, group_id: str, row: GroupRow) -> bool:
        if group_id not in self.groups and len(self.groups) >= self.most:
            return False
        self.groups[group_id] = row
        return True

    def drop_group(self, group_id: str) -> None:
        self.groups.pop(group_id, None)

    def has_member(self, group_id: str, member_id: str) -> bool:
        return (group_id, member_id) in self.members

    def put_member(self, group_id: str, member_id: str) -> bool:
        if (group_id, member_id) not in self.members and len(self.members) >= self.most:
            return False
        self.members[group_id, member_id] = True
        return True

    def saw_member(self, group_id: str, member_id: str, now_ms: int) -> None:
        if (group_id, member_id) in self.members:
            self.seen[group_id, member_id] = Seen(now_ms)

    def last_seen(self, group_id: str, member_id: str) -> Seen | None:
        return self.seen.get((group_id, member_id))

    def grant(self, group_id: str, member_id: str, seen_ms: int) -> None:
        if (group_id, member_id) in self.members:
            self.seen[group_id, member_id] = Seen(seen_ms, True)

    def drop_member(self, group_id: str, member_id: str) -> None:
        self.members.pop((group_id, member_id), None)
        self.seen.pop((group_id, member_id), None)

    def drop_unconfirmed_members(self) -> None:
        self.members = {key: True for key, is_confirmed in self.members.items() if is_confirmed}


class MemoryTopic(NamedTuple):
    """One topic."""

    id: bytes
    name: str
    partitions: list[int]


class MemoryTopics:
    """The metadata cache as a dictionary."""

    def __init__(self) -> None:
        self.generation = 0
        self._by_name: dict[str, MemoryTopic] = {}

    def create(self, name: str, partitions: int) -> bytes:
        """A new topic, or one with more partitions; its id."""
        self.generation += 1
        old = self._by_name.get(name)
        topic_id = old.id if old is not None else self.generation.to_bytes(16, "big")
        self._by_name[name] = MemoryTopic(topic_id, name, list(range(partitions)))
        return topic_id

    def delete(self, name: str) -> None:
        self.generation += 1
        del self._by_name[name]

    def has_partition(self, name: str, partition: int) -> bool:
        topic = self._by_name.get(name)
        return topic is not None and 0 <= partition < len(topic.partitions)

    def topic(self, name: str) -> MemoryTopic | None:
        return self._by_name.get(name)

    def topic_by_id(self, topic_id: bytes) -> MemoryTopic | None:
        return next((topic for topic in self._by_name.values() if topic.id == topic_id), None)

    def topics(self) -> Iterable[MemoryTopic]:
        return self._by_name.values()


class Died(Exception):
    """The coordinator was killed while it carried out effects."""


class Sent(NamedTuple):
    """A request that was not answered yet."""

    request: GroupRequest
    client: Any
    sent_ms: int
    appended: set[int]


class World:
    """One shard, one group. `append_fate()` says what becomes of the next append: (written, code, acknowledged now)."""

    def __init__(self, settings: GroupSettings | None = None, most: int = 1000, partitions: int = 1) -> None:
        never_ms = 10**12  # a group that goes with its last offset begins again at generation 1, as in Kafka
        self.settings = settings or GroupSettings(retention_check_ms=never_ms)
        self.table = MemoryTable(most)
        self.topics = MemoryTopics()
        self.topics.create(TOPIC, partitions)
        self.log: list[tuple[bytes, bytes | None]] = []  # of no transaction
        self.batches: list[tuple[Any, Any]] = []  # (producer or None, records), (producer id, committed): a marker
        self.ms = 10_000
        self.open: dict[int, Sent] = {}
        self.unacknowledged: deque[tuple[int, int]] = deque()
        self.append_fate = lambda: (True, 0, True)
        self.effects_left: int | None  # then it dies
        self._requests = 0
        self.start()

    def now(self) -> Now:
        return Now(self.ms, 1_700_000_000_000 + self.ms)

    def start(self, markers: Iterable[tuple[int, bool]] = ()) -> None:
        """A coordinator takes over: it loads, then requests without an answer are run again, in their order.
        `markers`: are written while it loads."""
        self.coordinator = self.successor()
        self.partition = self.coordinator.partition_of(GROUP)
        self.effects_left = None
        self.unacknowledged.clear()
        self.table.restart()
        self.carry_out(self.coordinator.open(self.partition, 0, self.now()))
        for producer_id, committed in markers:
            self.coordinator.transaction_ended(self.partition, producer_id, committed)
        self._load()
        self.carry_out(self.coordinator.loaded(self.partition, self.now()))
        for sent in list(self.open.values()):
            self._run(sent)

    def successor(self) -> GroupCoordinator:
        """A coordinator that knows nothing yet."""
        return GroupCoordinator(self.settings, self.table, lambda topic, part: topic == TOPIC, b"b" * 16, self.topics)

    def _load(self) -> None:
        for offset, (who, what) in enumerate(self.batches):
            if isinstance(what, bool):
                self.coordinator.load_marker(self.partition, who, what)
            elif who is not None:
                self.coordinator.load_transactional(self.partition, who[0], offset, what)
            else:
                self.coordinator.load(self.partition, what)

    def mark(self, producer_id: int, committed: bool) -> None:
        """The end of a transaction is written."""
        self.batches.append((producer_id, committed))
        self.coordinator.transaction_ended(self.partition, producer_id, committed)

    def _run(self, sent: Sent) -> None:
        fields = {name: getattr(sent.request, name) for name in sent.request.__struct_fields__}
        request = GroupRequest(**fields | {"appended": frozenset(sent.appended)})
        self.carry_out(self.coordinator.handle(request, self.now()))

    def _try(self, call: Callable[[], list[Any]]) -> None:
        """Carry out what the coordinator says; if it dies, its successor begins."""
        try:
            self.carry_out(call())
        except Died:
            self.start()

    def send(self, client: Any, message: Any, version: int) -> None:
        """Hand a request over; `client.hear(message asked, answer)` is called when it is answered."""
        self._requests += 1
        key = schema_of(type(message)).key
        request = GroupRequest(
            self._requests, key, version, message, "cl", "/h", LANE, self._requests.to_bytes(8, "big")
        )
        self.open[self._requests] = Sent(request, client, self.ms, set())
        try:
            self._run(self.open[self._requests])
        except Died:
            self.start()

    def carry_out(self, effects: list[Any]) -> None:
        """What a shell does."""
        for effect in effects:
            if self.effects_left == 0:
                self.effects_left = None
                raise Died
            if self.effects_left is not None:
                self.effects_left -= 1
            if isinstance(effect, Answer):
                self._answer(effect)
            else:
                self._append(effect)

    def _answer(self, answer: Answer) -> None:
        assert answer.token in self.open, f"answered twice: {answer}"
        sent = self.open.pop(answer.token)
        cls = RESPONSES[sent.request.api_key]
        assert type(answer.message) is cls
        version = sent.request.version
        sent.client.hear(sent.request.message, decode(cls, version, encode(answer.message, version)))

    def _append(self, append: Append) -> None:
        assert append.partition == self.partition and append.records
        written, code, at_once = self.append_fate()
        sent = self.open.get(append.token) if append.token is not None else None
        if written:
            self.batches.append((append.producer, list(append.records)))
            if append.producer is None:
                self.log.extend(append.records)
            if sent is not None:
                sent.appended.add(append.partition)
        if at_once:
            self.carry_out(self.coordinator.appended(append.partition, append.number, code, self.now()))
        else:
            self.unacknowledged.append((append.number, code))

    def acknowledge(self) -> None:
        """The oldest append that was not acknowledged yet is, or fails."""
        if self.unacknowledged:
            number, code = self.unacknowledged.popleft()
            self._try(lambda: self.coordinator.appended(self.partition, number, code, self.now()))

    def advance(self, milliseconds: int) -> None:
        """Let time pass."""
        end_ms = self.ms + milliseconds
        while (due_ms := self.coordinator.deadline_ms()) is not None and due_ms <= end_ms:
            self.ms = max(self.ms, due_ms)
            self._try(lambda: self.coordinator.pass_time(self.now()))
        self.ms = end_ms

    def close(self) -> None:
        """The partition goes to another broker: nobody may be left without an answer."""
        self.carry_out(self.coordinator.close(self.partition, 0, self.now()))
        assert not self.open, f"never answered: {self.open}"
        counts = self.coordinator.counts
        assert (counts.groups, counts.members, counts.offsets, counts.parked) == (0, 0, 0, 0), counts
