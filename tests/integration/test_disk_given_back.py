"""What retention and deletion remove goes back to the disk: every process closes it within a second, and a gauge says
how much one that cannot still holds."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from tests.harness.broker import Broker, wait_until
from tests.harness.running_cluster import RunningCluster
from tests.integration.test_log_keeping import FEW_S, Acknowledged, create, read

QUICK = {
    "log.initial.task.delay.ms": 0,
    "log.retention.check.interval.ms": 200,
    "log.segment.delete.delay.ms": 0,
}
CLEANER = {"log.cleaner.backoff.ms": 100, "log.cleaner.min.cleanable.ratio": "0.01"}
RECORDS, RECORD_BYTES = 40, 10_000
LOOK_S, SLACK_S = 0.01, 0.3


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


def names_of_removed(broker: Broker) -> list[Path]:
    found: list[Path] = []
    for directory in broker.data_dir.glob("t-0*"):
        with suppress(FileNotFoundError):  # gone meanwhile
            found += directory.glob("*.deleted")
    return found


def log_bytes(broker: Broker) -> int:
    """What has a name."""
    found = 0
    for directory in broker.data_dir.glob("t-0*"):
        with suppress(FileNotFoundError):  # gone meanwhile, with what was counted of it
            found += sum(path.stat().st_size for path in directory.glob("*.log"))
    return found


def fill(broker: Broker) -> None:
    """Segments that a handler has open for writing and for reading."""
    create(broker, "t", **{"segment.bytes": "25000", "file.delete.delay.ms": "0"})
    sent = Acknowledged(broker)
    for number in range(RECORDS):
        sent.send("t", b"%d" % number + bytes(RECORD_BYTES), b"even" if number % 2 == 0 else b"odd")
        sent.flush()
    assert len(read(broker, "t", RECORDS)) == RECORDS
    assert len(open_files(broker, "handler")) > 5


def stopped_asleep(broker: Broker) -> bool:
    """Whether the log keeper stands still in its sleep, where no lock is in its hands."""
    pid = broker.kill("log-keeper", number=signal.SIGSTOP)
    if broker.row("log-keeper")["wait"] == "service":
        return True
    os.kill(pid, signal.SIGCONT)
    return False


def test_a_process_that_stands_still_shows_in_the_gauge(tmp_path):
    """The log keeper removes nothing until the handlers, which have it all open, stand still."""
    with Broker(tmp_path, overrides=QUICK) as broker:
        fill(broker)
        handlers = pids(broker, "handler")
        wait_until(lambda: stopped_asleep(broker), "a log keeper that sleeps")
        by_retention(broker, AdminClient({"bootstrap.servers": broker.bootstrap}))
        for pid in handlers:
            os.kill(pid, signal.SIGSTOP)
        broker.kill("log-keeper", number=signal.SIGCONT)
        try:
            wait_until(lambda: gauge(broker) > 0, "the gauge to show what is held", FEW_S)
            held = deleted(broker)
            assert held and gauge(broker) >= RECORD_BYTES
        finally:
            for pid in handlers:
                os.kill(pid, signal.SIGCONT)
        wait_until(lambda: not deleted(broker) and gauge(broker) == 0, "everything to be closed", FEW_S)


def closed_within_a_second(deleted: Callable[[], list[str]]) -> bool:
    """Whether no process has a file open any more that has no name, a second from now. A pause in which this machine
    did not let us look counts no more than a look."""
    left_s = 1.0 + SLACK_S
    while deleted():
        begun = time.monotonic()
        time.sleep(LOOK_S)
        left_s -= min(time.monotonic() - begun, 2 * LOOK_S)
        if left_s < 0:
            return False
    return True


def alter(admin: AdminClient, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "t", incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(FEW_S)


def by_retention(broker: Broker, admin: AdminClient) -> None:
    alter(admin, "retention.bytes", "30000")


def by_delete_records(broker: Broker, admin: AdminClient) -> None:
    for done in admin.delete_records([TopicPartition("t", 0, RECORDS - 1)]).values():
        done.result(FEW_S)


def by_deletion(broker: Broker, admin: AdminClient) -> None:
    admin.delete_topics(["t"])["t"].result(FEW_S)


def by_compaction(broker: Broker, admin: AdminClient) -> None:
    alter(admin, "cleanup.policy", "compact")


@pytest.mark.parametrize("remove", [by_retention, by_delete_records, by_deletion, by_compaction])
def test_what_is_removed_goes_back_to_the_disk_within_a_second(tmp_path, remove):
    """From the moment when the files' names are gone, in every process."""
    with Broker(tmp_path, overrides=QUICK | CLEANER) as broker:
        fill(broker)
        before = log_bytes(broker)
        remove(broker, AdminClient({"bootstrap.servers": broker.bootstrap}))
        wait_until(lambda: log_bytes(broker) < before / 2, "the files to go", FEW_S)
        wait_until(lambda: not names_of_removed(broker), "their names to go", FEW_S)
        assert closed_within_a_second(lambda: deleted(broker)), deleted(broker)
        wait_until(lambda: gauge(broker) == 0, "the gauge to say so", FEW_S)


def deleted_below(directory: Path) -> list[str]:
    """Files without a name below it that any process has open, and which process that is."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):  # it ended, or is not ours
            for name in os.listdir(f"/proc/{pid}/fd"):
                path = os.readlink(f"/proc/{pid}/fd/{name}")
                if path.startswith(f"{directory}/") and path.endswith("(deleted)"):
                    found.append(f"{Path(f'/proc/{pid}/cmdline').read_text()[:40]}: {path}")
    return found


def test_so_does_what_followers_remove(tmp_path):
    """Their fetchers wrote it, and have it open until retention or a deletion takes it away."""
    overrides = [f"{name}={value}" for name, value in QUICK.items()]
    with RunningCluster(tmp_path / "c", *overrides, "num.io.threads=2", "num.network.threads=1") as cluster:
        config = {"segment.bytes": "25000", "file.delete.delay.ms": "0"}
        topics = [NewTopic("t", 1, 3, config=config | {"retention.bytes": "30000"}), NewTopic("d", 1, 3, config=config)]
        for made in cluster.admin.create_topics(topics).values():
            made.result(FEW_S)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
        for number in range(2 * RECORDS):
            producer.produce("td"[number % 2], bytes(RECORD_BYTES), partition=0)
            producer.flush(FEW_S)
        cluster.admin.delete_topics(["d"])["d"].result(FEW_S)
        names = lambda pattern: list(cluster.directory.glob(f"broker-*/{pattern}"))  # noqa: E731
        wait_until(lambda: len(names("t-0/*.log")) < RECORDS, "retention of all replicas", FEW_S)
        wait_until(lambda: not [*names("d-0*"), *names("t-0/*.deleted")], "their names to go", FEW_S)
        assert closed_within_a_second(lambda: deleted_below(cluster.directory)), deleted_below(cluster.directory)
