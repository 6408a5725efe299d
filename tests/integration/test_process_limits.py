"""Descriptors and memory: many partitions under a hard limit, and who dies first."""

import resource
import subprocess
import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.harness.broker import Broker
from tests.integration.test_log_keeping import read

DESCRIPTORS = 1024
PARTITIONS = 1600
QUICK = {
    "log.initial.task.delay.ms": 500,
    "log.retention.check.interval.ms": 1000,
    "log.flush.scheduler.interval.ms": 1000,
    "log.flush.interval.ms": 1000,
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


def test_sixteen_hundred_partitions_under_a_limit_of_1024_files(tmp_path):
    """30 s after the start every topic once answered 56 until the restart, and again 30 s after that."""
    with LimitedBroker(tmp_path, overrides=QUICK) as broker:
        pids = [row["pid"] for row in broker.status()["processes"] if row["pid"]]
        assert {soft_limit(pid) for pid in pids} == {DESCRIPTORS}
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("big", PARTITIONS, 1)])["big"].result(60)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "1"})
        failed: list = []
        for round_number in range(2):
            for partition in range(PARTITIONS):
                producer.produce(
                    "big", b"%d" % round_number, partition=partition, on_delivery=lambda e, _: e and failed.append(e)
                )
                producer.poll(0)
            assert producer.flush(60) == 0
            time.sleep(3)  # retention and flush have been round
        assert failed == []
        assert read(broker, "big", 2) == {0: b"0", 1: b"1"}
        assert "log_directory_offline" not in broker.log() and "failed" not in broker.log()
        assert all(row["restarts"] == 0 for row in broker.status()["processes"])


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
        assert library_kib(broker.pid, "cramjam") < 256  # 1.3 MiB after loading it
        assert broker.status()["state"] == "running"
