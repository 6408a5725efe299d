"""What became of the changes of one seed, in a file: one line of JSON for each verdict, so that a run that was
interrupted goes on where it was, and survivors can be judged again after a test was written."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from tests.mutation.change import Change
from tests.mutation.equivalent import Key, key_of
from tests.mutation.judge import Verdict


class Results:
    """First and latest verdict of each change."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.first: dict[Key, Verdict] = {}
        self.latest: dict[Key, Verdict] = {}
        for line in file.read_text().splitlines() if file.exists() else ():
            told = json.loads(line)
            self._learn((told["path"], told["before"], told["after"], told.get("nth", 1)), Verdict(told["verdict"]))

    def add(self, change: Change, verdict: Verdict, seconds: float, noticed_by: str) -> None:
        """At once on the disk."""
        self._learn(key_of(change), verdict)
        line = {"path": change.path, "line": change.line, "operator": change.edit.operator, "before": change.before}
        line |= {"after": change.after, "nth": change.nth}
        line |= {"verdict": verdict.value, "seconds": round(seconds, 1), "by": noticed_by}
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with open(self._file, "a") as file:
            file.write(json.dumps(line) + "\n")

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
