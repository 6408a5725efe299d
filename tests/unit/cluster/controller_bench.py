"""A controller of one term over the store in memory: brokers come and go, and what it sends is looked at."""

import random

from mpbroker.cluster.cluster_config import ClusterConfig
from mpbroker.cluster.cluster_controller import ClusterController
from mpbroker.cluster.cluster_image import ClusterImage, PartitionId
from mpbroker.cluster.events import Answered, Read, ReadDone, Reply, Request, Resign, StoreBatch, Tick, Txn, TxnDone
from mpbroker.metadata.cluster_records import BrokerRecord, ControllerEpochRecord, ListenerRecord, PartitionRecord
from mpbroker.metadata.commands import CreateTopics, NewTopic
from mpbroker.metadata.keys import Keys
from mpbroker.metadata.meta_store import Delete, Put, Unknown, Version
from mpbroker.metadata.topic_record import TopicRecord, decode_record, encode_record
from mpbroker.protocol.messages.alter_partition import (
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionTopic,
    BrokerState,
)
from mpbroker.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from mpbroker.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from mpbroker.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from mpbroker.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from tests.harness.memory_store import MemoryStore

ANSWERS = {
    LeaderAndIsrRequest: LeaderAndIsrResponse,
    StopReplicaRequest: StopReplicaResponse,
    UpdateMetadataRequest: UpdateMetadataResponse,
}
STATELESS = b"s" * 16


def broker_record(broker: int, rack=None, unclean=False, life=1, failed=()) -> BrokerRecord:
    listener = ListenerRecord("PLAINTEXT", "PLAINTEXT", f"host{broker}", 9000 + broker)
    return BrokerRecord(broker, "machine", f"d{broker}", f"i{life}", [listener], rack, unclean, list(failed))


class ControllerBench:
    """`answer`: brokers answer what they are sent. `unknown`: outcomes of the next transactions that are hidden."""

    def __init__(self, brokers=(1, 2, 3), config=None, max_operations=121, seed=1):
        self.keys = Keys("c")
        self.store = MemoryStore()
        self.config = config or ClusterConfig()
        self.max_operations = max_operations
        self.random = random.Random(seed)
        self.now_ms = 1000
        self.replies, self.logs, self.sent, self.txns = {}, [], [], []
        self.resigned = None
        self.answering = set(brokers)
        self.broken = set()
        self.unknown: list[bool] = []
        self._next_request = 0
        for broker in brokers:
            self.register(broker)
        self.epoch = 0
        self.controller = None
        self.elect()

    def elect(self):
        """A new term, with what the store has."""
        self.epoch += 1
        self.store.txn([], [Put(self.keys.controller_epoch, encode_record(ControllerEpochRecord(self.epoch)))], tag="")
        image = ClusterImage(self.keys)
        for page in self.store.scan(self.keys.prefix):
            image.load(page.rev, page.entries)
        self._watched = page.rev
        _, entry = self.store.get(self.keys.controller_epoch)
        self.resigned = None
        self.controller = ClusterController(
            node_id=1,
            epoch=self.epoch,
            config=self.config,
            image=image,
            guard=Version(entry.key, entry.version),
            max_operations=self.max_operations,
            new_id=lambda: self.random.randbytes(16),
            random=self.random,
        )
        self.carry_out(self.controller.start(self.now_ms))
        self.settle()

    def register(self, broker, **fields):
        key = self.keys.broker(broker)
        if self.store.get(key)[1]:
            self.store.txn([], [Delete(key)], tag="")
        self.store.txn([], [Put(key, encode_record(broker_record(broker, **fields)))], tag="")

    def lose(self, *brokers):
        self.store.txn([], [Delete(self.keys.broker(broker)) for broker in brokers], tag="")
        self.watch()

    def come(self, broker, **fields):
        self.register(broker, **fields)
        self.watch()

    def watch(self, settle=True):
        """Deliver what the store has new."""
        while self._watched < self.store.revision():
            self._watched += 1
            events = self.store._history[self._watched]
            self.event(StoreBatch(self._watched, events))
        if settle:
            self.settle()

    def event(self, event):
        self.carry_out(self.controller.event(event, self.now_ms))

    def carry_out(self, effects):
        for effect in effects:
            match effect:
                case Txn():
                    self.txns.append(effect)
                    outcome = self.store.txn(effect.checks, effect.ops, tag=effect.tag)
                    hidden = self.unknown.pop(0) if self.unknown else False
                    self.event(TxnDone(effect.tag, Unknown(effect.tag) if hidden else outcome))
                case Read(tag, keys):
                    self.event(ReadDone(tag, {key: self.store.get(key)[1] for key in keys}))
                case Reply(number, message):
                    self.replies[number] = message
                case Resign(reason):
                    self.resigned = reason
                case _:
                    self.logs.append(effect)

    def settle(self):
        """Send what there is to send, until there is nothing."""
        for _ in range(1000):
            if not sum(self.send(broker) for broker in self.controller.targets()):
                return
        raise AssertionError("does not settle")

    def send(self, broker):
        out = self.controller.next_request(broker, self.now_ms)
        if out is None:
            return False
        self.sent.append(out)
        if broker in self.answering:
            answer = ANSWERS[type(out.request)]()
            if isinstance(out.request, LeaderAndIsrRequest):
                answer.topics = [self._carried_out(broker, topic) for topic in out.request.topic_states]
            self.event(Answered(broker, out.broker_epoch, answer))
        return True

    def _carried_out(self, broker, topic):
        errors = [
            LeaderAndIsrPartitionError(
                partition_index=state.partition_index,
                error_code=56 if (broker, topic.topic_id, state.partition_index) in self.broken else 0,
            )
            for state in topic.partition_states
        ]
        return LeaderAndIsrTopicError(topic_id=topic.topic_id, partition_errors=errors)

    def fail_directory(self, broker, *replicas):
        """A log directory fails with these (topic id, partition), and the broker says so in its registration."""
        self.broken |= {(broker, *replica) for replica in replicas}
        self.store.txn([], [Put(self.keys.broker(broker), encode_record(broker_record(broker, failed=["d"])))], tag="")
        self.watch()

    def ask(self, command):
        self._next_request += 1
        self.event(Request(self._next_request, command))
        self.settle()
        return self.replies.get(self._next_request)

    def create(self, name="t", assignments=([1, 2, 3],), configs=None):
        """A topic with given replicas; its id."""
        pairs = [(n, list(replicas)) for n, replicas in enumerate(assignments)]
        (result,) = self.ask(CreateTopics([NewTopic(name, assignments=pairs, configs=configs or {})])).results
        assert result.error_code == 0, result
        return result.topic_id

    def state(self, topic_id, number=0):
        """(leader, leader epoch, ISR, partition epoch) as the store has them."""
        _, entry = self.store.get(self.keys.partition(topic_id, number))
        record = decode_record(PartitionRecord, entry.value, entry.key)
        return record.leader, record.leader_epoch, record.isr, entry.version - 1

    def partition(self, topic_id, number=0):
        return PartitionId(topic_id, number)

    def take_sent(self, kind=None):
        """(broker, request) of what was sent since the last call."""
        sent, self.sent = self.sent, []
        return [(out.broker, out.request) for out in sent if kind is None or isinstance(out.request, kind)]

    def tick(self, ms):
        self.now_ms += ms
        self.event(Tick())
        self.settle()


def alter(bench, topic_id, isr, *, broker=1, number=0, leader_epoch=None, partition_epoch=None, epochs=None):
    """Ask for an ISR as a leader does; (code, ISR, partition epoch) of the answer."""
    _, now_leader_epoch, _, now_partition_epoch = bench.state(topic_id, number)
    members = [BrokerState(broker_id=b, broker_epoch=(epochs or {}).get(b, epoch_of(bench, b))) for b in isr]
    wanted = AlterPartitionPartition(
        partition_index=number,
        leader_epoch=now_leader_epoch if leader_epoch is None else leader_epoch,
        new_isr_with_epochs=members,
        partition_epoch=now_partition_epoch if partition_epoch is None else partition_epoch,
    )
    topic = AlterPartitionTopic(topic_id=topic_id, partitions=[wanted])
    answer = bench.ask(AlterPartitionRequest(broker_id=broker, broker_epoch=epoch_of(bench, broker), topics=[topic]))
    if answer.error_code:
        return answer.error_code, None, None
    (result,) = answer.topics[0].partitions
    return result.error_code, result.isr, result.partition_epoch


def epoch_of(bench, broker):
    live = bench.controller.broker(broker)
    return live.epoch if live else -1


def stateless(bench):
    """A topic whose replica has gone before it had a state."""
    record = TopicRecord(STATELESS.hex(), "stateless", [[9]], 1)
    name = Put(bench.keys.topic_name("stateless"), record.id.encode())
    bench.store.txn([], [name, Put(bench.keys.topic(STATELESS), encode_record(record))], tag="")
    bench.watch()
    assert PartitionId(STATELESS, 0) not in bench.controller.image.partitions


def roles(sent):
    """(broker, partition, leader, leader epoch, ISR, is new) of LeaderAndIsr requests."""
    return sorted(
        (broker, state.partition_index, state.leader, state.leader_epoch, tuple(state.isr), state.is_new)
        for broker, request in sent
        if isinstance(request, LeaderAndIsrRequest)
        for topic in request.topic_states
        for state in topic.partition_states
    )


def stops(sent):
    return sorted(
        (broker, state.partition_index, state.leader_epoch, state.delete_partition)
        for broker, request in sent
        if isinstance(request, StopReplicaRequest)
        for topic in request.topic_states
        for state in topic.partition_states
    )


def elect(bench, kind=0, partitions=(0,), topic="t"):
    wanted = None if partitions is None else [TopicPartitions(topic=topic, partitions=list(partitions))]
    answer = bench.ask(ElectLeadersRequest(election_type=kind, topic_partitions=wanted))
    return [(r.partition_id, r.error_code) for t in answer.replica_election_results for r in t.partition_result]
