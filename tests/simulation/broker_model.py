"""A broker: its agent, leaders' and followers' side of replication, as a model. What it keeps of requests of the
controller follows Kafka's fencing; before it deletes anything it asks the store."""

from mpbroker.protocol.messages.alter_partition import (
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionTopic,
    BrokerState,
)
from mpbroker.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from mpbroker.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from mpbroker.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from tests.simulation.replica_model import FOLLOWER, LEADER, NONE, ReplicaModel

FULL = 2
DURING_DELETE = -2


class BrokerModel:
    """`hosts(topic_id, number)`: what the store says, None: no such topic, else whether this broker is a replica."""

    def __init__(self, broker, min_isr, hosts, refuse):
        self.id = broker
        self.min_isr = min_isr
        self.hosts = hosts
        self.refuse = refuse  # (value): a producer is told that it was not this leader's
        self.logs = {}  # (topic name, number) -> ReplicaModel
        self.up, self.unclean = True, False
        self.session, self.epoch = None, -1
        self.life = 0
        self.start()

    def start(self):
        """All that lives in memory is as at a start."""
        self.up = True
        self.life += 1
        self.controller, self.controller_epoch = -1, -1
        self.full_of = -1
        self.metadata, self.brokers = {}, {}
        self.asking = None
        for log in self.logs.values():
            log.forget()

    def stop(self, power=False):
        """Killed; with `power` the machine went down as well."""
        self.up = False
        self.unclean = self.unclean or power
        for log in self.logs.values():
            if power:
                log.lose_power()
            log.parked = []

    def handle(self, request):
        """A control request: its answer."""
        if self.epoch < 0 or request.broker_epoch < self.epoch:
            code = 77  # of a life before, also while this one has not registered
        elif request.controller_epoch < self.controller_epoch:
            code = 11
        else:
            code = 0
            self.controller, self.controller_epoch = request.controller_id, request.controller_epoch
        match request:
            case LeaderAndIsrRequest():
                return LeaderAndIsrResponse(error_code=code) if code else self._roles(request)
            case StopReplicaRequest():
                return StopReplicaResponse(error_code=code) if code else self._stop(request)
            case UpdateMetadataRequest():
                return UpdateMetadataResponse(error_code=code) if code else self._know(request)
        raise TypeError(request)

    def _roles(self, request):
        answer = LeaderAndIsrResponse()
        named = set()
        for topic in request.topic_states:
            errors = []
            for state in topic.partition_states:
                named.add((topic.topic_id, state.partition_index))
                code = self._role(topic, state)
                errors.append(LeaderAndIsrPartitionError(partition_index=state.partition_index, error_code=code))
            answer.topics.append(LeaderAndIsrTopicError(topic_id=topic.topic_id, partition_errors=errors))
        if request.type == FULL:
            for key, log in list(self.logs.items()):
                if (log.topic_id, key[1]) not in named and self.may_delete(log.topic_id, key[1]):
                    self.drop(key)
        return answer

    def _role(self, topic, state):
        key = topic.topic_name, state.partition_index
        if self.id not in state.replicas:
            return 3
        log = self.logs.get(key)
        if log and log.topic_id != topic.topic_id:
            if not self.may_delete(log.topic_id, key[1]):
                return 103
            self.drop(key)
            log = None
        if log is None:
            log = self.logs[key] = ReplicaModel(topic.topic_id, self.min_isr)
        if state.leader_epoch < log.leader_epoch or (state.leader_epoch == log.leader_epoch and log.role != NONE):
            return 11
        for value in log.become(
            self.id, state.leader, state.leader_epoch, state.partition_epoch, state.replicas, state.isr
        ):
            self.refuse(value)
        return 0

    def _stop(self, request):
        for topic in request.topic_states:
            for state in topic.partition_states:
                key = topic.topic_name, state.partition_index
                log = self.logs.get(key)
                if log is None or (0 <= state.leader_epoch < log.leader_epoch):
                    continue
                if not state.delete_partition:
                    self.step_down(log)
                elif self.may_delete(log.topic_id, key[1]):
                    self.drop(key)
        return StopReplicaResponse()

    def may_delete(self, topic_id, number):
        """The store has the last word: a request may be late."""
        return not self.hosts(self.id, topic_id, number)

    def step_down(self, log):
        for value in log.parked:
            self.refuse(value)
        log.parked, log.role, log.leader = [], NONE, -1
        log.isr = log.maximal = frozenset()

    def drop(self, key):
        self.step_down(self.logs[key])
        del self.logs[key]

    def _know(self, request):
        self.brokers = {broker.id for broker in request.live_brokers}
        if request.type == FULL and self.full_of < request.controller_epoch:
            self.full_of = request.controller_epoch
            self.metadata.clear()
        for topic in request.topic_states:
            for state in topic.partition_states:
                key = topic.topic_id, state.partition_index
                known = self.metadata.get(key)
                if state.leader == DURING_DELETE:
                    self.metadata.pop(key, None)
                elif known is None or (known.leader_epoch, known.zk_version) <= (state.leader_epoch, state.zk_version):
                    self.metadata[key] = state
        return UpdateMetadataResponse()

    def proposals(self):
        """One AlterPartition of all that is pending; None: nothing."""
        topics = []
        for (_, number), log in sorted(self.logs.items()):
            if log.role == LEADER and log.proposal and log.proposal[1] == "pending":
                log.proposal[1] = "sent"
                lives = {**log.lives, self.id: self.epoch}
                behind = {b for b in log.proposal[0] - log.isr if log.positions.get(b, 0) < log.hw}
                epochs = {b: 0 if b in behind else lives.get(b, -1) for b in sorted(log.proposal[0])}
                members = [BrokerState(broker_id=b, broker_epoch=epoch) for b, epoch in epochs.items()]
                wanted = AlterPartitionPartition(
                    partition_index=number,
                    leader_epoch=log.leader_epoch,
                    new_isr_with_epochs=members,
                    partition_epoch=log.partition_epoch,
                )
                topics.append(AlterPartitionTopic(topic_id=log.topic_id, partitions=[wanted]))
        return AlterPartitionRequest(broker_id=self.id, broker_epoch=self.epoch, topics=topics) if topics else None

    def altered(self, request, response):
        """The answer to `request`; None: none came."""
        logs = {(log.topic_id, key[1]): log for key, log in self.logs.items()}
        asked = {(t.topic_id, p.partition_index): p for t in request.topics for p in t.partitions}
        results = {}
        if response is not None and response.error_code == 0:
            results = {(t.topic_id, p.partition_index): p for t in response.topics for p in t.partitions}
        for key, wanted in asked.items():
            log, result = logs.get(key), results.get(key)
            if log is None:
                continue
            if result is None:
                log.answered(self.id, wanted.leader_epoch, -1, (), -1)
            else:
                log.answered(self.id, wanted.leader_epoch, result.error_code, result.isr, result.partition_epoch)

    def roles(self, role):
        return [(key, log) for key, log in sorted(self.logs.items()) if log.role == role]

    def following(self):
        return self.roles(FOLLOWER)
