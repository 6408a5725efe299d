"""Rules of the cluster, each broken on purpose: the simulation must notice every one of them.

A rule is broken by replacing something for the time of a run; `seed`: a schedule that showed it when it was written,
tried first.
"""

from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple
from unittest.mock import patch

from mpbroker.cluster import elections as elections_module
from mpbroker.cluster import leader_election, wanted_state
from mpbroker.cluster.cluster_image import ClusterImage
from mpbroker.cluster.elections import Elections
from mpbroker.cluster.events import Txn
from mpbroker.cluster.jobs import Jobs, StepBuilder
from mpbroker.cluster.publisher import Publisher
from mpbroker.cluster.topic_jobs import TopicJobs
from mpbroker.metadata.cluster_records import PartitionRecord
from mpbroker.metadata.meta_store import Version
from tests.simulation.broker_model import BrokerModel
from tests.simulation.replica_model import LEADER, ReplicaModel


class Rule(NamedTuple):
    """A rule: what is replaced by what while it is broken."""

    sentence: str
    seed: int
    replacements: list[tuple[object, str, Callable]]

    def broken(self):
        """A context in which the rule does not hold."""
        stack = ExitStack()
        for owner, name, substitute in self.replacements:
            stack.enter_context(patch.object(owner, name, substitute))
        return stack


def _unguarded(self, owner, step):
    txn = _begin(self, owner, step)
    self._txn = Txn(txn.tag, tuple(txn.checks[1:]), txn.ops)
    return self._txn


_begin = Jobs._begin
_correct = Jobs._corrected
_written = leader_election._written
_take = ClusterImage._take
_role = BrokerModel._role
_become = ReplicaModel.become


def _no_guard_to_look_at(self, txn, entries, outcome):
    entries = {self._guard.key: self._image.entry(self._guard.key), **entries}
    return _correct(self, txn, entries, outcome)


def _same_epoch(record, leader, isr, around, recovering=None):
    written = _written(record, leader, isr, around, recovering)
    return PartitionRecord(
        written.leader, record.leader_epoch, written.isr, written.controller_epoch, written.recovering
    )


def _elect_anybody(partition, assignment, around):
    return leader_election.unclean_state(partition, assignment, around)


def _unchecked(self, key):
    known = self._image.entry(self._image.keys.controller_epoch)
    return Version(known.key, known.version)


def _take_anything(self, key, entry, rev):
    self._gone.pop(key, None)
    if entry is None and key not in self._known:
        return None
    if entry is None:
        del self._known[key]
    else:
        self._known[key] = entry
    return self._interpret(key, entry)


def _shrink_at_once(self, isr):
    self.isr = self.maximal = frozenset(isr)
    self.proposal = [frozenset(isr), "pending"]


def _hw_is_end(self, me, *role):
    refused = _become(self, me, *role)
    if self.role == LEADER:
        self.hw = self.leo
    return refused


def _any_epoch(self, topic, state):
    log = self.logs.get((topic.topic_name, state.partition_index))
    if log:
        log.leader_epoch = min(log.leader_epoch, state.leader_epoch - 1)
    return _role(self, topic, state)


def _forget_failed(self, now_ms):
    self.in_flight = None


def _nothing_for_newcomers(self, broker, now_ms):
    self.targets[broker.id] = wanted_state.WantedState(broker.id, broker.epoch)


def _end_at_once(partition, assignment, around):
    leader = next((b for b in assignment.target if b in around.brokers), None)
    return None if leader is None else _written(partition.record, leader, [leader], around)


def _sweep_nothing(self):
    return
    yield


def _never_again(self, outcome):
    self._in_step = []


RULES = [
    Rule(
        "every transaction carries the guard of the term",
        52,
        [(Jobs, "_begin", _unguarded), (Jobs, "_corrected", _no_guard_to_look_at)],
    ),
    Rule("a state is written only over the version it was made from", 14, [(StepBuilder, "_as_known", _unchecked)]),
    Rule("only a replica in sync is elected", 23, [(leader_election, "_without_leader", _elect_anybody)]),
    Rule("another leader means another epoch", 0, [(leader_election, "_written", _same_epoch)]),
    Rule(
        "who comes back after a power failure leaves the ISR",
        2,
        [(leader_election, "_restarted", lambda *_: False)],
    ),
    Rule("the watch never goes back behind what is known", 152, [(ClusterImage, "_take", _take_anything)]),
    Rule("what conflicted is decided again", 169, [(Elections, "finished", _never_again)]),
    Rule("what a broker did not confirm is sent again", 7, [(wanted_state.WantedState, "failed", _forget_failed)]),
    Rule("a broker that comes is told everything", 3, [(Publisher, "_broker_came", _nothing_for_newcomers)]),
    Rule("a move ends when its target is in sync", 28, [(elections_module, "reassigned_state", _end_at_once)]),
    Rule("what a dead controller left is swept", 81, [(TopicJobs, "sweep", _sweep_nothing)]),
    Rule("an older leader epoch changes nothing", 72, [(BrokerModel, "_role", _any_epoch)]),
    Rule("a shrunk ISR counts after the answer", 3, [(ReplicaModel, "propose", _shrink_at_once)]),
    Rule("a new leader's high watermark stays", 9, [(ReplicaModel, "become", _hw_is_end)]),
    Rule("a follower cuts what its leader does not have", 8, [(ReplicaModel, "truncate", lambda *_: None)]),
]
