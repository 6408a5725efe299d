"""DeleteRecords with real clients: what an answer said of a log's beginning holds over every death and restart."""

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient
from kafka import TopicPartition as KafkaPythonPartition

from mpbroker.log.checkpoint_file import LOG_START, read_checkpoint
from tests.harness.broker import Broker, wait_until

WAIT_S = 20
SMALL = {"segment.bytes": "1000", "file.delete.delay.ms": "100"}
QUICK = {"log.retention.check.interval.ms": 200, "log.initial.task.delay.ms": 100, "log.segment.delete.delay.ms": 100}


def admin_of(broker):
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def fill(broker, topic, count, **config):
    admin = admin_of(broker)
    admin.create_topics([NewTopic(topic, 1, 1, config={**SMALL, **config})])[topic].result(WAIT_S)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "batch.num.messages": 1})
    for number in range(count):
        producer.produce(topic, b"%04d" % number + bytes(100), partition=0)
    assert producer.flush(WAIT_S) == 0


def delete(broker, topic, offset):
    asked = TopicPartition(topic, 0, offset)
    admin = admin_of(broker)
    return admin.delete_records([asked], request_timeout=WAIT_S)[asked].result(WAIT_S).low_watermark


def watermarks(broker, topic):
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    found = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT_S)
    consumer.close()
    return found


def first_read(broker, topic, **settings):
    """(offset, value) of the first record that a reader from the very beginning gets."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "g", "auto.offset.reset": "earliest", **settings}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    for _ in range(WAIT_S):
        message = consumer.poll(1)
        if message is not None and not message.error():
            break
    consumer.close()
    return message.offset(), int(message.value()[:4])


def test_clients_delete_and_the_disk_gets_it_back(tmp_path):
    with Broker(tmp_path, overrides=QUICK) as broker:
        fill(broker, "t", 60, **{"retention.ms": "-1"})
        log = broker.data_dir / "t-0"
        before = len(list(log.glob("*.log")))
        assert delete(broker, "t", 25) == 25
        assert watermarks(broker, "t") == (25, 60)
        assert first_read(broker, "t") == (25, 25)
        wait_until(lambda: len(list(log.glob("*.log"))) < before - 2, "segments given back")
        wait_until(lambda: not list(log.glob("*.deleted")), "files unlinked")
        python = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        partition = KafkaPythonPartition("t", 0)
        answer = python.delete_records({partition: 40})
        python.close()
        assert answer[partition]["low_watermark"] == 40 and answer[partition]["error_code"] == 0
        assert delete(broker, "t", -1) == 60 and watermarks(broker, "t") == (60, 60)


def test_deaths_on_the_way_are_not_noticed_and_nothing_comes_back(tmp_path):
    """A death at each step of three deletions; after the last answer everything dies at once."""
    points = "delete_records.committed,keeper.start.begin:2,keeper.start.checkpointed:3"
    with Broker(tmp_path, overrides={"num.io.threads": 2}, env={"MPBROKER_CRASH": points}) as broker:
        fill(broker, "t", 30)
        for deaths, offset in enumerate((5, 11, 17), 1):
            assert delete(broker, "t", offset) == offset
            assert read_checkpoint(str(broker.data_dir / LOG_START)) == {("t", 0): offset}
            wait_until(lambda deaths=deaths: broker.log().count("worker_died") == deaths, "the death")
        broker.destroy()
        broker.start()
        assert watermarks(broker, "t") == (17, 30) and first_read(broker, "t") == (17, 17)
