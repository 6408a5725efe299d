"""Kafka's own TransactionalMessageCopier, as its system tests use it: it copies a topic in transactions, some of which
it aborts, while the broker's processes are killed and the copiers too; every message is there once.

`make clients` fetches it; without it these are skipped. LONG=1: both releases, more messages, more kills."""

import json
import os
import random
import subprocess
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from mpbroker.client.bootstrap import connect
from mpbroker.client.topic_admin import create_topic
from tests.clients.build import DIRECTORY, is_built
from tests.harness.broker import Broker, wait_until
from tests.harness.transaction_chain import PARTITIONS, copied

LONG = bool(os.environ.get("LONG"))
MESSAGES, KILLS, PATIENCE_S = (20_000, 40, 240) if LONG else (400, 2, 60)
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 5,
    "transaction.state.log.num.partitions": 5,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
    "num.io.threads": 2,
}
pytestmark = [pytest.mark.slow, pytest.mark.timeout(PATIENCE_S * 3)]


class Copier:
    """It copies one partition, and is started again where it was killed."""

    def __init__(self, name: str, bootstrap: str, partition: int, directory: Path) -> None:
        jars = f"{DIRECTORY / name}/jars/*"
        java = ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", jars]
        self._words = [
            *java, "org.apache.kafka.tools.TransactionalMessageCopier", "--broker-list", bootstrap,
            "--input-topic", "in", "--input-partition", str(partition), "--output-topic", "out",
            "--transactional-id", f"copier-{partition}", "--consumer-group", "copiers",
            "--transaction-size", "20", "--transaction-timeout", "5000",
            "--enable-random-aborts", "--use-group-metadata",
        ]  # fmt: skip
        self._output = directory / f"copier-{partition}.out"
        self.start()

    def start(self) -> None:
        with open(self._output, "ab") as log:
            self._process = subprocess.Popen(self._words, stdout=log, stderr=subprocess.STDOUT)

    def said(self) -> str:
        return self._output.read_text()

    def copied(self) -> int:
        """How many messages it says it has copied."""
        rows = [json.loads(line) for line in self.said().splitlines() if line.startswith("{")]
        return max((row.get("totalProcessed", 0) for row in rows), default=0)

    def is_done(self) -> bool:
        return self._process.poll() is not None

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def fill(broker):
    with connect(broker.bootstrap) as client:
        for topic in ("in", "out"):
            create_topic(client, topic, PARTITIONS, {})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for number in range(MESSAGES):
        producer.produce("in", b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(30) == 0


@pytest.mark.parametrize("name", ["tools-3.9", "tools-4"] if LONG else ["tools-4"])
def test_every_message_is_there_once(tmp_path, name):
    if not is_built(name):
        pytest.skip(f"{name} is not built: make clients")
    choice = random.Random(5)
    with Broker(tmp_path, overrides=SETTINGS) as broker:
        fill(broker)
        copiers = [Copier(name, broker.bootstrap, partition, tmp_path) for partition in range(PARTITIONS)]
        try:
            wait_until(lambda: any(one.copied() for one in copiers), "a copy", PATIENCE_S)
            for number in range(KILLS):
                for role in ("coordinator", "handler", "processor"):
                    broker.wait_restarted(role, 0, broker.kill(role, 0), 20)
                    time.sleep(choice.uniform(0.0, 0.2))
                if number % 4 == 1:
                    copiers[0].kill()
                    copiers[0].start()
            wait_until(lambda: all(one.is_done() for one in copiers), "the end of both", PATIENCE_S)
        finally:
            for one in copiers:
                one.kill()
        found = sorted(map(int, copied(broker.bootstrap, "out")))
        assert found == list(range(MESSAGES)), "\n".join(one.said()[-2000:] for one in copiers)
        aborted = set(map(int, copied(broker.bootstrap, "out", "read_uncommitted")))
        assert aborted == set(found)
