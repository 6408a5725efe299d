"""The MetaStore on a SQLite file: the default, for one broker. Opened by the controller process only.

`kv` holds the present, `log` the last changes for watches, `meta` the revision. The journal is a write-ahead log
synced at every commit (synchronous=FULL): what was answered as committed survives a power loss. Reads and scans use
their own connections, so that a scan's snapshot never holds up a transaction.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Final, TypeVar

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
    StoreTimeout,
    StoreTooNew,
    Unknown,
    check_request,
    holds,
    prefix_end,
)

_Result = TypeVar("_Result")
SCHEMA_VERSION: Final = 1
TRIM_EVERY_REVISIONS: Final = 64
CLOSE_BUSY_MS: Final = 1000  # for readers in other processes; a stop has more time, but not much
_COLUMNS: Final = "key, value, version, create_rev, mod_rev, session"
_BELOW: Final = "WHERE key >= ? AND key < ?"
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS kv (key TEXT PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL,
  create_rev INTEGER NOT NULL, mod_rev INTEGER NOT NULL, session INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS log (rev INTEGER NOT NULL, seq INTEGER NOT NULL, key TEXT NOT NULL, value BLOB,
  version INTEGER, create_rev INTEGER, session INTEGER, PRIMARY KEY (rev, seq)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sessions (id INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL,
  ttl_ms INTEGER NOT NULL);
INSERT OR IGNORE INTO meta VALUES ('rev', 0), ('compacted', 0);
"""


class SqliteStore:
    """A MetaStore in one file. `timeout_ms` bounds every wait for the file's lock, `poll_ms` a watch's sleep."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        timeout_ms: int = 5000,
        history_revisions: int = 100_000,
        poll_ms: int = 250,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.limits = Limits(max_ops=100_000, max_bytes=64 << 20)
        self.path = os.fspath(path)
        self._pid = os.getpid()
        self._timeout_ms = timeout_ms
        self._history_revisions = history_revisions
        self._poll_ms = poll_ms
        self._sleep = sleep
        try:
            self._db = self._connect()
            self._prepare()
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # its message may quote what is damaged
            raise StoreError(f"{self.path} cannot be used as metadata store: {error}") from error

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=self._timeout_ms / 1000, isolation_level=None)
        try:
            self._use_journal(db)
            db.execute("PRAGMA synchronous=FULL")
        except BaseException:
            db.close()
            raise
        return db

    def _use_journal(self, db: sqlite3.Connection) -> None:
        db.execute("PRAGMA journal_mode=WAL")

    def _prepare(self) -> None:
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version not in (0, SCHEMA_VERSION):
            raise StoreTooNew(
                f"{self.path} was written by a newer version of mpbroker (schema {version}, this one knows "
                f"{SCHEMA_VERSION}): start that version"
            )
        if version == 0:
            self._db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version={SCHEMA_VERSION}; COMMIT;")
        directory = os.open(os.path.dirname(self.path) or ".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)  # the file's name must survive a power loss as well as its content
        finally:
            os.close(directory)

    def _own(self) -> sqlite3.Connection:
        if os.getpid() != self._pid:
            raise StoreError("a MetaStore must be opened by the process that uses it")
        return self._db

    def verify(self) -> None:
        """StoreError if the file is damaged, as far as SQLite can tell."""
        try:
            (found,) = self._own().execute("PRAGMA quick_check(1)").fetchone()
            for _ in self._own().execute("SELECT key, value FROM kv"):
                pass  # each of them can be read
            numbers = dict(self._own().execute("SELECT name, value FROM meta").fetchall())
            if found == "ok" and not all(isinstance(numbers.get(name), int) for name in ("rev", "compacted")):
                found = "its revision is missing"
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            found = str(error)
        if found != "ok":
            raise StoreError(f"{self.path}: {found}")

    def revision(self) -> int:
        """Revision of the last change."""
        with self._reading() as db:
            return _meta(db, "rev")

    def get(self, key: str) -> tuple[int, Entry | None]:
        """(store revision, entry or None), both from one snapshot."""
        with self._reading() as db:
            return _meta(db, "rev"), _get(db, key)

    def _lock(self, db: sqlite3.Connection, statement: str) -> None:
        """A statement that takes a lock of the file; SQLite itself waits for it."""
        db.execute(statement)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """One snapshot for all that is read inside; StoreTimeout when the file stays locked."""
        db = self._own()
        try:
            db.execute("BEGIN")
            try:
                self._lock(db, "SELECT value FROM meta")
                yield db
            finally:
                db.execute("COMMIT")
        except sqlite3.Error as error:
            kind = StoreTimeout if primary_code(error) == sqlite3.SQLITE_BUSY else StoreError
            raise kind(f"{self.path} cannot be read: {error}") from error

    def scan(self, prefix: str, *, at: int | None = None, page: int = 5000) -> Iterator[Page]:
        """All entries below a prefix in key order, in one read transaction of a connection of its own."""
        self._own()
        with closing(self._connect()) as db:
            db.execute("BEGIN")
            rev = _meta(db, "rev")
            if at is not None and at != rev:
                raise Compacted(rev)
            rows = db.execute(f"SELECT {_COLUMNS} FROM kv {_BELOW} ORDER BY key", _bounds(prefix))
            entries = tuple(Entry(*row) for row in rows.fetchmany(page))
            yield Page(rev, entries)
            while len(entries) == page and (entries := tuple(Entry(*row) for row in rows.fetchmany(page))):
                yield Page(rev, entries)

    def _entries(self, db: sqlite3.Connection, prefix: str) -> tuple[int, list[Entry]]:
        rows = db.execute(f"SELECT {_COLUMNS} FROM kv {_BELOW} ORDER BY key", _bounds(prefix)).fetchall()
        return _meta(db, "rev"), [Entry(*row) for row in rows]

    def txn(self, checks: Sequence[Check], ops: Sequence[Op], *, tag: str) -> Committed | Conflict | Unknown:
        """Apply all ops if all checks hold; Unknown only when the commit itself failed on the disk."""
        check_request(self.limits, checks, ops)
        return self._transaction(lambda db: self._inside(db, checks, ops), tag)

    def _transaction(self, inside: Callable[[sqlite3.Connection], _Result], tag: str) -> _Result | Unknown:
        """What `inside` returns, once its changes are durable."""
        db = self._own()
        try:
            self._lock(db, "BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            raise StoreTimeout(f"{tag}: {self.path} is locked by another process: {error}") from error
        try:
            outcome = inside(db)
        except BaseException as error:
            if db.in_transaction:  # a full disk has already ended it
                db.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise StoreError(f"{tag}: {error}") from error
            raise
        return self._commit(db, outcome, tag)

    def _commit(self, db: sqlite3.Connection, outcome: _Result, tag: str) -> _Result | Unknown:
        try:
            self._lock(db, "COMMIT")
        except sqlite3.Error as error:
            if db.in_transaction:
                db.execute("ROLLBACK")
            if primary_code(error) == sqlite3.SQLITE_BUSY:  # readers would not leave: nothing was written
                raise StoreTimeout(f"{tag}: {self.path} is being read by another process: {error}") from error
            # A failed sync may or may not have reached the disk: only a fresh look at the file can tell.
            return Unknown(tag)
        self._committed()
        return outcome

    def _committed(self) -> None:
        """A transaction is durable; a store that others share tells them."""

    def _inside(self, db: sqlite3.Connection, checks: Sequence[Check], ops: Sequence[Op]) -> Committed | Conflict:
        current = tuple(_get(db, check.key) for check in checks)
        if not all(holds(check, entry) for check, entry in zip(checks, current, strict=True)):
            return Conflict(current)
        rev = _meta(db, "rev")
        events = [event for op in ops for event in _apply(db, op, rev + 1)]
        if not events:
            return Committed(rev)
        db.executemany(
            "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(rev + 1, seq, *_log_columns(event)) for seq, event in enumerate(events)],
        )
        db.execute("UPDATE meta SET value = ? WHERE name = 'rev'", (rev + 1,))
        if (rev + 1) % TRIM_EVERY_REVISIONS == 0:
            self._trim(db, rev + 1)
        return Committed(rev + 1)

    def _trim(self, db: sqlite3.Connection, rev: int) -> None:
        oldest = rev - self._history_revisions
        if oldest > _meta(db, "compacted"):
            db.execute("DELETE FROM log WHERE rev <= ?", (oldest,))
            db.execute("UPDATE meta SET value = ? WHERE name = 'compacted'", (oldest,))

    def watch(self, prefix: str, start_rev: int) -> Iterator[Batch | Progress]:
        """Changes from `start_rev` on; after a sleep of `poll_ms` without any, one Progress."""
        following = start_rev
        while True:
            batches, following = self._changes(prefix, following)
            yield from batches
            if not batches:
                yield Progress(following - 1)
                self._sleep(self._poll_ms / 1000)

    def _changes(self, prefix: str, start_rev: int) -> tuple[list[Batch], int]:
        """Up to 1000 changes from `start_rev` on in whole transactions, and the revision to go on from."""
        with self._reading() as db:
            rev, compacted = _meta(db, "rev"), _meta(db, "compacted")
            if start_rev <= compacted:
                raise Compacted(compacted + 1)
            rows = db.execute(
                "SELECT rev, key, value, version, create_rev, session FROM log "
                f"{_BELOW} AND rev >= ? AND rev < ? ORDER BY rev, seq",
                (*_bounds(prefix), start_rev, start_rev + 1000),
            ).fetchall()
        by_rev: dict[int, list[Event]] = {}
        for at, key, value, version, created, session in rows:
            entry = None if value is None else Entry(key, value, version, created, at, session)
            by_rev.setdefault(at, []).append(Event(key, entry))
        batches = [Batch(at, tuple(events)) for at, events in by_rev.items()]
        return batches, max(start_rev, min(rev + 1, start_rev + 1000))

    def session_open(self, ttl_ms: int, owner: str) -> Session:
        """Begin a session; it ends by `session_close` only (docs/skipped.md)."""
        cursor = self._own().execute("INSERT INTO sessions (owner, ttl_ms) VALUES (?, ?)", (owner, ttl_ms))
        return Session(int(cursor.lastrowid or 0), owner, ttl_ms)

    def session_renew(self, session: Session) -> bool:
        """Whether the session still lives."""
        return self._own().execute("SELECT 1 FROM sessions WHERE id = ?", (session.id,)).fetchone() is not None

    def session_close(self, session: Session) -> None:
        """End it: its keys disappear in one transaction."""
        db = self._own()
        keys = db.execute("SELECT key FROM kv WHERE session = ? ORDER BY key", (session.id,)).fetchall()
        self.txn([], [Delete(key) for (key,) in keys], tag="session_close")
        db.execute("DELETE FROM sessions WHERE id = ?", (session.id,))

    def health(self) -> Health:
        """Version of the library and that the file answers."""
        self.revision()
        return Health("sqlite", 0, sqlite3.sqlite_version, 0)

    def close(self) -> None:
        """Close the file (in the owning process; elsewhere the handle is simply forgotten). The write-ahead log is
        taken into it, so that a copy of the one file is a copy of the store."""
        if os.getpid() == self._pid:
            with suppress(sqlite3.Error):  # a full disk, say: the log stays beside the file and nothing is lost
                self._db.execute(f"PRAGMA busy_timeout={CLOSE_BUSY_MS}")
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._db.close()


def left_log(path: str) -> str | None:
    """The write-ahead log that a closed store left, because another process was reading the file, or no room was left:
    it belongs to the store. None: the file is whole by itself."""
    log = f"{path}-wal"
    try:
        return log if os.path.getsize(log) else None
    except OSError:
        return None


def primary_code(error: sqlite3.Error) -> int:
    """SQLite's result code without its extension; -1: the error is the module's own."""
    return getattr(error, "sqlite_errorcode", -1) & 0xFF


def _bounds(prefix: str) -> tuple[str, str]:
    return (prefix, prefix_end(prefix)) if prefix else ("", "\x7f")


def _meta(db: sqlite3.Connection, name: str) -> int:
    (value,) = db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    return int(value)


def _get(db: sqlite3.Connection, key: str) -> Entry | None:
    row = db.execute(f"SELECT {_COLUMNS} FROM kv WHERE key = ?", (key,)).fetchone()
    return None if row is None else Entry(*row)


def _log_columns(event: Event) -> tuple[object, ...]:
    entry = event.entry
    if entry is None:
        return (event.key, None, None, None, None)
    return (entry.key, entry.value, entry.version, entry.create_rev, entry.session)


def _apply(db: sqlite3.Connection, op: Op, rev: int) -> list[Event]:
    match op:
        case Put(key, value, session):
            return [Event(key, _put(db, key, value, session, rev))]
        case Delete(key):
            gone = db.execute("DELETE FROM kv WHERE key = ?", (key,)).rowcount
            return [Event(key, None)] if gone else []
        case DeletePrefix(prefix):
            keys = db.execute(f"SELECT key FROM kv {_BELOW} ORDER BY key", _bounds(prefix)).fetchall()
            db.execute(f"DELETE FROM kv {_BELOW}", _bounds(prefix))
            return [Event(key, None) for (key,) in keys]


def _put(db: sqlite3.Connection, key: str, value: bytes, session: int | None, rev: int) -> Entry:
    if session is not None and not db.execute("SELECT 1 FROM sessions WHERE id = ?", (session,)).fetchone():
        raise StoreError(f"session {session} has ended")
    old = _get(db, key)
    version, created = (old.version + 1, old.create_rev) if old else (1, rev)
    entry = Entry(key, value, version, created, rev, session)
    row = (key, value, version, created, rev, session)
    db.execute(f"INSERT OR REPLACE INTO kv ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)", row)
    return entry
