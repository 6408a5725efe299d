"""Settings of topics that clients change while the broker runs: every process takes them over, no connection breaks,
and nothing acknowledged is lost, whoever dies."""

import time

from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)
from kafka.admin import ConfigResource as PythonResource
from kafka.admin import ConfigResourceType, KafkaAdminClient

from tests.harness.broker import Broker, wait_until

FEW_S = 15


def admin_of(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def create(broker: Broker, topic: str, **config: str) -> None:
    new = NewTopic(topic, 1, 1, config={name.replace("_", "."): value for name, value in config.items()})
    admin = admin_of(broker)
    admin.create_topics([new])[topic].result(FEW_S)


def change(admin: AdminClient, topic: str, operation: AlterConfigOpType = AlterConfigOpType.SET, **settings) -> None:
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=operation) for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(FEW_S)


def setting(admin: AdminClient, topic: str, name: str) -> tuple[str, int]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    found = admin.describe_configs([resource])[resource].result(FEW_S)[name]
    return found.value, found.source


class OpenConnection:
    """A producer that goes on over its one connection, whatever happens to single batches."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self._topic = topic
        self.lost: list[KafkaError] = []
        settings = {"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "error_cb": self.lost.append}
        self._producer = Producer(settings)

    def send(self, size: int) -> int:
        """Sends one record of so many bytes; the error code it got."""
        codes: list[int] = []
        self._producer.produce(
            self._topic, b"x" * size, on_delivery=lambda error, _: codes.append(error.code() if error else 0)
        )
        assert self._producer.flush(FEW_S) == 0
        return codes[0]


def test_the_next_larger_batch_is_refused_on_an_open_connection_and_after_a_restart(tmp_path):
    with Broker(tmp_path) as broker:
        create(broker, "t")
        admin, connection = admin_of(broker), OpenConnection(broker, "t")
        for _ in range(20):  # often enough for every handler to know the topic
            assert connection.send(5000) == 0
        change(admin, "t", max_message_bytes="2000")
        assert {connection.send(5000) for _ in range(20)} == {KafkaError.MSG_SIZE_TOO_LARGE}
        assert connection.send(500) == 0
        assert setting(admin, "t", "max.message.bytes") == ("2000", ConfigSource.DYNAMIC_TOPIC_CONFIG.value)
        assert connection.lost == []
    with Broker(tmp_path) as broker:
        assert OpenConnection(broker, "t").send(5000) == KafkaError.MSG_SIZE_TOO_LARGE
        admin = admin_of(broker)
        change(admin, "t", AlterConfigOpType.DELETE, max_message_bytes=None)
        assert OpenConnection(broker, "t").send(5000) == 0
        assert setting(admin, "t", "max.message.bytes")[1] == ConfigSource.DEFAULT_CONFIG.value


def test_a_shorter_retention_deletes_segments(tmp_path):
    with Broker(tmp_path, overrides={"log.retention.check.interval.ms": 100, "log.initial.task.delay.ms": 0}) as broker:
        create(broker, "t", segment_bytes="2000", file_delete_delay_ms="0")
        connection = OpenConnection(broker, "t")
        for _ in range(10):
            assert connection.send(1000) == 0
        directory = broker.data_dir / "t-0"
        assert len(list(directory.glob("*.log"))) >= 5
        time.sleep(0.3)
        assert len(list(directory.glob("*.log"))) >= 5
        admin = admin_of(broker)
        change(admin, "t", retention_ms="1")
        wait_until(lambda: len(list(directory.glob("*.log"))) <= 1, "old segments are deleted")
        assert connection.send(1000) == 0


def test_kafka_python_and_the_older_form(tmp_path):
    with Broker(tmp_path) as broker:
        create(broker, "t", retention_ms="5000", segment_bytes="5000")
        admin = admin_of(broker)
        older = ConfigResource(ResourceType.TOPIC, "t", set_config={"retention.ms": "6000"})
        admin.alter_configs([older])[older].result(FEW_S)
        assert setting(admin, "t", "retention.ms")[0] == "6000"
        assert setting(admin, "t", "segment.bytes")[1] == ConfigSource.DEFAULT_CONFIG.value
        python = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        try:
            python.alter_configs([PythonResource(ConfigResourceType.TOPIC, "t", configs={"retention.ms": "7000"})])
        finally:
            python.close()
        assert setting(admin, "t", "retention.ms")[0] == "7000"


def test_no_change_that_was_acknowledged_is_lost_when_the_controller_is_killed(tmp_path):
    with Broker(tmp_path) as broker:
        create(broker, "t")
        admin = admin_of(broker)
        for number in range(12):
            before = None
            if number % 3 == 0:
                before = broker.kill("controller", 0)
            change(admin, "t", retention_ms=str(10_000 + number))
            if before is not None:
                broker.wait_restarted("controller", 0, before)
            assert setting(admin, "t", "retention.ms")[0] == str(10_000 + number)
    with Broker(tmp_path) as broker:
        admin = admin_of(broker)
        assert setting(admin, "t", "retention.ms")[0] == "10011"


def test_the_controller_killed_between_store_and_answer(tmp_path):
    with Broker(tmp_path, env={"MPBROKER_CRASH": "controller.committed:2,controller.answer_ready:4"}) as broker:
        create(broker, "t")
        admin = admin_of(broker)
        for number in range(4):
            change(admin, "t", retention_ms=str(10_000 + number))
            assert setting(admin, "t", "retention.ms")[0] == str(10_000 + number)
        assert broker.row("controller")["incarnation"] >= 2
