"""Data directories that the fuzzer starts from: written by a real broker, stopped cleanly or killed.

Each has topics of several partitions, rolled segments, idempotent producers, transactions of every ending (one is still
open), a retention that moved a log start, a deleted topic, a `.cut` file; and a copy of how it looked half-way, for
files that come back. One lies in two log directories. Nobody serves them.
"""

from __future__ import annotations

import itertools
import shutil
import struct
import time
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer
from crc32c import crc32c

from mpbroker.log.checkpoint_file import HIGH_WATERMARK, LOG_START, RECOVERY_POINT, read_checkpoint
from mpbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from mpbroker.protocol.messages.list_transactions import ListTransactionsRequest
from mpbroker.record.batch_builder import encode_batch
from tests.harness.broker import Broker, wait_until
from tests.harness.peer import Peer, create_topic, produce

DELETED = "gone"
TOPICS = {"t": 3, "u": 1, "x": 2, DELETED: 1}
PARTITIONS = [("t", 0), ("t", 1), ("t", 2), ("u", 0)]
TRANSACTIONAL = [("x", 0), ("x", 1)]
TRANSACTION_STATE = ("__transaction_state", 0)
BATCHES, RETAINED_BATCHES, TRANSACTIONS = 24, 40, 9
FEW_S = 20
SETTINGS = {
    "log.segment.bytes": 1200,
    "log.index.interval.bytes": 200,
    "num.network.threads": 1,
    "num.io.threads": 1,
    "mpbroker.trace.enabled": "false",
    "mpbroker.max.partitions": 64,
    "log.cleaner.enable": "false",
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.segment.bytes": 1200,
    "transaction.max.timeout.ms": 3_600_000,
}
_OFTEN = (
    "log.flush.offset.checkpoint.interval.ms",
    "log.flush.start.offset.checkpoint.interval.ms",
    "replica.high.watermark.checkpoint.interval.ms",
)
EAGER = {"log.initial.task.delay.ms": 0, "log.retention.check.interval.ms": 100} | dict.fromkeys(_OFTEN, 200)
_HEADER = struct.Struct(">qiibI")
HEADER_BYTES = 61
LATEST = -1


class Batch(NamedTuple):
    """A stored batch: offsets of its first and last record, its bytes."""

    first: int
    last: int
    data: bytes


class Transactions(NamedTuple):
    """Of one partition's log below `stable`, the last stable offset. `aborted`: (producer id, first offset)."""

    aborted: set[tuple[int, int]]
    stable: int


class Base(NamedTuple):
    """`path`: what the stop left, `earlier`: the same some time before. `homes`: the log directories in it, each with a
    slash behind it; "": it is the only one itself.

    By a partition's directory name: `batches`, what was acknowledged and is still wanted; `producers`, by producer id
    their last sequences; `transactions`; `home_of`, where it lies. `files`: what is in `path`."""

    name: str
    path: Path
    earlier: Path
    homes: tuple[str, ...]
    clean: bool
    batches: dict[str, list[Batch]]
    producers: dict[str, dict[int, int]]
    transactions: dict[str, Transactions]
    home_of: dict[str, str]
    files: dict[str, bytes]


def walk(data: bytes) -> list[Batch]:
    """The batches at the beginning of a log file that are whole and sound, by their length and checksum alone."""
    found, at = [], 0
    while at + HEADER_BYTES <= len(data):
        first, size, _epoch, magic, crc = _HEADER.unpack_from(data, at)
        end = at + 12 + size
        if magic != 2 or size < HEADER_BYTES - 12 or end > len(data) or crc32c(data[at + 21 : end]) != crc:
            break
        (last_delta,) = struct.unpack_from(">i", data, at + 23)
        found.append(Batch(first, first + last_delta, data[at:end]))
        at = end
    return found


def make_bases(directory: Path) -> list[Base]:
    """All of them, by two brokers each; some seconds."""
    return [
        _make(directory / "clean", clean=True),
        _make(directory / "killed", clean=False),
        _make(directory / "several-clean", clean=True, homes=("one/", "two/")),
        _make(directory / "several-killed", clean=False, homes=("one/", "two/")),
    ]


def _make(directory: Path, *, clean: bool, homes: tuple[str, ...] = ("",)) -> Base:
    root, earlier = directory / "data", directory / "earlier"
    broker = Broker(directory, overrides=SETTINGS | EAGER, further_dirs=[str(root / home) for home in homes[1:]])
    broker.data_dir = root / homes[0]
    _first_run(broker)
    shutil.copytree(root, earlier, symlinks=True)
    _tear(next(root.rglob("u-0")))
    held = _second_run(broker, root)
    if clean:
        broker.stop()
    else:
        broker.destroy()
    held.clear()  # producers: they may end now
    for copy, left in itertools.product((root, earlier), (".mpbroker-status.json", ".lock", ".reserve")):
        for found in copy.rglob(left):
            found.unlink()
    return _described(directory.name, root, earlier, homes, clean)


def _first_run(broker: Broker) -> None:
    broker.start()
    with Peer(broker.port()) as peer:
        for topic, partitions in TOPICS.items():
            limits = {"retention_bytes": "4000"} if topic == "u" else {}
            assert create_topic(peer, topic, partitions, **limits).error_code == 0
        for topic, partition in [*PARTITIONS, (DELETED, 0)]:
            for number in range(BATCHES // 2):
                _write(peer, topic, partition, number)
    _transactions(_producer(broker, "first"), TRANSACTIONS)
    broker.destroy()


def _tear(directory: Path) -> None:
    """What a killed machine leaves: recovery sets it aside."""
    with open(max(directory.glob("*.log")), "ab") as file:
        file.write(b"half a batch")


def _second_run(broker: Broker, root: Path) -> list[Producer]:
    """Writes on, deletes a topic, waits for a retention and checkpoints, writes a little more. Returns producers that
    must live as long as the broker: one of them has a transaction under way."""
    broker.start()
    held = [_producer(broker, name) for name in ("first", "second", "undecided")]
    with Peer(broker.port()) as peer:
        for topic, partition in PARTITIONS:
            for number in range(BATCHES // 2, RETAINED_BATCHES if topic == "u" else BATCHES):
                _write(peer, topic, partition, number)
        _transactions(held[0], TRANSACTIONS)
        deleted = peer.ask(DeleteTopicsRequest(topic_names=[DELETED], timeout_ms=10_000), 3)
        assert deleted.responses[0].error_code == 0
        _checkpointed(root, LOG_START, ("u", 0))
        for who in (("t", 2), ("x", 0), TRANSACTION_STATE):
            _checkpointed(root, RECOVERY_POINT, who)
            _checkpointed(root, HIGH_WATERMARK, who)
        for topic, partition in PARTITIONS:
            for number in range(3):
                _write(peer, topic, partition, (RETAINED_BATCHES if topic == "u" else BATCHES) + number)
        _transact(held[2])
        _transactions(held[1], 3)
        wait_until(lambda: not _being_ended(peer), "the ends of transactions that were told to their producers", 20)
    return held


def _being_ended(peer: Peer) -> bool:
    """Whether a transaction is decided and not complete: a producer is told as soon as the decision is written. Of a
    broker that is killed there, the next one completes it, and what readers see is not what stands in the files."""
    decided = ListTransactionsRequest(state_filters=["PrepareCommit", "PrepareAbort"])
    return bool(peer.ask(decided, 0).transaction_states)


def _checkpointed(root: Path, name: str, who: tuple[str, int]) -> None:
    files = list(root.rglob(name))
    wait_until(lambda: any(read_checkpoint(str(file)).get(who, 0) > 0 for file in files), f"{name} of {who}", 20)


def _producer(broker: Broker, name: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "transactional.id": name,
            "transaction.timeout.ms": 3_600_000,
            "log_level": 0,
        }
    )
    producer.init_transactions(FEW_S)
    return producer


def _transact(producer: Producer) -> None:
    producer.begin_transaction()
    for topic, partition in TRANSACTIONAL:
        producer.produce(topic, bytes(120), partition=partition)
    assert producer.flush(FEW_S) == 0


def _transactions(producer: Producer, count: int) -> None:
    """Every third is aborted."""
    for number in range(count):
        _transact(producer)
        (producer.abort_transaction if number % 3 == 1 else producer.commit_transaction)(FEW_S)


def _write(peer: Peer, topic: str, partition: int, number: int) -> None:
    """One batch of two records; partition 0 of t by an idempotent producer, the others by nobody in particular."""
    values = (b"%s-%d-%d" % (topic.encode(), partition, number) + bytes(120), b"second")
    producer = {"producer_id": 7 + partition, "producer_epoch": 0, "base_sequence": 2 * number}
    now_ms = time.time_ns() // 1_000_000
    records = encode_batch(
        [(None, value, now_ms) for value in values], **(producer if (topic, partition) < ("t", 2) else {})
    )
    answer = produce(peer, topic, records, partition)
    assert answer.error_code == 0, answer


def _described(name: str, path: Path, earlier: Path, homes: tuple[str, ...], clean: bool) -> Base:
    files = {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}
    starts, ends = (
        {who: at for home in homes for who, at in read_checkpoint(str(path / home / one)).items()}
        for one in (LOG_START, HIGH_WATERMARK)
    )
    batches, producers, transactions, home_of = {}, {}, {}, {}
    for topic, partition in [*PARTITIONS, *TRANSACTIONAL, TRANSACTION_STATE]:
        directory = f"{topic}-{partition}"
        (home_of[directory],) = [home for home in homes if (path / home / directory).is_dir()]
        logs = sorted((path / home_of[directory] / directory).glob("*.log"))
        found = [one for file in logs for one in walk(file.read_bytes())]
        batches[directory] = [one for one in found if one.first >= starts.get((topic, partition), 0)]
        assert len(logs) > 1 and found[-1].last + 1 >= ends[topic, partition] > 0, directory
        producers[directory] = _producers(found)
        transactions[directory] = transactions_of(found)
    for directory in ("x-0", "x-1"):
        assert (
            len(transactions[directory].aborted) == 6 and transactions[directory].stable < batches[directory][-1].last
        )
    assert len(set(home_of.values())) == len(homes)
    assert [one for one in files if "-delete/" in one] and [one for one in files if one.endswith(".txnindex")]
    assert [one for one in files if "u-0/" in one and one.endswith(".cut")]
    assert [one for one in files if "u-0/" in one and one.endswith(".deleted")]
    return Base(name, path, earlier, homes, clean, batches, producers, transactions, home_of, files)


def _producers(batches: list[Batch]) -> dict[int, int]:
    data = [one.data for one in batches if not is_control(one)]
    last = {struct.unpack_from(">q", one, 43)[0]: _last_sequence(one) for one in data}
    return {producer: sequence for producer, sequence in last.items() if producer >= 0}


def is_control(batch: Batch) -> bool:
    """Whether it is the end of a transaction."""
    return bool(batch.data[22] & 0x20)


def transactions_of(batches: list[Batch]) -> Transactions:
    """What stands in these batches, the simplest way."""
    open_since: dict[int, int] = {}
    aborted = set()
    for one in batches:
        (producer,) = struct.unpack_from(">q", one.data, 43)
        if is_control(one):
            is_commit = one.data[HEADER_BYTES + 8] == 1
            first = open_since.pop(producer, None)
            aborted |= set() if is_commit or first is None else {(producer, first)}
        elif one.data[22] & 0x10:
            open_since.setdefault(producer, one.first)
    stable = min(open_since.values(), default=batches[-1].last + 1)
    return Transactions({one for one in aborted if one[1] < stable}, stable)  # readers of what is decided


def _last_sequence(data: bytes) -> int:
    (sequence,) = struct.unpack_from(">i", data, 53)
    (count,) = struct.unpack_from(">i", data, 57)
    return int(sequence) + int(count) - 1
