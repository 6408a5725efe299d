"""A client that invents producer ids does not hinder honest idempotent producers, on its partition or another."""

import threading
from collections import Counter

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.harness.broker import Broker
from tests.harness.raw_client import RawConnection
from tests.harness.raw_records import batch, fetch_request, fetched, produce_request, produced, records_in

ROWS, TOPIC, BURST, LEAST_FLOOD = 64, "flooded", 50, 40 * 64
RAW_ID, FLOOD_FIRST_ID = 500_000_000, 1_000_000_000


@pytest.fixture
def small(tmp_path):
    """A broker with a small table of producers and a topic of two partitions."""
    overrides = {"mpbroker.max.producers": ROWS, "num.io.threads": 2}
    with Broker(tmp_path, overrides=overrides) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(20)
        yield broker


class Flood(threading.Thread):
    """Writes batches of one record, so many of each new id, to partition 0, until told to stop; `errors` counts the
    answers."""

    def __init__(self, port, batches=1):
        super().__init__()
        self.port, self.batches, self.errors, self.done = port, batches, Counter(), threading.Event()

    def run(self):
        with RawConnection(self.port) as connection:
            sent = 0
            while sent < LEAST_FLOOD or not self.done.is_set():
                for number in range(sent, sent + BURST):
                    producer, sequence = FLOOD_FIRST_ID + number // self.batches, number % self.batches
                    records = batch([b"flood"], producer=(producer, 0, sequence))
                    connection.send(produce_request(number, TOPIC, 0, records))
                for _ in range(BURST):
                    self.errors[produced(connection.receive()[1]).error] += 1
                sent += BURST


def write_honestly(broker, name, partition, count):
    """`count` records, each acknowledged before the next is written; returns what went wrong."""
    wrong = []
    settings = {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "linger.ms": 0}
    producer = Producer({**settings, "error_cb": wrong.append})
    for number in range(count):
        producer.produce(
            TOPIC,
            f"{name}-{number}".encode(),
            partition=partition,
            on_delivery=lambda error, _: wrong.append(error) if error else None,
        )
        assert producer.flush(20) == 0
    return wrong


def values(broker, partition):
    """Every value of a partition that is not the flood's."""
    found, offset = [], 0
    with RawConnection(broker.port()) as connection:
        while True:
            answer = fetched(connection.ask(fetch_request(1, TOPIC, partition, offset, max_bytes=1 << 22))[1])
            assert answer.error == 0
            records = list(records_in(answer.records, offset))
            if not records:
                return [value.decode() for value in found if value != b"flood"]
            found += [value for _, value in records]
            offset = records[-1][0] + 1


def raw(broker, sequence):
    """A batch of the raw producer on partition 0."""
    records = batch([f"raw-{sequence}".encode()], producer=(RAW_ID, 0, sequence))
    with RawConnection(broker.port()) as connection:
        return produced(connection.ask(produce_request(1, TOPIC, 0, records))[1])


@pytest.mark.parametrize("batches", [1, 2])
def test_a_flood_of_producer_ids_hinders_nobody(small, batches):
    """Nobody is refused. Ids that write twice each cannot be told from producers at work but by their age: an idle one
    may be forgotten."""
    first = [raw(small, sequence) for sequence in range(2)]
    assert [answer.error for answer in first] == [0, 0]
    flood = Flood(small.port(), batches)
    flood.start()
    wrong, want = [], {0: [f"raw-{sequence}" for sequence in range(2)], 1: []}
    try:
        for number in range(6):  # each is a new producer, in a table that is full
            for partition in (0, 1):
                wrong += write_honestly(small, f"p{number}", partition, 20)
                want[partition] += [f"p{number}-{record}" for record in range(20)]
    finally:
        flood.done.set()
        flood.join(60)
    assert wrong == []
    assert set(flood.errors) == {0}
    if batches == 1:
        assert raw(small, 1) == first[1], "still recognised as a duplicate"
    for partition in (0, 1):
        assert values(small, partition) == want[partition]
    counters = small.status()["counters"]
    assert counters["log_producers_full"] == 0
    assert counters["log_producers_replaced"] + counters["producers_forgotten"] >= LEAST_FLOOD // 2 // batches
