"""A process that may be the cluster's controller: the real logic of `mpbroker/cluster/` with its store stepped. Its
transactions and its watch are each a step of their own, so that everything may happen in between."""

from mpbroker.cluster.cluster_config import ClusterConfig
from mpbroker.cluster.cluster_controller import ClusterController
from mpbroker.cluster.cluster_image import ClusterImage
from mpbroker.cluster.events import Read, ReadDone, Reply, Resign, StoreBatch, Txn, TxnDone
from mpbroker.metadata.controller_election import Elected, elect
from mpbroker.metadata.meta_store import Unknown

CONFIG = ClusterConfig(default_replication_factor=3, num_partitions=1, leader_imbalance_check_interval_seconds=20)
MAX_OPERATIONS = 8
"""So small that work takes several transactions."""


class CandidateModel:
    """The controller's process of one broker. `replied(request_id, message)` is told its answers."""

    def __init__(self, broker, store, keys, random, replied):
        self.broker = broker
        self._store = store
        self._keys = keys
        self._random = random
        self._replied = replied
        self._life = 0
        self.up = True
        self.forget()

    def forget(self):
        """Killed and started again: it remembers nothing of its terms."""
        self._life += 1
        self.session = None
        self.controller = None
        self.todo = []  # effects that wait for the store
        self.watched = 0
        self.epoch = -1

    def strive(self, now_ms):
        """Take part in an election; whether it was won."""
        self.session = self.session or self._store.session_open(9000, f"broker-{self.broker}")
        won = elect(self._store, self._keys, self.broker, f"{self.broker}.{self._life}.{now_ms}", self.session)
        if not isinstance(won, Elected):
            return False
        image = ClusterImage(self._keys)
        for page in self._store.scan(self._keys.prefix):
            image.load(page.rev, page.entries)
        self.watched = page.rev
        self.epoch, self.todo = won.epoch, []
        self.controller = ClusterController(
            node_id=self.broker,
            epoch=won.epoch,
            config=CONFIG,
            image=image,
            guard=won.guard,
            max_operations=MAX_OPERATIONS,
            new_id=lambda: self._random.randbytes(16),
            random=self._random,
        )
        self._take(self.controller.start(now_ms))
        return True

    def event(self, event, now_ms):
        """Something happened to it."""
        if self.controller:
            self._take(self.controller.event(event, now_ms))

    def watch(self, now_ms):
        """The next batch of the watch; whether there was one."""
        if self.controller is None or self.watched >= self._store.revision():
            return False
        self.watched += 1
        events = tuple(e for e in self._store.changes(self.watched) if e.key.startswith(self._keys.prefix))
        self.event(StoreBatch(self.watched, events), now_ms)
        return True

    def step_store(self, fate, now_ms):
        """Carry out the oldest thing it wants of the store. `fate`: done; or it does not know what became of it:
        hidden (done), lost (not done), late (not done yet: the transaction is returned)."""
        effect = self.todo.pop(0)
        if isinstance(effect, Read):
            self.event(ReadDone(effect.tag, {key: self._store.get(key)[1] for key in effect.keys}), now_ms)
            return None
        if fate in ("lost", "late"):
            self.event(TxnDone(effect.tag, Unknown(effect.tag)), now_ms)
            return effect if fate == "late" else None
        outcome = self._store.txn(effect.checks, effect.ops, tag=effect.tag)
        self.event(TxnDone(effect.tag, Unknown(effect.tag) if fate == "hidden" else outcome), now_ms)
        return None

    def _take(self, effects):
        for effect in effects:
            match effect:
                case Txn() | Read():
                    self.todo.append(effect)
                case Reply(number, message):
                    self._replied(number, message)
                case Resign():
                    self.controller, self.todo = None, []
                    if self.session:
                        self._store.session_close(self.session)
                        self.session = None
                    return
