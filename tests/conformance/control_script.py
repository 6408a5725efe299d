"""A script of LeaderAndIsr, StopReplica and UpdateMetadata for one broker, ours or Kafka's 3.9 with ZooKeeper, with
what it answers: the code of the whole and of each partition.

Kafka's outcomes are recorded (kafka_3_9_control_outcomes.json):
`python -m tests.conformance.control_script CLIENT_HOST:PORT CONTROL_HOST:PORT > FILE`.
"""

import json
import sys
import time

from confluent_kafka.admin import AdminClient, NewTopic

from mpbroker.client.network_client import NetworkClient
from mpbroker.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from mpbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from mpbroker.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from mpbroker.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopicState,
)

TOPIC, OTHER, NOBODY = "scripted", 9, b"\7" * 16
OLD, OWN, LATER = 0, -1, 1 << 60  # broker epochs
ROLE = {"epoch": 1, "leader": 0, "replicas": (0, OTHER), "controller": 1, "broker": OWN, "id": None}
STOP = {"epoch": 1, "delete": False, "partition": 0, "controller": 1, "broker": OWN}
STEPS = [
    ("leads", "L", {"epoch": 1}),
    ("the same again", "L", {"epoch": 1}),
    ("an older leader epoch", "L", {"epoch": 0}),
    ("an older controller", "L", {"epoch": 2, "controller": 0}),
    ("an older life of the broker", "L", {"epoch": 2, "broker": OLD}),
    ("a later life of the broker", "L", {"epoch": 2, "broker": LATER}),
    ("another topic of this name", "L", {"epoch": 3, "id": NOBODY}),
    ("not one of the replicas", "L", {"epoch": 3, "replicas": (OTHER, OTHER + 1), "leader": OTHER}),
    ("others of this life are known", "U", {}),
    ("metadata of an older controller", "U", {"controller": 0}),
    ("metadata for an older life", "U", {"broker": OLD}),
    ("follows", "L", {"epoch": 4, "leader": OTHER}),
    ("follows, again", "L", {"epoch": 4, "leader": OTHER}),
    ("leads in the epoch in which it followed", "L", {"epoch": 4}),
    ("stops in an older epoch", "S", {"epoch": 3}),
    ("stops for an older controller", "S", {"epoch": 4, "controller": 0}),
    ("stops for an older life", "S", {"epoch": 4, "broker": OLD}),
    ("stops", "S", {"epoch": 4}),
    ("stops again", "S", {"epoch": 4}),
    ("leads in the epoch in which it stopped", "L", {"epoch": 4}),
    ("stops in no epoch", "S", {"epoch": -1}),
    ("stops before a deletion", "S", {"epoch": -2}),
    ("stops what is not here", "S", {"epoch": 4, "partition": 5}),
    ("leads later", "L", {"epoch": 6}),
    ("stops in a later epoch", "S", {"epoch": 7}),
    ("leads in an epoch before that", "L", {"epoch": 7}),
]


class ControlScript:
    """Plays the steps to one broker."""

    def __init__(self, client, control):
        self._client, self._control = client, NetworkClient(*control, "script", 10_000)
        self.node = self.base = -1
        self.topic_id = b""

    def prepare(self):
        """A topic with one replica, whose epoch the script counts from."""
        host, port = self._client
        admin = AdminClient({"bootstrap.servers": f"{host}:{port}", "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(20)
        client, deadline = NetworkClient(host, port, "script", 10_000), time.monotonic() + 20
        while True:
            asked = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
            (topic,) = client.call(asked, MetadataResponse, 12).topics
            if topic.error_code == 0 and topic.partitions and topic.partitions[0].leader_id >= 0:
                break
            assert time.monotonic() < deadline, topic
            time.sleep(0.1)
        self.node, self.base = topic.partitions[0].leader_id, topic.partitions[0].leader_epoch
        self.topic_id = topic.topic_id
        client.close()

    def run(self):
        """What → [code of the whole, codes of partitions]."""
        play = {"L": self._role, "S": self._stop, "U": self._metadata}
        return {what: play[kind](given) for what, kind, given in STEPS}

    def _role(self, given):
        asked = ROLE | given
        me = {0: self.node}
        replicas = [me.get(one, one) for one in asked["replicas"]]
        state = LeaderAndIsrPartitionState(
            partition_index=0, controller_epoch=asked["controller"], leader=me.get(asked["leader"], asked["leader"]),
            leader_epoch=self.base + asked["epoch"], isr=replicas, replicas=replicas,
            partition_epoch=asked["epoch"], is_new=False,
        )  # fmt: skip
        topic_id = asked["id"] or self.topic_id
        topic = LeaderAndIsrTopicState(topic_name=TOPIC, topic_id=topic_id, partition_states=[state])
        request = LeaderAndIsrRequest(
            controller_id=self.node, controller_epoch=asked["controller"], broker_epoch=asked["broker"],
            topic_states=[topic],
        )  # fmt: skip
        answer = self._control.call(request, LeaderAndIsrResponse, 7)
        return [answer.error_code, [one.error_code for topic in answer.topics for one in topic.partition_errors]]

    def _stop(self, given):
        asked = STOP | given
        epoch = asked["epoch"] if asked["epoch"] < 0 else self.base + asked["epoch"]
        state = StopReplicaPartitionState(
            partition_index=asked["partition"], leader_epoch=epoch, delete_partition=asked["delete"]
        )
        request = StopReplicaRequest(
            controller_id=self.node, controller_epoch=asked["controller"], broker_epoch=asked["broker"],
            topic_states=[StopReplicaTopicState(topic_name=TOPIC, partition_states=[state])],
        )  # fmt: skip
        answer = self._control.call(request, StopReplicaResponse, 4)
        return [answer.error_code, [one.error_code for one in answer.partition_errors]]

    def _metadata(self, given):
        asked = ROLE | given
        replicas = [self.node, OTHER]
        state = UpdateMetadataPartitionState(
            partition_index=0, controller_epoch=asked["controller"], leader=self.node, leader_epoch=self.base + 3,
            isr=replicas, replicas=replicas,
        )  # fmt: skip
        topic = UpdateMetadataTopicState(topic_name=TOPIC, topic_id=self.topic_id, partition_states=[state])
        request = UpdateMetadataRequest(
            controller_id=self.node, controller_epoch=asked["controller"], broker_epoch=asked["broker"],
            topic_states=[topic], live_brokers=[self._broker(self.node), self._broker(OTHER)],
        )  # fmt: skip
        return [self._control.call(request, UpdateMetadataResponse, 8).error_code, []]

    def _broker(self, number):
        host, port = self._client
        found = port if number == self.node else 1  # nobody listens there
        names = ("PLAINTEXT", "CONTROL", "INTERNAL", "CONTROLLER")
        points = [UpdateMetadataEndpoint(port=found, host=host, listener=name) for name in names]
        return UpdateMetadataBroker(id=number, endpoints=points)


def main():
    """Records what a broker answers."""
    client, control = ((host, int(port)) for host, port in (word.split(":") for word in sys.argv[1:3]))
    script = ControlScript(client, control)
    script.prepare()
    print(
        "{\n" + ",\n".join(f"  {json.dumps(what)}: {json.dumps(found)}" for what, found in script.run().items()) + "\n}"
    )


if __name__ == "__main__":
    main()
