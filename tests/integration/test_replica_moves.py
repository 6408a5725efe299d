"""AlterReplicaLogDirs on a real broker: a producer that waits for every acknowledgement, a consumer group and a
transaction go on while their partitions move, whoever dies on the way and wherever."""

import os
import threading

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from mpbroker.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from mpbroker.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from tests.harness.broker import Broker, wait_until
from tests.harness.peer import Peer

pytestmark = pytest.mark.slow
WAIT_S = 30
DEATHS = (
    "mover.segment_copied:3",
    "mover.copied",
    "mover.checkpointed",
    "move.copied:2",
    "move.intent",
    "move.committed",
    "move.renamed:2",
    "move.retired:3",
    "move.finished:4",
    "mover.moved",
)
"""The n-th passing of the last ones is the keeper's in the n-th move: a repair passes them, too, and kills no client's
request twice."""


def paths(tmp_path):
    return [str(tmp_path / name) for name in ("data", "b", "c")]


def start(tmp_path, points="", **overrides):
    settings = {"num.io.threads": 2, "log.segment.bytes": 100_000, "log.segment.delete.delay.ms": 100} | overrides
    return Broker(
        tmp_path, overrides=settings, further_dirs=paths(tmp_path)[1:], env={"MPBROKER_CRASH": points} if points else {}
    )


def create(broker, topic, **config):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(WAIT_S)


def where(broker, topic, partition=0):
    """(path, is a future replica, records it lacks) of each place, the present one first."""
    with Peer(broker.port()) as peer:
        answer = peer.ask(DescribeLogDirsRequest(topics=None), 4)
    found = [
        (each.log_dir, p.is_future_key, p.offset_lag)
        for each in answer.results
        for t in each.topics
        for p in t.partitions
        if (t.name, p.partition_index) == (topic, partition)
    ]
    return sorted(found, key=lambda place: place[1])


def move(broker, path, topic, partition=0):
    with Peer(broker.port()) as peer:
        topics = [AlterReplicaLogDirTopic(name=topic, partitions=[partition])]
        answer = peer.ask(AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)]), 2)
    return answer.results[0].partitions[0].error_code


class Writer:
    """Writes numbers until it is told to stop; each is acknowledged once, in order."""

    def __init__(self, broker, topic):
        self.acknowledged, self.failed = [], []
        self._stop = threading.Event()
        self._producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "linger.ms": 1})
        self._topic = topic
        self._thread = threading.Thread(target=self._run)

    def _delivered(self, error, message):
        (self.failed if error else self.acknowledged).append((message.offset(), int(message.value()[:9])))

    def _run(self):
        number = 0
        while not self._stop.is_set():
            self._producer.produce(self._topic, b"%09d" % number + bytes(900), on_delivery=self._delivered)
            self._producer.flush(WAIT_S)
            number += 1
            self._stop.wait(0.001)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join(WAIT_S)


def read(broker, topic, count):
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while len(found) < count:
        message = consumer.poll(WAIT_S)
        assert message is not None, f"{len(found)} of {count}"
        if message.error() is None:
            found.append((message.offset(), int(message.value()[:9])))
    consumer.close()
    return found


def test_nothing_is_lost_or_doubled_whoever_dies_on_the_way(tmp_path):
    """Each death comes once: the successors go on, and end what was begun."""
    places = paths(tmp_path)
    with start(tmp_path, ",".join(DEATHS)) as broker:
        create(broker, "t")
        with Writer(broker, "t") as writer:
            wait_until(lambda: len(writer.acknowledged) > 300, "some records", WAIT_S)
            for number in range(4):
                [(here, _, _)] = where(broker, "t")
                there = places[(places.index(here) + 1) % 3]
                assert move(broker, there, "t") == 0
                wait_until(lambda: where(broker, "t") == [(there, False, 0)], f"move {number}", WAIT_S)  # noqa: B023
        assert not writer.failed
        assert read(broker, "t", len(writer.acknowledged)) == writer.acknowledged
        assert broker.log().count("worker_died") >= len(DEATHS) - 1
        [(here, _, _)] = where(broker, "t")
        broker.destroy()
        broker.start()
        assert where(broker, "t")[0][0] == here
        assert read(broker, "t", len(writer.acknowledged)) == writer.acknowledged
        assert [os.path.exists(f"{path}/t-0") for path in places] == [path == here for path in places]


def test_a_move_goes_on_after_a_start_and_can_be_called_off(tmp_path):
    places = paths(tmp_path)
    slow = {"replica.alter.log.dirs.io.max.bytes.per.second": 20_000}
    with start(tmp_path, **slow) as broker:
        create(broker, "t")
        with Writer(broker, "t") as writer:
            wait_until(lambda: len(writer.acknowledged) > 600, "some records", WAIT_S)
        [(here, _, _)] = where(broker, "t")
        first, second = [path for path in places if path != here]
        assert move(broker, first, "t") == 0
        (_, (to, is_future, lag)) = where(broker, "t")
        assert (to, is_future) == (first, True) and lag > 0
        assert move(broker, second, "t") == 0 and where(broker, "t")[1][0] == second
        assert move(broker, here, "t") == 0 and where(broker, "t") == [(here, False, 0)]
        assert move(broker, second, "t") == 0
        broker.destroy()
        broker.start()
        assert where(broker, "t")[1][:2] == (second, True)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.delete_topics(["t"])["t"].result(WAIT_S)
        wait_until(
            lambda: not [n for p in places for n in os.listdir(p) if n.startswith("t-0")], "nothing of it", WAIT_S
        )
