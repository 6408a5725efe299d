"""`dict-b<broker>-<boot>.jsonl`: the names behind the numbers of one boot's trace records. Reading; standard library
alone.

Records carry hashes and numbers, so that a trace without this file (mode 0600) names nobody. Rows, one JSON object a
line:

    {"k":"boot","broker":1,"boot":"00c0ffee00c0ffee"}                                 once, first
    {"k":"client","hash":H,"name":"..."}   {"k":"topic","hash":H,"name":"..."}        H: CRC-32C of the name
    {"k":"conn","id":C,"proc":P,"peer":"127.0.0.1:4711","listener":0,"t0_ns":T}       C: conn_id of its records
    {"k":"software","id":C,"name":"librdkafka","version":"2.3"}                       of that connection (KIP-511)
    {"k":"marker","n":N,"text":"...","t0_ns":T}
    {"k":"lost","n":N}                                                                notices the tracer never got

A later row about the same thing wins; kinds not known here are passed over, so is a line that a crash has torn. Only
the newest MAX_OF_A_KIND rows of each kind are kept in memory, whatever the file holds.
"""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

MAX_OF_A_KIND = 16_384
MAX_NAME_CHARS = 256
MAX_LINE_BYTES = 8192
SUFFIX = ".jsonl"
START = "dict-"
PATTERN = f"{START}*{SUFFIX}"
_FILE = re.compile(r"dict-b(\d+)-([0-9a-f]{8})\.jsonl")


class Connection(NamedTuple):
    """One accepted connection. `software`, `version`: empty if the client did not say."""

    conn_id: int
    processor: int
    peer: str
    listener: int
    opened_ns: int
    software: str = ""
    version: str = ""


class Marker(NamedTuple):
    """What `mpbroker trace mark` said; `t0_ns` is monotonic."""

    number: int
    text: str
    t0_ns: int


class BootNames:
    """Names of one boot of one broker.

    clients, topics   hash → name
    connections       conn_id → Connection
    markers           number → Marker
    lost_notices      how many notices of connections and clients did not reach the tracer
    """

    def __init__(self) -> None:
        self.clients: dict[int, str] = {}
        self.topics: dict[int, str] = {}
        self.connections: dict[int, Connection] = {}
        self.markers: dict[int, Marker] = {}
        self.lost_notices = 0

    def add(self, row: dict[str, Any]) -> None:
        """Take one row in. ValueError, KeyError or TypeError: it is not a row of this format."""
        kind = row["k"]
        if kind == "client":
            _keep(self.clients, _number(row["hash"]), _name(row["name"]))
        elif kind == "topic":
            _keep(self.topics, _number(row["hash"]), _name(row["name"]))
        elif kind == "conn":
            one = Connection(
                _number(row["id"]),
                _number(row["proc"]),
                _name(row["peer"]),
                _number(row["listener"]),
                _number(row["t0_ns"]),
            )
            _keep(self.connections, one.conn_id, one)
        elif kind == "software":
            known = self.connections.get(_number(row["id"]))
            if known is not None:
                self.connections[known.conn_id] = known._replace(
                    software=_name(row["name"]), version=_name(row["version"])
                )
        elif kind == "marker":
            one_marker = Marker(_number(row["n"]), _name(row["text"]), _number(row["t0_ns"]))
            _keep(self.markers, one_marker.number, one_marker)
        elif kind == "lost":
            self.lost_notices = max(self.lost_notices, _number(row["n"]))


class Dictionary:
    """Names of any number of boots and brokers. `of` never fails: what has no file has no names."""

    def __init__(self) -> None:
        self._boots: dict[tuple[int, int], BootNames] = {}

    def of(self, broker_id: int, boot_id: int) -> BootNames:
        """The names of a boot, as a segment's header gives broker and boot."""
        return self._boots.setdefault((broker_id, boot_id & 0xFFFFFFFF), BootNames())

    def boots(self) -> Iterable[tuple[tuple[int, int], BootNames]]:
        """(broker, low half of the boot id) and names of every boot asked for or read."""
        return self._boots.items()

    def client(self, broker_id: int, boot_id: int, client_hash: int) -> str | None:
        """A client id, None when the hash is 0 or not known."""
        return self.of(broker_id, boot_id).clients.get(client_hash)

    def topic(self, broker_id: int, boot_id: int, topic_hash: int) -> str | None:
        """A topic's name, None when the hash is 0 or not known."""
        return self.of(broker_id, boot_id).topics.get(topic_hash)

    def connection(self, broker_id: int, boot_id: int, conn_id: int) -> Connection | None:
        """The connection that had this number last, None when none is known."""
        return self.of(broker_id, boot_id).connections.get(conn_id)


def file_name(broker_id: int, boot_id: int) -> str:
    """`dict-b<broker>-<boot>.jsonl`, broker and boot written as in the names of the segments."""
    return f"dict-b{broker_id}-{boot_id & 0xFFFFFFFF:08x}{SUFFIX}"


def boot_of(path: Path) -> tuple[int, int] | None:
    """Broker and low half of the boot id out of a file's name; None when it is no dictionary."""
    found = _FILE.fullmatch(path.name)
    return (int(found[1]), int(found[2], 16)) if found else None


def find(place: Path) -> list[Path]:
    """The dictionaries in a folder and below it; beside a file: those of its folder."""
    return sorted(place.rglob(PATTERN)) if place.is_dir() else sorted(place.parent.glob(PATTERN))


def read(paths: Iterable[Path]) -> Dictionary:
    """All names of these files; others than dictionaries, and files that are gone, are passed over."""
    result = Dictionary()
    for path in paths:
        boot = boot_of(path)
        if boot is not None:
            read_into(result.of(*boot), path)
    return result


def read_into(names: BootNames, path: Path) -> None:
    """Add one file's rows."""
    for row in rows(path):
        try:
            names.add(row)
        except (ValueError, KeyError, TypeError):
            continue  # of a later version, or damaged: the other rows are as good as before


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """Every whole line that is a JSON object, in order; never more than MAX_LINE_BYTES of the file in memory."""
    try:
        file = open(path, "rb")  # noqa: SIM115 (closed below; only a missing file is nothing)
    except FileNotFoundError:
        return
    with file:
        whole = True  # whether the next piece begins a line
        while piece := file.readline(MAX_LINE_BYTES):
            begins, whole = whole, piece.endswith(b"\n")
            if not begins or not whole:
                continue  # torn, or too long for a row of this format
            try:
                row = json.loads(piece)
            except (ValueError, RecursionError):
                continue
            if isinstance(row, dict):
                yield row


def _keep(table: dict[Any, Any], key: Any, value: Any) -> None:
    """Put a row into its table as the newest; the oldest makes room."""
    table.pop(key, None)
    table[key] = value
    if len(table) > MAX_OF_A_KIND:
        del table[next(iter(table))]


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 64:
        raise ValueError(f"{value!r} is no number of a record")
    return value


def _name(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no name")
    return value[:MAX_NAME_CHARS]
