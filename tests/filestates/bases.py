"""Data directories that the fuzzer starts from: written by a real broker, stopped cleanly or killed.

Each has topics of several partitions, rolled segments, idempotent producers, a retention that moved a log start, a
deleted topic, a `.cut` file; and a copy of how it looked half-way, for files that come back. Nobody serves them.
"""

from __future__ import annotations

import itertools
import os
import shutil
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from crc32c import crc32c

from mpbroker.log.checkpoint_file import HIGH_WATERMARK, LOG_START, RECOVERY_POINT, read_checkpoint
from mpbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from mpbroker.record.batch_builder import encode_batch
from tests.harness.broker import Broker, wait_until
from tests.harness.peer import Peer, create_topic, list_offset, produce

TOPICS = {"t": 3, "u": 1, "gone": 1}
PARTITIONS = [("t", 0), ("t", 1), ("t", 2), ("u", 0)]
BATCHES, RETAINED_BATCHES = 24, 40
SETTINGS = {
    "log.segment.bytes": 1200,
    "log.index.interval.bytes": 200,
    "num.network.threads": 1,
    "num.io.threads": 1,
    "mpbroker.trace.enabled": "false",
    "mpbroker.max.partitions": 64,
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


class Base(NamedTuple):
    """`path`: the data directory as the stop left it; `earlier`: the same some time before. `batches`: directory name →
    what was acknowledged and is still wanted; `producers`: directory name → producer id → its last sequence;
    `files`: what is in `path`."""

    name: str
    path: Path
    earlier: Path
    clean: bool
    batches: dict[str, list[Batch]]
    producers: dict[str, dict[int, int]]
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
    """Two of them, by two brokers each; some seconds."""
    return [_make(directory / name, name, clean=name == "clean") for name in ("clean", "killed")]


def _make(directory: Path, name: str, *, clean: bool) -> Base:
    earlier = directory / "earlier"
    first = _first_run(directory, earlier)
    _tear(first.data_dir / "u-0")
    second = Broker(directory, overrides=SETTINGS | EAGER).start()
    written = _second_run(second)
    if clean:
        second.stop()
    else:
        second.destroy()
    for copy, left in itertools.product((second.data_dir, earlier), (".mpbroker-status.json", ".lock", ".reserve")):
        (copy / left).unlink(missing_ok=True)
    starts = read_checkpoint(str(second.data_dir / LOG_START))
    return _described(name, second.data_dir, earlier, clean, written, starts)


def _first_run(directory: Path, earlier: Path) -> Broker:
    broker = Broker(directory, overrides=SETTINGS | EAGER).start()
    with Peer(broker.port()) as peer:
        for topic, partitions in TOPICS.items():
            limits = {"retention_bytes": "4000"} if topic == "u" else {}
            assert create_topic(peer, topic, partitions, **limits).error_code == 0
        for topic, partition in [*PARTITIONS, ("gone", 0)]:
            for number in range(BATCHES // 2):
                _write(peer, topic, partition, number)
    broker.destroy()
    shutil.copytree(broker.data_dir, earlier, symlinks=True)
    return broker


def _tear(directory: Path) -> None:
    """What a killed machine leaves: recovery sets it aside."""
    with open(max(directory.glob("*.log")), "ab") as file:
        file.write(b"half a batch")


def _second_run(broker: Broker) -> dict[tuple[str, int], int]:
    """Writes on, deletes a topic, waits for a retention and checkpoints, writes a little more. Returns the log ends."""
    ends = {}
    with Peer(broker.port()) as peer:
        for topic, partition in PARTITIONS:
            for number in range(BATCHES // 2, RETAINED_BATCHES if topic == "u" else BATCHES):
                _write(peer, topic, partition, number)
        deleted = peer.ask(DeleteTopicsRequest(topic_names=["gone"], timeout_ms=10_000), 3)
        assert deleted.responses[0].error_code == 0
        data = broker.data_dir
        _checkpointed(lambda: read_checkpoint(str(data / LOG_START)).get(("u", 0), 0) > 0, "a log start")
        for name in (RECOVERY_POINT, HIGH_WATERMARK):
            _checkpointed(lambda name=name: read_checkpoint(str(data / name)).get(("t", 2), 0) > 0, name)
        for topic, partition in PARTITIONS:
            for number in range(3):
                _write(peer, topic, partition, (RETAINED_BATCHES if topic == "u" else BATCHES) + number)
            ends[topic, partition] = list_offset(peer, topic, LATEST, partition).offset
    return ends


def _checkpointed(condition: Callable[[], bool], what: str) -> None:
    wait_until(condition, f"the checkpoint of {what}", 20)


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


def _described(
    name: str, path: Path, earlier: Path, clean: bool, ends: dict[tuple[str, int], int], starts: dict
) -> Base:
    batches, producers = {}, {}
    for (topic, partition), end in ends.items():
        directory = f"{topic}-{partition}"
        found = [one for file in sorted((path / directory).glob("*.log")) for one in walk(file.read_bytes())]
        batches[directory] = [one for one in found if one.first >= starts.get((topic, partition), 0)]
        assert found[-1].last + 1 == end, f"{directory}: acknowledged up to {end}, on disk up to {found[-1].last}"
        last = {struct.unpack_from(">q", one.data, 43)[0]: _last_sequence(one.data) for one in found}
        producers[directory] = {producer: sequence for producer, sequence in last.items() if producer >= 0}
    assert any(entry.name.endswith("-delete") for entry in os.scandir(path))
    assert list(path.glob("u-0/*.cut")) and list(path.glob("u-0/*.deleted"))
    files = {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}
    return Base(name, path, earlier, clean, batches, producers, files)


def _last_sequence(data: bytes) -> int:
    (sequence,) = struct.unpack_from(">i", data, 53)
    (count,) = struct.unpack_from(">i", data, 57)
    return int(sequence) + int(count) - 1
