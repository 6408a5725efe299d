"""Three brokers, their controllers' candidates, a store, a client and a network that loses, doubles, delays and
reorders, in one process. Every step is drawn from one seed: the same seed does the same."""

import random
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from mpbroker.cluster.events import Answered, Request, Tick
from mpbroker.metadata.cluster_records import BrokerRecord, ListenerRecord, PartitionRecord
from mpbroker.metadata.commands import AllocateProducerIds, CreateTopics, DeleteTopics, NewTopic
from mpbroker.metadata.keys import Keys
from mpbroker.metadata.meta_store import Delete, Put
from mpbroker.metadata.topic_record import TopicRecord, decode_record, encode_record
from mpbroker.protocol.messages.alter_partition import AlterPartitionRequest
from mpbroker.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from mpbroker.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from mpbroker.protocol.messages.elect_leaders import ElectLeadersRequest
from tests.harness.memory_store import MemoryStore
from tests.simulation.agent_host import AgentHost
from tests.simulation.candidate_model import CandidateModel
from tests.simulation.replica_model import FOLLOWER, LEADER

BROKERS = (1, 2, 3)
MIN_ISR = 2
TOPIC = "a"
QUIET_ROUNDS = 2
MAX_MESSAGES = 40
NO_TERM = -1
BUSY = 0.02


class SimulatedClock:
    """The world's time."""

    def __init__(self, world):
        self._world = world

    def monotonic_ms(self):
        return self._world.now_ms

    wall_ms = monotonic_ms


class Message(NamedTuple):
    """Something on the way."""

    source: int
    target: int
    deliver: Callable[[], None]
    term: int


class StepStore(MemoryStore):
    """The store with its history to look at."""

    def _own(self):
        """One process."""

    def changes(self, revision):
        """What one revision changed."""
        return self._history.get(revision, ())

    def sessions(self, owner):
        """Those of one owner."""
        return [session for session in self._sessions.values() if session.owner == owner]


class World:
    """`watch(world)` is called after each step: it looks for what must not be."""

    def __init__(self, seed, watch, deploy=None):
        self.seed, self.watcher = seed, watch
        self.random = random.Random(seed)
        self.now_ms = 0
        self.keys = Keys("sim")
        self.store = StepStore()
        self.brokers, self.candidates = {}, {}
        self.net, self.slow = deque(), []
        self.clock = SimulatedClock(self)
        self.may_be_busy = False
        self.late = []  # transactions that the store has not seen yet
        self.produced, self.acknowledged, self.refused = 0, {}, set()
        self.asked, self.answers, self.ids = {}, {}, set()
        self.cut = set()  # brokers that reach neither the store nor others
        self.trail = []
        self._states = -1, {}
        for broker in BROKERS:
            self.brokers[broker] = AgentHost(broker, self, MIN_ISR)
            self.candidates[broker] = CandidateModel(broker, self.store, self.keys, self.random, self.reply)
        for broker in BROKERS:
            self.register(broker)
        self.candidates[1].strive(self.now_ms)
        assignments = [(0, [1, 2, 3])]
        self.ask(CreateTopics([NewTopic(TOPIC, assignments=assignments)]), 1)
        self.calm(200)

    # what the store says

    def hosts(self, broker, topic_id, number):
        """Whether the store wants a broker to hold a partition."""
        _, entry = self.store.get(self.keys.topic(topic_id))
        if entry is None:
            return False
        replicas = decode_record(TopicRecord, entry.value, entry.key).replicas
        return number < len(replicas) and broker in replicas[number]

    def states(self):
        """(topic id, number) -> (record, version, revision) as the store has them."""
        if self._states[0] == self.store.revision():
            return self._states[1]
        found = {}
        for page in self.store.scan(self.keys.partitions):
            for entry in page.entries:
                topic, _, number = entry.key.removeprefix(self.keys.partitions).partition("/")
                record = decode_record(PartitionRecord, entry.value, entry.key)
                found[bytes.fromhex(topic), int(number)] = record, entry.version, entry.mod_rev
        self._states = self.store.revision(), found
        return found

    def topics(self):
        """Name -> record of what exists."""
        found = {}
        for page in self.store.scan(self.keys.topics):
            for entry in page.entries:
                record = decode_record(TopicRecord, entry.value, entry.key)
                found[record.name] = record
        return found

    def registered(self, broker):
        """The broker epoch the store has, -1: none."""
        _, entry = self.store.get(self.keys.broker(broker))
        return entry.create_rev if entry else -1

    # sessions

    def register(self, broker):
        """A broker that has no registration makes one."""
        model = self.brokers[broker]
        if not model.up or broker in self.cut or (model.session and self.store.session_renew(model.session)):
            return
        if self.registered(broker) >= 0:
            return  # of its last life: has to expire
        if not model.recovered:
            model.recover()
        elif model.epoch >= 0 and not model.lost_session():  # no roles before the controller speaks
            return
        model.session = self.store.session_open(9000, f"broker-{broker}")
        listener = ListenerRecord("PLAINTEXT", "PLAINTEXT", "h", broker)
        record = BrokerRecord(broker, "m", "d", f"{broker}.{model.life}", [listener], None, model.unclean)
        outcome = self.store.txn([], [Put(self.keys.broker(broker), encode_record(record), model.session.id)], tag="")
        model.epoch = outcome.rev

    def expire(self, broker):
        """Its session was not renewed in time."""
        model, candidate = self.brokers[broker], self.candidates[broker]
        for session in self.store.sessions(f"broker-{broker}"):
            self.store.session_close(session)
        model.session = candidate.session = None
        if self.registered(broker) >= 0:
            self.store.txn([], [Delete(self.keys.broker(broker))], tag="")

    # the network

    def send(self, source, target, deliver, term=NO_TERM):
        """Put something on the way, unless one of the two is cut off. `term`: of the controller whose request it is."""
        if source in self.cut or target in self.cut or len(self.net) >= MAX_MESSAGES:
            return
        self.net.append(Message(source, target, deliver, term))

    def transmit(self, calm):
        """One message arrives, or is lost, or is slow, or doubled; calm: the oldest arrives."""
        if not self.net:
            return False
        place = 0 if calm else self.random.randrange(len(self.net))
        message = self.net[place]
        del self.net[place]
        fate = 0 if calm else self.random.random()
        if fate > 0.95 or (fate > 0.90 and message.term == NO_TERM):
            self.slow.append(message)
        if fate < 0.95 and not 0.87 < fate < 0.90:
            self.arrive(message)
        return True

    def arrive_late(self):
        """One of the slow messages arrives."""
        if not self.slow:
            return False
        self.arrive(self.slow.pop(self.random.randrange(len(self.slow))))
        return True

    def arrive(self, message):
        """A message is there, if there is somebody."""
        reachable = message.source not in self.cut and message.target not in self.cut
        if reachable and self.brokers[message.target].up:
            message.deliver()

    # the controller's side

    def is_busy(self):
        """Whether a lock is not to be had at this moment."""
        return self.may_be_busy and self.random.random() < BUSY

    def push(self, broker):
        """The controller on this broker sends what there is to send."""
        candidate, sent = self.candidates[broker], False
        if not (candidate.controller and candidate.up and self.brokers[broker].up):
            return False
        for target in candidate.controller.targets():
            out = candidate.controller.next_request(target, self.now_ms)
            if out:
                self.send(broker, target, lambda out=out: self.control(broker, out), candidate.epoch)
                sent = True
        return sent

    def control(self, controller, out):
        """A control request arrives; its answer goes back to the term that sent it."""
        term = self.candidates[controller].epoch
        response = self.brokers[out.broker].handle(out.request)

        def answer():
            if self.candidates[controller].epoch == term == out.request.controller_epoch:
                event = Answered(out.broker, out.broker_epoch, response)
                self.candidates[controller].event(event, self.now_ms)

        self.send(out.broker, controller, answer, term)

    def give_up_requests(self, broker):
        """Requests without an answer time out at a controller, which closes the connections: nothing of this term
        arrives on them any more. (A broker that is stuck for so long has lost its session, and with it its epoch.)"""
        candidate = self.candidates[broker]
        if candidate.controller is None:
            return False
        self.net = deque(message for message in self.net if message.term != candidate.epoch)
        self.slow = [message for message in self.slow if message.term != candidate.epoch]
        targets = candidate.controller.targets() if candidate.controller else []
        for target in targets:
            if candidate.controller and candidate.controller.broker(target):
                epoch = candidate.controller.broker(target).epoch
                candidate.event(Answered(target, epoch, None), self.now_ms)
        return bool(targets)

    def reply(self, number, message):
        """A command was answered."""
        command, broker, epoch = self.asked.pop(number, (None, 0, 0))
        self.answers[number] = message
        if isinstance(command, AlterPartitionRequest):

            def arrive():
                model = self.brokers[broker]
                if model.epoch == epoch and model.asking is command:
                    model.asking = None
                    model.altered(command, message)

            self.send(broker, broker, arrive)
        elif isinstance(command, AllocateProducerIds) and not message.error_code:
            assert message.first_id not in self.ids, "a block of producer ids was given out twice"
            self.ids.add(message.first_id)

    def active(self):
        """The candidate that thinks it is the controller, with the highest epoch; None: nobody."""
        alive = [c for c in self.candidates.values() if c.controller and c.up and self.brokers[c.broker].up]
        return max(alive, key=lambda candidate: candidate.epoch, default=None)

    def ask(self, command, controller, broker=0):
        """A command reaches a controller."""
        number = len(self.asked) + len(self.answers) + 1
        self.asked[number] = command, broker, self.brokers[broker].epoch if broker else 0
        self.candidates[controller].event(Request(number, command, broker), self.now_ms)
        if self.candidates[controller].controller is None:
            self.asked.pop(number, None)
            self.answers[number] = None

    # the brokers' side

    def propose(self, broker):
        """A leader asks the controller it knows for another ISR."""
        model = self.brokers[broker]
        if not model.up or model.asking is not None or model.controller < 0 or broker in self.cut:
            return False
        command = model.proposals()
        if command is None:
            return False
        model.asking, target = command, model.controller
        self.send(broker, target, lambda: self.ask(command, target, broker))
        return True

    def give_up_proposal(self, broker):
        """No answer: the broker asks again."""
        model = self.brokers[broker]
        if model.asking is not None:
            command, model.asking = model.asking, None
            model.altered(command, None)

    def fetch(self, broker):
        """A fetcher asks the leaders it knows for what it may ask for now."""
        return self.brokers[broker].up and self.brokers[broker].fetching.ask()

    def scan(self, broker):
        """A fetcher looks at the rows."""
        if self.brokers[broker].up:
            self.brokers[broker].fetching.scan()
        return self.brokers[broker].up

    def acknowledge(self, broker):
        """Parked produces that the high watermark has passed are answered."""
        model = self.brokers[broker]
        for key, log in model.roles(LEADER):
            done = [value for value, end in log.parked if end <= log.hw]
            log.parked = [(value, end) for value, end in log.parked if end > log.hw]
            if done:
                self.watcher.commit((log.topic_id, key[1]), key, broker, log)
            for value in done:
                self.acknowledged[value] = (log.topic_id, key[1])

    def produce(self, broker):
        """A client sends a record with acks=all to a broker that leads."""
        leading = self.brokers[broker].roles(LEADER) if self.brokers[broker].up and broker not in self.cut else []
        if not leading:
            return False
        _, log = self.random.choice(leading)
        if len(log.isr) < MIN_ISR or log.leo > 12:
            return False
        self.produced += 1
        log.append(self.produced)
        log.parked.append((self.produced, log.leo))
        log.raise_hw(broker)
        self.acknowledge(broker)
        return True

    def shrink(self, broker):
        """A leader proposes an ISR without a follower that lags."""
        model = self.brokers[broker]
        for _, log in model.roles(LEADER) if model.up else ():
            lagging = [b for b in log.isr - {broker} if log.positions.get(b, -1) < log.leo]
            if lagging and log.proposal is None:
                log.propose(log.isr - {self.random.choice(lagging)})
                return True
        return False

    # until it is quiet

    def calm(self, rounds):
        """Everything that is under way is carried out, nothing fails any more; whether it came to rest: two rounds of
        nothing, for a follower that is as long as its leader may have to be cut in the first."""
        quiet = 0
        for _ in range(rounds):
            self.now_ms += 150
            busy = False
            for broker in BROKERS:
                self.register(broker)
                candidate = self.candidates[broker]
                while candidate.todo:
                    candidate.step_store("done", self.now_ms)
                    busy = True
                while candidate.watch(self.now_ms):
                    busy = True
                while self.brokers[broker].watch():
                    busy = True
                busy |= self.push(broker) | self.propose(broker)
            while self.transmit(calm=True):
                pass
            for broker in BROKERS:
                if any(log.leo < self.leo_of(key, log) for key, log in self.brokers[broker].following()):
                    busy = True
                self.scan(broker)
                self.fetch(broker)
            while self.transmit(calm=True):
                pass
            for broker in BROKERS:
                busy |= any(log.proposal for _, log in self.brokers[broker].roles(LEADER))
            self.watcher(self)
            quiet = quiet + 1 if not busy and not self.net and self.settled() else 0
            if quiet == QUIET_ROUNDS:
                return True
        return False

    def leo_of(self, key, log):
        """The end of the log of a follower's leader."""
        leader = self.brokers.get(log.leader)
        other = leader.logs.get(key) if leader else None
        return other.leo if other and other.role == LEADER else -1

    def settled(self):
        """Whether the controller has nothing left to do."""
        active = self.active()
        return active is not None and active.controller.settled

    def tick(self, broker):
        """Time passes at a candidate."""
        self.candidates[broker].event(Tick(), self.now_ms)

    def follower_roles(self):
        """Followers of living brokers."""
        return [(b, key, log) for b in BROKERS for key, log in self.brokers[b].roles(FOLLOWER) if self.brokers[b].up]


def creation(name):
    """A command that makes a topic of three replicas."""
    return CreateTopics([NewTopic(name, 2, 3)])


def deletion(name):
    """A command that deletes it."""
    return DeleteTopics([name])


def reassignment(name, replicas):
    """A command that moves its partition 0."""
    partition = ReassignablePartition(partition_index=0, replicas=replicas)
    return AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=name, partitions=[partition])])


def shutdown(broker, epoch):
    """A command by which a broker asks to stop."""
    return ControlledShutdownRequest(broker_id=broker, broker_epoch=epoch)


def election():
    """A command that gives everything back to preferred leaders."""
    return ElectLeadersRequest(election_type=0, topic_partitions=None)
