"""Writers of numbered records with acks=all to a cluster: librdkafka idempotent and plain, kafka-python plain, and raw
requests. What came of each record is noted in the history.

All but the idempotent have one record in flight for each partition, so within a session (until an answer is missing)
the order holds. kafka-python without retries and the raw one never send a record twice, so nothing may be there twice;
librdkafka sends again after NOT_LEADER_OR_FOLLOWER whatever `retries` says, and a leader that is deposed answers that
of what it has appended, as Kafka's does (MAY_REPEAT).
"""

import threading
import time
from contextlib import suppress

import kafka
from confluent_kafka import KafkaException, Producer
from kafka.errors import KafkaError as KafkaPythonError

from tests.chaos.clients import Client
from tests.cluster.readers import Leaders
from tests.harness.checker import Anomaly
from tests.harness.history import FAILED, OK, UNKNOWN, Write, payload
from tests.harness.raw_records import RawProducer

MAY_REPEAT = "plain"
NOT_ENOUGH_REPLICAS = 19  # the only refusal after which nothing was appended for certain
NO_OFFSET = -1  # DUPLICATE_SEQUENCE_NUMBER says that a record is there, not where
PLAIN_TIMEOUT_MS = 4000
PATIENCE_S = 150


class Idempotent(Client):
    """It retries as much as it likes; nothing may be there twice, lost or out of order.

    A broker may tell of a gap because it, or the leader before it, refused what came before. If the oldest batch is
    refused so that nobody acknowledged, a broker is wrong: librdkafka knows, and ends with a fatal error ("sequence
    desynchronization with broker").
    """

    def __init__(self, name, history, seed, bootstrap, topic, partitions, pause_s=0.002):
        super().__init__(name, history, seed)
        self._settings = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 2,
            "message.timeout.ms": PATIENCE_S * 1000 - 10_000,
            "socket.timeout.ms": 10_000,
            "reconnect.backoff.max.ms": 500,
            "topic.metadata.refresh.interval.ms": 2000,
            "log_level": 0,
            "client.id": name,
        }
        self._topic, self._partitions, self._pause_s = topic, partitions, pause_s
        self._counter, self.lives, self.fatal, self.found = 0, 0, [], []
        self._producer = Producer(self._settings)

    def step(self):
        """Queue one record."""
        counter, self._counter = self._counter, self._counter + 1
        partition, life, start_ns = self.random.randrange(self._partitions), self.lives, time.monotonic_ns()

        def delivered(error, message):
            result, offset = (UNKNOWN, -1) if error else (OK, message.offset())
            offset = NO_OFFSET if offset is None else offset
            if error is not None and error.code() not in (-140, -192, -150):
                self.fatal.append(f"{self.name}: {error}")
            end_ns = time.monotonic_ns()
            self.history.add(Write(self.name, str(life), partition, counter, start_ns, end_ns, result, offset))

        value = payload((self.name, counter), self.random.choice((0, 100, 2000)))
        try:
            self._producer.produce(self._topic, value, partition=partition, on_delivery=delivered)
        except BufferError:
            self._counter -= 1
        except KafkaException as error:
            self._counter -= 1
            self.fatal.append(f"{self.name}: {error}")
            self._begin_again()
        self._poll(self._pause_s)

    def _poll(self, timeout_s):
        """Here confluent-kafka raises a fatal error, with the code that it is made of."""
        try:
            self._producer.poll(timeout_s)
        except KafkaException as error:
            self.found.append(Anomaly("fatal", -1, f"{self.name}: {error}"))

    def _begin_again(self):
        """Its life ended with an error that it cannot mend, which every call of it may raise: confluent-kafka's flush
        lets callbacks run while it does, and Python calls that a SystemError."""
        deadline = time.monotonic() + PATIENCE_S
        while len(self._producer) and time.monotonic() < deadline:
            with suppress(SystemError):
                self._poll(0.1)
        self.lives += 1
        self._producer = Producer(self._settings)

    def finish(self):
        """Wait until every record is delivered or given up."""
        left = self._producer.flush(PATIENCE_S)
        assert left == 0, f"{left} records of {self.name} have neither been delivered nor given up"

    def close(self):
        """Ends its threads, which would look for its broker for as long as this process lives, where another may have
        its port by then. Nothing is in flight."""
        self._producer.close(1)


class Plain(Client):
    """librdkafka without idempotence and retries; `partition` is its only one."""

    def __init__(self, name, history, seed, bootstrap, topic, partition, pause_s=0.005):
        super().__init__(name, history, seed)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "retries": 0,
                "linger.ms": 0,
                "message.timeout.ms": PLAIN_TIMEOUT_MS,
                "request.timeout.ms": PLAIN_TIMEOUT_MS,
                "reconnect.backoff.max.ms": 500,
                "topic.metadata.refresh.interval.ms": 2000,
                "log_level": 0,
            }
        )
        self._topic, self._partition, self._pause_s = topic, partition, pause_s
        self._counter, self._session = 0, 0

    def step(self):
        """One record, and its answer."""
        counter, self._counter = self._counter, self._counter + 1
        answered, told, start_ns = threading.Event(), [], time.monotonic_ns()

        def delivered(error, message):
            told.append((error.code() if error else 0, message.offset(), time.monotonic_ns()))
            answered.set()

        value = payload((self.name, counter), 100)
        self._producer.produce(self._topic, value, partition=self._partition, on_delivery=delivered)
        deadline = time.monotonic() + PATIENCE_S
        while not answered.is_set():
            assert time.monotonic() < deadline, f"{self.name} is not told what became of a record"
            self._producer.poll(0.1)
        code, offset, end_ns = told[0]
        self._note(counter, start_ns, end_ns, code, offset)

    def _note(self, counter, start_ns, end_ns, code, offset):
        refused = code == NOT_ENOUGH_REPLICAS and not self.name.startswith(MAY_REPEAT)
        result = OK if code == 0 else FAILED if refused else UNKNOWN
        where = offset if result == OK else -1
        self.history.add(
            Write(self.name, str(self._session), self._partition, counter, start_ns, end_ns, result, where)
        )
        if result == UNKNOWN:
            self._session += 1
        time.sleep(self._pause_s)


class KafkaPython(Plain):
    """The same with kafka-python."""

    def __init__(self, name, history, seed, bootstrap, topic, partition, pause_s=0.01):
        Client.__init__(self, name, history, seed)
        self._topic, self._partition, self._pause_s = topic, partition, pause_s
        self._counter, self._session = 0, 0
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap.split(","),
            acks="all",
            retries=0,
            enable_idempotence=False,
            max_in_flight_requests_per_connection=1,
            linger_ms=0,
            request_timeout_ms=PLAIN_TIMEOUT_MS,
            delivery_timeout_ms=PLAIN_TIMEOUT_MS + 500,
            max_block_ms=PLAIN_TIMEOUT_MS,
            metadata_max_age_ms=2000,
            reconnect_backoff_max_ms=500,
        )

    def step(self):
        """One record, and its answer."""
        counter, self._counter = self._counter, self._counter + 1
        start_ns = time.monotonic_ns()
        value = payload((self.name, counter), 50)
        code, offset = 0, -1
        try:
            offset = self._producer.send(self._topic, value, partition=self._partition).get(PATIENCE_S).offset
        except KafkaPythonError as error:
            code = getattr(error, "errno", 0) or -1
        self._note(counter, start_ns, time.monotonic_ns(), code, offset)

    def finish(self):
        """Leave."""
        self._producer.close(timeout=5)


class NeverRetries(Plain):
    """Requests built byte by byte to whoever leads."""

    def __init__(self, name, history, seed, bootstrap, topic, partition, pause_s=0.005):
        Client.__init__(self, name, history, seed)
        self._leaders = Leaders(bootstrap, topic)
        self._topic, self._partition, self._pause_s = topic, partition, pause_s
        self._counter, self._session = 0, 0
        self._producers = {}

    def step(self):
        """One record, and its answer."""
        leader = self._leaders.of(self._partition)
        if leader is None:
            time.sleep(0.05)
            return
        address = leader[1]
        producer = self._producers.get(address)
        if producer is None:
            producer = self._producers[address] = RawProducer(*address, self._topic, PLAIN_TIMEOUT_MS / 1000)
        counter, self._counter = self._counter, self._counter + 1
        start_ns = time.monotonic_ns()
        answer = producer.produce(self._partition, [payload((self.name, counter), 100)])
        code, offset = (-1, -1) if answer is None else answer
        self._note(counter, start_ns, time.monotonic_ns(), code, offset)
        if code:
            self._leaders.refresh()

    def finish(self):
        """Leave."""
        self._leaders.close()
        for producer in self._producers.values():
            producer.close()
