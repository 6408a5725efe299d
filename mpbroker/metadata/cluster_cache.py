"""What a process knows about the cluster: brokers, the controller, who leads which partition. One per process, any
role,
and only in a broker of a cluster.

`refresh` compares one number when no broker or controller changed; who leads a partition is read from its row each
time. Nothing here is written to shared memory."""

from collections.abc import Callable

from mpbroker.shm.cluster_table import (
    GONE,
    NOBODY,
    Assignment,
    Broker,
    assignment_read,
    brokers_shown,
    cluster_state,
)
from mpbroker.shm.core import Core


def _nobody_knows(broker: int, listener: str) -> bool:
    return False


class ClusterCache:
    """Brokers by id: `brokers` live, `gone` lived until not long ago. Call `refresh` before relying on them for a
    request. `is_dead(broker, listener)`: what else is known of one."""

    def __init__(
        self,
        core: Core,
        is_dead: Callable[[int, str], bool] = _nobody_knows,
        now_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        self._core = core
        self._is_dead = is_dead
        self._now_ms = now_ms
        self._lost_ms: dict[str, dict[int, int]] = {}
        self._generation = -1
        self.brokers: dict[int, Broker] = {}
        self.gone: dict[int, Broker] = {}
        self._dead: dict[str, frozenset[int]] = {}
        self._reached: dict[str, frozenset[int]] = {}
        self.controller_id = NOBODY
        self.broker_epoch = NOBODY
        self.refresh()

    def refresh(self) -> None:
        """Take over what changed."""
        state, self._dead = cluster_state(self._core), {}
        if state.generation != self._generation:
            shown, self._reached = brokers_shown(self._core), {}
            self.brokers = {id: broker for id, broker in shown.items() if broker.epoch != GONE}
            self.gone = {id: broker for id, broker in shown.items() if broker.epoch == GONE}
            self._generation = state.generation
            self.controller_id = state.controller if state.controller in self.brokers else NOBODY
            self.broker_epoch = state.broker_epoch

    def reached(self, listener: str) -> frozenset[int]:
        """The brokers that have a listener of this name and are not known to be dead: nobody else is a leader to its
        clients. A dead one is none from its death on, not only when the controller has said so: who lost the connection
        to it asks at once, and would be told of the same leader."""
        found = self._reached.get(listener)
        if found is None:
            found = frozenset(broker for broker, live in self.brokers.items() if live.on(listener) is not None)
            self._reached[listener] = found
        dead = self._dead.get(listener)
        if dead is None:
            dead = self._dead[listener] = frozenset(one for one in found if self._is_dead(one, listener))
        return found - dead if dead else found

    def lost_within(self, listener: str, for_ms: int) -> frozenset[int]:
        """Brokers that are dead or gone, and were found to be no longer ago than that: who leads in their place may not
        be known yet."""
        self.reached(listener)
        lost, before = self._dead[listener] | self.gone.keys(), self._lost_ms.get(listener, {})
        if not lost and not before:
            return lost
        now_ms = self._now_ms()
        since = self._lost_ms[listener] = {broker: before.get(broker, now_ms) for broker in lost}
        return frozenset(broker for broker in lost if now_ms - since[broker] < for_ms)

    def assignment(self, ordinal: int, topic_id: bytes) -> Assignment | None:
        """Of a partition's row; None: no controller has spoken of it yet."""
        found = assignment_read(self._core, ordinal)
        return found if found is not None and found.topic_id == topic_id else None

    def leader(self, ordinal: int) -> tuple[int, int] | None:
        """Who leads the partition of a row, and the epoch; None: no controller has spoken of it yet."""
        found = assignment_read(self._core, ordinal)
        return None if found is None else (found.leader, found.leader_epoch)
