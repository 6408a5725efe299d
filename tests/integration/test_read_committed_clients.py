"""Readers of committed records, by real clients, on a log with committed, aborted and open transactions."""

import time
from itertools import islice

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPythonPartition

from tests.harness.broker import Broker
from tests.harness.peer import Peer, create_topic

pytestmark = pytest.mark.slow
RECORDS = 10


def read(address: str, isolation: str) -> list[str]:
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": isolation,
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition("t", 0, 0)])
    found, until = [], time.monotonic() + 20
    while time.monotonic() < until:
        message = consumer.poll(1)
        if message is not None and message.error():
            break  # the end, for readers of this kind
        if message is not None:
            found.append(message.value().decode())
    consumer.close()
    return found


def test_they_get_what_was_committed_also_after_a_restart(tmp_path):
    with Broker(tmp_path) as broker:
        address = broker.bootstrap
        with Peer(broker.port()) as peer:
            create_topic(peer, "t", 1)
        producer = Producer({"bootstrap.servers": address, "transactional.id": "tx"})
        producer.init_transactions(20)
        for number in range(4):
            producer.begin_transaction()
            for _ in range(RECORDS):
                producer.produce("t", f"{number}".encode(), partition=0)
            producer.flush(10)
            (producer.abort_transaction if number % 2 else producer.commit_transaction)(10)
        producer.begin_transaction()
        producer.produce("t", b"open", partition=0)
        producer.flush(10)
        wanted = ["0"] * RECORDS + ["2"] * RECORDS
        assert read(address, "read_committed") == wanted
        assert len(read(address, "read_uncommitted")) == 4 * RECORDS + 1
        other = KafkaConsumer(bootstrap_servers=address, isolation_level="read_committed", consumer_timeout_ms=20_000)
        other.assign([KafkaPythonPartition("t", 0)])
        other.seek_to_beginning()
        assert [message.value.decode() for message in islice(other, len(wanted))] == wanted
        other.close()
        producer.abort_transaction(10)
    with Broker(tmp_path) as broker:
        assert read(broker.bootstrap, "read_committed") == wanted
