"""A broker of the simulation: the agent's and the fetcher's own code (ControlRequests, ClusterView, IsrProposals,
LeaderLink with LeaderFetch) over logs that are models. What is replaced is what they stand on: rows and logs (RowLog,
Topics), the connections (FetchConnection), the store's watch, which is a step of its own.

A lock that is not to be had, as when its holder stands still, is one of the things that happen (`world.is_busy`).
"""

from types import SimpleNamespace

from mpbroker.controller.agent_decisions import Epochs
from mpbroker.controller.agent_requests import ControlRequests
from mpbroker.controller.cluster_view import ClusterView, TopicGone, TopicPut
from mpbroker.controller.controller_context import ControllerContext
from mpbroker.controller.isr_proposals import IsrProposals
from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from mpbroker.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from mpbroker.protocol.messages.update_metadata import UpdateMetadataResponse
from mpbroker.shm.layout import PARTITION_ONLINE, ReplicaRole
from tests.simulation.fetching import Fetching
from tests.simulation.replica_model import FOLLOWER, LEADER, NONE, ReplicaModel

BUSY = int(ErrorCode.REQUEST_TIMED_OUT)
LAG_MS = 1 << 40  # who lags is drawn (Schedule.shrink)
ROLES = {LEADER: ReplicaRole.LEADER, FOLLOWER: ReplicaRole.FOLLOWER, NONE: ReplicaRole.NONE}


def _nothing(*_, **__):
    pass


EVENTS = SimpleNamespace(info=_nothing, warning=_nothing, error=_nothing)


class AgentHost:
    """`logs`: (topic name, number) → ReplicaModel, the disk and the rows; `ordinals`: (topic id, number) → row. Rows of
    a topic that is gone are `free`, and the last ones are taken first: as when the broker's table is nearly full."""

    def __init__(self, broker, world, min_isr):
        self.id, self.world, self.min_isr = broker, world, min_isr
        self.logs, self.ordinals, self.free = {}, {}, []
        self.unclean, self.life = False, 0
        self.session, self.epoch = None, -1
        self.start()

    def start(self):
        """The processes are new; the disk is as it was."""
        self.up, self.recovered = True, False
        self.life += 1
        self.controller, self.controller_epoch = -1, -1
        self.metadata, self.brokers = {}, set()
        self.asking, self.sessions = None, {}
        self.fetching = Fetching(self)
        self.seen_rev, self.view = 0, ClusterView(self.world.keys)
        self.topics = Topics(self)
        for log in self.logs.values():
            log.forget()
        self.new_agent()

    def new_agent(self):
        """The agent's process alone is new: rows and logs are found."""
        self.rows = RowLog(self)
        self.requests = ControlRequests(
            self_id=self.id, topics=self.topics, log=self.rows, known=lambda: Epochs(self.controller_epoch, self.epoch),
            seen=self._seen, brokers=self._knows_brokers, missing=self._look_up,
            settings_of=lambda _: SimpleNamespace(min_insync_replicas=self.min_isr), roles_changed=_nothing,
            alive=_nothing, now_ms=lambda: self.world.now_ms, events=EVENTS,
            roles=SimpleNamespace(role_of=lambda _: 0, changed=_nothing),
        )  # fmt: skip
        self.isr = IsrProposals(
            log=self.rows, self_id=self.id, lag_ms=LAG_MS, identity_of=self._identity, broker_epoch=self._broker_epoch,
            count=_nothing,
        )  # fmt: skip
        self.asking = None

    def stop(self, power=False):
        """Killed; with `power` the machine went down as well."""
        self.up = False
        self.unclean = self.unclean or power
        for log in self.logs.values():
            if power:
                log.lose_power()
            log.parked = []

    # ---- the store

    def recover(self):
        """Before it registers: what the store has. Replicas that are nobody's are set aside."""
        store, keys = self.world.store, self.world.keys
        self.view = ClusterView(keys)
        for prefix in (keys.topic_configs, keys.topics, keys.brokers, keys.controller):
            for page in store.scan(prefix):
                self.view.load(page.entries)
        self.seen_rev = store.revision()
        self.topics = Topics(self)
        for topic in self.view.topics():
            self.topics.put(topic)
        for key, log in list(self.logs.items()):
            if self.topics.context.by_id and not self.world.hosts(self.id, log.topic_id, key[1]):
                self.drop(key)
        self.requests._topics = self.topics
        self.recovered = True

    def watch(self):
        """The next change of the store; whether there was one."""
        store = self.world.store
        if not self.recovered or self.seen_rev >= store.revision():
            return False
        self.seen_rev += 1
        for event in store.changes(self.seen_rev):
            if event.key.startswith(self.world.keys.prefix):
                self._follow(self.view.apply(event.key, event.entry, self.seen_rev))
        return True

    def _follow(self, seen):
        for one in seen:
            if isinstance(one, TopicPut):
                self.topics.put(one.topic)
                self.requests.set_moved_aside(self.topics.context.by_id[one.topic.id])
            elif isinstance(one, TopicGone):
                self.topics.remove(one.topic_id)

    def _look_up(self, topic_id):
        _, entry = self.world.store.get(self.world.keys.topic(topic_id))
        if entry is not None:
            self._follow(self.view.apply(entry.key, entry))
        return self.topics.context.by_id.get(topic_id)

    def lost_session(self):
        """It was declared dead while it lived: all roles end before it is known again. False: one is busy."""
        codes = [self.rows.stop(row) for key, row in self.ordinals.items() if self.topics.log_of(key) is not None]
        return BUSY not in codes

    def _seen(self, controller, epoch):
        if epoch >= self.controller_epoch:
            self.controller, self.controller_epoch = controller, epoch

    def _knows_brokers(self, brokers):
        self.brokers = {broker.id for broker in brokers}

    def _broker_epoch(self, broker):
        if broker == self.id:
            return self.epoch
        live = self.view.brokers.get(broker)
        return -1 if live is None else live.epoch

    def _identity(self, ordinal):
        """Nobody's: a row that is free."""
        return next((key for key, row in self.ordinals.items() if row == ordinal), (bytes(16), -1))

    def take_row(self, identity):
        """The partition's row."""
        if identity not in self.ordinals:
            used = len(self.ordinals) + len(self.free)
            self.ordinals[identity] = self.free.pop() if self.free else used
        return self.ordinals[identity]

    def free_rows(self, topic_id):
        """Whoever has them next begins with them as they are."""
        for identity in [one for one in self.ordinals if one[0] == topic_id]:
            self.free.append(self.ordinals.pop(identity))

    # ---- requests of the controller

    def handle(self, request):
        """A control request: its answer, as handlers/leader_and_isr.py and its like make it."""
        if isinstance(request, LeaderAndIsrRequest):
            code, codes = self.requests.leader_and_isr(request)
            return _answer(request, code, iter(codes))
        if isinstance(request, StopReplicaRequest):
            return StopReplicaResponse(error_code=self.requests.stop_replica(request)[0])
        return UpdateMetadataResponse(error_code=self.requests.update_metadata(request))

    def step_down(self, log):
        """Nobody leads or follows here."""
        for value in log.parked:
            self.world.refused.add(value)
        log.parked, log.role, log.leader = [], NONE, -1
        log.isr = log.maximal = frozenset()

    def drop(self, key):
        """The replica is gone."""
        self.step_down(self.logs[key])
        del self.logs[key]

    # ---- in-sync replicas

    def proposals(self):
        """What the leaders here want."""
        return self.isr.next_request(self.world.now_ms)

    def altered(self, request, response):
        """The answer; None: none came."""
        self.isr.answered(response, self.world.now_ms)

    def roles(self, role):
        """The replicas in a role."""
        return [(key, log) for key, log in sorted(self.logs.items()) if log.role == role]

    def following(self):
        """Those that others lead."""
        return self.roles(FOLLOWER)


class Topics:
    """What ControlRequests needs of ClusterTopics."""

    can_create, may_be_offline = True, False

    def __init__(self, host):
        self._host = host
        self.context = ControllerContext()

    def put(self, topic):
        """A topic is new, or has changed."""
        known = self.context.by_id.get(topic.id)
        if known is None:
            namesake = self.context.by_name.get(topic.name)
            if namesake is not None:
                self.remove(namesake.id)
            self.context.add(topic)
            known = topic
        else:
            known.replicas = topic.replicas
        known.ordinals = [self._host.take_row((topic.id, number)) for number in range(len(topic.replicas))]

    def remove(self, topic_id):
        """It exists no more."""
        topic = self.context.by_id.get(topic_id)
        if topic is not None:
            self.context.remove(topic)
        for key, log in list(self._host.logs.items()):
            if log.topic_id == topic_id:
                self._host.drop(key)
        self._host.free_rows(topic_id)

    def key_of(self, identity):
        """Under which key a partition's log is, None: it has none here."""
        return next((k for k, log in self._host.logs.items() if (log.topic_id, k[1]) == identity), None)

    def log_of(self, identity):
        """Its log, or None."""
        key = self.key_of(identity)
        return None if key is None else self._host.logs[key]

    def has_log(self, ordinal):
        """Whether it lies here."""
        return self.key_of(self._host._identity(ordinal)) is not None

    def create(self, topic, partition):
        """An empty log."""
        self._host.logs[topic.name, partition] = ReplicaModel(topic.id, self._host.min_isr)
        return 0

    def drop(self, topic, partition, suffix):
        """It is not ours any more."""
        key = self.key_of((topic.id, partition))
        if key is not None:
            self._host.drop(key)

    def is_lost(self, topic, partition):
        """Directories do not get lost here."""
        return False

    def announce(self, topic):
        """For coordinators."""

    def announce_made(self):
        """For readers of rows."""

    def assign(self, topic, partition, shown):
        """What UpdateMetadata says; the field names are those of its request."""
        self._host.metadata[topic.id, partition] = SimpleNamespace(
            leader=shown.leader,
            leader_epoch=shown.leader_epoch,
            isr=list(shown.isr),
            zk_version=shown.partition_epoch,
            replicas=list(shown.replicas),
            offline_replicas=list(shown.offline),
        )


class RowLog:
    """What is used of `_native.Log`, over models. Any call may find a row's lock taken."""

    def __init__(self, host):
        self._host = host

    def _log(self, ordinal):
        return self._host.topics.log_of(self._host._identity(ordinal))

    def _is_busy(self):
        return self._host.world.is_busy()

    def become(self, ordinal, role, epoch, partition_epoch, replicas, isr, self_id, min_isr, now_ms, leader):
        """One commit."""
        if self._is_busy():
            return BUSY
        log = self._log(ordinal)
        assert (role == ReplicaRole.LEADER) == (leader == self_id)
        for value in log.become(self_id, leader, epoch, partition_epoch, replicas, isr):
            self._host.world.refused.add(value)
        return 0

    def stop(self, ordinal):
        """No role."""
        if self._is_busy():
            return BUSY
        self._host.step_down(self._log(ordinal))
        return 0

    def replica_state(self, ordinal):
        """TimeoutError: busy."""
        if self._is_busy():
            raise TimeoutError
        log = self._log(ordinal)
        if log is None:
            return None
        followers = [(b, log.positions[b], 0, log.lives[b]) for b in sorted(log.positions)]
        return SimpleNamespace(
            role=ROLES[log.role], leader_epoch=log.leader_epoch, partition_epoch=log.partition_epoch, hw=log.hw,
            isr=tuple(sorted(log.isr)), followers=followers, leo=log.leo, leader=log.leader,
        )  # fmt: skip

    def state(self, ordinal):
        """The row, without its lock."""
        log = self._log(ordinal)
        return SimpleNamespace(flags=PARTITION_ONLINE, log_dir=0, role=ROLES[NONE if log is None else log.role])

    def log_dir_online(self, log_dir):
        """Disks do not fail here, machines do."""
        return True

    def take_isr_proposals(self, lag_ms, now_ms, again):
        """Those that are pending, or were taken and never answered."""
        found, busy = [], False
        for (_, number), log in self._host.roles(LEADER):
            wanted = log.proposal and (log.proposal[1] == "pending" or (again and log.proposal[1] == "sent"))
            if wanted and self._is_busy():
                busy = True
            elif wanted:
                log.proposal[1] = "sent"
                row = self._host.ordinals[log.topic_id, number]
                found.append((row, log.leader_epoch, log.partition_epoch, tuple(sorted(log.proposal[0]))))
        return found, busy

    def isr_answered(self, ordinal, leader_epoch, partition_epoch, isr, error):
        """What the controller said."""
        log = self._log(ordinal)
        if log is None:
            return int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if self._is_busy():
            return BUSY
        log.answered(self._host.id, leader_epoch, error, isr, partition_epoch)
        return 0

    def _follows(self, ordinal, leader_epoch, topic_id=None):
        """(error, log)."""
        log = self._log(ordinal)
        if log is not None and topic_id not in (None, log.topic_id):
            return int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), log
        if log is None or log.role != FOLLOWER or log.leader_epoch != leader_epoch:
            return int(ErrorCode.FENCED_LEADER_EPOCH), log
        return (BUSY if self._is_busy() else 0), log

    def append_follower(self, ordinal, leader_epoch, offset, records, hw, log_start, options, now_ms, topic_id=None):
        """(error, batches, log end, position, last epoch, log start)."""
        error, log = self._follows(ordinal, leader_epoch, topic_id)
        if not error and offset != log.leo:
            error = int(ErrorCode.OFFSET_OUT_OF_RANGE)
        if error:
            return error, 0, 0, 0, -1, 0
        log.copy(records, hw)
        return 0, len(records), log.leo, 0, log.last_epoch, 0

    def truncate_follower(self, ordinal, offset, leader_epoch, now_ms):
        """Error."""
        error, log = self._follows(ordinal, leader_epoch)
        if not error:
            log.truncate(offset)
        return error


def _answer(request, code, codes):
    answer = LeaderAndIsrResponse(error_code=code)
    for topic in request.topic_states:
        errors = [
            LeaderAndIsrPartitionError(partition_index=state.partition_index, error_code=next(codes))
            for state in topic.partition_states
        ]
        answer.topics.append(LeaderAndIsrTopicError(topic_id=topic.topic_id, partition_errors=errors))
    return answer
