"""A data disk without a byte left: the broker starts on its reserve, consumers read, retention deletes, and producers
are told; when there is room again, appends are accepted without a restart."""

import shutil
import signal
import subprocess

import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.harness.broker import Broker, wait_until
from tests.harness.raw_records import RawFetcher, RawProducer, create_by_metadata, records_in

KAFKA_STORAGE_ERROR = 56
FEW_S = 15
SETTINGS = {"num.partitions": 1, "mpbroker.trace.enabled": "false", "log.segment.bytes": 1 << 16}
GROUPS = {"offsets.topic.num.partitions": 2, "group.initial.rebalance.delay.ms": 0}
SHORT_RETENTION = {
    "log.retention.check.interval.ms": 100,
    "log.segment.delete.delay.ms": 0,
    "log.initial.task.delay.ms": 100,
}


@pytest.fixture
def disk(tmp_path):
    """A disk of 40 MiB."""
    path = tmp_path / "disk"
    path.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", path], capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    yield path
    subprocess.run(["umount", "-l", path], check=True)


def fill(path):
    """Leaves nothing."""
    with open(path, "wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        while file.write(bytes(1 << 12)):
            pass


def reserve_bytes(broker):
    path = broker.data_dir / ".reserve"
    return path.stat().st_size if path.exists() else -1


def written(broker, values):
    """Appends each value; the last answer's error code."""
    producer = RawProducer("127.0.0.1", broker.port(), "t")
    errors = [producer.produce(0, [value]).error for value in values]
    producer.close()
    return errors[-1]


def first_value(broker, offset=0):
    fetcher = RawFetcher("127.0.0.1", broker.port(), "t")
    found = fetcher.fetch(0, offset)
    fetcher.close()
    return next((value for _, value in records_in(found.records, offset)), None)


def refusal(broker):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    with pytest.raises(KafkaException) as failed:
        admin.create_topics([NewTopic("other", 1, 1)])["other"].result(FEW_S)
    return failed.value.args[0].code()


def test_a_full_disk_permits_a_start_that_reads(disk):
    broker = Broker(disk, overrides=SETTINGS)
    with broker:
        create_by_metadata("127.0.0.1", broker.port(), "t")
        wait_until(lambda: written(broker, [b"first"]) == 0, "the topic")
        wait_until(lambda: reserve_bytes(broker) == 8 << 20, "the reserve")
    fill(disk / "fill")
    for start in (1, 2):  # the second start has no reserve to give up, and knows why
        with broker:
            assert reserve_bytes(broker) == 0
            assert first_value(broker) == b"first"
            assert (written(broker, [b"refused"]), refusal(broker)) == (KAFKA_STORAGE_ERROR, KAFKA_STORAGE_ERROR)
            wait_until(lambda: broker.status()["health"]["state"] == "degraded", "status to say so")
            (found,) = broker.status()["health"]["findings"]
            assert "appends are refused" in found["sentence"]
            assert broker.status()["counters"]["log_appends_refused"] == 1
            assert broker.log().count(" WARN log-keeper-0 appends_refused ") == start
    with broker:
        (disk / "fill").unlink()
        wait_until(lambda: written(broker, [b"again"]) == 0, "appends to be accepted")
        assert reserve_bytes(broker) == 8 << 20
        wait_until(lambda: broker.status()["health"]["state"] == "ok", "status to be well")
        assert first_value(broker, 1) == b"again"
    with broker:
        assert written(broker, [b"more"]) == 0 and broker.log().count("appends_refused") == 3


def read_in_group(broker, group, count):
    """What a consumer of a group gets; that it committed is told by the next one, which begins behind it."""
    settings = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap} | settings)
    consumer.subscribe(["t"])
    found = []

    def is_read():
        message = consumer.poll(1)
        if message is not None:
            found.append(message.value())
        return len(found) == count

    wait_until(is_read, "records", FEW_S)
    consumer.commit(asynchronous=False)
    consumer.close()
    return found


def test_consumers_of_groups_read_and_commit_on_a_full_disk(disk):
    """One that was there before, and a new one; across another start, too."""
    values = [b"%d" % number for number in range(4)]
    broker = Broker(disk, overrides=SETTINGS | GROUPS)
    with broker:
        create_by_metadata("127.0.0.1", broker.port(), "t")
        wait_until(lambda: written(broker, values) == 0, "the topic")
        assert read_in_group(broker, "old", 2) == values[:2]
        wait_until(lambda: reserve_bytes(broker) == 8 << 20, "the reserve")
    fill(disk / "fill")
    with broker:
        assert written(broker, [b"refused"]) == KAFKA_STORAGE_ERROR
        assert read_in_group(broker, "old", 1) == values[2:3]
        assert read_in_group(broker, "new", 2) == values[:2]
    with broker:
        assert read_in_group(broker, "old", 1) == values[3:]
        assert read_in_group(broker, "new", 1) == values[2:3]
        assert "group_appends_refused" not in broker.log()


def test_retention_makes_room_after_a_start_on_a_full_disk(disk):
    """It has a limit only when the tracer has met the full disk: before, it would make room too early."""
    with Broker(disk, overrides=SETTINGS) as broker:
        create_by_metadata("127.0.0.1", broker.port(), "t")
        wait_until(lambda: written(broker, [b"first"]) == 0, "the topic")
        wait_until(lambda: reserve_bytes(broker) == 8 << 20, "the reserve")
        assert written(broker, [bytes(60_000)] * 300) == 0
    fill(disk / "fill")
    limits = disk.parent / "server.properties"
    limits.write_text("log.retention.bytes=-1\n")
    traced = {"mpbroker.trace.enabled": "true"}
    with Broker(disk, overrides=SETTINGS | SHORT_RETENTION | traced, properties=limits) as broker:
        wait_until(lambda: "trace_write_failed" in broker.log(), "the tracer to meet the full disk", FEW_S)
        limits.write_text("log.retention.bytes=1\n")
        broker.kill("supervisor", number=signal.SIGHUP)
        wait_until(lambda: "appends_accepted_again" in broker.log(), "retention to make room", FEW_S)
        wait_until(lambda: "trace_writing_again" in broker.log(), "traces", FEW_S)
        assert "appends_refused" in broker.log() and written(broker, [b"again"]) == 0
        assert reserve_bytes(broker) == 8 << 20


def test_a_small_disk_has_no_reserve_and_serves(disk):
    with open(disk / "taken", "wb") as file:
        file.write(bytes((40 << 20) - (shutil.disk_usage(disk).used + (12 << 20))))
    with Broker(disk, overrides=SETTINGS) as broker:
        create_by_metadata("127.0.0.1", broker.port(), "t")
        wait_until(lambda: written(broker, [b"first"]) == 0, "the topic")
    assert reserve_bytes(broker) == -1
