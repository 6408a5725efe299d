"""A broker's registration in the store of its cluster: the key that says that it lives. Agents only; no state.

The broker epoch is the revision that created the key, so it grows with every registration. A new process of the same
start of a broker (`incarnation`) goes on with what it finds. A broker that starts again on its own data directory ends
what its predecessor left: whoever has locked the directory knows that the predecessor is dead. Any other registration
of the same id belongs to another broker, and stands until its session ends.
"""

from typing import Final, NamedTuple

from mpbroker.metadata.cluster_records import BrokerRecord, ControllerRecord, broker_epoch
from mpbroker.metadata.keys import Keys
from mpbroker.metadata.meta_store import (
    Absent,
    ClusterStore,
    Committed,
    Entry,
    Put,
    Session,
    StoreTimeout,
    Unknown,
    Version,
)
from mpbroker.metadata.topic_record import decode_record, encode_record

ATTEMPTS: Final = 5


class Registered(NamedTuple):
    """The broker is known by this epoch for as long as the session lives. `resumed`: it was registered before, by this
    same start of it."""

    epoch: int
    session: Session
    resumed: bool


class Occupied(NamedTuple):
    """Another broker has this id. Its registration may be left over: then it goes with its session."""

    record: BrokerRecord

    @property
    def sentence(self) -> str:
        """For the one who started the second."""
        where = ", ".join(f"{one.name}://{one.host}:{one.port}" for one in self.record.listeners)
        return f"another broker has node.id {self.record.id} in this cluster: {where}; give each its own"


def owner_of(node_id: int) -> str:
    """The owner of a broker's sessions."""
    return f"broker-{node_id}"


def register(store: ClusterStore, keys: Keys, record: BrokerRecord, ttl_ms: int) -> Registered | Occupied:
    """Make the broker known. StoreError, StoreTimeout: nobody can say whether it is; ask again."""
    key, session = keys.broker(record.id), None
    for _ in range(ATTEMPTS):
        _, entry = store.get(key)
        if entry is not None:
            known = decode_record(BrokerRecord, entry.value, key)
            if known.incarnation == record.incarnation:
                resumed = _resume(store, entry, known, record)
                if resumed is not None:
                    return resumed
            elif (known.machine, known.directory) == (record.machine, record.directory):
                _end_predecessor(store, keys, entry, record.id)
            else:
                _forget(store, session)
                return Occupied(known)
            continue
        session = session or store.session_open(ttl_ms, owner_of(record.id))
        outcome = store.txn([Absent(key)], [Put(key, encode_record(record), session.id)], tag=record.incarnation)
        if isinstance(outcome, Committed):
            return Registered(broker_epoch(outcome.rev), session, resumed=False)
        # Conflict, or Unknown: what the key holds now tells whose it is, our own late transaction's too.
    raise StoreTimeout(f"{key}: no registration in {ATTEMPTS} attempts")


def _resume(store: ClusterStore, entry: Entry, known: BrokerRecord, record: BrokerRecord) -> Registered | None:
    """None: the session has just ended, or the key has changed; look again."""
    session = store.session_find(entry.session) if entry.session is not None else None
    if session is None or not store.session_renew(session):
        return None
    if known != record:  # other addresses, say
        put = Put(entry.key, encode_record(record), session.id)
        outcome = store.txn([Version(entry.key, entry.version)], [put], tag=record.incarnation)
        if not isinstance(outcome, Committed | Unknown):
            return None
    return Registered(broker_epoch(entry.create_rev), session, resumed=True)


def _end_predecessor(store: ClusterStore, keys: Keys, entry: Entry, node_id: int) -> None:
    """End the sessions of a dead start of this broker: its registration's, and the controller's if it was that."""
    _, controller = store.get(keys.controller)
    if controller is not None and decode_record(ControllerRecord, controller.value, keys.controller).id == node_id:
        _end(store, controller)
    _end(store, entry)


def _end(store: ClusterStore, entry: Entry) -> None:
    session = store.session_find(entry.session) if entry.session is not None else None
    if session is not None:
        store.session_close(session)


def _forget(store: ClusterStore, session: Session | None) -> None:
    if session is not None:
        store.session_close(session)
