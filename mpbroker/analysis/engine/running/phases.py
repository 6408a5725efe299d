"""Which part of a load a moment belongs to: markers as phases, and names for runs. Pure.

`mpbroker trace mark "load step 3"` begins a phase that lasts to the next marker; a marker that begins with "end" begins
none.
"""

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mpbroker.analysis.engine.input.trace_input import TraceInput

ALL = "whole trace"
BEFORE = "before the first marker"
_PREFIX = re.compile(r"^phase(:\s*|\s+)")


class Phase(NamedTuple):
    """A stretch of the load; epoch nanoseconds, `to_ns` excluded."""

    name: str
    from_ns: int
    to_ns: int

    @property
    def seconds(self) -> float:
        """Its length."""
        return (self.to_ns - self.from_ns) / 1e9


def phases(source: "TraceInput", from_ns: int, to_ns: int, run: str | None = None) -> list[Phase]:
    """The phases between two moments, in order; without markers the whole is one. `run`: of that run's markers alone.

    Markers of one text at several times are several phases of one name.
    """
    rows = source.markers().select(["epoch_ns", "run", "text"]).to_pylist()
    marks = sorted(
        (row["epoch_ns"], _PREFIX.sub("", row["text"], 1).strip())
        for row in rows
        if row["epoch_ns"] < to_ns and run in (None, row["run"])
    )
    if not any(at >= from_ns for at, _ in marks):
        return [Phase(ALL if not marks or _is_end(marks[-1][1]) else marks[-1][1], from_ns, to_ns)]
    marks = [(from_ns, BEFORE), *marks]
    found = []
    for (at, name), (until, _) in zip(marks, [*marks[1:], (to_ns, "")], strict=True):
        begin = max(at, from_ns)
        if until > begin and not _is_end(name):
            found.append(Phase(name, begin, until))
    return found


def run_labels(source: "TraceInput") -> dict[str, str]:
    """Run (boot id, as frames have it) → a name: of its folder where every run has one of its own, else its first
    digits."""
    folders: dict[str, set[str]] = {}
    for info in source.segments:
        folder = info.path.parent
        name = folder.parent.name if folder.name == "traces" else folder.name
        folders.setdefault(f"{info.opened.boot_id:016x}", set()).add(name)
    names = [next(iter(own)) for own in folders.values() if len(own) == 1]
    if len(names) == len(folders) == len(set(names)):
        return {run: next(iter(own)) for run, own in folders.items()}
    return {run: run[-8:] for run in folders}


def _is_end(name: str) -> bool:
    return name.lower().partition(" ")[0] in ("end", "stop", "done")
