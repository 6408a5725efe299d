"""Which runs are nearest to a change: those that touched its function when `python -m tests.mutation.record` watched.
The first that is red is enough, so what is quick and touches little else comes first, and before it what is named after
the same things, some tests of each file after the other; what starts a broker comes last.

Without a record of the function (it is new, or nothing was recorded), the tests named after the file and its room.
What stands outside functions, as a table does, nobody is seen to touch: test files that import it are run as well.
Where no slow test is known to touch it, those whose file has a word of the changed one's path come last.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.change import Change
from tests.mutation.touched import Run, is_outside, places_at

#: Programs of native/tests. They are recorded, and what has no record tries those of its room's name.
PROGRAM_TESTS = "native/tests"
#: What is not picked: they compile, and run the programs that ran before; or they are about the tool.
NOT_PICKED = ("tests/unit/native/test_programs.py", "tests/unit/native/test_aarch64.py", "tests/mutation/")
#: Rooms of tests that start brokers.
SLOW_ROOMS = ("integration", "chaos", "cluster", "conformance")
WORD = re.compile(r"[a-z]+")
#: Rooms of tests that are quick, and may know a module's tables.
QUICK_ROOMS = ("unit", "tidy")
FIRST_S, QUICK_S, PROGRAM_S, SLOW_S, MOST_TESTS = 5.0, 30.0, 30.0, 60.0, 3000
AT_A_TIME = 3
MOST_SLOW_FILES, FILE_S, FILE_TEST_S = 2, 30.0, 10.0


@dataclass(frozen=True)
class Selection:
    """A program, or tests of pytest; `expected_s` is what it took when it was recorded."""

    words: tuple[str, ...]
    expected_s: float
    longest_s: float

    @property
    def program(self) -> str | None:
        """Its name, if it is one."""
        return self.words[0].removeprefix("program ") if self.words[0].startswith("program ") else None

    def without(self, word: str) -> Selection:
        """The rest."""
        return Selection(tuple(one for one in self.words if one != word), self.expected_s, self.longest_s)


class Nearest:
    """Picks from the recorded runs."""

    def __init__(self, tree: Path, runs: Mapping[str, Run]) -> None:
        self._tree = tree
        self._runs = [run for run in runs.values() if not run.test.startswith(NOT_PICKED) and self._is_there(run.test)]

    def selections(self, change: Change, text: str) -> list[Selection]:
        """What to run, one after the other; `text` is the unchanged file's."""
        places = places_at(change.path, text, change.line)
        runs = [run for run in self._runs if run.touched & places]
        slow = [] if any(run.slow for run in runs) else self._slow_by_name(change.path)
        if is_outside(change.path, text, change.line):
            slow = [*self._importing(change.path), *slow]
        if not runs:
            return [*self._by_name(change.path), *slow]
        quick, long = _programs(runs)
        return [*quick, *self._tests(change, runs), *slow, *long]

    def _tests(self, change: Change, runs: list[Run]) -> Iterable[Selection]:
        name = f"test_{Path(change.path).stem}.py::"
        tests = [run for run in runs if not run.test.startswith("program ")]
        about = words_of(change.path)
        tests.sort(
            key=lambda run: (f"/{name}" not in run.test, -_shared(about, run.test), len(run.touched), run.call_s)
        )
        named, of_named = self._named(change, tests)
        tests = [run for run in tests if run not in of_named]
        quick = _in_turns([run for run in tests if not run.slow])
        first = _within(quick, FIRST_S, 40)
        chosen = {run.test for run in first}
        rest = _within([run for run in quick if run.test not in chosen], QUICK_S, MOST_TESTS)
        slow = _within([run for run in tests if run.slow], SLOW_S, MOST_TESTS)
        return named + [_selection(part) for part in (first, rest, slow) if part]

    def _named(self, change: Change, tests: list[Run]) -> tuple[list[Selection], list[Run]]:
        """The whole file that is named after the changed one: it may have tests that nobody has recorded yet."""
        name, room = f"test_{Path(change.path).stem}.py", change.path.split("/")[1]
        found = sorted((self._tree / "tests" / "unit" / room).rglob(name)) or self._tree.glob(f"tests/unit/**/{name}")
        files = [str(one.relative_to(self._tree)) for one in found]
        for file in files:
            runs = [run for run in tests if run.test.startswith(f"{file}::")]
            if len(files) == 1 and not any(run.slow for run in runs) and sum(run.call_s for run in runs) < QUICK_S:
                return [Selection((file,), QUICK_S, QUICK_S)], runs
        return [], []

    def _by_name(self, path: str) -> list[Selection]:
        """All programs of a room, the tests of a file's name, then those of its room, file by file: a busy machine runs
        one of them within its limit where it might not run them all."""
        room, stem = path.split("/")[1], Path(path).stem
        programs = []
        if path.endswith(".c"):
            programs = [one.stem[5:] for one in sorted((self._tree / PROGRAM_TESTS / room).glob("test_*.c"))]
        words = [str(one.relative_to(self._tree)) for one in (self._tree / "tests").rglob(f"test_{stem}.py")]
        in_room = [
            str(one.relative_to(self._tree)) for one in (self._tree / "tests" / "unit" / room).rglob("test_*.py")
        ]
        words += sorted(set(in_room) - set(words), key=self._file_s)
        found = [Selection((f"program {name}",), 30.0, 30.0) for name in programs]
        return found + [Selection((word,), 30.0, 10.0) for word in words]

    def _importing(self, path: str) -> list[Selection]:
        """Test files that import a module of Python, the quickest first, as far as the time goes."""
        room, _, module = path.removesuffix(".py").replace("/", ".").rpartition(".")
        named = re.compile(
            rf"{re.escape(room)}\.{module}\b|from {re.escape(room)} import (?:\([^)]*|[^\n(]*)\b{module}\b"
        )
        tests = self._tree / "tests"
        files = [
            file for one in QUICK_ROOMS for file in (tests / one).rglob("test_*.py") if named.search(file.read_text())
        ]
        found, spent = [], 0.0
        for word in sorted(
            (str(file.relative_to(self._tree)) for file in files), key=lambda word: (self._file_s(word), word)
        ):
            spent += self._file_s(word)
            if spent < FILE_S:
                found.append(Selection((word,), FILE_S, FILE_TEST_S))
        return found

    def _slow_by_name(self, path: str) -> list[Selection]:
        about = words_of(path)
        files = [file for room in SLOW_ROOMS for file in sorted((self._tree / "tests" / room).glob("test_*.py"))]
        words = [str(file.relative_to(self._tree)) for file in files]
        near = sorted((word for word in words if _shared(about, word)), key=lambda word: -_shared(about, word))
        return [Selection((word,), FILE_S, FILE_TEST_S) for word in near[:MOST_SLOW_FILES]]

    def _file_s(self, file: str) -> float:
        """What a file's tests took when they were recorded."""
        return sum(run.call_s for run in self._runs if run.test.startswith(f"{file}::"))

    def _is_there(self, test: str) -> bool:
        if test.startswith("program "):
            return any((self._tree / PROGRAM_TESTS).glob(f"*/test_{test.removeprefix('program ')}.c"))
        return (self._tree / test.partition("::")[0]).exists()


def near_to(path: str, places: frozenset[int], runs: Iterable[Run], budget_s: float) -> list[str]:
    """Ids of recorded tests that touched one of these places, as many as the time allows, files together."""
    about = words_of(path)
    touching = [run for run in runs if run.touched & places]
    touching.sort(key=lambda run: (-_shared(about, run.test), len(run.touched), run.call_s))
    return list(_selection(_within(_in_turns(touching), budget_s, MOST_TESTS)).words) if touching else []


def words_of(path: str) -> set[str]:
    """What a path is about: its longer words, without the plural."""
    return {word.rstrip("s") for word in WORD.findall(path) if len(word) > 4} - {"mpbroker", "native", "integration"}


def _shared(about: set[str], test: str) -> int:
    """How many of these words the name of a test's file has: every start of a broker touches nearly everything."""
    return len(about & words_of(test.partition("::")[0]))


def _programs(runs: list[Run]) -> tuple[list[Selection], list[Selection]]:
    """Those that there is time for; and one that single-steps for minutes, as the last resort."""
    programs = sorted((run for run in runs if run.test.startswith("program ")), key=lambda run: run.call_s)
    found, spent = [], 0.0
    for run in programs:
        spent += run.call_s
        found.append(Selection((run.test,), run.call_s, run.call_s))
        if spent > PROGRAM_S:
            return found[:-1], found[-1:]
    return found, []


def _in_turns(runs: list[Run]) -> list[Run]:
    """Some of each file, then some more of each: hundreds of cases of one test leave no time for the other files."""
    seen: Counter[str] = Counter()
    turns = []
    for run in runs:
        file = run.test.partition("::")[0]
        turns.append((seen[file] // AT_A_TIME, run))
        seen[file] += 1
    return [run for _, run in sorted(turns, key=lambda turn: turn[0])]


def _within(runs: list[Run], budget_s: float, most: int) -> list[Run]:
    """As many as the budget allows; a file's dearest set-up counts once."""
    taken: list[Run] = []
    spent, set_up = 0.0, dict[str, float]()
    for run in runs:
        file = run.test.partition("::")[0]
        more = max(run.setup_s - set_up.get(file, 0.0), 0.0) + run.call_s
        if len(taken) < most and (spent + more <= budget_s or not taken):
            spent += more
            set_up[file] = max(run.setup_s, set_up.get(file, 0.0))
            taken.append(run)
    return taken


def _selection(runs: list[Run]) -> Selection:
    """Tests of one file stand together: they share what it sets up."""
    files = list(dict.fromkeys(run.test.partition("::")[0] for run in runs))
    ordered = sorted(runs, key=lambda run: files.index(run.test.partition("::")[0]))
    expected = sum(run.setup_s + run.call_s for run in ordered)
    return Selection(tuple(run.test for run in ordered), expected, max(run.setup_s + run.call_s for run in ordered))
