"""One change at one place of one file, and the files that are changed. Own code: it needs no library."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from tests.mutation import c_operators, python_operators
from tests.mutation.edit import Edit

PYTHON_ROOMS = (
    "server",
    "network",
    "log",
    "controller",
    "supervisor",
    "purgatory",
    "trace",
    "metadata",
    "coordinator",
    "config",
    "cluster",
    "replication",
)
C_ROOMS = ("shm", "record", "trace", "log", "request", "network", "produce", "fetch", "replication", "python")


@dataclass(frozen=True)
class Change:
    """`edit` of the file at `path`, relative to the tree; `line` counts from 1, and so does `nth`: equal lines of a
    file that are changed alike."""

    path: str
    line: int
    before: str
    after: str
    edit: Edit
    nth: int = 1

    @property
    def room(self) -> str:
        """`native/log` or `mpbroker/log`."""
        return "/".join(self.path.split("/")[:2])

    def __str__(self) -> str:
        return f"{self.path}:{self.line} ({self.edit.operator})\n  - {self.before}\n  + {self.after}"


def changed_files(tree: Path) -> list[str]:
    """Paths, relative to the tree, of all files whose faults the tests should notice: not the crash points of tests."""
    found = [path for room in C_ROOMS for path in (tree / "native" / room).glob("*.c") if path.name != "inject.c"]
    found += [path for room in PYTHON_ROOMS for path in (tree / "mpbroker" / room).rglob("*.py")]
    return sorted(str(path.relative_to(tree)) for path in found)


def changes_of(path: str, text: str) -> list[Change]:
    """Every change of a file that the operators know, in the order of its lines."""
    edits = (c_operators if path.endswith(".c") else python_operators).edits_of(text)
    found: list[Change] = []
    alike: Counter[tuple[str, str]] = Counter()
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end, edit.text)):
        change = _change(path, text, edit)
        alike[change.before, change.after] += 1
        found.append(replace(change, nth=alike[change.before, change.after]))
    return found


def _change(path: str, text: str, edit: Edit) -> Change:
    start = text.rfind("\n", 0, edit.start) + 1
    end = text.find("\n", max(edit.end - 1, edit.start))
    end = len(text) if end < 0 else end
    before, after = text[start:end], text[start : edit.start] + edit.text + text[edit.end : end]
    return Change(path, text.count("\n", 0, edit.start) + 1, " ".join(before.split()), " ".join(after.split()), edit)
