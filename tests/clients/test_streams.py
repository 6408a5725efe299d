"""Kafka Streams counts words with exactly_once_v2, as its first tutorial does, while the program and the broker's
processes are killed: every word is counted once. With Streams 3.9 (transactions of version 1) and 4 (version 2).

`make clients` builds the program; without it these are skipped. LONG=1: both releases, more lines, more kills."""

import os
import random
import subprocess
import time
from collections import Counter

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from mpbroker.client.bootstrap import connect
from mpbroker.client.topic_admin import create_topic
from tests.clients.build import DIRECTORY, is_built
from tests.harness.broker import Broker, wait_until

LONG = bool(os.environ.get("LONG"))
LINES, KILLS, PATIENCE_S = (20_000, 30, 240) if LONG else (200, 1, 60)
SOURCE, TARGET, PARTITIONS = "lines", "counts", 2
WORDS = ("all", "streams", "lead", "to", "kafka")
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 5,
    "transaction.state.log.num.partitions": 5,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
    "num.io.threads": 2,
}
pytestmark = [pytest.mark.slow, pytest.mark.timeout(PATIENCE_S * 3)]


class Application:
    """The program, started again when it was killed."""

    def __init__(self, name: str, bootstrap: str, directory: object) -> None:
        where = DIRECTORY / name
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
        machine = ["java", "-Xmx192m", "-XX:TieredStopAtLevel=1", quiet, "-cp", f"{where}:{where}/jars/*"]
        self._words = [*machine, "WordCount", bootstrap, f"count-{name}", SOURCE, TARGET, str(directory)]
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def counted(bootstrap: str) -> dict[str, list[int]]:
    """What readers of committed records see: word → its counts, in their order."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": "read_committed"}
    consumer = Consumer(settings | {"enable.partition.eof": True, "enable.auto.commit": False, "log_level": 0})
    consumer.assign([TopicPartition(TARGET, number, 0) for number in range(PARTITIONS)])
    found: dict[str, list[int]] = {}
    at_the_end: set[int] = set()
    while len(at_the_end) < PARTITIONS:
        message = consumer.poll(10)
        assert message is not None, "a partition has no end"
        if message.error():
            at_the_end.add(message.partition())
        else:
            found.setdefault(message.key().decode(), []).append(int(message.value()))
    consumer.close()
    return found


def produce(bootstrap: str, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
    for number in range(first, first + count):
        producer.produce(SOURCE, f"{WORDS[number % 5]} {WORDS[number % 3]}", partition=number % PARTITIONS)
    assert producer.flush(30) == 0


@pytest.mark.parametrize("name", ["streams-3.9", "streams-4"] if LONG else ["streams-4"])
def test_every_word_is_counted_once(tmp_path, name):
    if not is_built(name):
        pytest.skip(f"{name} is not built: make clients")
    choice, slice_of = random.Random(3), LINES // (KILLS + 1)
    with Broker(tmp_path, overrides=SETTINGS) as broker:
        with connect(broker.bootstrap) as client:
            for topic in (SOURCE, TARGET):
                create_topic(client, topic, PARTITIONS, {})
        application = Application(name, broker.bootstrap, tmp_path / "state")
        try:
            for number in range(KILLS + 1):
                produce(broker.bootstrap, number * slice_of, slice_of)
                some = 2 * slice_of * number + 1
                wait_until(lambda some=some: seen(broker.bootstrap) >= some, "the application counts", PATIENCE_S)
                if number < KILLS:
                    for role in ("coordinator", "handler"):
                        broker.wait_restarted(role, 0, broker.kill(role, 0), 20)
                        time.sleep(choice.uniform(0.0, 0.2))
                    application.kill()
                    application.start()
            everything = 2 * slice_of * (KILLS + 1)
            wait_until(lambda: seen(broker.bootstrap) >= everything, "all of it", PATIENCE_S)
        finally:
            application.kill()
        lines = range(slice_of * (KILLS + 1))
        expected = Counter(word for one in lines for word in (WORDS[one % 5], WORDS[one % 3]))
        for word, counts in counted(broker.bootstrap).items():
            assert counts == list(range(1, expected[word] + 1)), word


def seen(bootstrap: str) -> int:
    """Counts that were committed so far."""
    return sum(len(counts) for counts in counted(bootstrap).values())
