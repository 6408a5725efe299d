"""What a power cut may leave of recorded calls to the disk: a small model of files, directories and what was synced.

    for position, call in replay.calls(record): disk.apply(position, call)
    disk.left("nothing")     # path → content: only what was synced

"everything" is there; "nothing" that was not synced, neither content nor names; all "names", but of their contents only
what was synced; or "some": of each file and directory all or only what was synced, by chance. A sync covers what was
recorded before it began.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.harness.disk_calls import KINDS

CASES = ("everything", "nothing", "names", "some")
FORGOTTEN = ("metadata.db-shm", ".lock", ".reserve", ".mpbroker-status.json")
"""Not for a disk to keep: shared memory of SQLite, the lock, room, the way to a live broker."""


class Recorded(NamedTuple):
    """A call: its kind, path and second path below the data directory, place in the file (a sync: how long the record
    was when it began), bytes. Kinds that no call has are the test's own lines: what it was promised by then."""

    kind: str
    path: str
    to: str
    at: int
    data: bytes


class Left(NamedTuple):
    """A file after a power cut: content, and the position of the call that last changed it."""

    data: bytes
    changed: int


def calls(record: bytes, data_dir: str) -> Iterator[tuple[int, Recorded]]:
    """Every call with its position in the record."""
    place = 0
    while place < len(record):
        end = record.index(b"\n", place)
        what, path, to, at, size = record[place:end].decode().split("\t")
        data = record[end + 1 : end + 1 + int(size)]
        yield place, Recorded(KINDS.get(what, what), _short(path, data_dir), _short(to, data_dir), int(at), data)
        place = end + 1 + int(size)


def _short(path: str, data_dir: str) -> str:
    return path.removeprefix(data_dir).lstrip("/")


class _Node:
    """A file or directory. `waiting`: changes that no sync has covered yet, with their positions."""

    def __init__(self, is_directory: bool) -> None:
        self.is_directory = is_directory
        self.names: dict[str, _Node] = {}
        self.synced_names: dict[str, _Node] = {}
        self.data, self.synced_data = bytearray(), bytearray()
        self.waiting: list[tuple[int, str, _Node | None, int, bytes]] = []
        self.changed = 0

    def name(self, position: int, name: str, node: _Node | None) -> None:
        """Enter or remove a name."""
        _enter(self.names, name, node)
        self.waiting.append((position, name, node, 0, b""))

    def write(self, position: int, at: int, data: bytes | None) -> None:
        """Write bytes; None: the file ends at `at`."""
        _write(self.data, at, data)
        self.waiting.append((position, "cut" if data is None else "", None, at, data or b""))
        self.changed = position

    def sync(self, covers: int) -> None:
        """What stands before a position in the record is on disk."""
        for _, name, node, at, data in [one for one in self.waiting if one[0] < covers]:
            if self.is_directory:
                _enter(self.synced_names, name, node)
            else:
                _write(self.synced_data, at, None if name else data)
        self.waiting = [one for one in self.waiting if one[0] >= covers]


def _enter(names: dict[str, _Node], name: str, node: _Node | None) -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


def _write(content: bytearray, at: int, data: bytes | None) -> None:
    if data is None:
        del content[at:]
    content.extend(bytes(max(0, at - len(content))))
    if data:
        content[at : at + len(data)] = data


class Disk:
    """The data directory, call by call; itself it is durable."""

    def __init__(self) -> None:
        self._root = _Node(True)

    def apply(self, position: int, call: Recorded) -> None:
        """One call. What is done to a file that has no name any more leaves no trace."""
        if call.path.startswith("traces"):
            return
        if not call.path:
            if call.kind == "sync":
                self._root.sync(call.at)
            return
        parent, name = self._parent(call.path)
        node = parent.names.get(name) if parent else None
        if call.kind in ("create", "mkdir") and parent is not None:
            parent.name(position, name, _Node(call.kind == "mkdir"))
        elif call.kind in ("unlink", "rmdir") and parent is not None:
            parent.name(position, name, None)
        elif call.kind == "rename" and parent is not None and node is not None:
            target, new_name = self._parent(call.to)
            assert target is not None
            parent.name(position, name, None)
            target.name(position, new_name, node)
        elif node is not None and call.kind == "sync":
            node.sync(call.at)
        elif node is not None and call.kind in ("write", "cut"):
            node.write(position, call.at, call.data if call.kind == "write" else None)

    def _parent(self, path: str) -> tuple[_Node | None, str]:
        *above, name = path.split("/")
        node: _Node | None = self._root
        for part in above:
            node = node.names.get(part) if node is not None else None
        return node, name

    def left(self, case: str, random: Random | None = None) -> dict[str, Left | None]:
        """Files, and directories (None), by path: what one of CASES leaves; for "some" with the chance to use."""
        some = random or Random(0)
        cases: dict[str, Callable[[_Node], bool]] = {
            "everything": lambda node: True,
            "nothing": lambda node: False,
            "names": lambda node: node.is_directory,
            "some": lambda node: some.random() < 0.5,
        }
        return dict(_left(self._root, "", cases[case]))


def _left(node: _Node, prefix: str, has_all: Callable[[_Node], bool]) -> Iterator[tuple[str, Left | None]]:
    for name, child in sorted((node.names if has_all(node) else node.synced_names).items()):
        if name.startswith(FORGOTTEN):
            continue
        if child.is_directory:
            yield prefix + name, None
            yield from _left(child, f"{prefix}{name}/", has_all)
        else:
            yield prefix + name, Left(bytes(child.data if has_all(child) else child.synced_data), child.changed)


def put(left: dict[str, Left | None], path: Path, begun_ns: int) -> None:
    """Make a data directory of it. Files are as old as their last change, in the order of the record."""
    path.mkdir()
    for name, file in left.items():
        if file is None:
            (path / name).mkdir()
        else:
            (path / name).write_bytes(file.data)
            os.utime(path / name, ns=(begun_ns + 1000 * file.changed, begun_ns + 1000 * file.changed))
