"""The MetaStore as a dictionary: the model the drivers are tested against, and the store of controller tests.

Runs in test processes only; keeps everything in memory, history included.
"""

import os
from collections.abc import Iterator, Sequence

from mpbroker.metadata.meta_store import (
    Batch,
    Check,
    Committed,
    Compacted,
    Conflict,
    Delete,
    DeletePrefix,
    Entry,
    Event,
    Health,
    Limits,
    Op,
    Page,
    Progress,
    Put,
    Session,
    StoreError,
    Unknown,
    check_request,
    holds,
)


class MemoryStore:
    """A whole MetaStore in one process. `history_revisions`: how many revisions a watch may look back."""

    def __init__(self, history_revisions: int = 100_000) -> None:
        self.limits = Limits(max_ops=100_000, max_bytes=64 << 20)
        self._pid = os.getpid()
        self._rev = 0
        self._data: dict[str, Entry] = {}
        self._history: dict[int, tuple[Event, ...]] = {}
        self._history_revisions = history_revisions
        self._sessions: dict[int, Session] = {}
        self._next_session = 1

    def _own(self) -> None:
        if os.getpid() != self._pid:
            raise StoreError("a MetaStore must be opened by the process that uses it")

    def revision(self) -> int:
        """Revision of the last change."""
        self._own()
        return self._rev

    def get(self, key: str) -> tuple[int, Entry | None]:
        """(store revision, entry or None)."""
        self._own()
        return self._rev, self._data.get(key)

    def scan(self, prefix: str, *, at: int | None = None, page: int = 5000) -> Iterator[Page]:
        """All entries below a prefix, as they are now."""
        self._own()
        rev = self._rev
        if at is not None and at != rev:
            raise Compacted(rev)
        found = [self._data[key] for key in sorted(self._data) if key.startswith(prefix)]
        return iter([Page(rev, tuple(found[i : i + page])) for i in range(0, max(len(found), 1), page)])

    def txn(self, checks: Sequence[Check], ops: Sequence[Op], *, tag: str) -> Committed | Conflict | Unknown:
        """Apply all ops if all checks hold."""
        self._own()
        check_request(self.limits, checks, ops)
        current = tuple(self._data.get(check.key) for check in checks)
        if not all(holds(check, entry) for check, entry in zip(checks, current, strict=True)):
            return Conflict(current)
        for op in ops:
            if isinstance(op, Put) and op.session is not None and op.session not in self._sessions:
                raise StoreError(f"session {op.session} has ended")
        events = [event for op in ops for event in self._apply(op, self._rev + 1)]
        if events:
            self._rev += 1
            self._history[self._rev] = tuple(events)
            self._history.pop(self._rev - self._history_revisions, None)
        return Committed(self._rev)

    def _apply(self, op: Op, rev: int) -> list[Event]:
        match op:
            case Put(key, value, session):
                old = self._data.get(key)
                version, created = (old.version + 1, old.create_rev) if old else (1, rev)
                self._data[key] = Entry(key, value, version, created, rev, session)
                return [Event(key, self._data[key])]
            case Delete(key):
                return [Event(key, None)] if self._data.pop(key, None) else []
            case DeletePrefix(prefix):
                gone = sorted(key for key in self._data if key.startswith(prefix))
                for key in gone:
                    del self._data[key]
                return [Event(key, None) for key in gone]

    def watch(self, prefix: str, start_rev: int) -> Iterator[Batch | Progress]:
        """Changes from `start_rev` on; Progress whenever there is nothing new."""
        self._own()
        following = start_rev
        while True:
            if following <= self._rev - self._history_revisions:
                raise Compacted(self._rev - self._history_revisions + 1)
            if following > self._rev:
                yield Progress(self._rev)
                continue
            events = tuple(event for event in self._history[following] if event.key.startswith(prefix))
            following += 1
            if events:
                yield Batch(following - 1, events)

    def open_watch(self, prefix: str, start_rev: int) -> "MemoryWatch":
        """Changes from `start_rev` on; nobody is woken."""
        return MemoryWatch(self, prefix, start_rev)

    def session_find(self, session_id: int) -> Session | None:
        """A session that lives."""
        return self._sessions.get(session_id)

    def session_open(self, ttl_ms: int, owner: str) -> Session:
        """Begin a session; it ends by `session_close` only: a test that wants one to expire calls that."""
        self._own()
        session = Session(self._next_session, owner, ttl_ms)
        self._next_session += 1
        self._sessions[session.id] = session
        return session

    def session_renew(self, session: Session) -> bool:
        """Whether the session still lives."""
        self._own()
        return session.id in self._sessions

    def session_close(self, session: Session) -> None:
        """End it: its keys disappear in one transaction."""
        self._own()
        if session.id in self._sessions:
            bound = sorted(entry.key for entry in self._data.values() if entry.session == session.id)
            self.txn([], [Delete(key) for key in bound], tag="session_close")
            del self._sessions[session.id]

    def health(self) -> Health:
        """Always well."""
        self._own()
        return Health("memory", 0, "1", 0)

    def close(self) -> None:
        """Nothing to give back."""


class MemoryWatch:
    """A Watch without a descriptor: whoever steps the store knows when to look."""

    def __init__(self, store: MemoryStore, prefix: str, start_rev: int) -> None:
        self.rev = start_rev - 1
        self._changes = store.watch(prefix, start_rev)

    def take(self, wait_ms: int = 0) -> list[Batch]:
        """What is new."""
        batches = []
        for item in self._changes:
            self.rev = item.rev
            if isinstance(item, Progress):
                break
            batches.append(item)
        return batches

    def fileno(self) -> int:
        """None."""
        return -1

    def close(self) -> None:
        """Nothing to give back."""
