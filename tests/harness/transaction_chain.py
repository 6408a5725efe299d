"""A consume-process-produce chain of confluent-kafka: what was read and what came of it are committed together.

It goes on through errors as an application does: it aborts what can be aborted, and starts a new producer (the same
transactional id) otherwise. Some transactions it aborts of its own will. As a program, `python -m
tests.harness.transaction_chain BOOTSTRAP SOURCE TARGET SEED`, it speaks as those of other languages do
(tests/clients/java/Chain.java): a line for each transaction, `done` when its input was closed. CHAIN_DEBUG=eos,protocol
in the environment: what librdkafka has to say of these, on stderr.
"""

from __future__ import annotations

import os
import random
import sys
import threading
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

CALL_S = 20
PARTITIONS = 2
#: When all connections are down, librdkafka 2.16 throws its broker handles away and begins anew at the bootstrap
#: address (KIP-899). A handle with a request that waits to be repeated is never freed, and send_offsets_to_transaction
#: may hand the next request to it, which then waits for ever, beyond its timeout, without a connection.
CLIENT = {"metadata.recovery.strategy": "none", "log_level": 0}


class Chain(threading.Thread):
    """Copies every record of `source` to `target` until `records` were copied; `group` remembers how far. A copy is
    `partition offset attempt`; `say` is told what came of each attempt."""

    def __init__(
        self,
        bootstrap: str,
        source: str,
        target: str,
        records: float,
        seed: int = 1,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        super().__init__(daemon=True)
        self.bootstrap, self.source, self.target, self.records = bootstrap, source, target, records
        self.group = f"{target}-group"
        self.committed = self.aborted = self.producers = 0
        self.wrong: list[str] = []
        self.stopping = threading.Event()
        self._seed, self._say = seed, say
        self._random = random.Random(seed)

    def run(self) -> None:
        while not self.stopping.is_set() and self._left():
            try:
                self._work()
            except KafkaException as error:
                self.wrong.append(str(error))
                self._say(f"error {error}")

    def _consumer(self) -> Consumer:
        settings = {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
        return Consumer(settings | CLIENT)

    def offsets(self, consumer: Consumer) -> list[TopicPartition]:
        """How far the group is; a transaction that is not decided yet is waited for."""
        asked = [TopicPartition(self.source, number) for number in range(PARTITIONS)]
        return [
            TopicPartition(one.topic, one.partition, max(one.offset, 0)) for one in consumer.committed(asked, CALL_S)
        ]

    def _left(self) -> float:
        consumer = self._consumer()
        try:
            return self.records - sum(one.offset for one in self.offsets(consumer))
        except KafkaException:
            return self.records
        finally:
            consumer.close()

    def _work(self) -> None:
        """One producer, until it is of no use any more or everything is copied."""
        self.producers += 1
        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "transactional.id": f"{self.target}-tx",
            "transaction.timeout.ms": 5000,
            "linger.ms": 0,
            **CLIENT,
        }
        if debug := os.environ.get("CHAIN_DEBUG"):
            settings |= {"debug": debug, "log_level": 7}
        producer, consumer = Producer(settings), self._consumer()
        try:
            _again(producer.init_transactions, CALL_S)
            consumer.assign(self.offsets(consumer))
            left = self._left()
            while left > 0 and not self.stopping.is_set():
                messages = [one for one in consumer.consume(7, 1.0) if not one.error()]
                if messages:
                    left -= self._transaction(producer, consumer, messages)
        finally:
            consumer.close()

    def _transaction(self, producer: Producer, consumer: Consumer, messages: list[Any]) -> int:
        """How many records were copied: all of these, or none."""
        attempt = f"{self._seed}-{self.producers}-{self.committed + self.aborted}"
        try:
            producer.begin_transaction()
            for one in messages:
                value = f"{one.partition()} {one.offset()} {attempt}"
                producer.produce(self.target, value, partition=one.offset() % PARTITIONS)
            positions = consumer.position(consumer.assignment())
            _again(producer.send_offsets_to_transaction, positions, consumer.consumer_group_metadata(), CALL_S)
            if self._random.random() < 0.2:
                raise _Whim
            _again(producer.commit_transaction, CALL_S)
            self.committed += 1
            self._say(f"committed {attempt}")
            return len(messages)
        except (KafkaException, _Whim) as error:
            if isinstance(error, KafkaException) and not error.args[0].txn_requires_abort():
                self._say(f"unknown {attempt}")
                raise
            _again(producer.abort_transaction, CALL_S)
            self.aborted += 1
            self._say(f"aborted {attempt}")
            consumer.assign(self.offsets(consumer))
            return 0


class _Whim(Exception):
    """This one is aborted for no reason."""


def _again(call: Any, *arguments: Any) -> None:
    """Calls until it is through; what may be tried again is."""
    for _ in range(10):
        try:
            call(*arguments)
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
    call(*arguments)


def copies(values: list[bytes]) -> list[tuple[int, int]]:
    """Of which records these are copies: partition and offset."""
    return sorted((int(partition), int(offset)) for partition, offset, _ in map(bytes.split, values))


def copied(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[bytes]:
    """All records of a topic, as a reader sees them."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": isolation, "log_level": 0}
    consumer = Consumer(settings | {"enable.partition.eof": True, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found, ends = [], 0
    while ends < PARTITIONS:
        message = consumer.poll(10)
        assert message is not None, "the end of a partition is not reached: a transaction hangs"
        if message.error():
            ends += 1
        else:
            found.append(message.value())
    consumer.close()
    return found


def main() -> None:
    """Until the input is closed."""

    def say(line: str) -> None:
        print(line.replace("\n", " "), flush=True)

    bootstrap, source, target, seed = sys.argv[1:5]
    chain = Chain(bootstrap, source, target, float("inf"), int(seed), say)
    chain.start()
    while os.read(sys.stdin.fileno(), 4096):
        pass
    chain.stopping.set()
    chain.join()
    say("done")


if __name__ == "__main__":
    main()
