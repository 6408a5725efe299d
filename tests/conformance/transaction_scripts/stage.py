"""What a script of transactions is, and how one is played to a broker behind a port.

A script sends requests one after the other and writes down what it heard. Producer ids stand there by alias, names
without the play's prefix; answers that only say "not yet" are asked for again, so that a broker may take its time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from mpbroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from mpbroker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from mpbroker.protocol.messages.end_txn import EndTxnRequest
from mpbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from mpbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from mpbroker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from mpbroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from mpbroker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from mpbroker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from mpbroker.record.record_batch import iterate_records
from tests.harness.peer import Peer, batch, create_topic, fetch_request, list_offset, produce_request

#: What scripts count on; the peers are started with these settings.
SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transaction.max.timeout.ms": "60000",
    "group.initial.rebalance.delay.ms": "0",
}
FILE = Path(__file__).with_name("kafka_4_3_outcomes.jsonl")
TIMEOUT_MS = 30_000
PATIENCE_S = 20
READ_COMMITTED = 1
NEXT_EPOCH_SINCE = 5  # the version of EndTxn that tells it
_LATER = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)


def _index(row: Any) -> int:
    return row.partition_index


class Script(NamedTuple):
    """One script for one version of the API it is about."""

    name: str
    version: int
    play: Callable[[Stage, int], None]

    @property
    def title(self) -> str:
        return f"{self.name} v{self.version}"


SCRIPTS: list[Script] = []


def script(name: str, versions: Iterable[int] = (3,)):
    """Put a function among the scripts, once for each version."""

    def register(play: Callable[[Stage, int], None]) -> Callable[[Stage, int], None]:
        SCRIPTS.extend(Script(name, version, play) for version in versions)
        return play

    return register


class Stage:
    """One play. `tx` and `group` are the names of this play; `topic` has two partitions."""

    def __init__(self, port: int, prefix: str) -> None:
        self.peer = Peer(port, "txn")
        self.prefix = prefix
        self.tx, self.group = f"{prefix}tx", f"{prefix}g"
        self.outcomes: list[Any] = []
        self._ids: dict[int, str] = {}
        self.topic = f"{prefix}t"
        assert create_topic(self.peer, self.topic, 2).error_code == 0
        for number in range(2):
            self._until(lambda number=number: list_offset(self.peer, self.topic, -1, number).error_code)
        for kind, key in ((0, self.group), (1, self.tx)):
            self._until(lambda kind=kind, key=key: self.peer.ask(FindCoordinatorRequest(key, kind), 1).error_code)

    def _until(self, ask: Callable[[], int]) -> int:
        deadline = time.monotonic() + PATIENCE_S
        while (code := ask()) in _LATER and time.monotonic() < deadline:
            time.sleep(0.02)
        return code

    def write(self, label: str, *what: Any) -> None:
        """Write down."""
        self.outcomes.append([label, *what])

    def alias(self, producer_id: int) -> str:
        """The producer id as outcomes show it."""
        return "-" if producer_id == -1 else self._ids.setdefault(producer_id, f"p{len(self._ids)}")

    def init(
        self,
        producer: tuple[int, int] = (-1, -1),
        version: int = 4,
        timeout_ms: int = TIMEOUT_MS,
        name: str = "",
        wait: bool = True,
    ) -> tuple[int, int]:
        """InitProducerId; asks again while the last transaction is being ended, unless `wait` is off."""
        answer: Any = None

        def ask() -> int:
            nonlocal answer
            request = InitProducerIdRequest(self.tx + name, timeout_ms, *producer)
            answer = self.peer.ask(request, version)
            return answer.error_code

        if wait:
            self._until(ask)
        else:
            ask()
        self.write("init", answer.error_code, self.alias(answer.producer_id), answer.producer_epoch)
        return answer.producer_id, answer.producer_epoch

    def add(
        self, producer: tuple[int, int], *partitions: int, version: int = 3, name: str = "", wait: bool = True
    ) -> None:
        """AddPartitionsToTxn."""
        codes: list[int] = []

        def ask() -> int:
            topics = [AddPartitionsToTxnTopic(self.topic, list(partitions))]
            answer = self.peer.ask(AddPartitionsToTxnRequest([], self.tx + name, *producer, topics), version)
            rows = answer.results_by_topic_v3_and_below
            codes[:] = [
                row.partition_error_code for topic in rows for row in sorted(topic.results_by_partition, key=_index)
            ]
            return codes[0] if codes else 0

        if wait:
            self._until(ask)
        else:
            ask()
        self.write("add", codes)

    def add_offsets(self, producer: tuple[int, int], version: int = 3, name: str = "", group: str = "") -> None:
        """AddOffsetsToTxn."""
        request = AddOffsetsToTxnRequest(self.tx + name, *producer, self.group + group)
        self.write("add offsets", self._until(lambda: self.peer.ask(request, version).error_code))

    def end(self, producer: tuple[int, int], committed: bool, version: int = 3, name: str = "") -> tuple[int, int]:
        """EndTxn; returns who the producer is from then on, which version 5 says."""
        request = EndTxnRequest(self.tx + name, *producer, committed)
        answer: Any = None

        def ask() -> int:
            nonlocal answer
            answer = self.peer.ask(request, version)
            return answer.error_code

        label = "commit" if committed else "abort"
        if version < NEXT_EPOCH_SINCE:
            self.write(label, self._until(ask))
            return producer
        self.write(label, self._until(ask), self.alias(answer.producer_id), answer.producer_epoch)
        return producer if answer.error_code else (answer.producer_id, answer.producer_epoch)

    def produce(
        self,
        producer: tuple[int, int],
        sequence: int,
        *values: bytes,
        partition: int = 0,
        version: int = 9,
        transactional: bool = True,
        named: bool = True,
    ) -> None:
        """Produce one batch."""
        settings = {"producer_id": producer[0], "producer_epoch": producer[1], "base_sequence": sequence}
        records = batch(*values, transactional=transactional, **settings)
        request = produce_request(self.topic, {partition: records}, acks=-1)
        if named:
            request.transactional_id = self.tx
        answer: Any = None

        def ask() -> int:
            nonlocal answer
            answer = self.peer.ask(request, version).responses[0].partition_responses[0]
            return answer.error_code

        self._until(ask)
        self.write("produce", answer.error_code, answer.base_offset)

    def produce_all(self, producer: tuple[int, int], sequence: int, values: list[bytes], version: int) -> None:
        """Produce one batch of one record to each partition, from the first on."""
        settings = {"producer_id": producer[0], "producer_epoch": producer[1], "base_sequence": sequence}
        records = {number: batch(one, transactional=True, **settings) for number, one in enumerate(values)}
        request = produce_request(self.topic, records, acks=-1)
        request.transactional_id = self.tx
        rows: list[Any] = []

        def ask() -> int:
            rows[:] = sorted(
                self.peer.ask(request, version).responses[0].partition_responses, key=lambda row: row.index
            )
            return max(row.error_code if row.error_code in _LATER else 0 for row in rows)

        self._until(ask)
        self.write("produce", [[row.error_code, row.base_offset] for row in rows])

    def commit_offsets(
        self,
        producer: tuple[int, int],
        *offsets: int,
        version: int = 3,
        group: str = "",
        member: tuple[int, str, str | None] = (-1, "", None),
        topic: str | None = None,
        text: str = "",
    ) -> None:
        """TxnOffsetCommit: offsets of partitions 0, 1 …"""
        rows = [TxnOffsetCommitRequestPartition(number, one, -1, text) for number, one in enumerate(offsets)]
        topics = [TxnOffsetCommitRequestTopic(self.topic if topic is None else topic, rows)]
        request = TxnOffsetCommitRequest(self.tx, self.group + group, *producer, *member, topics=topics)
        codes: list[int] = []

        def ask() -> int:
            found = self.peer.ask(request, version).topics
            codes[:] = [row.error_code for one in found for row in sorted(one.partitions, key=_index)]
            return codes[0] if codes else 0

        self._until(ask)
        self.write("commit offsets", codes)

    def commit_plain(self, *offsets: int) -> None:
        """OffsetCommit 7, of no group member."""
        rows = [OffsetCommitRequestPartition(number, one) for number, one in enumerate(offsets)]
        request = OffsetCommitRequest(self.group, topics=[OffsetCommitRequestTopic(self.topic, rows)])
        answer = self.peer.ask(request, 7)
        self.write("plain commit", [row.error_code for one in answer.topics for row in one.partitions])

    def offsets(self, require_stable: bool = False, wait: bool = False) -> None:
        """OffsetFetch 8 of both partitions; `wait`: until none is unstable."""
        topics = [OffsetFetchRequestTopic(self.topic, [0, 1])]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(self.group, topics=topics)])
        request.require_stable = require_stable or wait
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = self.peer.ask(request, 8).groups[0]
            rows = sorted((row for one in found.topics for row in one.partitions), key=_index)
            if not wait or all(row.error_code == 0 for row in rows) or time.monotonic() > deadline:
                break
            time.sleep(0.02)
        self.write("offsets", [[row.error_code, row.committed_offset, row.metadata] for row in rows])

    def read(self, partition: int = 0, isolation: int = READ_COMMITTED) -> None:
        """What a reader sees, and how far it goes."""
        answer = self.peer.ask(fetch_request(self.topic, {partition: 0}, isolation_level=isolation), 11)
        row = answer.responses[0].partitions[0]
        values = [[one.offset, bytes(one.value).decode()] for one in iterate_records(row.records or b"")]
        aborted = None
        if row.aborted_transactions is not None:  # Kafka 4.3 cuts such answers short, and with them this list
            seen = [one for one in row.aborted_transactions if values and one.first_offset <= values[-1][0]]
            aborted = [[self.alias(one.producer_id), one.first_offset] for one in seen]
        self.write("read", row.error_code, row.last_stable_offset, row.high_watermark, aborted, values)

    def latest(self, partition: int = 0, isolation: int = READ_COMMITTED) -> None:
        """ListOffsets −1."""
        asked = ListOffsetsTopic(self.topic, [ListOffsetsPartition(partition_index=partition, timestamp=-1)])
        answer = self.peer.ask(ListOffsetsRequest(-1, isolation, [asked]), 5).topics[0].partitions[0]
        self.write("latest", answer.error_code, answer.offset)

    def settled(self, name: str = "") -> None:
        """Wait until no transaction is on, and say how it ended."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            row = self.peer.ask(DescribeTransactionsRequest([self.tx + name]), 0).transaction_states[0]
            if row.transaction_state not in ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"):
                break
            assert time.monotonic() < deadline, row
            time.sleep(0.02)
        self.write("settled", row.error_code, row.transaction_state, self.alias(row.producer_id), row.producer_epoch)

    def describe(self, *names: str) -> None:
        """DescribeTransactions, each id with the play's prefix; "" stays empty."""
        ids = [self.prefix + one if one else "" for one in names]
        for row in self.peer.ask(DescribeTransactionsRequest(ids), 0).transaction_states:
            shown = msgspec.structs.asdict(row) | {
                "transactional_id": row.transactional_id.removeprefix(self.prefix),
                "producer_id": self.alias(row.producer_id) if not row.error_code else "",
                "transaction_start_time_ms": row.transaction_start_time_ms > 0,
                "topics": [[one.topic.removeprefix(self.prefix), self._shown(one)] for one in row.topics],
            }
            self.write("described", shown)

    def _shown(self, topic: Any) -> Any:
        """Which partition a group's offsets are in depends on the play's prefix."""
        return sorted(topic.partitions) if topic.topic == self.topic else len(topic.partitions)

    def close(self) -> None:
        """Hang up."""
        self.peer.socket.close()


def played(one: Script, port: int, prefix: str) -> list[Any]:
    """The outcomes of one script behind a port."""
    stage = Stage(port, prefix)
    try:
        one.play(stage, one.version)
    finally:
        stage.close()
    return json.loads(json.dumps(stage.outcomes))


def write_outcomes(path: Path, outcomes: list[tuple[Script, list[Any]]]) -> None:
    """Write the file of Kafka's outcomes anew: a line for each script."""
    lines = [
        json.dumps({"script": one.name, "version": one.version, "outcomes": found}, separators=(",", ":")) + "\n"
        for one, found in sorted(outcomes, key=lambda row: row[0][:2])
    ]
    path.write_text("".join(lines), "utf-8")


def read_outcomes(path: Path = FILE) -> dict[tuple[str, int], list[Any]]:
    """(script's name, version) → Kafka's outcomes."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return {(row["script"], row["version"]): row["outcomes"] for row in rows}
