"""What a process knows about the cluster: brokers, the controller, who leads which partition. One per process, any
role,
and only in a broker of a cluster.

`refresh` compares one number when no broker or controller changed; who leads a partition is read from its row each
time. Nothing here is written to shared memory."""

from mpbroker.shm.cluster_table import NOBODY, Assignment, Broker, assignment_read, brokers_read, cluster_state
from mpbroker.shm.core import Core


class ClusterCache:
    """Brokers by id. Call `refresh` before relying on them for a request."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._generation = -1
        self.brokers: dict[int, Broker] = {}
        self._reached: dict[str, frozenset[int]] = {}
        self.controller_id = NOBODY
        self.broker_epoch = NOBODY
        self.refresh()

    def refresh(self) -> None:
        """Take over what changed."""
        state = cluster_state(self._core)
        if state.generation != self._generation:
            self.brokers, self._reached = brokers_read(self._core), {}
            self._generation = state.generation
            self.controller_id = state.controller if state.controller in self.brokers else NOBODY
            self.broker_epoch = state.broker_epoch

    def reached(self, listener: str) -> frozenset[int]:
        """The brokers that have a listener of this name: others than these its clients are not told of."""
        found = self._reached.get(listener)
        if found is None:
            found = frozenset(broker for broker, live in self.brokers.items() if live.on(listener) is not None)
            self._reached[listener] = found
        return found

    def assignment(self, ordinal: int, topic_id: bytes) -> Assignment | None:
        """Of a partition's row; None: no controller has spoken of it yet."""
        found = assignment_read(self._core, ordinal)
        return found if found is not None and found.topic_id == topic_id else None

    def leader(self, ordinal: int) -> tuple[int, int] | None:
        """Who leads the partition of a row, and the epoch; None: no controller has spoken of it yet."""
        found = assignment_read(self._core, ordinal)
        return None if found is None else (found.leader, found.leader_epoch)
