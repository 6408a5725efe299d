"""What must hold after each step, and at rest. A watcher looks at the whole world and remembers what was committed."""

from mpbroker.metadata.cluster_records import ControllerRecord, PartitionRecord
from mpbroker.metadata.topic_record import decode_record
from tests.simulation.replica_model import LEADER
from tests.simulation.world import BROKERS, MIN_ISR


class Broken(AssertionError):
    """A rule does not hold."""


class Watcher:
    """Remembers, of each partition, what was committed and who led in which epoch."""

    def __init__(self):
        self.committed = {}  # (topic id, number) -> records below the highest high watermark of any leader
        self.led = {}  # (topic id, number, leader epoch) -> broker, by role
        self.elected = {}  # the same by the store
        self.controllers = {}
        self.epochs = {}
        self._kept = set()
        self._revision = 0

    def __call__(self, world):
        self.world = world
        self._store()
        self._roles()
        self._electable()
        self._acknowledged()

    def _store(self):
        """Each state that was ever written: one leader an epoch, epochs forward, the leader in the ISR."""
        world = self.world
        while self._revision < world.store.revision():
            self._revision += 1
            for event in world.store.changes(self._revision):
                if event.entry is None:
                    continue
                if event.key == world.keys.controller:
                    self._one_controller(event)
                if event.key.startswith(world.keys.partitions):
                    self._state(event)

    def _one_controller(self, event):
        record = decode(ControllerRecord, event)
        other = self.controllers.setdefault(record.epoch, record.incarnation)
        check(other == record.incarnation, f"two controllers in epoch {record.epoch}")

    def _state(self, event):
        topic, _, number = event.key.removeprefix(self.world.keys.partitions).partition("/")
        key = bytes.fromhex(topic), int(number)
        record = decode(PartitionRecord, event)
        latest = max(self.controllers, default=0)
        check(record.controller_epoch == latest, f"{number}: controller {record.controller_epoch} wrote in {latest}")
        check(record.leader < 0 or record.leader in record.isr, f"{number}: leader {record.leader} of {record.isr}")
        check(record.isr, f"{number}: no ISR")
        before = self.epochs.get(key, -1)
        check(record.leader_epoch >= before, f"{number}: leader epoch {record.leader_epoch} after {before}")
        self.epochs[key] = record.leader_epoch
        other = self.elected.setdefault((*key, record.leader_epoch), record.leader)
        check(other == record.leader, f"{number}: leaders {other} and {record.leader} in epoch {record.leader_epoch}")

    def _roles(self):
        """One leader an epoch; what a leader's high watermark covers is final."""
        for broker, model in self.world.brokers.items():
            for key, log in model.logs.items():
                if not 0 <= log.hw <= len(log.log):
                    raise Broken(f"{key}: high watermark {log.hw} of {log.leo}")
                if log.role != LEADER or not model.up:
                    continue
                partition = (log.topic_id, key[1])
                other = self.led.setdefault((*partition, log.leader_epoch), broker)
                if other != broker:
                    raise Broken(f"{key}: {other} and {broker} lead in epoch {log.leader_epoch}")
                if log.hw:
                    self.commit(partition, key, broker, log)

    def commit(self, partition, key, broker, log):
        """What is below a leader's high watermark is final."""
        known = self.committed.setdefault(partition, [])
        new = log.log[: log.hw]
        shared = min(len(known), len(new))
        if known[:shared] != new[:shared]:
            raise Broken(f"{key}: {broker} has {new}, committed was {known}")
        if len(new) > len(known):
            self.committed[partition] = new

    def _electable(self):
        """Whoever may be elected without loss has all that was committed (LeaderCompleteness)."""
        for partition, (record, _, revision) in self.world.states().items():
            committed = self.committed.get(partition)
            if not committed:
                continue
            for broker in record.isr:
                model = self.world.brokers[broker]
                registered = self.world.registered(broker)
                here = model.up and registered == model.epoch >= 0
                if model.unclean and (not here or registered > revision):
                    continue  # damaged, and taken for what it is
                log = next((it for key, it in model.logs.items() if (it.topic_id, key[1]) == partition), None)
                found = log.log[: len(committed)] if log else None
                if found != committed:
                    raise Broken(f"{broker} in ISR {record.isr} has {found}, committed is {committed}")

    def _acknowledged(self):
        for value, partition in self.world.acknowledged.items():
            if value not in self._kept:  # what is committed stays so: `commit`
                known = self.committed.get(partition, ())
                check(any(value == v for _, v in known), f"{value} was acknowledged and is not committed")
                self._kept.add(value)

    def at_rest(self):
        """Everything heals: metadata as the store has it, logs equal, nothing waits."""
        world = self.world
        states, topics = world.states(), world.topics()
        names = {record.id: name for name, record in topics.items()}
        for (topic_id, number), (record, version, _) in states.items():
            check(topic_id.hex() in names, "states of a partition without a topic are left")
            replicas = topics[names[topic_id.hex()]].replicas[number]
            check(record.leader in BROKERS, f"{number} has no leader")
            check(set(record.isr) == set(replicas), f"{number}: ISR {record.isr} of {replicas}")
            self._metadata(topic_id, number, record, version, replicas)
            self._logs(names[topic_id.hex()], topic_id, number, replicas)
        for record in topics.values():
            check(not record.adding and not record.removing, "a reassignment does not end")
            check(len(record.replicas) == sum(t.hex() == record.id for t, _ in states), "partitions without a state")
        for broker in BROKERS:
            model = world.brokers[broker]
            for key, log in model.logs.items():
                check(world.hosts(broker, log.topic_id, key[1]), f"{broker} keeps a stray {key}")
                check(not log.parked, f"{broker}: {key} has requests that wait")
                check(log.proposal is None, f"{broker}: {key} waits for its ISR")
            check(model.brokers == set(BROKERS), f"{broker} knows brokers {model.brokers}")

    def _metadata(self, topic_id, number, record, version, replicas):
        for broker in BROKERS:
            shown = self.world.brokers[broker].metadata.get((topic_id, number))
            wanted = (record.leader, record.leader_epoch, record.isr, version - 1, replicas, [])
            found = shown and (
                shown.leader,
                shown.leader_epoch,
                shown.isr,
                shown.zk_version,
                shown.replicas,
                shown.offline_replicas,
            )
            check(found == wanted, f"{broker} shows {found} of partition {number}, the store has {wanted}")

    def _logs(self, name, topic_id, number, replicas):
        logs = [self.world.brokers[broker].logs.get((name, number)) for broker in replicas]
        check(all(log and log.topic_id == topic_id for log in logs), f"{name}-{number} is missing somewhere")
        check(all(log.log == logs[0].log for log in logs), f"{name}-{number}: replicas differ")
        committed = self.committed.get((topic_id, number), [])
        check(logs[0].log[: len(committed)] == committed, f"{name}-{number}: committed records are missing")
        if len(replicas) >= MIN_ISR:
            check(all(log.hw == log.leo for log in logs if log.role == LEADER), f"{name}-{number}: not all committed")


def check(holds, sentence):
    """A rule."""
    if not holds:
        raise Broken(sentence)


def decode(kind, event):
    """The record an event put."""
    return decode_record(kind, event.entry.value, event.key)
