"""A store that is older than the logs, or made anew by `adopt`: what only the logs know is not given out again."""

import shutil

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tests.harness.broker import Broker
from tests.integration.test_data_directory import RECORDS, adopt, lose_the_store
from tests.integration.test_log_keeping import create, read


@pytest.mark.parametrize("older", [False, True], ids=["adopted", "an older store put back"])
def test_producer_ids_in_the_logs_are_not_given_out_again(tmp_path, older):
    """The new producer's first records were taken for duplicates of the old one's: acknowledged, and not written."""
    broker, copy = Broker(tmp_path / "b"), tmp_path / "metadata.db"
    with broker:
        create(broker, "orders", **{"retention.ms": "-1"})
    shutil.copy(broker.data_dir / "metadata.db", copy)
    produce = {"acks": "all", "enable.idempotence": True, "linger.ms": 100}
    for life in range(2):
        if life:
            (broker.data_dir / "metadata.db").unlink()
            shutil.copy(copy, broker.data_dir / "metadata.db") if older else adopt(broker)
        with broker:
            producer = Producer({"bootstrap.servers": broker.bootstrap, **produce})
            for number in range(RECORDS):
                producer.produce("orders", b"%d" % number, partition=0)
            assert producer.flush(15) == 0
            assert len(read(broker, "orders", RECORDS * (life + 1))) == RECORDS * (life + 1)
    with broker:
        assert broker.log().count("producer_ids_passed") == 1, "once"


def test_an_older_store_costs_a_topic_that_it_does_not_know_none_of_its_partitions(tmp_path):
    broker = Broker(tmp_path, overrides={"log.segment.delete.delay.ms": "100"})
    with broker:
        create(broker, "first")
    shutil.copy(broker.data_dir / "metadata.db", tmp_path / "older.db")
    with broker:
        create(broker, "orders", partitions=10)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
        producer.produce("orders", b"record", partition=3)
        assert producer.flush(15) == 0
    lose_the_store(broker)
    shutil.copy(tmp_path / "older.db", broker.data_dir / "metadata.db")
    with broker:
        lines = [line for line in broker.log().splitlines() if "stray_directory" in line]
        assert len(lines) == 10 and all("mpbroker adopt" in line for line in lines)
    assert "taken in  orders: 10 partitions" in adopt(broker)
    with broker:
        found = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=15).topics
        assert len(found["orders"].partitions) == 10
