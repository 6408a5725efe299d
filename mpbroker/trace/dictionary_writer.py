"""Writes the dictionary of one boot (trace/dictionary.py has its form); the tracer process alone.

Rows wait in memory until `flush`, which appends them in one write; after an error they wait for the next one. The file
is made with the first row. When it holds twice as many rows of a kind as readers keep, it is rewritten with the
newest.
"""

import json
import os
from collections import Counter, deque
from pathlib import Path
from typing import Any

from mpbroker.trace import dictionary
from mpbroker.trace.dictionary import MAX_NAME_CHARS, MAX_OF_A_KIND, BootNames

MAX_WAITING = 8192
_REWRITE_AT = 2 * MAX_OF_A_KIND


class DictionaryWriter:
    """Names of this boot. Rows that are known already are not written again. `lost`: rows given up while the disk was
    full."""

    def __init__(self, directory: Path, broker_id: int, boot_id: int) -> None:
        self.path = directory / dictionary.file_name(broker_id, boot_id)
        self.lost = 0
        self._file = -1
        self._first = {"k": "boot", "broker": broker_id, "boot": f"{boot_id:016x}"}
        self._waiting: deque[dict[str, Any]] = deque()
        self._written = Counter(row.get("k") for row in dictionary.rows(self.path) if isinstance(row.get("k"), str))
        known = BootNames()
        dictionary.read_into(known, self.path)
        self._clients = dict.fromkeys(known.clients)
        self._topics = dict.fromkeys(known.topics)
        self._lost_notices = known.lost_notices
        self._markers = {(one.t0_ns, one.text): one.number for one in known.markers.values()}

    def client(self, client_hash: int, name: str) -> None:
        """A client id."""
        self._named("client", self._clients, client_hash, name)

    def topic(self, topic_hash: int, name: str) -> None:
        """A topic."""
        self._named("topic", self._topics, topic_hash, name)

    def connection(self, conn_id: int, processor: int, peer: str, listener: int, t0_ns: int) -> None:
        """An accepted connection."""
        self._add({"k": "conn", "id": conn_id, "proc": processor, "peer": peer, "listener": listener, "t0_ns": t0_ns})

    def software(self, conn_id: int, name: str, version: str) -> None:
        """What a connection's client said it is."""
        self._add({"k": "software", "id": conn_id, "name": name[:MAX_NAME_CHARS], "version": version[:MAX_NAME_CHARS]})

    def lose_notices(self, count: int) -> None:
        """So many notices did not arrive: names and connections may be missing from here on."""
        self._lost_notices += count
        self._add({"k": "lost", "n": self._lost_notices})

    def marker(self, text: str, t0_ns: int) -> int:
        """A marker; returns its number, the one it has already if it was added before (a predecessor died over it)."""
        text = text[:MAX_NAME_CHARS]
        number = self._markers.get((t0_ns, text))
        if number is None:
            number = next(reversed(self._markers.values()), -1) + 1
            _remember(self._markers, (t0_ns, text), number)
            self._add({"k": "marker", "n": number, "text": text, "t0_ns": t0_ns})
        return number

    def flush(self) -> None:
        """Append what waits. OSError: it still waits."""
        if not self._waiting:
            return
        if any(count >= _REWRITE_AT for count in self._written.values()):
            self._rewrite()
        taken = len(self._waiting)
        lines = self._beginning() + b"".join(map(_line, self._waiting))
        if os.write(self._file, lines) != len(
            lines
        ):  # the disk is nearly full: a torn line is ended, all is written again
            os.close(self._file)
            self._file = -1
            raise OSError(28, "the dictionary was written in part", str(self.path))
        self._written["boot"] = 1
        for _ in range(taken):
            self._written[self._waiting.popleft()["k"]] += 1

    def close(self) -> None:
        """Give the descriptor back; what waits is lost."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _named(self, kind: str, known: dict[int, None], name_hash: int, name: str) -> None:
        if name_hash not in known:
            _remember(known, name_hash, None)
            self._add({"k": kind, "hash": name_hash, "name": name[:MAX_NAME_CHARS]})

    def _add(self, row: dict[str, Any]) -> None:
        if len(self._waiting) >= MAX_WAITING:
            self._waiting.popleft()
            self.lost += 1
        self._waiting.append(row)

    def _beginning(self) -> bytes:
        """What has to stand before the next row: the first one, or the end of a line that was torn. Opens the file."""
        if self._file >= 0:
            return b""
        self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        size = os.fstat(self._file).st_size
        torn = b"\n" if size and os.pread(self._file, 1, size - 1) != b"\n" else b""
        return torn if self._written["boot"] else torn + _line(self._first)

    def _rewrite(self) -> None:
        """Keep of every kind the newest rows that readers keep, in their order."""
        room = Counter(dict.fromkeys(self._written, MAX_OF_A_KIND))
        surplus = self._written - room
        temporary = self.path.with_suffix(".new")
        self.close()
        with open(temporary, "wb", opener=_owner_only) as file:
            for row in dictionary.rows(self.path):
                kind = row.get("k")
                if kind == "boot" or surplus[kind] <= 0:
                    file.write(_line(row))
                else:
                    surplus[kind] -= 1
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path)
        self._written = self._written & room


def _remember(table: dict[Any, Any], key: Any, value: Any) -> None:
    table[key] = value
    if len(table) > MAX_OF_A_KIND:
        del table[next(iter(table))]


def _line(row: dict[str, Any]) -> bytes:
    return json.dumps(row, separators=(",", ":")).encode() + b"\n"


def _owner_only(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
