"""What each broker is still to be told: a map per broker, not a queue. Of the elected controller; pure.

A broker that does not answer costs one entry per partition, however often the cluster changes meanwhile; when it
answers again it is told what holds then. One request is in flight per broker, and is made when it can be sent:
UpdateMetadata with brokers only (a follower needs its leader's address) → LeaderAndIsr → UpdateMetadata → StopReplica.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from mpbroker.cluster.cluster_config import MAX_PARTITIONS_PER_REQUEST, RETRY_MS
from mpbroker.cluster.cluster_image import DELETED_LEADER
from mpbroker.cluster.timer import Timer

_NO_RETRY: Final = -1


class Named(NamedTuple):
    """A partition as messages name it. A StopReplica has no topic id, so the name decides what waits for what."""

    topic: str
    number: int


class PartitionView(NamedTuple):
    """A partition as LeaderAndIsr and UpdateMetadata tell it."""

    topic: str
    topic_id: bytes
    number: int
    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()
    recovering: bool = False

    @property
    def named(self) -> Named:
        """Its name."""
        return Named(self.topic, self.number)

    def older_than(self, other: "PartitionView") -> bool:
        """Whether the other tells something newer of the same topic."""
        if self.topic_id != other.topic_id:
            return False
        return (self.leader_epoch, self.partition_epoch) < (other.leader_epoch, other.partition_epoch)


class Lead(NamedTuple):
    """An item of LeaderAndIsr."""

    view: PartitionView
    is_new: bool


class Stop(NamedTuple):
    """An item of StopReplica. `leader_epoch` -2: the topic is being deleted."""

    topic: str
    topic_id: bytes
    number: int
    leader_epoch: int
    delete: bool


RoleItem = Lead | Stop


class Batch(NamedTuple):
    """The content of one request. `brokers`: it is an UpdateMetadata, which always has the whole list of brokers.
    `full`: all that there is of its kind, the rest is to be forgotten."""

    roles: dict[Named, RoleItem]
    metadata: dict[Named, PartitionView]
    brokers: bool
    full: bool = False

    @property
    def partitions(self) -> int:
        """How many it has."""
        return len(self.roles) + len(self.metadata)


class WantedState:
    """What one broker, in one life of it, is still to be told."""

    def __init__(self, broker: int, broker_epoch: int) -> None:
        self.broker = broker
        self.broker_epoch = broker_epoch
        self.in_flight: Batch | None = None
        self.queue_time = Timer()
        self._roles: dict[Named, RoleItem] = {}
        self._after_delete: dict[Named, Lead] = {}
        self._metadata: dict[Named, PartitionView] = {}
        self._brokers = False
        self._full_roles = self._full_metadata = False
        self._retry_at_ms = _NO_RETRY
        self._first_unsent_ms = self._first_unanswered_ms = _NO_RETRY

    def want_all(self, now_ms: int) -> None:
        """A new life, or a new controller: what is put from now until the first request is all that there is."""
        self._full_roles = self._full_metadata = self._brokers = True
        self._changed(now_ms)

    def brokers_changed(self, now_ms: int) -> None:
        """The list of brokers is another one."""
        self._brokers = True
        self._changed(now_ms)

    def lead(self, view: PartitionView, is_new: bool, now_ms: int) -> None:
        """The broker is to lead or to follow."""
        self._changed(now_ms)
        named = view.named
        if self._deletes(named):
            self._after_delete[named] = _newest(self._after_delete.get(named), Lead(view, is_new))
            return
        unsent = self._roles.get(named)
        self._roles[named] = _newest(unsent if isinstance(unsent, Lead) else None, Lead(view, is_new))

    def stop(self, stop: Stop, now_ms: int) -> None:
        """The broker is to give a replica up."""
        self._changed(now_ms)
        named = Named(stop.topic, stop.number)
        self._after_delete.pop(named, None)
        self._roles[named] = _stickiest(self._roles.get(named), stop)

    def know(self, view: PartitionView, now_ms: int) -> None:
        """The broker is to answer Metadata with this."""
        self._changed(now_ms)
        unsent = self._metadata.get(view.named)
        if unsent and unsent.topic_id != view.topic_id and view.leader == DELETED_LEADER:
            return  # the name belongs to another topic already
        if unsent is None or view.leader == DELETED_LEADER or not view.older_than(unsent):
            self._metadata[view.named] = view

    @property
    def queue_size(self) -> int:
        """QueueSize: partitions, and lists of brokers, that the broker has not confirmed."""
        flying = self.in_flight
        unsent = self._roles.keys() | self._metadata.keys() | self._after_delete.keys()
        if flying:
            unsent = unsent | flying.roles.keys() | flying.metadata.keys()
        return len(unsent) + (1 if self._brokers or (flying and flying.brokers and not flying.metadata) else 0)

    def oldest_age_ms(self, now_ms: int) -> int:
        """How long the oldest unconfirmed item has been wanted, at most."""
        return 0 if self._first_unanswered_ms == _NO_RETRY else max(0, now_ms - self._first_unanswered_ms)

    def next_batch(self, now_ms: int, roles_only: bool = False) -> Batch | None:
        """What to send now; it is in flight from here until `answered` or `failed`. `roles_only`: no metadata yet."""
        if self.in_flight or 0 < self._retry_at_ms - now_ms <= RETRY_MS:  # further away: the clock was set back
            return None
        self.in_flight = self._take_roles() if roles_only else self._take()
        if self.in_flight:
            self.queue_time.add(max(0, now_ms - self._first_unsent_ms))
            if not self._unsent():
                self._first_unsent_ms = _NO_RETRY
        return self.in_flight

    def answered(self) -> None:
        """The request was carried out."""
        self.in_flight = None
        for named in [named for named in self._after_delete if not self._deletes(named)]:
            self._roles[named] = self._after_delete.pop(named)
        self._first_unanswered_ms = self._first_unsent_ms

    def failed(self, now_ms: int) -> None:
        """Nobody knows whether the request was carried out. What is wanted by then is sent after a pause."""
        lost, self.in_flight = self.in_flight, None
        if lost is None:
            return
        self._retry_at_ms = now_ms + RETRY_MS
        self._put_back(lost)
        if self._first_unsent_ms == _NO_RETRY:
            self._first_unsent_ms = now_ms

    def _changed(self, now_ms: int) -> None:
        if self._first_unsent_ms == _NO_RETRY:
            self._first_unsent_ms = now_ms
        if self._first_unanswered_ms == _NO_RETRY:
            self._first_unanswered_ms = now_ms

    def _unsent(self) -> bool:
        return bool(self._roles or self._metadata or self._brokers or self._after_delete)

    def _deletes(self, named: Named) -> bool:
        """Whether a deletion under this name is not confirmed: a LeaderAndIsr has to wait for its answer."""
        flying = self.in_flight.roles.get(named) if self.in_flight else None
        return any(isinstance(item, Stop) and item.delete for item in (self._roles.get(named), flying))

    def _take(self) -> Batch | None:
        if self._brokers and not self._full_metadata:
            self._brokers = False
            return Batch({}, {}, brokers=True)
        if self._full_metadata:
            return self._take_all_metadata()
        leads = self._leads()
        if leads or self._full_roles:
            full, self._full_roles = self._full_roles, False
            return Batch(self._pop(leads if full else _some(leads)), {}, brokers=False, full=full)
        if self._metadata:
            names = _some(self._metadata)
            return Batch({}, {named: self._metadata.pop(named) for named in names}, brokers=True)
        return self._take_roles()

    def _take_roles(self) -> Batch | None:
        """Whatever they are, but not all that there are: that begins with metadata."""
        if self._full_roles or not self._roles:
            return None
        names = _some(self._leads()) or _some(self._roles)
        return Batch(self._pop(names), {}, brokers=False)

    def _take_all_metadata(self) -> Batch:
        batch = Batch({}, self._metadata, brokers=True, full=True)
        self._metadata, self._full_metadata, self._brokers = {}, False, False
        return batch

    def _leads(self) -> list[Named]:
        return [named for named, item in self._roles.items() if isinstance(item, Lead)]

    def _pop(self, names: Iterable[Named]) -> dict[Named, RoleItem]:
        return {named: self._roles.pop(named) for named in names}

    def _put_back(self, lost: Batch) -> None:
        """What was in flight is wanted again, unless something newer is."""
        self._brokers |= lost.brokers and not lost.metadata
        if lost.full:
            self._full_roles |= not lost.brokers
            self._full_metadata |= lost.brokers
        for named, view in lost.metadata.items():
            newer = self._metadata.get(named)
            if newer is None:
                self._metadata[named] = view
        for named, item in lost.roles.items():
            self._put_role_back(named, item)

    def _put_role_back(self, named: Named, item: RoleItem) -> None:
        newer = self._roles.get(named)
        if newer is None:
            self._roles[named] = item
        elif isinstance(item, Lead) and isinstance(newer, Lead):
            same = item.view.topic_id == newer.view.topic_id
            self._roles[named] = newer._replace(is_new=newer.is_new or (same and item.is_new))
        elif isinstance(item, Stop) and isinstance(newer, Stop):
            self._roles[named] = _stickiest(item, newer)


def _newest(unsent: Lead | None, wanted: Lead) -> Lead:
    if unsent is None or unsent.view.topic_id != wanted.view.topic_id:
        return wanted
    view = unsent.view if wanted.view.older_than(unsent.view) else wanted.view
    return Lead(view, unsent.is_new or wanted.is_new)


def _stickiest(before: RoleItem | None, wanted: Stop) -> Stop:
    """A deletion stays one, with the epoch it was meant for: nothing was started under the name after it."""
    return before if isinstance(before, Stop) and before.delete and not wanted.delete else wanted


def _some(names: Iterable[Named]) -> list[Named]:
    def first() -> Iterator[Named]:
        for count, named in enumerate(names):
            if count == MAX_PARTITIONS_PER_REQUEST:
                return
            yield named

    return list(first())
