"""Descriptors and memory: many partitions under a hard limit, and who dies first."""

import resource
import subprocess
import time
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.harness.broker import Broker, wait_until

DESCRIPTORS = 1024
PARTITIONS = 1600
ROUNDS = 3
#: Each batch fills a segment, and the oldest of three goes.
ONE_RECORD_A_SEGMENT = {"segment.bytes": "100", "retention.bytes": "80", "file.delete.delay.ms": "0"}
QUICK = {
    "log.initial.task.delay.ms": 500,
    "log.retention.check.interval.ms": 1000,
    "log.flush.scheduler.interval.ms": 1000,
    "log.flush.interval.ms": 1000,
    "log.flush.offset.checkpoint.interval.ms": 1000,
}


class LimitedBroker(Broker):
    """Its processes may open so many files and no more."""

    def spawn(self) -> subprocess.Popen[bytes]:
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        try:
            process = super().spawn()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (256, DESCRIPTORS))
        return process


def soft_limit(pid: int) -> int:
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("Max open files")).split()[3])


def produce_everywhere(broker: Broker, rounds: int) -> None:
    """One record to every partition, `rounds` times, all of them acknowledged."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "1"})
    failed: list = []
    for number in range(rounds):
        for partition in range(PARTITIONS):
            producer.produce(
                "big", b"%d" % number, partition=partition, on_delivery=lambda e, _: e and failed.append(e)
            )
            producer.poll(0)
        assert producer.flush(60) == 0
        time.sleep(2)  # retention and flush come round between
    assert failed == []


def read_everywhere(broker: Broker, last: int) -> dict[int, list[tuple[int, bytes | None]]]:
    """Partition → (offset, value) from its beginning up to offset `last`."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition("big", partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
    found: dict[int, list[tuple[int, bytes | None]]] = {partition: [] for partition in range(PARTITIONS)}
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not all(rows and rows[-1][0] >= last for rows in found.values()):
        for message in consumer.consume(500, 0.2):
            assert message.error() is None, message.error()
            found[message.partition()].append((message.offset(), message.value()))
    consumer.close()
    return found


def test_sixteen_hundred_partitions_under_a_limit_of_1024_files(tmp_path):
    """30 s after the start every topic once answered 56 until the restart, and again 30 s after that. Here all of them
    are written, synced, retained and read, and again after a restart."""
    with LimitedBroker(tmp_path, overrides=QUICK) as broker:
        pids = [row["pid"] for row in broker.status()["processes"] if row["pid"]]
        assert {soft_limit(pid) for pid in pids} == {DESCRIPTORS}
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("big", PARTITIONS, 1, config=ONE_RECORD_A_SEGMENT)])["big"].result(60)
        produce_everywhere(broker, ROUNDS)
        wait_until(
            lambda: broker.status()["counters"]["segments_deleted"] >= PARTITIONS, "retention of all of them", 60
        )
        wait_until(lambda: len(synced(broker)) == PARTITIONS, "the flush of all of them", 60)
        kept = read_everywhere(broker, ROUNDS - 1)
        for partition, rows in kept.items():
            assert rows and rows[0][0] >= 1, (partition, rows)
            assert rows == [(offset, b"%d" % offset) for offset in range(rows[0][0], ROUNDS)], partition
        assert "log_directory_offline" not in broker.log() and "failed" not in broker.log()
        assert all(row["restarts"] == 0 for row in broker.status()["processes"])
        broker.stop()
        broker.start()
        assert read_everywhere(broker, ROUNDS - 1).keys() == kept.keys()
        assert "log_directory_offline" not in broker.log() and "failed" not in broker.log()


def synced(broker: Broker) -> list[str]:
    """Partitions of which the checkpoint says that all closed segments are on disk."""
    lines = (broker.data_dir / "recovery-point-offset-checkpoint").read_text().splitlines()[2:]
    return [line for line in lines if line.startswith("big ") and int(line.split(" ")[2]) >= ROUNDS - 1]


def test_workers_are_killed_before_their_supervisor_when_memory_runs_out(tmp_path):
    with Broker(tmp_path) as broker:
        scores = {
            row["role"]: int(Path(f"/proc/{row['pid']}/oom_score_adj").read_text())
            for row in broker.status()["processes"]
            if row["pid"]
        }
    supervisor = scores.pop("supervisor")
    assert scores and all(score > supervisor for score in scores.values())


def library_kib(pid: int, library: str) -> int:
    """How much of the library's text and tables stands in the process's page table, in KiB: the unwritten pages."""
    kib, inside = 0, False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        first, *rest = line.split()
        if not first.endswith(":"):
            inside = library in line
        elif inside and first in ("Private_Clean:", "Shared_Clean:"):
            kib += int(rest[0])
    return kib


def test_the_supervisor_keeps_no_pages_of_libraries_that_only_its_workers_use(tmp_path):
    with Broker(tmp_path) as broker:
        assert library_kib(broker.pid, "libpython") > 0 or library_kib(broker.pid, "python3") > 0  # it finds its lines
        # 1.1 MiB after loading it; given back once the last ones are forked, which may serve before
        wait_until(lambda: library_kib(broker.pid, "libsqlite3") < 256, "the pages to be given back", 10)
        assert broker.status()["state"] == "running"
