"""Readers of a cluster that follow leaders by epoch: once they have seen an epoch they take no older leader's word.

`Follower` reads committed records and high watermarks, `Ends` asks for the end of the log, which must never go back
(KIP-207); `Consuming` is librdkafka's consumer. `drain` makes the final reads.
"""

import time

from confluent_kafka import Consumer, TopicPartition

from mpbroker.client.network_client import NetworkClient
from mpbroker.errors import MpbrokerError
from mpbroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from mpbroker.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from mpbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.chaos.clients import Client
from tests.harness.checker import Anomaly
from tests.harness.history import FINAL, Read, value_of
from tests.harness.raw_records import records_in

TIMEOUT_MS = 1500
OUT_OF_RANGE = 1
PAUSE_S = 0.02


class Leaders:
    """Who leads which partition, as far as anybody has told; connections to brokers."""

    def __init__(self, bootstrap, topic):
        self._topic = topic
        self._bootstrap = [(host, int(port)) for host, port in (one.split(":") for one in bootstrap.split(","))]
        self._connections = {}
        self._turn = 0
        self._known = {}  # partition -> (epoch, leader's address)
        self.in_sync = {}

    def refresh(self):
        """Asks the next broker."""
        self._turn += 1
        address = self._bootstrap[self._turn % len(self._bootstrap)]
        request = MetadataRequest(topics=[MetadataRequestTopic(name=self._topic)], allow_auto_topic_creation=False)
        answer = self.ask(address, request, MetadataResponse, 9)
        brokers = {} if answer is None else {one.node_id: (one.host, one.port) for one in answer.brokers}
        for topic in [] if answer is None else answer.topics:
            for one in topic.partitions:
                epoch = self._known.get(one.partition_index, (-1, None))[0]
                if one.leader_epoch >= epoch and one.leader_id in brokers:
                    self._known[one.partition_index] = one.leader_epoch, brokers[one.leader_id]
                    self.in_sync[one.partition_index] = len(one.isr_nodes)

    def of(self, partition):
        """(epoch, address); None: not known."""
        if partition not in self._known:
            self.refresh()
        return self._known.get(partition)

    def ask(self, address, message, answer, version):
        """The answer; None: none came."""
        try:
            connection = self._connections.get(address)
            if connection is None:
                connection = self._connections[address] = NetworkClient(*address, "reader", TIMEOUT_MS)
            return connection.call(message, answer, version)
        except MpbrokerError:
            connection = self._connections.pop(address, None)
            if connection is not None:
                connection.close()
            return None

    def close(self):
        """Leave."""
        for connection in self._connections.values():
            connection.close()


class Follower(Client):
    """Reads every partition, a session for each leader epoch. What it was given must not go out of range."""

    def __init__(self, name, history, seed, bootstrap, topic, partitions, isolation=1):
        super().__init__(name, history, seed)
        self.leaders = Leaders(bootstrap, topic)
        self._topic, self._isolation = topic, isolation
        self.offsets = dict.fromkeys(range(partitions), 0)
        self.found = []

    def step(self):
        """One fetch of each partition."""
        for partition in self.offsets:
            if not self.read(partition, self.name):
                self.leaders.refresh()
                time.sleep(PAUSE_S)

    def read(self, partition, session, max_wait_ms=20):
        """The high watermark; None: no answer, or an error."""
        leader = self.leaders.of(partition)
        if leader is None:
            return None
        epoch, address = leader
        offset, start_ns = self.offsets[partition], time.monotonic_ns()
        asked = FetchPartition(
            partition=partition, current_leader_epoch=epoch, fetch_offset=offset, partition_max_bytes=1 << 20
        )
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            isolation_level=self._isolation,
            topics=[FetchTopic(topic=self._topic, partitions=[asked])],
        )
        answer = self.leaders.ask(address, request, FetchResponse, 12)
        data = None if answer is None or not answer.responses else answer.responses[0].partitions[0]
        if data is None or data.error_code:
            if data is not None and data.error_code == OUT_OF_RANGE:
                self.found.append(Anomaly("out-of-range", partition, f"{self.name} stands at {offset} in {epoch}"))
                time.sleep(PAUSE_S)
            return None
        records = tuple((at, value_of(value)) for at, value in records_in(bytes(data.records or b""), offset))
        name = session if session == FINAL else f"{session}/{epoch}"
        self.history.add(
            Read(name, partition, start_ns, time.monotonic_ns(), data.high_watermark, records, leader_epoch=epoch)
        )
        if records:
            self.offsets[partition] = records[-1][0] + 1
        return data.high_watermark

    def finish(self):
        """Leave."""
        self.leaders.close()


class Ends(Client):
    """Asks leaders where the committed log ends. No session is ever told an older end than before."""

    def __init__(self, name, history, seed, bootstrap, topic, partitions):
        super().__init__(name, history, seed)
        self._leaders = Leaders(bootstrap, topic)
        self._topic, self._partitions = topic, partitions

    def step(self):
        """All partitions once."""
        for partition in range(self._partitions):
            leader = self._leaders.of(partition)
            end = None if leader is None else self._end(partition, *leader)
            if end is None:
                self._leaders.refresh()
            time.sleep(PAUSE_S)

    def _end(self, partition, epoch, address):
        start_ns = time.monotonic_ns()
        asked = ListOffsetsPartition(partition_index=partition, current_leader_epoch=epoch, timestamp=-1)
        topics = [ListOffsetsTopic(name=self._topic, partitions=[asked])]
        request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=topics)
        answer = self._leaders.ask(address, request, ListOffsetsResponse, 7)
        if answer is None or answer.topics[0].partitions[0].error_code:
            return None
        end = answer.topics[0].partitions[0].offset
        self.history.add(Read(self.name, partition, start_ns, time.monotonic_ns(), end, (), leader_epoch=epoch))
        return end

    def finish(self):
        """Leave."""
        self._leaders.close()


class Consuming(Client):
    """librdkafka's consumer, every partition assigned from the start."""

    def __init__(self, name, history, seed, bootstrap, topic, partitions):
        super().__init__(name, history, seed)
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": name,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "log_level": 0,
        }
        self._consumer = Consumer(settings)
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        self.found = []

    def step(self):
        """What has come."""
        start_ns = time.monotonic_ns()
        for message in self._consumer.consume(500, 0.05):
            partition, offset = message.partition(), message.offset()
            if message.error() is not None:
                self.found.append(
                    Anomaly("consumer-error", partition if partition is not None else -1, f"{message.error()}")
                )
                continue
            record = ((offset, value_of(message.value())),)
            self.history.add(Read(self.name, partition, start_ns, time.monotonic_ns(), offset + 1, record))

    def finish(self):
        """Leave."""
        self._consumer.close()


def wait_in_sync(bootstrap, topic, partitions, size, timeout_s):
    """Until every partition has so many replicas in sync."""
    leaders, deadline = Leaders(bootstrap, topic), time.monotonic() + timeout_s
    while True:
        leaders.refresh()
        if [leaders.in_sync.get(number) for number in range(partitions)] == [size] * partitions:
            leaders.close()
            return
        assert time.monotonic() < deadline, f"in sync after {timeout_s} s: {leaders.in_sync}"
        time.sleep(0.05)


def drain(bootstrap, topic, partitions, history, timeout_s=60):
    """The final reads: every partition from its start to its high watermark."""
    reader = Follower("drain", history, 0, bootstrap, topic, partitions, isolation=0)
    deadline = time.monotonic() + timeout_s
    for partition in range(partitions):
        while True:
            assert time.monotonic() < deadline, f"partition {partition} could not be read to its end"
            end = reader.read(partition, FINAL, max_wait_ms=0)
            if end is None:
                reader.leaders.refresh()
                time.sleep(PAUSE_S)
            elif end <= reader.offsets[partition]:
                break
    reader.finish()
