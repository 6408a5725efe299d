"""Kafka 3.9 with ZooKeeper beside a broker of ours, as replicas of one partition: who leads is told both by scripted
LeaderAndIsr and UpdateMetadata, the rest they do between themselves, with Kafka's own Fetch.

Kafka's broker is no member of the cluster and not in its store: what a controller would send it is sent here.
"""

import os
import socket
import threading
import time
from contextlib import suppress

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from mpbroker.client.network_client import NetworkClient
from mpbroker.protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from mpbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from mpbroker.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopicState,
)

CONTROLLER_EPOCH, ANY_LIFE = 1, -1
EMPTY_ANSWER_BYTES = 18  # correlation id, tags, throttle time, code, session, no topics, tags
PATIENCE_S = 30


class Replica:
    """A broker: its id, where clients, controllers and other brokers reach it, and where its logs are."""

    def __init__(self, node, client, control, between, log_dir):
        self.node, self.client, self.between, self.log_dir = node, client, between, log_dir
        self.control = NetworkClient(*control, "script", 10_000)

    def log(self, topic):
        """The bytes of its replica."""
        files = sorted((self.log_dir / f"{topic}-0").glob("*.log"))
        return b"".join(file.read_bytes() for file in files)


class Pair:
    """One partition on both. `epoch`: of the leader, as both were told last."""

    def __init__(self, ours, kafka):
        self.ours, self.kafka = ours, kafka
        self.topic = f"shared-{os.urandom(4).hex()}"  # Kafka keeps the one of an earlier run
        host, port = ours.client
        admin = AdminClient({"bootstrap.servers": f"{host}:{port}", "log_level": 0})
        admin.create_topics([NewTopic(self.topic, 1, 1)])[self.topic].result(20)
        client = NetworkClient(host, port, "script", 10_000)
        until = time.monotonic() + PATIENCE_S
        while not (found := self._look(client)):
            assert time.monotonic() < until
            time.sleep(0.1)
        self.topic_id, self.epoch = found
        client.close()

    def _look(self, client):
        (topic,) = client.call(
            MetadataRequest(topics=[MetadataRequestTopic(name=self.topic)]), MetadataResponse, 12
        ).topics
        if topic.error_code or not topic.partitions or topic.partitions[0].leader_id < 0:
            return None
        return topic.topic_id, topic.partitions[0].leader_epoch

    def lead(self, leader, is_new=False, alone=False):
        """The other one follows from now on, and counts as in sync; `alone`: it hears nothing, and does not count."""
        self.epoch += 1
        follower = self.ours if leader is self.kafka else self.kafka
        isr = [leader.node] if alone else [self.ours.node, self.kafka.node]
        for one in (leader,) if alone else (leader, follower):
            self._tell_brokers(one, leader, isr)
            self._tell_roles(one, leader, isr, is_new)

    def _tell_brokers(self, one, leader, isr):
        brokers = [
            UpdateMetadataBroker(
                id=each.node,
                endpoints=[
                    UpdateMetadataEndpoint(port=port, host=host, listener=name)
                    for name, (host, port) in (
                        ("PLAINTEXT", each.between if one is self.kafka else each.client),
                        ("INTERNAL", each.between),
                        ("CONTROL", each.between),
                        ("CONTROLLER", each.between),
                    )
                ],
            )
            for each in (self.ours, self.kafka)
        ]
        replicas = [self.ours.node, self.kafka.node]
        state = UpdateMetadataPartitionState(
            partition_index=0,
            controller_epoch=CONTROLLER_EPOCH,
            leader=leader.node,
            leader_epoch=self.epoch,
            isr=isr,
            replicas=replicas,
            zk_version=self.epoch,
        )
        topic = UpdateMetadataTopicState(topic_name=self.topic, topic_id=self.topic_id, partition_states=[state])
        request = UpdateMetadataRequest(
            controller_id=one.node,
            controller_epoch=CONTROLLER_EPOCH,
            broker_epoch=ANY_LIFE,
            topic_states=[topic],
            live_brokers=brokers,
        )
        assert one.control.call(request, UpdateMetadataResponse, 8).error_code == 0

    def _tell_roles(self, one, leader, isr, is_new):
        replicas = [self.ours.node, self.kafka.node]
        state = LeaderAndIsrPartitionState(
            partition_index=0,
            controller_epoch=CONTROLLER_EPOCH,
            leader=leader.node,
            leader_epoch=self.epoch,
            isr=isr,
            replicas=replicas,
            partition_epoch=self.epoch,
            is_new=is_new,
        )
        host, port = leader.between
        request = LeaderAndIsrRequest(
            controller_id=one.node,
            controller_epoch=CONTROLLER_EPOCH,
            broker_epoch=ANY_LIFE,
            topic_states=[
                LeaderAndIsrTopicState(topic_name=self.topic, topic_id=self.topic_id, partition_states=[state])
            ],
            live_leaders=[LeaderAndIsrLiveLeader(broker_id=leader.node, host_name=host, port=port)],
        )
        answer = one.control.call(request, LeaderAndIsrResponse, 7)
        codes = [each.error_code for topic in answer.topics for each in topic.partition_errors]
        assert (answer.error_code, codes) == (0, [0]), (one.node, answer)

    def write(self, leader, values, acks="all", **settings):
        """With acks=all both have them when this returns."""
        host, port = leader.client
        failed = []
        producer = Producer(
            {"bootstrap.servers": f"{host}:{port}", "acks": acks, "log_level": 0, "message.timeout.ms": 20_000}
            | settings
        )
        for value in values:
            producer.produce(
                self.topic, value, key=value[:3], partition=0, on_delivery=lambda e, m: failed.append(e) if e else None
            )
        assert producer.flush(25) == 0 and failed == []

    def same(self):
        """The bytes of both, once they are equal."""
        until = time.monotonic() + PATIENCE_S
        while (found := self.ours.log(self.topic)) != self.kafka.log(self.topic):
            assert time.monotonic() < until, (len(found), len(self.kafka.log(self.topic)))
            time.sleep(0.1)
        return found


class Tap:
    """Stands before a broker's listener and keeps what one connection after the other asks and is answered: frames
    without their length, an answer behind its request."""

    def __init__(self, behind):
        self._behind = behind
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = self._listening.getsockname()
        self.exchanges = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            asking, _ = self._listening.accept()
            threading.Thread(target=self._pass_on, args=(asking,), daemon=True).start()

    def _pass_on(self, asking):
        with suppress(OSError), asking, socket.create_connection(self._behind) as answering:
            while (asked := _frame(asking)) is not None:
                answering.sendall(len(asked).to_bytes(4, "big") + asked)
                answer = _frame(answering)
                if answer is None:
                    return
                self.exchanges.append((asked, answer))
                asking.sendall(len(answer).to_bytes(4, "big") + answer)


def _frame(connection):
    """None: the other side has gone."""
    length = connection.recv(4, socket.MSG_WAITALL)
    return connection.recv(int.from_bytes(length, "big"), socket.MSG_WAITALL) if len(length) == 4 else None


def record(pair, of_kafka, of_ours):
    """What Kafka asks as a follower and answers as a leader, `of_kafka` and `of_ours` being the taps before the brokers
    that answer: records, and logs that have parted."""
    found = {"topic_id": pair.topic_id.hex()}
    pair.lead(pair.ours, is_new=True)
    pair.write(pair.ours, [b"a%d" % number for number in range(5)])
    found["follower"] = {"first": _kept(pair, of_ours)}
    pair.lead(pair.kafka, alone=True)
    pair.write(pair.kafka, [b"k%d" % number for number in range(3)], acks="1")
    pair.lead(pair.ours)
    pair.write(pair.ours, [b"b%d" % number for number in range(2)])
    found["follower"]["parted"] = _kept(pair, of_ours)
    pair.lead(pair.ours, alone=True)
    pair.write(pair.ours, [b"o%d" % number for number in range(3)], acks="1")
    found["log_before"], of_kafka.exchanges[:] = pair.ours.log(pair.topic).hex(), []
    pair.lead(pair.kafka)
    pair.write(pair.kafka, [b"c%d" % number for number in range(2)])
    found["leader"] = _kept(pair, of_kafka)
    return found


def _kept(pair, tap):
    """The epoch, the bytes of both logs once they are equal, and the Fetch exchanges until then that say something."""
    log = pair.same()
    time.sleep(1)  # the answer behind the last records
    exchanges, tap.exchanges[:] = list(tap.exchanges), []
    fetches = [
        (asked, answer) for asked, answer in exchanges if asked[:2] == b"\0\1" and len(answer) > EMPTY_ANSWER_BYTES
    ]
    return {
        "epoch": pair.epoch,
        "log": log.hex(),
        "exchanges": [[asked.hex(), answer.hex()] for asked, answer in fetches],
    }
