"""A look into a metadata store without opening it as one: which clusters and topics it names. Nothing is written.

For what runs before a broker does (the check of a data directory) and for `mpbroker adopt`; any process.
"""

import os
import sqlite3
from contextlib import closing
from typing import Final, NamedTuple

from mpbroker.metadata.keys import ROOT, STORE_FILE
from mpbroker.metadata.topic_record import BadRecord, BrokerConfigRecord, decode_record

__all__ = ["STORE_FILE", "StorePeek", "UnreadableStore", "peek", "peek_settings"]

_NAMES: Final = "SELECT key FROM kv WHERE key >= ? AND key < ?"


class StorePeek(NamedTuple):
    """`topics`, `deletions`: cluster id → topic names; of deletions, ids in hex."""

    topics: dict[str, set[str]]
    deletions: dict[str, set[str]]

    @property
    def clusters(self) -> set[str]:
        """Clusters that the store has anything to say about."""
        return set(self.topics) | set(self.deletions)


class UnreadableStore(ValueError):
    """The file is no store of ours, or damaged."""


def peek(path: str) -> StorePeek:
    """What a store names; of a file that is missing or empty, nothing. UnreadableStore."""
    found = StorePeek({}, {})
    if not os.path.exists(path):
        return found
    try:
        with closing(sqlite3.connect(_uri(path), uri=True, timeout=5)) as db:
            for (key,) in db.execute(_NAMES, (f"{ROOT}/", f"{ROOT}0")) if _has_table(db) else ():
                _take(found, key.removeprefix(f"{ROOT}/").split("/"))
    except (sqlite3.Error, UnicodeDecodeError) as error:  # its message may quote what is damaged
        raise UnreadableStore(f"{path} cannot be read as a metadata store: {error}") from error
    return found


def peek_settings(path: str, key: str) -> dict[str, str]:
    """The settings kept under a key; empty when there are none. UnreadableStore."""
    try:
        with closing(sqlite3.connect(_uri(path), uri=True, timeout=5)) as db:
            row = db.execute("SELECT value FROM kv WHERE key = ?", (key,)).fetchone() if _has_table(db) else None
        return decode_record(BrokerConfigRecord, row[0], key).configs if row else {}
    except (sqlite3.Error, BadRecord) as error:
        raise UnreadableStore(f"{path} cannot be read as a metadata store: {error}") from error


def _uri(path: str) -> str:
    """Where neither a broker that runs nor one that was killed left anything beside the store, SQLite needs nothing
    there either: it would make two files, and could not remove them again."""
    used = os.path.exists(f"{path}-shm") or (os.path.exists(f"{path}-wal") and os.path.getsize(f"{path}-wal"))
    return f"file:{path}?mode=ro" if used else f"file:{path}?mode=ro&immutable=1"


def _has_table(db: sqlite3.Connection) -> bool:
    return db.execute("SELECT 1 FROM sqlite_master WHERE name = 'kv'").fetchone() is not None


def _take(found: StorePeek, parts: list[str]) -> None:
    match parts:
        case [cluster, "tn", name]:
            found.topics.setdefault(cluster, set()).add(name)
        case [cluster, "admin", "delete", topic_id]:
            found.deletions.setdefault(cluster, set()).add(topic_id)
