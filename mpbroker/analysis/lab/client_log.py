"""The log of what clients did: one row per intended request, written by a generator process, read by `mpbroker lab
run`.

A file is a line of JSON (group, local port of each connection, column types) and then the columns, each as one array of
the machine's own numbers. Times are CLOCK_MONOTONIC nanoseconds, as in the trace; -1 means it never happened: `sent_ns`
of a request whose time came but whose turn did not, `done_ns` of one without an answer. `ready_ns` is when nothing but
the generator itself stood in the way (the intended time, or when the in-flight limit and the socket allowed it again);
`arrived_ns` when the kernel had the answer (what came in one receive counts as the last of it; -1 where the group does
not ask for it). From ready to sent and from arrived to done a client waits for a core, not for the broker. That a
request was ready so late may be the generator's doing, too: see on_time.py.
"""

from __future__ import annotations

import json
from array import array
from pathlib import Path
from typing import Any, NamedTuple

COLUMNS = (
    ("connection", "i"),
    ("corr_id", "i"),
    ("error", "h"),
    ("intended_ns", "q"),
    ("ready_ns", "q"),
    ("sent_ns", "q"),
    ("arrived_ns", "q"),
    ("done_ns", "q"),
)
NEVER = -1


class ClientLog:
    """Rows in memory until `write`; at most `rows_most`, and `lost` counts what did not fit."""

    def __init__(self, rows_most: int) -> None:
        self._columns = {name: array(code) for name, code in COLUMNS}
        self._append = [self._columns[name].append for name, _ in COLUMNS]
        self._rows_most = rows_most
        self.rows = 0
        self.lost = 0

    def add(self, *values: int) -> None:
        """One request, in the order of COLUMNS."""
        if self.rows >= self._rows_most:
            self.lost += 1
            return
        self.rows += 1
        for append, value in zip(self._append, values, strict=True):
            append(value)

    def write(self, path: Path, about: dict[str, Any]) -> None:
        """The whole file; `about` goes into its first line."""
        head = {**about, "rows": self.rows, "lost": self.lost, "columns": [list(column) for column in COLUMNS]}
        with open(path, "wb") as file:
            file.write(json.dumps(head).encode() + b"\n")
            for name, _ in COLUMNS:
                self._columns[name].tofile(file)


class LogFile(NamedTuple):
    """What was read: the first line, and the columns by name (array.array)."""

    about: dict[str, Any]
    columns: dict[str, array[Any]]


def read(path: Path) -> LogFile:
    """The whole file; EOFError if it is cut off."""
    with open(path, "rb") as file:
        about = json.loads(file.readline())
        columns = {}
        for name, code in about["columns"]:
            column = columns[name] = array(code)
            data = file.read(about["rows"] * column.itemsize)
            if len(data) < about["rows"] * column.itemsize:
                raise EOFError(f"{path} is cut off")
            column.frombytes(data)
    return LogFile(about, columns)
