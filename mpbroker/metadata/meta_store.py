"""The MetaStore interface: a small versioned key-value store with transactions and watches.

Used by the controller process, and in a cluster by the elected controller's. Keys are ASCII text, values bytes. The
store has one revision, an integer that grows by one with every transaction that changed something; all changes of a
transaction carry the same revision. Drivers: `sqlite_store` (one broker), `sqlite_shared_store` (brokers of one
machine), `etcd_store` (several machines); tests have a model of it in memory. One instance belongs to the process that
opened it; use after a fork is an error.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

import msgspec

from mpbroker.errors import MpbrokerError

MAX_KEY_BYTES: Final = 1024
"""Longer keys are refused; ours hold a topic name (249) and a prefix."""
WATCH_MS: Final = 250
"""A Watch is looked at at least so often, also when its descriptor is silent."""


class StoreError(MpbrokerError):
    """The store could not do what was asked; nothing was changed."""


class StoreTooNew(StoreError):
    """Another version of the program made it, and this one does not know how to read it. The message has the remedy."""


class Compacted(StoreError):
    """The history asked for has been trimmed away. Scan again, then watch from there."""

    def __init__(self, min_rev: int) -> None:
        super().__init__(f"revisions below {min_rev} are no longer kept")
        self.min_rev = min_rev


class StoreTimeout(StoreError):
    """The deadline passed before the store answered; nothing was changed."""


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One key. `version` counts its writes since it was created, `*_rev` are store revisions, `session` the owner."""

    key: str
    value: bytes
    version: int
    create_rev: int
    mod_rev: int
    session: int | None = None


class Absent(msgspec.Struct, frozen=True, tag=True):
    """Check: the key does not exist."""

    key: str


class Version(msgspec.Struct, frozen=True, tag=True):
    """Check: the key exists and was written `version` times since its creation."""

    key: str
    version: int


class ModRev(msgspec.Struct, frozen=True, tag=True):
    """Check: the key was last written at revision `mod_rev`."""

    key: str
    mod_rev: int


class Value(msgspec.Struct, frozen=True, tag=True):
    """Check: the key holds exactly these bytes."""

    key: str
    value: bytes


class Put(msgspec.Struct, frozen=True, tag=True):
    """Op: write the key; with a session it disappears when the session ends."""

    key: str
    value: bytes
    session: int | None = None


class Delete(msgspec.Struct, frozen=True, tag=True):
    """Op: remove the key if it is there."""

    key: str


class DeletePrefix(msgspec.Struct, frozen=True, tag=True):
    """Op: remove every key that begins with `prefix`."""

    prefix: str


Check = Absent | Version | ModRev | Value
Op = Put | Delete | DeletePrefix


class Committed(msgspec.Struct, frozen=True):
    """The transaction is durable; `rev` is the store revision after it."""

    rev: int


class Conflict(msgspec.Struct, frozen=True):
    """A check failed and nothing was changed. `current`: the entries of all checked keys, None where absent."""

    current: tuple[Entry | None, ...]


class Unknown(msgspec.Struct, frozen=True):
    """Nobody can say whether the transaction happened: re-read and look for its tag, never simply repeat it."""

    tag: str


class Page(msgspec.Struct, frozen=True):
    """A part of a scan. All pages of one scan show the store at the same revision `rev`."""

    rev: int
    entries: tuple[Entry, ...]


class Event(msgspec.Struct, frozen=True):
    """One change: the entry as written, or None when the key was removed."""

    key: str
    entry: Entry | None


class Batch(msgspec.Struct, frozen=True):
    """All changes of the transaction with revision `rev` below the watched prefix."""

    rev: int
    events: tuple[Event, ...]


class Progress(msgspec.Struct, frozen=True):
    """Nothing new: everything up to and including `rev` has been delivered."""

    rev: int


class Session(msgspec.Struct, frozen=True):
    """A lifetime that keys can be bound to."""

    id: int
    owner: str
    ttl_ms: int


class Limits(msgspec.Struct, frozen=True):
    """What one transaction may hold: so many checks, as many ops, and bytes of keys and values."""

    max_ops: int
    max_bytes: int


class Health(msgspec.Struct, frozen=True):
    """How far the store has come; `lag` in revisions behind its leader (0 for a local store)."""

    member: str
    raft_term: int
    version: str
    lag: int


class MetaStore(Protocol):
    """What every driver does. Every call has a deadline (StoreTimeout)."""

    limits: Limits

    def revision(self) -> int:
        """Revision of the last change; linearizable."""
        ...

    def get(self, key: str) -> tuple[int, Entry | None]:
        """(store revision, entry or None); linearizable."""
        ...

    def scan(self, prefix: str, *, at: int | None = None, page: int = 5000) -> Iterator[Page]:
        """All entries below a prefix in key order, at one revision; at least one page. Compacted if `at` is gone."""
        ...

    def txn(self, checks: Sequence[Check], ops: Sequence[Op], *, tag: str) -> Committed | Conflict | Unknown:
        """Apply all ops if all checks hold. No key may be touched by two ops of one transaction (ValueError)."""
        ...

    def watch(self, prefix: str, start_rev: int) -> Iterator[Batch | Progress]:
        """Changes from revision `start_rev` on, for ever; Progress after each bounded wait without any."""
        ...

    def session_open(self, ttl_ms: int, owner: str) -> Session:
        """Begin a session."""
        ...

    def session_renew(self, session: Session) -> bool:
        """Keep it alive; False: it has ended and its keys are gone."""
        ...

    def session_close(self, session: Session) -> None:
        """End it now: its keys disappear in one transaction."""
        ...

    def health(self) -> Health:
        """Cheap check that the store answers."""
        ...

    def close(self) -> None:
        """Give back files and connections."""
        ...


class Watch(Protocol):
    """Changes below a prefix, for a loop that waits for other things too. `rev`: all up to it has been delivered."""

    rev: int

    def fileno(self) -> int:
        """A descriptor for epoll: readable when `take` may have something."""
        ...

    def take(self, wait_ms: int = 0) -> list[Batch]:
        """What is new, in order; empty after `wait_ms` without anything. Compacted: scan, and open another. To be
        called at least every WATCH_MS, since some things are noticed only here. StoreError: it has ended."""
        ...

    def close(self) -> None:
        """Give back its descriptor."""
        ...


class ClusterStore(MetaStore, Protocol):
    """A MetaStore that several brokers share: with a watch to wait for, and sessions that end with their owners."""

    def open_watch(self, prefix: str, start_rev: int) -> Watch:
        """Changes from revision `start_rev` on."""
        ...

    def session_find(self, session_id: int) -> Session | None:
        """A session that lives, for the successor of the process that opened it."""
        ...


def prefix_end(prefix: str) -> str:
    """The smallest key behind all keys that begin with the (non-empty, ASCII) prefix."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


def check_request(limits: Limits, checks: Sequence[Check], ops: Sequence[Op]) -> None:
    """Refuse what no driver could do: too much, an illegal key, or two ops on the same key."""
    if max(len(checks), len(ops)) > limits.max_ops:
        raise ValueError(f"{len(checks)} checks and {len(ops)} ops, allowed are {limits.max_ops} of each")
    puts = [op for op in ops if isinstance(op, Put)]
    prefixes = [op.prefix for op in ops if isinstance(op, DeletePrefix)]
    single = [op.key for op in ops if not isinstance(op, DeletePrefix)]
    for key in [*single, *prefixes, *(check.key for check in checks)]:
        if not key or not key.isascii() or len(key) > MAX_KEY_BYTES or "\x7f" in key:
            raise ValueError(f"illegal key {key[:80]!r}")
    if len(set(single)) != len(single) or any(key.startswith(p) for key in single for p in prefixes):
        raise ValueError("two operations of one transaction touch the same key")
    if any(a != b and a.startswith(b) for a in prefixes for b in prefixes) or len(set(prefixes)) != len(prefixes):
        raise ValueError("two operations of one transaction touch the same keys")
    if sum(len(op.key) + len(op.value) for op in puts) > limits.max_bytes:
        raise ValueError(f"more than {limits.max_bytes} bytes in one transaction")


def holds(check: Check, entry: Entry | None) -> bool:
    """Whether a check is true of the key's present entry."""
    match check:
        case Absent():
            return entry is None
        case Version(_, version):
            return entry is not None and entry.version == version
        case ModRev(_, mod_rev):
            return entry is not None and entry.mod_rev == mod_rev
        case Value(_, value):
            return entry is not None and entry.value == value
