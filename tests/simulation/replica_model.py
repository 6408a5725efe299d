"""One replica of one partition: its log, role, high watermark and in-sync replicas, by the rules that the broker's
replication keeps (leader epochs as KIP-101 and 279, positions of the current epoch only, KIP-497's maximal ISR)."""

UNDEFINED = (-1, -1)
NONE, LEADER, FOLLOWER = "none", "leader", "follower"


class ReplicaModel:
    """`log`: (leader epoch, value) of each record. `epochs`: (leader epoch, first offset), also of epochs without
    records. A crash takes all but log, epochs and the checkpoints."""

    def __init__(self, topic_id, min_isr):
        self.topic_id = topic_id
        self.min_isr = min_isr
        self.log, self.epochs = [], []
        self.synced = self.checkpoint = 0
        self.leader_epoch = -1
        self.forget()

    def forget(self):
        """The broker starts anew: no role until a controller speaks."""
        self.role, self.leader = NONE, -1
        self.partition_epoch = -1
        self.replicas, self.isr, self.maximal = (), frozenset(), frozenset()
        self.hw = min(self.checkpoint, len(self.log))
        self.positions, self.parked = {}, []
        self.lives = {}  # broker epochs of the fetches that were counted
        self.proposal = None  # [isr, "pending" or "sent"]
        self.epoch_start = 0

    def lose_power(self):
        """What was not synced is gone."""
        del self.log[self.synced :]
        self.epochs = [(epoch, start) for epoch, start in self.epochs if start <= len(self.log)]
        self.checkpoint = min(self.checkpoint, len(self.log))
        self.hw = min(self.hw, len(self.log))

    @property
    def leo(self):
        return len(self.log)

    @property
    def last_epoch(self):
        return self.epochs[-1][0] if self.epochs else -1

    def become(self, me, leader, leader_epoch, partition_epoch, replicas, isr):
        """Take the role; values whose producers are to be told 6."""
        refused = self.parked if leader != me else []
        if leader != me:
            self.parked = []
        if leader_epoch > self.leader_epoch or self.role == NONE:
            self.positions, self.proposal = {}, None
        self.leader_epoch, self.partition_epoch, self.leader = leader_epoch, partition_epoch, leader
        self.replicas, self.isr = tuple(replicas), frozenset(isr)
        self.maximal = self.isr
        if leader == me:
            if self.last_epoch < leader_epoch:
                self.epochs.append((leader_epoch, self.leo))
            self.role, self.epoch_start = LEADER, self.leo
            self.raise_hw(me)
        else:
            self.role, self.isr, self.maximal = FOLLOWER, frozenset(), frozenset()
        return refused

    def append(self, value):
        self.log.append((self.leader_epoch, value))

    def end_of(self, epoch):
        """(epoch, offset) where an epoch ends here."""
        if epoch == self.last_epoch:
            return epoch, self.leo
        if not self.epochs or epoch > self.last_epoch or epoch < 0:
            return UNDEFINED
        found = (epoch, self.epochs[0][1])
        for index, (known, _) in enumerate(self.epochs[:-1]):
            if known <= epoch:
                found = known, self.epochs[index + 1][1]
        return found

    def raise_hw(self, me):
        """The least position, in this epoch, of everybody that may be in sync; not below min ISR."""
        if self.role != LEADER or len(self.isr) < min(self.min_isr, len(self.replicas)):
            return
        least = self.leo
        for broker in self.maximal - {me}:
            if broker not in self.positions:
                return
            least = min(least, self.positions[broker])
        self.hw = max(self.hw, least)

    def fetched(self, me, broker, epoch, offset, last_epoch, broker_epoch):
        """A follower's fetch: (error, diverging, records, high watermark)."""
        if self.role != LEADER:
            return 6, None, [], -1
        if epoch != self.leader_epoch:
            return (74 if epoch < self.leader_epoch else 75), None, [], -1
        if broker not in self.replicas:
            return 75, None, [], -1
        if last_epoch >= 0:
            end_epoch, end = self.end_of(last_epoch)
            if end < 0:
                return 1, None, [], -1
            if end_epoch < last_epoch or end < offset:
                return 0, (end_epoch, end), [], self.hw
        if offset > self.leo:
            return 1, None, [], -1
        self.positions[broker], self.lives[broker] = offset, broker_epoch
        if broker not in self.isr and offset >= self.hw and offset >= self.epoch_start and self.proposal is None:
            self.propose(self.isr | {broker})
        self.raise_hw(me)
        return 0, None, self.log[offset:], self.hw

    def propose(self, isr):
        """An ISR that the controller has not confirmed: expanding counts at once, shrinking not before the answer."""
        self.maximal = self.isr | frozenset(isr)
        self.proposal = [frozenset(isr), "pending"]

    def answered(self, me, leader_epoch, error, isr, partition_epoch):
        """The controller's answer to a proposal."""
        if self.role != LEADER or leader_epoch != self.leader_epoch or self.proposal is None:
            return
        if error == 0:
            if partition_epoch > self.partition_epoch:
                self.isr = self.maximal = frozenset(isr)
                self.partition_epoch = partition_epoch
            self.proposal = None
            self.raise_hw(me)
        elif error in (55, 107):
            self.maximal, self.proposal = self.isr, None
        elif error not in (3, 100, 74, 95, 42, 108):
            self.proposal[1] = "pending"

    def copy(self, records, hw):
        """What the leader has from here on, and how far it is committed."""
        for offset, epoch, value in records:
            assert offset == self.leo, (offset, self.leo, records, self.log)
            if epoch > self.last_epoch:
                self.epochs.append((epoch, self.leo))
            self.log.append((epoch, value))
        self.hw = max(self.hw, min(hw, self.leo))

    def truncate(self, target):
        """Nothing stays from there on."""
        del self.log[target:]
        self.epochs = [(known, start) for known, start in self.epochs if start < target]
        self.synced, self.hw = min(self.synced, self.leo), min(self.hw, self.leo)
