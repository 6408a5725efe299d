"""Work of the elected controller that needs transactions: which of it goes next, with what, and what came of it. Pure.

A job is a generator that yields Steps and is sent their outcomes. It computes each step from the image as it is at
that moment, so a conflict, an outcome nobody knows, or the death of the controller between two steps needs nothing but
computing again: what is done already is seen in the image. Elections go before commands of brokers, these before
commands of clients.

There is one transaction at a time. Every one carries the guard of the term, and is a link of a chain: it checks that
the key `transaction` is as its predecessor left it, and leaves its own tag there. So the tag tells what became of one
whose outcome nobody knew; and if it had not happened, it never will once the next one has (it could, say, create a
topic again that was deleted in between). Until then it may: such are remembered, so that the image gets all that one of
them changed when the link shows that it came after all.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from typing import Any, Final, NamedTuple

from mpbroker.cluster.cluster_config import MAX_TRANSACTION_OPERATIONS
from mpbroker.cluster.cluster_image import Change, ClusterImage
from mpbroker.cluster.controller_metrics import ControllerMetrics
from mpbroker.cluster.events import Effect, Read, Resign, Txn
from mpbroker.metadata.meta_store import (
    Absent,
    Check,
    Committed,
    Conflict,
    Delete,
    DeletePrefix,
    Entry,
    ModRev,
    Op,
    Put,
    Unknown,
    Version,
)

ELECTION, BROKERS, CLIENTS = 0, 1, 2
CLASSES: Final = 3
MAX_IN_DOUBT: Final = 16
"""So many transactions in a row may have an outcome that nobody knows; a store that does worse ends the term."""
LINK_OPERATIONS: Final = 2
"""What a transaction has besides its step: guard and link to check, the link to write."""


class Step(NamedTuple):
    """A transaction, without the guard. Both empty: wait until elections are through."""

    checks: tuple[Check, ...]
    ops: tuple[Op, ...]


NOTHING: Final = Step((), ())
Outcome = Committed | Conflict | Unknown
Job = Generator[Step, Outcome, Any]
Steps = Generator[Step, Outcome, None]


class StepBuilder:
    """Collects one transaction that stays within what a store takes: so many checks, as many operations."""

    def __init__(self, image: ClusterImage, max_operations: int) -> None:
        self._image = image
        self._most = min(max_operations - LINK_OPERATIONS, MAX_TRANSACTION_OPERATIONS)
        self._checks: dict[str, Check] = {}
        self._ops: list[Op] = []

    def add(self, ops: Iterable[Op], brokers: Iterable[int] = ()) -> bool:
        """Add operations on keys that must be as the image has them, while these brokers are registered, or not, as
        they are; False: there is no room for them. So a state says of everybody in its ISR, by its revision, whether
        he has been away since."""
        new, checks = list(ops), {}
        for op in new:
            if not isinstance(op, DeletePrefix):
                checks[op.key] = self._as_known(op.key)
        for broker in brokers:
            live, key = self._image.brokers.get(broker), self._image.keys.broker(broker)
            checks[key] = ModRev(key, live.mod_rev) if live else Absent(key)
        checks = self._checks | checks
        if self._ops and (len(checks) > self._most or len(self._ops) + len(new) > self._most):
            return False
        self._checks = checks
        self._ops += new
        return True

    def step(self) -> Step:
        """What was collected."""
        return Step(tuple(self._checks.values()), tuple(self._ops))

    def _as_known(self, key: str) -> Check:
        return as_known(self._image, key)


def as_known(image: ClusterImage, key: str) -> Check:
    """That a key is in the store as it is in the image."""
    known = image.entry(key)
    return Version(key, known.version) if known else Absent(key)


class Running(NamedTuple):
    """A job under way; `outcome`: of its last step, None before the first."""

    job: Job
    done: Callable[[Any], None]
    outcome: Outcome | None = None


class Jobs:
    """Runs jobs. `elections` makes a step for what has to be elected, or None; `changed` is told what a transaction
    changed in the image, before its job goes on."""

    def __init__(
        self,
        image: ClusterImage,
        guard: Version,
        term: str,
        metrics: ControllerMetrics,
        elections: Callable[[], Step | None],
        elected: Callable[[Outcome], None],
        changed: Callable[[list[Change]], None],
    ) -> None:
        self._image = image
        self._guard = guard
        self._link = image.keys.transaction
        self._term = term
        self._metrics = metrics
        self._elections = elections
        self._elected = elected
        self._changed = changed
        self._waiting: list[deque[Running]] = [deque() for _ in range(CLASSES)]
        self._txn: Txn | None = None
        self._in_doubt: dict[bytes, Txn] = {}
        self._owner: int = ELECTION
        self._number = 0

    @property
    def queue_size(self) -> int:
        """Jobs that are not finished."""
        return sum(len(queue) for queue in self._waiting)

    @property
    def idle(self) -> bool:
        """Whether nothing is under way."""
        return self._txn is None and self.queue_size == 0

    def add(self, priority: int, job: Job, done: Callable[[Any], None]) -> None:
        """Run a job when its turn comes; `done` is called with what it returns."""
        self._waiting[priority].append(Running(job, done))

    def give_up(self) -> None:
        """The term is over."""
        for queue in self._waiting:
            for running in queue:
                running.job.close()
            queue.clear()

    def pump(self) -> list[Effect]:
        """Begin the next transaction, if none is under way and there is one to begin."""
        while self._txn is None:
            step = self._elections()
            if step:
                return [self._begin(ELECTION, step)]
            priority = next((n for n in (BROKERS, CLIENTS) if self._waiting[n]), None)
            if priority is None:
                return []
            step = self._advance(priority)
            if step:
                return [self._begin(priority, step)]
        return []

    def outcome(self, tag: str, outcome: Outcome) -> list[Effect]:
        """A transaction was tried."""
        txn = self._txn
        if txn is None or txn.tag != tag:
            return []
        if isinstance(outcome, Unknown):
            self._metrics.unknown += 1
            return [Read(tag, _keys_of(txn))]
        if isinstance(outcome, Conflict):
            self._metrics.conflicts += 1
            entries = {check.key: entry for check, entry in zip(txn.checks, outcome.current, strict=True)}
            return self._looked_up(txn, entries, outcome)
        self._metrics.transactions += 1
        self._in_doubt.clear()
        self._finish(outcome, self._image.commit(outcome.rev, txn.ops))
        return []

    def read(self, tag: str, entries: dict[str, Entry | None]) -> list[Effect]:
        """What the store has after a transaction whose outcome nobody knew."""
        txn = self._txn
        if txn is None or txn.tag != tag:
            return []
        return self._looked_up(txn, entries, Unknown(tag))

    def _looked_up(self, txn: Txn, entries: dict[str, Entry | None], outcome: Outcome) -> list[Effect]:
        link = entries[self._link]
        if link is not None and link.value == txn.tag.encode():
            return self.outcome(txn.tag, Committed(link.mod_rev))
        if isinstance(outcome, Unknown):
            self._in_doubt[txn.tag.encode()] = txn
        return self._corrected(txn, entries, outcome)

    def _corrected(self, txn: Txn, entries: dict[str, Entry | None], outcome: Outcome) -> list[Effect]:
        guard = entries[self._guard.key]
        if guard is None or guard.version != self._guard.version:
            return [Resign("another controller was elected")]
        late = self._came_late(entries[self._link])
        if late is None or len(self._in_doubt) > MAX_IN_DOUBT:
            return [Resign("the store is as no transaction that is remembered has left it")]
        self._finish(outcome, [*late, *self._image.correct(entries)])
        return []

    def _came_late(self, link: Entry | None) -> list[Change] | None:
        """What one of those in doubt changed, if the link says that it came; None: the link is nobody's."""
        known = self._image.entry(self._link)
        if link is None or (known is not None and known.mod_rev >= link.mod_rev):
            return []
        late = self._in_doubt.get(link.value)
        return None if late is None else self._image.commit(link.mod_rev, late.ops)

    def _finish(self, outcome: Outcome, changes: list[Change]) -> None:
        self._txn = None
        self._changed(changes)
        if self._owner == ELECTION:
            self._elected(outcome)
        else:
            queue = self._waiting[self._owner]
            queue[0] = queue[0]._replace(outcome=outcome)

    def _begin(self, owner: int, step: Step) -> Txn:
        self._number += 1
        self._owner = owner
        tag = f"{self._term}/{self._number}"
        link = as_known(self._image, self._link)
        self._txn = Txn(tag, (self._guard, link, *step.checks), (*step.ops, Put(self._link, tag.encode())))
        return self._txn

    def _advance(self, priority: int) -> Step | None:
        """The next step of the first job of a class; None: it waits, or has ended."""
        queue = self._waiting[priority]
        running = queue[0]
        try:
            step = next(running.job) if running.outcome is None else running.job.send(running.outcome)
        except StopIteration as stop:
            queue.popleft()
            running.done(stop.value)
            return None
        if step.ops:
            return step
        queue[0] = running._replace(outcome=Committed(self._image.rev))
        return None


def _keys_of(txn: Txn) -> tuple[str, ...]:
    keys = [check.key for check in txn.checks]
    keys += [op.key for op in txn.ops if isinstance(op, Put | Delete)]
    return tuple(dict.fromkeys(keys))
