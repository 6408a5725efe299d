"""What retention and deletion remove goes back to the disk: every process closes it within a second, and a gauge says
how much one that cannot still holds."""

import os
import signal
import time
from contextlib import suppress

from confluent_kafka.admin import AdminClient

from tests.harness.broker import Broker, wait_until
from tests.integration.test_log_keeping import FEW_S, Acknowledged, create, read

QUICK = {
    "log.initial.task.delay.ms": 0,
    "log.retention.check.interval.ms": 200,
    "log.segment.delete.delay.ms": 0,
}
RECORDS, RECORD_BYTES, RETENTION_MS = 40, 10_000, 3000


def pids(broker: Broker, role: str = "") -> list[int]:
    return [row["pid"] for row in broker.status()["processes"] if row["pid"] and role in row["role"]]


def open_files(broker: Broker, role: str = "") -> list[str]:
    """Files of the data directory that the broker's processes have open."""
    found = []
    for pid in pids(broker, role):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(FileNotFoundError):  # closed meanwhile
                found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
    return [path for path in found if path.startswith(f"{broker.data_dir}/t-0")]


def deleted(broker: Broker) -> list[str]:
    return [path for path in open_files(broker) if path.endswith("(deleted)")]


def gauge(broker: Broker) -> int:
    return broker.status()["counters"]["deleted_bytes_open"]


def logs(broker: Broker) -> list[str]:
    return [name for name in os.listdir(broker.data_dir / "t-0") if name.endswith(".log")]


def fill(broker: Broker, **settings: str) -> None:
    """Segments that a handler has open for writing and for reading."""
    create(broker, "t", **{"segment.bytes": "25000", "file.delete.delay.ms": "0"}, **settings)
    sent = Acknowledged(broker)
    for number in range(RECORDS):
        sent.send("t", b"%d" % number + bytes(RECORD_BYTES))
        sent.flush()
    assert len(read(broker, "t", RECORDS)) == RECORDS
    assert len(open_files(broker, "handler")) > 5


def test_a_process_that_stands_still_shows_in_the_gauge(tmp_path):
    with Broker(tmp_path, overrides=QUICK) as broker:
        fill(broker, **{"retention.ms": str(RETENTION_MS)})
        handlers = pids(broker, "handler")
        for pid in handlers:
            os.kill(pid, signal.SIGSTOP)
        try:
            wait_until(lambda: gauge(broker) > 0, "the gauge to show what is held", FEW_S)
            held = deleted(broker)
            assert held and gauge(broker) >= RECORD_BYTES
        finally:
            for pid in handlers:
                os.kill(pid, signal.SIGCONT)
        wait_until(lambda: not deleted(broker) and gauge(broker) == 0, "everything to be closed", FEW_S)


def test_retention_gives_the_disk_back(tmp_path):
    """The time is not measured here; that nothing keeps it is."""
    with Broker(tmp_path, overrides=QUICK) as broker:
        fill(broker, **{"retention.ms": str(RETENTION_MS)})
        wait_until(lambda: len(logs(broker)) == 1, "retention", FEW_S)
        wait_until(lambda: not deleted(broker), "everything to be closed", FEW_S)
        time.sleep(1.5)  # the log keeper has looked once more
        assert gauge(broker) == 0 and deleted(broker) == []


def test_a_deleted_topic_gives_the_disk_back(tmp_path):
    with Broker(tmp_path, overrides=QUICK) as broker:
        fill(broker)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.delete_topics(["t"])["t"].result(FEW_S)
        wait_until(lambda: not list(broker.data_dir.glob("t-0*")), "the directory to go", FEW_S)
        wait_until(lambda: not deleted(broker) and gauge(broker) == 0, "everything to be closed", FEW_S)
