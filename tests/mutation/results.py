"""What became of the changes of one seed, in a file: one line of JSON for each verdict, so that a run that was
interrupted goes on where it was, and survivors can be judged again after a test was written."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from tests.mutation.change import Change
from tests.mutation.equivalent import Key
from tests.mutation.judge import Verdict


class Results:
    """First and latest verdict of each change."""

    def __init__(self, file: Path) -> None:
        self._file, self._read_bytes = file, 0
        self.first: dict[Key, Verdict] = {}
        self.latest: dict[Key, Verdict] = {}
        self.read_on()

    def read_on(self) -> None:
        """What another process (`--part`) has written meanwhile."""
        if not self._file.exists():
            return
        with open(self._file, "rb") as file:
            file.seek(self._read_bytes)
            lines = file.read().splitlines(keepends=True)
        for line in (line for line in lines if line.endswith(b"\n")):
            self._read_bytes += len(line)
            told = json.loads(line)
            self._learn((told["path"], told["before"], told["after"], told.get("nth", 1)), Verdict(told["verdict"]))

    def add(self, change: Change, verdict: Verdict, seconds: float, noticed_by: str) -> None:
        """At once on the disk, in one write: several processes may have the file."""
        line = {"path": change.path, "line": change.line, "operator": change.edit.operator, "before": change.before}
        line |= {"after": change.after, "nth": change.nth}
        line |= {"verdict": verdict.value, "seconds": round(seconds, 1), "by": noticed_by}
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with open(self._file, "a") as file:
            file.write(json.dumps(line) + "\n")
        self.read_on()

    def _learn(self, key: Key, verdict: Verdict) -> None:
        self.first.setdefault(key, verdict)
        self.latest[key] = verdict

    def counted(self, equivalents: set[Key]) -> int:
        """How many stand for the suite: those that were noticed or could have been."""
        real = (Verdict.NOTICED, Verdict.SURVIVED)
        return sum(verdict in real for key, verdict in self.latest.items() if key not in equivalents)

    def report(self, equivalents: set[Key]) -> float:
        """Prints the share of each room and of all; returns that of all. Of nothing, everything was noticed."""
        rooms = sorted({_room(key) for key in self.latest})
        share = 1.0
        for room in [*rooms, ""]:
            keys = [key for key in self.latest if _room(key).startswith(room) and key not in equivalents]
            now, first = (Counter(verdicts[key] for key in keys) for verdicts in (self.latest, self.first))
            share, at_first = _share(now), _share(first)
            number = now[Verdict.NOTICED] + now[Verdict.SURVIVED]
            rest = f"{now[Verdict.SAME_CODE]} same code, {now[Verdict.INVALID]} invalid"
            told = f"{now[Verdict.NOTICED]} of {number} noticed ({share:.1%}), at first {at_first:.1%}; {rest}"
            print(f"{room or 'all':24} {told}")
        print(f"{len(equivalents & self.latest.keys())} equivalent ones are not counted")
        return share


def _room(key: Key) -> str:
    return "/".join(key[0].split("/")[:2])


def _share(counts: Counter[Verdict]) -> float:
    number = counts[Verdict.NOTICED] + counts[Verdict.SURVIVED]
    return counts[Verdict.NOTICED] / number if number else 1.0
