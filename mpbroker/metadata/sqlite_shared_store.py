"""The MetaStore on a SQLite file that the brokers of one machine share. Opened by each broker's agent, and by its
cluster controller.

As `sqlite_store`, but: the journal is a write-ahead log only from SQLite 3.51.3 on, before which a log that several
processes write and check-point can be damaged, else a rollback journal; reads are short, since there a reader holds up
the writer; a commit rings the bells of the others (store_bell.py); and a session lives only while its owner's lock is
held by whoever held it when it began, and its process says so often enough (session_files.py). Whoever watches the
store ends dead sessions, keys and all, in one transaction: killed at any point of it, the next one does it again.
"""

import fcntl
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from mpbroker.metadata.meta_store import (
    Compacted,
    Delete,
    Entry,
    Page,
    Session,
    StoreError,
    StoreTimeout,
    Unknown,
)
from mpbroker.metadata.session_files import SessionFiles, machine_id
from mpbroker.metadata.shared_watch import SharedWatch
from mpbroker.metadata.sqlite_store import SqliteStore, primary_code
from mpbroker.metadata.store_bell import ring_all
from mpbroker.metadata.store_place import network_kind

WAL_IS_SAFE: Final = (3, 51, 3)
SHORTEST_WAIT_S: Final = 0.0005
UNEVEN_US: Final = 3000
_SESSIONS: Final = "SELECT id, owner, ttl_ms, start, machine FROM sessions JOIN holders ON holders.session = id"
_HOLDERS: Final = """
CREATE TABLE IF NOT EXISTS holders (session INTEGER PRIMARY KEY, start TEXT NOT NULL, machine TEXT NOT NULL);
"""


class _Row(NamedTuple):
    id: int
    owner: str
    ttl_ms: int
    start: str
    machine: str


class SharedSqliteStore(SqliteStore):
    """A ClusterStore in one file. `monotonic_ms`: a clock that all processes of the machine read alike;
    `patience_ms`: see SharedWatch; `library`: the version of SQLite, `machine` this machine's id, for tests."""

    def __init__(
        self,
        path: str | Path,
        *,
        monotonic_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
        library: tuple[int, ...] = sqlite3.sqlite_version_info,
        machine: str = "",
        timeout_ms: int = 5000,
        patience_ms: int = 0,
        **more: Any,
    ) -> None:
        path = Path(path)
        self._wal_is_safe = library >= WAL_IS_SAFE
        self._machine = machine or machine_id()
        self._patience_ms = patience_ms
        kind = network_kind(path.parent)
        if kind:
            raise StoreError(
                f"{path} is on a network file system ({kind}): a SQLite store serves brokers of one machine, from a "
                "local disk; for several machines use etcd"
            )
        self._files = SessionFiles(path, monotonic_ms)
        with self._alone(timeout_ms):
            super().__init__(path, timeout_ms=timeout_ms, **more)
            self._db.executescript(_HOLDERS)
        self._db.execute("PRAGMA busy_timeout=0")  # from here on _lock waits
        self._refuse_another_machine()
        self._transaction(self._sweep, "sweep")

    @contextmanager
    def _alone(self, timeout_ms: int) -> Iterator[None]:
        """One at a time opens the file: a change of journal needs it for itself, and does not wait for that."""
        descriptor = os.open(self._files.directory / ".opening", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + timeout_ms / 1000
        try:
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise StoreTimeout(f"{self._files.directory}: another process is opening the store") from None
                    time.sleep(0.005)
            yield
        finally:
            os.close(descriptor)

    def _use_journal(self, db: sqlite3.Connection) -> None:
        (mode,) = db.execute("PRAGMA journal_mode").fetchone()
        (schema,) = db.execute("PRAGMA user_version").fetchone()
        if mode == "wal" and self._wal_is_safe:
            return
        wanted = "wal" if self._wal_is_safe and schema == 0 else "persist"
        with suppress(sqlite3.OperationalError):  # in use: it stays as it is
            (mode,) = db.execute(f"PRAGMA journal_mode={wanted}").fetchone()
        if mode not in (wanted, "persist"):
            raise StoreError(
                f"{self.path} is open in a journal mode ({mode}) that SQLite {sqlite3.sqlite_version} cannot share: "
                "start all brokers with the same SQLite, 3.51.3 or later"
            )

    def _lock(self, db: sqlite3.Connection, statement: str) -> None:
        """Waits in short steps of uneven length. SQLite's own grow to 100 ms, in which writers that take turns leave a
        reader no moment, and are the same for all, so that several who find a dead writer's journal, and each need the
        others to let go of the file, would meet again and again."""
        deadline = time.monotonic() + self._timeout_ms / 1000
        while True:
            try:
                db.execute(statement)
                return
            except sqlite3.OperationalError as error:
                if primary_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
            time.sleep(SHORTEST_WAIT_S + time.monotonic_ns() // 1000 % UNEVEN_US / 1e6)

    def _refuse_another_machine(self) -> None:
        """StoreError while another machine's brokers use the file. Sessions from before a reboot are dead, and look
        so: nobody holds their owners' locks, no beat comes."""
        foreign = [row for row in self._rows() if row.machine != self._machine]
        beats = {row.id: self._files.beat_changed_ns(row.id) for row in foreign}
        now_ns = time.time_ns()
        fresh = [row for row in foreign if now_ns - beats[row.id] < row.ttl_ms * 1_000_000]
        if fresh and not self._foreign_lock(foreign):
            time.sleep(max(row.ttl_ms for row in fresh) / 1000)
        beating = [row for row in fresh if self._files.beat_changed_ns(row.id) != beats[row.id]]
        if beating or self._foreign_lock(foreign):
            raise StoreError(
                f"{self.path} is used by brokers of another machine ({foreign[0].owner}): a SQLite store serves "
                "brokers of one machine; for several use etcd"
            )

    def _foreign_lock(self, rows: Iterable[_Row]) -> bool:
        holders = [self._files.holder(row.owner) for row in rows]
        return any(holder is not None and holder.machine != self._machine for holder in holders)

    def _sweep(self, db: sqlite3.Connection) -> None:
        self._files.sweep({row[0] for row in db.execute("SELECT id FROM sessions")})

    # ---- reading

    def scan(self, prefix: str, *, at: int | None = None, page: int = 5000) -> Iterator[Page]:
        """All entries below a prefix in key order, read at once: an open snapshot would hold up every writer."""
        rev, entries = self._read_all(prefix)
        if at is not None and at != rev:
            raise Compacted(rev)
        for begin in range(0, max(len(entries), 1), page):
            yield Page(rev, tuple(entries[begin : begin + page]))

    def open_watch(self, prefix: str, start_rev: int) -> SharedWatch:
        """Changes from `start_rev` on, woken by the bell and by deaths of other brokers' supervisors."""
        return SharedWatch(self, self._files.directory, prefix, start_rev, self._patience_ms)

    def changes(self, prefix: str, start_rev: int) -> Any:
        """For SharedWatch: a bounded part of what came since, and the revision to go on from."""
        return self._changes(prefix, start_rev)

    # ---- sessions

    def session_open(self, ttl_ms: int, owner: str) -> Session:
        """Begin a session of an owner whose lock is held: by the supervisor of the broker of that name."""
        holder = self._files.holder(owner)
        if holder is None:
            raise StoreError(f"{owner} cannot begin a session: its supervisor does not hold its lock")

        def inside(db: sqlite3.Connection) -> Session:
            cursor = db.execute("INSERT INTO sessions (owner, ttl_ms) VALUES (?, ?)", (owner, ttl_ms))
            session = Session(int(cursor.lastrowid or 0), owner, ttl_ms)
            db.execute("INSERT INTO holders VALUES (?, ?, ?)", (session.id, holder.start, holder.machine))
            self._files.beat(session.id)  # before anybody can see it, and find it silent
            return session

        opened = self._transaction(inside, "session_open")
        if isinstance(opened, Unknown):
            raise StoreError(f"{self.path}: the disk did not take the session of {owner}")
        return opened

    def session_find(self, session_id: int) -> Session | None:
        """A session that lives."""
        return next((Session(row.id, row.owner, row.ttl_ms) for row in self._rows() if row.id == session_id), None)

    def session_renew(self, session: Session) -> bool:
        """Say that this process lives; False: the session has ended."""
        self._own()
        self._files.beat(session.id)
        if any(row.id == session.id for row in self._rows()):
            return True
        self._files.forget(session.id)
        return False

    def session_close(self, session: Session) -> None:
        """End it: its keys disappear in one transaction."""
        self._end([session.id], lambda row: True)

    def end_dead_sessions(self) -> int:
        """End the sessions whose owners' locks have gone or whose processes are silent; how many there were."""
        dead = [row.id for row in self._rows() if self._is_dead(row)]
        return self._end(dead, self._is_dead) if dead else 0

    def owners(self) -> dict[str, int]:
        """Owners of sessions, with the pids of their supervisors (0: not to be seen from here)."""
        found = {row.owner: self._files.holder(row.owner) for row in self._rows()}
        return {owner: holder.pid if holder else 0 for owner, holder in found.items()}

    def _is_dead(self, row: _Row) -> bool:
        holder = self._files.holder(row.owner)
        return holder is None or holder.start != row.start or self._files.silent_ms(row.id) > row.ttl_ms

    def _end(self, ids: list[int], still: Callable[[_Row], bool]) -> int:
        def inside(db: sqlite3.Connection) -> list[int]:
            rows = [_Row(*row) for row in db.execute(_SESSIONS) if row[0] in ids]
            ended = [row.id for row in rows if still(row)]  # looked at again: it may have come back
            keys = [key for one in ended for (key,) in db.execute("SELECT key FROM kv WHERE session = ?", (one,))]
            self._inside(db, [], [Delete(key) for key in sorted(keys)])
            db.executemany("DELETE FROM sessions WHERE id = ?", [(one,) for one in ended])
            db.executemany("DELETE FROM holders WHERE session = ?", [(one,) for one in ended])
            return ended

        ended = self._transaction(inside, "end sessions")
        if isinstance(ended, Unknown):
            return 0
        for one in ended:
            self._files.forget(one)
        return len(ended)

    def _rows(self) -> list[_Row]:
        with self._reading() as db:
            return [_Row(*row) for row in db.execute(_SESSIONS)]

    def _read_all(self, prefix: str) -> tuple[int, list[Entry]]:
        with self._reading() as db:
            return self._entries(db, prefix)

    def _committed(self) -> None:
        ring_all(self._files.directory)

    def close(self) -> None:
        """Close files; sessions stay until they are silent or their owners die."""
        super().close()
        if os.getpid() == self._pid:
            self._files.close()
