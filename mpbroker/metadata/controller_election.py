"""Who is the cluster's controller: one transaction makes a candidate the controller and counts the epoch. The cluster
controller's process only; no state.

`controller` is bound to the session of that process, `controller_epoch` stays. The version of `controller_epoch` is the
guard of every write of the term: once somebody else is elected it does not hold any more, whatever the old one thinks.
"""

from typing import Final, NamedTuple

from mpbroker.metadata.cluster_records import ControllerEpochRecord, ControllerRecord
from mpbroker.metadata.keys import Keys
from mpbroker.metadata.meta_store import (
    Absent,
    Check,
    ClusterStore,
    Committed,
    Delete,
    Entry,
    Put,
    Session,
    StoreTimeout,
    Value,
    Version,
)
from mpbroker.metadata.topic_record import decode_record, encode_record

ATTEMPTS: Final = 5
MAX_EPOCH: Final = 2**31 - 1


class Elected(NamedTuple):
    """This process is the controller. `guard`: the check that every transaction of the term carries; `rev`: trust the
    image of the store only when it has come so far."""

    epoch: int
    guard: Version
    rev: int


class Another(NamedTuple):
    """Another one is."""

    record: ControllerRecord


def elect(store: ClusterStore, keys: Keys, node_id: int, incarnation: str, session: Session) -> Elected | Another:
    """Become the controller if there is none. `incarnation` is new for every term that a process strives for; a
    broker has one such process at a time, so that another one's term of the same broker is over. StoreError."""
    for _ in range(ATTEMPTS):
        _, holder = store.get(keys.controller)
        if holder is None:
            won = _try(store, keys, node_id, incarnation, session)
            if won is not None:
                return won
            continue
        record = decode_record(ControllerRecord, holder.value, keys.controller)
        if record.incarnation == incarnation:  # a transaction of ours, answered Unknown
            return _own(store, keys, record, holder)
        predecessor = store.session_find(holder.session) if record.id == node_id and holder.session else None
        if predecessor is None:
            return Another(record)
        store.session_close(predecessor)
    raise StoreTimeout(f"{keys.controller}: no election in {ATTEMPTS} attempts")


def _try(store: ClusterStore, keys: Keys, node_id: int, incarnation: str, session: Session) -> Elected | None:
    """None: somebody else was faster, or nobody knows. What the key holds then tells."""
    key = keys.controller_epoch
    _, entry = store.get(key)
    before = decode_record(ControllerEpochRecord, entry.value, key).epoch if entry else 0
    unchanged: Check = Version(key, entry.version) if entry else Absent(key)
    epoch = before + 1
    if epoch > MAX_EPOCH:
        raise OverflowError("controller epochs are used up")
    record = ControllerRecord(node_id, epoch, incarnation)
    ops = [
        Put(keys.controller, encode_record(record), session.id),
        Put(key, encode_record(ControllerEpochRecord(epoch))),
    ]
    outcome = store.txn([Absent(keys.controller), unchanged], ops, tag=incarnation)
    if not isinstance(outcome, Committed):
        return None
    return Elected(epoch, Version(key, entry.version + 1 if entry else 1), outcome.rev)


def _own(store: ClusterStore, keys: Keys, record: ControllerRecord, holder: Entry) -> Elected | Another:
    _, entry = store.get(keys.controller_epoch)
    known = decode_record(ControllerEpochRecord, entry.value, entry.key).epoch if entry else 0
    if entry is None or known != record.epoch:  # already deposed: the key we read is gone
        raise StoreTimeout(f"{keys.controller}: the election of epoch {record.epoch} is over")
    return Elected(record.epoch, Version(entry.key, entry.version), holder.mod_rev)


def resign(store: ClusterStore, keys: Keys, elected: Elected, node_id: int, incarnation: str) -> None:
    """Let another one be elected at once. Whatever the outcome: if the key stays it goes with the session."""
    record = encode_record(ControllerRecord(node_id, elected.epoch, incarnation))
    store.txn([elected.guard, Value(keys.controller, record)], [Delete(keys.controller)], tag=f"resign {incarnation}")
