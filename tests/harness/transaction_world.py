"""The logic of transactions in a small world: a log of states, partitions that know who may write, markers, deaths.

Everything is deterministic. The world sees that each request is answered exactly once and in its own API, and that what
partitions are told keeps to the order that makes a crash harmless: a partition is verified only when the record that
names it is in the log, a marker is written only when the decision is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from mpbroker.coordinator.effects import (
    Answer,
    Append,
    GiveBack,
    GroupRequest,
    Now,
    PassOn,
    SendMarkers,
    TakeProducerIds,
    Verify,
)
from mpbroker.coordinator.transactions.transaction import PREPARED, Transaction
from mpbroker.coordinator.transactions.transaction_coordinator import TransactionCoordinator
from mpbroker.coordinator.transactions.transaction_records import read_key, read_transaction
from mpbroker.coordinator.transactions.transaction_settings import TransactionSettings
from mpbroker.errors import ErrorCode
from mpbroker.metadata.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from mpbroker.protocol.codec import decode, encode
from mpbroker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from mpbroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from mpbroker.protocol.messages.end_txn import EndTxnRequest
from mpbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from mpbroker.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from mpbroker.protocol.messages_by_key import RESPONSES
from mpbroker.protocol.schema import schema_of
from tests.harness.peer import batch, produce_request

TOPIC, PARTITIONS, ID = "t", 4, "tx"
OFFSETS_PARTITION = 7
TIMEOUT_MS = 60_000


class Died(Exception):
    """The coordinator was killed while it carried out effects."""


class Marker(NamedTuple):
    """What was written to a partition to end a transaction."""

    producer_id: int
    epoch: int
    committed: bool


class Sent(NamedTuple):
    """A request that was not answered yet."""

    request: GroupRequest
    heard: list[Any]
    appended: set[int]


class TransactionWorld:
    """One shard. `append_fate()` says what becomes of the next append: (written, code)."""

    def __init__(self, settings: TransactionSettings | None = None, feature_level: int = 0) -> None:
        self.settings = settings or TransactionSettings(partitions=1)
        self.feature_level = feature_level
        self.log: list[tuple[bytes, bytes | None]] = []
        self.allowed: dict[tuple[tuple[str, int], int], int] = {}  # (partition, producer id) → verified epoch
        self.markers: dict[tuple[str, int], list[Marker]] = {}
        self.epochs: dict[tuple[tuple[str, int], int], int] = {}  # (partition, producer id) → the highest epoch seen
        self.undecided: dict[tuple[tuple[str, int], int], list[int]] = {}  # likewise → records
        self.outcomes: dict[int, bool] = {}  # record → committed
        self._records = 0
        self.asked: list[SendMarkers] = []  # by administrators
        self.asked_codes: dict[tuple[str, int], int] = {}  # what becomes of those
        self.held_markers: deque[SendMarkers] | None = None  # a deque: they wait here
        self.next_id = 1000
        self.block = 3
        self.ms = 10_000
        self.open: dict[int, Sent] = {}
        self.append_fate: Callable[[], tuple[bool, int]] = lambda: (True, 0)
        self.effects_left: int | None = None  # then it dies
        self._requests = 0
        self.start()

    def now(self) -> Now:
        return Now(self.ms, 1_700_000_000_000 + self.ms)

    def start(self) -> None:
        """A coordinator takes over: it loads, then requests without an answer are run again, in their order."""
        self.coordinator = TransactionCoordinator(
            self.settings,
            lambda topic, partition: topic == TOPIC and 0 <= partition < PARTITIONS,
            lambda group_id: OFFSETS_PARTITION,
            lambda: self.feature_level,
        )
        self.effects_left = None
        if self.held_markers is not None:
            self.held_markers.clear()
        self.carry_out(self.coordinator.open(0, 0, self.now()))
        self.coordinator.load(0, self.log)
        self.carry_out(self.coordinator.loaded(0, self.now()))
        for sent in list(self.open.values()):
            self._run(sent)

    def restart_broker(self) -> None:
        """The whole broker: what was verified is forgotten, nobody waits any more."""
        self.allowed.clear()
        self.open.clear()
        self.start()

    @property
    def verified(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Partition → who may write there; where there is one."""
        return {partition: (producer_id, epoch) for (partition, producer_id), epoch in self.allowed.items()}

    def recorded(self, transactional_id: str = ID) -> Transaction | None:
        """What the log says of an id."""
        found = None
        for key, value in self.log:
            if read_key(key) == transactional_id:
                found = None if value is None else read_transaction(transactional_id, value)
        return found

    # requests

    def send(self, message: Any, version: int) -> list[Any]:
        """Hand a request over; the list holds its answer when there is one."""
        self._requests += 1
        key = schema_of(type(message)).key
        request = GroupRequest(self._requests, key, version, message, "cl", "/h", 0, self._requests.to_bytes(8, "big"))
        sent = self.open[self._requests] = Sent(request, [], set())
        try:
            self._run(sent)
        except Died:
            self.start()
        return sent.heard

    def _run(self, sent: Sent) -> None:
        fields = {name: getattr(sent.request, name) for name in sent.request.__struct_fields__}
        request = GroupRequest(**fields | {"appended": frozenset(sent.appended)})
        self.carry_out(self.coordinator.handle(request, self.now()))

    def carry_out(self, effects: list[Any]) -> None:
        """What a shell does."""
        waiting = deque(effects)
        while waiting:
            effect = waiting.popleft()
            if self.effects_left == 0:
                raise Died
            if self.effects_left is not None:
                self.effects_left -= 1
            waiting.extend(self._do(effect))

    def _do(self, effect: Any) -> list[Any]:
        now = self.now()
        if isinstance(effect, Answer):
            self._answer(effect.token, effect.message)
        elif isinstance(effect, Append):
            return self._append(effect)
        elif isinstance(effect, Verify):
            return self._verify(effect)
        elif isinstance(effect, SendMarkers) and effect.shard == -1:
            self.asked.append(effect)
            return self.coordinator.marked(-1, effect.number, self.asked_codes, now)
        elif isinstance(effect, SendMarkers):
            if self.held_markers is not None:
                self.held_markers.append(effect)
                return []
            return self.write_markers(effect)
        elif isinstance(effect, TakeProducerIds):
            first, self.next_id = self.next_id, self.next_id + self.block
            return self.coordinator.add_producer_ids(first, self.block, now)
        elif isinstance(effect, GiveBack):
            self.open.pop(effect.request.token).heard.append(effect.code)
        else:
            assert isinstance(effect, PassOn)
            self._answer(effect.request.token, TxnOffsetCommitResponse())
        return []

    def _answer(self, token: Any, message: Any) -> None:
        assert token in self.open, f"answered twice: {message}"
        sent = self.open.pop(token)
        cls = RESPONSES[sent.request.api_key]
        assert type(message) is cls
        sent.heard.append(decode(cls, sent.request.version, encode(message, sent.request.version)))

    def _append(self, append: Append) -> list[Any]:
        assert append.topic == TRANSACTIONS_TOPIC and append.partition == 0 and append.records
        written, code = self.append_fate()
        if written:
            self.log.extend(append.records)
            if append.token is not None:
                self.open[append.token].appended.add(0)
        return self.coordinator.appended(0, append.number, code, self.now())

    def _verify(self, verify: Verify) -> list[Any]:
        for partition in verify.partitions:
            assert partition[0] != OFFSETS_TOPIC
            named = [found for found in self._states(verify.producer_id) if partition in found.partitions]
            assert named, "verified before the record that names it is in the log"
            if verify.producer_epoch >= self.epochs.get((partition, verify.producer_id), -1):
                self.allowed[partition, verify.producer_id] = verify.producer_epoch
        return self.coordinator.verified(0, verify.number, ErrorCode.NONE, self.now())

    def _states(self, producer_id: int) -> list[Transaction]:
        ids = {read_key(key) for key, _ in self.log}
        states = [self.recorded(one) for one in ids if one is not None]
        return [one for one in states if one is not None and one.producer_id == producer_id]

    def write_markers(self, send: SendMarkers) -> list[Any]:
        """All of them at once."""
        decided = [found for found in self._states(send.producer_id) if found.state in PREPARED]
        assert [found.is_committed for found in decided] == [send.committed], "a marker without its decision"
        for partition in send.partitions:
            self._mark(partition, Marker(send.producer_id, send.producer_epoch, send.committed))
        return self.coordinator.marked(0, send.number, {}, self.now())

    def _mark(self, partition: tuple[str, int], marker: Marker) -> None:
        name = (partition, marker.producer_id)
        if marker.epoch < self.epochs.get(name, -1):
            return
        self.markers.setdefault(partition, []).append(marker)
        self.epochs[name] = marker.epoch
        self.outcomes |= dict.fromkeys(self.undecided.pop(name, []), marker.committed)
        self.allowed.pop(name, None)

    def produce(self, number: int, producer: tuple[int, int]) -> int | None:
        """A record of a transaction; None: the partition does not take it."""
        partition = (TOPIC, number)
        name = (partition, producer[0])
        if producer[1] < self.epochs.get(name, -1) or (
            name not in self.undecided and self.allowed.get(name) != producer[1]
        ):
            return None
        self._records += 1
        self.epochs[name] = producer[1]
        self.undecided.setdefault(name, []).append(self._records)
        return self._records

    def release_markers(self) -> None:
        """Those that wait are written."""
        assert self.held_markers is not None
        waiting, self.held_markers = self.held_markers, None
        try:
            for send in waiting:
                self.carry_out(self.write_markers(send))
        except Died:
            self.start()

    def advance(self, milliseconds: int) -> None:
        """Let time pass."""
        end_ms = self.ms + milliseconds
        while (due_ms := self.coordinator.deadline_ms()) is not None and due_ms <= end_ms:
            self.ms = max(self.ms, due_ms)
            try:
                self.carry_out(self.coordinator.pass_time(self.now()))
            except Died:
                self.start()
        self.ms = end_ms

    # single requests, written shortly

    def init(self, name: str = ID, producer: tuple[int, int] = (-1, -1), version: int = 4, **fields: Any) -> Any:
        """(code, producer id, epoch), None while it waits."""
        timeout_ms = fields.get("timeout_ms", TIMEOUT_MS)
        heard = self.send(InitProducerIdRequest(name, timeout_ms, *producer), version)
        return (heard[0].error_code, heard[0].producer_id, heard[0].producer_epoch) if heard else None

    def add(self, producer: tuple[int, int], *partitions: int, name: str = ID, version: int = 3) -> Any:
        """The codes of the partitions, None while it waits."""
        topics = [AddPartitionsToTxnTopic(TOPIC, list(partitions))]
        heard = self.send(AddPartitionsToTxnRequest([], name, *producer, topics), version)
        if not heard:
            return None
        rows = heard[0].results_by_topic_v3_and_below[0].results_by_partition
        return [row.partition_error_code for row in rows]

    def add_written(self, producer: tuple[int, int], *partitions: int, name: str = ID) -> Any:
        """What request handlers hear of a Produce 12 to partitions that know nothing of it; it waits at most 0.1 s."""
        settings = {"producer_id": producer[0], "producer_epoch": producer[1], "base_sequence": 0}
        records = batch(b"", transactional=True, **settings)
        request = produce_request(TOPIC, dict.fromkeys(partitions, records), acks=-1)
        request.transactional_id = name
        heard = self.send(request, 12)
        if not heard:
            self.advance(110)
        return heard[0] if heard else None

    def end_raising(self, producer: tuple[int, int], committed: bool, name: str = ID) -> Any:
        """EndTxn 5: (code, producer id, epoch), None while it waits."""
        heard = self.send(EndTxnRequest(name, *producer, committed), 5)
        return (heard[0].error_code, heard[0].producer_id, heard[0].producer_epoch) if heard else None

    def add_offsets(self, producer: tuple[int, int], name: str = ID, version: int = 3) -> Any:
        """The code."""
        heard = self.send(AddOffsetsToTxnRequest(name, *producer, "g"), version)
        return heard[0].error_code if heard else None

    def end(self, producer: tuple[int, int], committed: bool, name: str = ID, version: int = 3) -> Any:
        """The code, None while it waits."""
        heard = self.send(EndTxnRequest(name, *producer, committed), version)
        return heard[0].error_code if heard else None

    def commit_offsets(self, producer: tuple[int, int], version: int = 3) -> Any:
        """What the transaction has against it: the codes of its partitions; [] if groups may answer."""
        message = TxnOffsetCommitRequest(ID, "g", *producer)
        heard = self.send(message, version)
        return [row.error_code for topic in heard[0].topics for row in topic.partitions]
