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
from mpbroker.cluster.jobs import Jobs
from mpbroker.cluster.publisher import Publisher
from mpbroker.cluster.topic_jobs import TopicJobs
from mpbroker.controller import agent_decisions, agent_requests
from mpbroker.controller.agent_requests import ControlRequests
from mpbroker.controller.isr_proposals import IsrProposals
from mpbroker.metadata.cluster_records import PartitionRecord
from mpbroker.protocol.messages.alter_partition import BrokerState
from mpbroker.replication import leader_link
from mpbroker.replication.follower import LeaderFetch
from mpbroker.replication.leader_link import LeaderLink
from tests.simulation.agent_host import RowLog
from tests.simulation.replica_model import LEADER, ReplicaModel


class Rule(NamedTuple):
    """A rule: what is replaced by what while it is broken. `often`: weights of steps for what seldom comes together."""

    sentence: str
    seed: int
    replacements: list[tuple[object, str, Callable]]
    often: dict[str, float] | None = None

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
_become = ReplicaModel.become
_follow = LeaderFetch.follow
_told = RowLog.isr_answered


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


def _deaf_when_busy(self, *answer):
    _told(self, *answer)
    return 0


def _by_now(self, ordinal, isr):
    return [BrokerState(broker, self._broker_epoch(broker)) for broker in isr]


def _older_is_taken(hosted, wanted):
    return 0


def _look_again_once(self, ordinal):
    row = self._logs.row(ordinal)
    if row is not None:
        self.fetch.moved(ordinal, row.leo, row.last_epoch, row.log_start)


def _goes_on_only(self, rows):
    failed = {key: each for key, each in self._partitions.items() if each.is_failed}
    _follow(self, rows)
    for key, each in failed.items():
        now = self._partitions.get(key)
        if now is not None and now.row.leader_epoch == each.row.leader_epoch:
            self._partitions[key] = each


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
        115,
        [(Jobs, "_begin", _unguarded), (Jobs, "_corrected", _no_guard_to_look_at)],
    ),
    Rule("a transaction that came late counts whole", 13242, [(Jobs, "_came_late", lambda *_: [])]),
    Rule("only a replica in sync is elected", 126, [(leader_election, "_without_leader", _elect_anybody)]),
    Rule("another leader means another epoch", 0, [(leader_election, "_written", _same_epoch)]),
    Rule(
        "who comes back after a power failure leaves the ISR",
        1,
        [(leader_election, "_restarted", lambda *_: False)],
    ),
    Rule("the watch never goes back behind what is known", 29, [(ClusterImage, "_take", _take_anything)]),
    Rule("what a broker did not confirm is sent again", 7, [(wanted_state.WantedState, "failed", _forget_failed)]),
    Rule("a broker that comes is told everything", 3, [(Publisher, "_broker_came", _nothing_for_newcomers)]),
    Rule("a move ends when its target is in sync", 194, [(elections_module, "reassigned_state", _end_at_once)]),
    Rule("what a dead controller left is swept", 350, [(TopicJobs, "sweep", _sweep_nothing)]),
    Rule("an older leader epoch changes nothing", 76, [(agent_decisions, "_refusal", _older_is_taken)]),
    Rule("what met a busy partition is asked for again", 19, [(agent_requests, "_whole", lambda codes: 0)]),
    Rule(
        "a busy partition hears of its ISR later",
        2,
        [(RowLog, "isr_answered", _deaf_when_busy)],
    ),
    Rule("what a dead controller wanted deleted goes", 80, [(ControlRequests, "set_moved_aside", lambda *_: None)]),
    Rule("a fetcher looks again for a busy row", 432, [(LeaderLink, "_look_again", _look_again_once)]),
    Rule("a fenced follower goes on in its epoch", 432, [(LeaderFetch, "follow", _goes_on_only)]),
    Rule("a follower cuts back to where both logs part", 1, [(leader_link, "truncation_target", lambda *_: _[2])]),
    Rule("a shrunk ISR counts after the answer", 0, [(ReplicaModel, "propose", _shrink_at_once)]),
    Rule("a new leader's high watermark stays", 9, [(ReplicaModel, "become", _hw_is_end)]),
    Rule(
        "what conflicted is decided again",
        208,
        [(Elections, "finished", _never_again)],
        {"lost": 12, "admin": 2, "kill": 0.1, "cut": 0.1, "controller_dies": 0.1, "power": 0.1},
    ),
    Rule(
        "an older controller's request changes nothing",
        1141,
        [(agent_requests, "fence", lambda *_: 0)],
        {"controller_dies": 4, "late_message": 3, "strive": 60, "admin": 4},
    ),
    Rule(
        "a newcomer is known by the epoch that was counted",
        729,
        [(IsrProposals, "_members", _by_now)],
        {"propose": 1.5, "power": 4, "shrink": 10, "start": 20, "expire": 30, "register": 40, "checkpoint": 0.2}
        | dict.fromkeys(("kill", "cut", "agent_dies", "controller_dies", "admin"), 0.1),
    ),
]
