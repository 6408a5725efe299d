"""Transactions that are open in an adopted log and that no coordinator knows are named, and ended as the line says."""

import shutil
import subprocess
import sys

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from mpbroker.client.network_client import NetworkClient
from mpbroker.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from tests.harness.broker import Broker
from tests.integration.test_data_directory import adopt, lose_the_store
from tests.integration.test_log_keeping import create

pytestmark = pytest.mark.slow


def test_a_transaction_that_nobody_ends_is_named_by_adopt_and_ended_by_what_it_names(tmp_path):
    broker = Broker(tmp_path)
    with broker:
        create(broker, "orders", partitions=2)
        settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": "pay", "linger.ms": 0, "log_level": 0}
        producer = Producer(settings)
        producer.init_transactions(20)
        producer.begin_transaction()
        producer.produce("orders", b"done", partition=1)
        producer.commit_transaction(20)
        producer.begin_transaction()
        producer.produce("orders", b"open", partition=1)
        assert producer.flush(20) == 0
        [start] = open_in(broker, "orders", 1)
    lose_the_store(broker)
    for path in broker.data_dir.glob("__transaction_state-*"):
        shutil.rmtree(path)
    said = adopt(broker)
    assert f"transactions are open: orders-1 from offset {start} on, of producer" in said
    assert "`mpbroker txn abort --topic T --partition N --start-offset OFFSET` ends it" in said
    with broker:
        plain = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
        plain.produce("orders", b"later", partition=1)
        assert plain.flush(15) == 0
        assert read_committed(broker, "orders", 1) == [b"done"]
        place = ("--topic", "orders", "--partition", "1", "--start-offset", str(start))
        words = [sys.executable, "-m", "mpbroker", "txn", "abort", *place, "--bootstrap", broker.bootstrap]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
        assert done.stdout.startswith("aborted the transaction of producer ")
        assert read_committed(broker, "orders", 1) == [b"done", b"later"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
        assert done.stdout == f"no transaction is open in orders-1 from offset {start} on\n"
        done = subprocess.run([*words[:5], "pay", *words[5:]], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 2 and "name an ID, or --topic" in done.stderr


def open_in(broker: Broker, topic: str, partition: int) -> list[int]:
    """First offsets of the transactions that are open in a partition."""
    with NetworkClient("127.0.0.1", int(broker.bootstrap.rpartition(":")[2])) as client:
        request = DescribeProducersRequest([TopicRequest(topic, [partition])])
        [found] = client.call(request, DescribeProducersResponse, 0).topics[0].partitions
    starts = [one.current_txn_start_offset for one in found.active_producers]
    return [start for start in starts if start >= 0]


def read_committed(broker: Broker, topic: str, partition: int) -> list[bytes]:
    """What a reader of committed records gets, up to where it would wait."""
    settings = {"group.id": "g", "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, **settings})
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[bytes] = []
    while (message := consumer.poll(15)) is not None and not message.error():
        found.append(message.value())
    consumer.close()
    return found
