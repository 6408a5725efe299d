"""A log directory that an I/O error took offline: who asks for a partition in it is told so, and `status` says it."""

import shutil
import subprocess
import sys

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.harness.broker import Broker, wait_until
from tests.harness.raw_records import RawProducer

KAFKA_STORAGE_ERROR = 56
FEW_S = 15


def error_of(future) -> tuple[int, str]:
    with pytest.raises(KafkaException) as failed:
        future.result(FEW_S)
    return failed.value.args[0].code(), failed.value.args[0].str()


def test_nothing_is_made_in_an_offline_directory(tmp_path):
    """The directory of a partition vanishes under its broker: the next append to it fails with ENOENT."""
    broker = Broker(tmp_path, overrides={"log.segment.bytes": 1024}).start()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for topic in ("lost", "sound"):
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(FEW_S)
    shutil.rmtree(broker.data_dir / "lost-0")
    client = RawProducer("127.0.0.1", broker.port(), "lost")
    wait_until(lambda: client.produce(0, [b"v" * 600]).error == KAFKA_STORAGE_ERROR, "the append to fail")
    client.close()
    made = admin.create_topics([NewTopic("new", 2, 1)])["new"]
    assert error_of(made) == (KAFKA_STORAGE_ERROR, "The log directory is offline after an I/O error.")
    added = admin.create_partitions([NewPartitions("sound", 2)])["sound"]
    assert error_of(added) == (KAFKA_STORAGE_ERROR, "The log directory is offline after an I/O error.")
    assert "new" not in admin.list_topics(timeout=FEW_S).topics and not list(broker.data_dir.glob("new-*"))
    wait_until(lambda: broker.status()["health"]["state"] == "degraded", "the broker to be degraded")
    command = [sys.executable, "-m", "mpbroker", "status", "--check", "--data-dir", str(broker.data_dir)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert found.returncode == 1 and "the log directory is offline after an I/O error" in found.stdout
    broker.stop(check=False)  # exit code 1: it could not end cleanly
    broker.assert_nothing_left()
