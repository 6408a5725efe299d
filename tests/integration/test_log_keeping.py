"""The log keeper in a running broker: nothing is acknowledged before it is synced, whoever dies; old segments go."""

import signal
import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.harness.broker import Broker, wait_until

FEW_S = 15


class Acknowledged:
    """A producer that remembers what was acknowledged: offset → value."""

    def __init__(self, broker: Broker, **settings) -> None:
        self.offsets: dict[int, bytes] = {}
        self.failed: list = []
        self._producer = Producer(
            {"bootstrap.servers": broker.bootstrap, "acks": "1", "batch.num.messages": 10, **settings}
        )

    def send(self, topic: str, value: bytes, key: bytes | None = None) -> None:
        self._producer.produce(topic, value, key, partition=0, on_delivery=self._delivered)
        self._producer.poll(0)

    def poll(self) -> int:
        self._producer.poll(0.01)
        return len(self.offsets)

    def flush(self) -> None:
        assert self._producer.flush(FEW_S) == 0

    def _delivered(self, error, message) -> None:
        if error:
            self.failed.append(error)
        else:
            self.offsets[message.offset()] = message.value()


def create(broker: Broker, topic: str, partitions: int = 1, **config) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(FEW_S)


def read(broker: Broker, topic: str, end: int) -> dict[int, bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "unused",
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: dict[int, bytes] = {}
    deadline = time.monotonic() + FEW_S
    while len(found) < end and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and not message.error():
            found[message.offset()] = message.value()
    consumer.close()
    return found


def test_nothing_is_acknowledged_while_nothing_is_synced(tmp_path):
    """Not even the first record of a log; and each wakes its own producer."""
    with Broker(tmp_path, overrides={"mpbroker.log.flush": "commit"}) as broker:
        create(broker, "t")
        producer = Acknowledged(broker)
        log = broker.data_dir / "t-0" / f"{0:020d}.log"
        for number in range(2):
            broker.kill("log-keeper", number=signal.SIGSTOP)
            size = log.stat().st_size
            producer.send("t", b"%d" % number)
            wait_until(lambda size=size: (producer.poll(), log.stat().st_size)[1] > size, "the append")
            for _ in range(50):
                assert producer.poll() == number, "appended is not acknowledged: nobody has synced it"
            broker.kill("log-keeper", number=signal.SIGCONT)
            wait_until(lambda number=number: producer.poll() == number + 1, "the acknowledgement")
        assert producer.offsets == {0: b"0", 1: b"1"}


def test_the_keeper_may_be_killed_at_any_time(tmp_path):
    with Broker(tmp_path, overrides={"mpbroker.log.flush": "commit"}) as broker:
        create(broker, "t", **{"segment.bytes": "4096"})
        producer = Acknowledged(broker, **{"enable.idempotence": True, "acks": "all"})
        for number in range(6):
            for record in range(40):
                producer.send("t", b"%d-%d" % (number, record) + bytes(200))
                producer.poll()
            pid = broker.kill("log-keeper")
            broker.wait_restarted("log-keeper", 0, pid)
        producer.flush()
        assert not producer.failed and len(producer.offsets) == 240
        assert read(broker, "t", 240) == producer.offsets


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_everything_acknowledged_is_there_at_the_next_start(tmp_path, end):
    broker = Broker(tmp_path).start()
    create(broker, "t", **{"segment.bytes": "8192"})
    producer = Acknowledged(broker, **{"enable.idempotence": True, "acks": "all"})
    for record in range(300):
        producer.send("t", b"%d" % record + bytes(200))
    producer.flush()
    if end == "kill":
        broker.destroy()
    broker.stop(check=end == "stop")
    assert (broker.data_dir / ".kafka_cleanshutdown").exists() is (end == "stop")
    with Broker(tmp_path) as again:
        assert read(again, "t", 300) == producer.offsets
        lines = [line for line in again.log().splitlines() if "logs_loaded" in line]
        assert f"clean={end == 'stop'}" in lines[-1]
        assert not (again.data_dir / ".kafka_cleanshutdown").exists()


def test_retention_and_deletion_in_a_running_broker(tmp_path):
    settings = {
        "log.initial.task.delay.ms": 0,
        "log.retention.check.interval.ms": 100,
        "log.segment.delete.delay.ms": 500,
    }
    with Broker(tmp_path, overrides=settings) as broker:
        create(broker, "t", **{"segment.bytes": "8192", "retention.bytes": "16384"})
        producer = Acknowledged(broker)
        for record in range(300):
            producer.send("t", b"%d" % record + bytes(200))
            producer.flush()
        directory = broker.data_dir / "t-0"
        wait_until(lambda: len(list(directory.glob("*.log"))) == 3, "old segments to go: 30 records in each")
        wait_until(lambda: not list(directory.glob("*.deleted")), "their files to be unlinked")
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused", "enable.auto.commit": False})
        low, high = consumer.get_watermark_offsets(TopicPartition("t", 0), timeout=FEW_S)
        consumer.close()
        assert high == 300 and low == min(int(path.stem) for path in directory.glob("*.log")) > 0
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.delete_topics(["t"])["t"].result(FEW_S)
        wait_until(lambda: not list(broker.data_dir.glob("t-0*")), "the deleted topic's directory to go")
