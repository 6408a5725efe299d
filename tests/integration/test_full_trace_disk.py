"""A trace directory in which nothing can be written: the broker starts and serves; traces go on once it can be."""

import subprocess

import pytest
from confluent_kafka import Producer

from tests.harness.broker import Broker, wait_until


def produce(broker: Broker, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
    for _ in range(count):
        producer.produce("t", b"v")
    assert producer.flush(15) == 0


def test_a_manifest_that_cannot_be_written_forbids_no_start(tmp_path):
    """As on a full disk: what a start writes first is the manifest's lines for the segments of the last run."""
    broker = Broker(tmp_path)
    traces = broker.data_dir / "traces"
    with broker:
        produce(broker, 20)
    segments = len(list(traces.glob("b*")))
    (traces / "manifest.jsonl").unlink()
    (traces / "manifest.jsonl").mkdir()

    def failed(starts):
        wait_until(lambda: broker.log().count("trace_write_failed") == starts, "the line about the traces", 20)

    for start in (1, 2):
        with broker:
            produce(broker, 20)
            failed(start)
            assert all(row["restarts"] == 0 for row in broker.status()["processes"])
    with broker:
        produce(broker, 20)
        failed(3)
        (traces / "manifest.jsonl").rmdir()
        wait_until(lambda: "trace_writing_again" in broker.log(), "the tracer to begin again", 15)
        produce(broker, 20)
    assert len(list(traces.glob("b*"))) > segments


@pytest.fixture
def disk_without_inodes(tmp_path):
    """A disk with room for bytes and for no further file. Skips where no disk can be mounted."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64m,nr_inodes=2", "tmpfs", disk]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    (disk / "fill").touch()
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def test_a_trace_directory_that_cannot_be_made_on_a_full_disk_forbids_no_start(tmp_path, disk_without_inodes):
    """It is made once there is room, and nothing is restarted meanwhile."""
    disk = disk_without_inodes
    traces = disk / "of" / "brokers"
    with Broker(tmp_path, overrides={"mpbroker.trace.dir": str(traces)}) as broker:
        wait_until(lambda: "trace_write_failed" in broker.log(), "the line about the traces")
        produce(broker, 20)
        assert list(disk.iterdir()) == [disk / "fill"] and "No space left on device" in broker.log()
        subprocess.run(["mount", "-o", "remount,nr_inodes=1000", disk], check=True)
        wait_until(lambda: "trace_writing_again" in broker.log(), "the tracer to begin", 15)
        produce(broker, 20)
        assert traces.stat().st_mode & 0o777 == 0o700
        assert all(row["restarts"] == 0 for row in broker.status()["processes"])
    assert len(list(traces.glob("b*"))) > 0
