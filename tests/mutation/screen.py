"""Every change of some modules' functions, tried with quick tests alone, a second for each: what to write tests for.

    python -m tests.mutation.screen mpbroker/coordinator mpbroker/log/roll.py [--lines 40-80] [--every 5]

Prints the changes that no quick test noticed. It is a sieve, not the verdict of `python -m tests.mutation`: slow tests
and programs may notice more, and C, tables, defaults and fields are not tried. One process collects the unit tests once
and never runs one; each change is put into a forked child of it (code_swap.py, forked_tests.py). It needs the record of
which test touches what (`python -m tests.mutation.record unit`).
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mutation.change import Change, changed_files, changes_of
from tests.mutation.code_swap import Functions, Swap
from tests.mutation.equivalent import key_of, known_equivalents
from tests.mutation.forked_tests import ForkedTests
from tests.mutation.nearest import near_to
from tests.mutation.touched import places_at, recorded

ROOT = Path(__file__).parents[2]
#: Seconds of tests, as they were recorded: those that are nearest, and then more of them.
ROUNDS_S = (3.0, 20.0)
SLOWER_HERE = 4.0
CHECK_S = 120.0
PYTEST = [
    "-q",
    "-s",
    "-m",
    "not slow",
    "--timeout",
    "20",
    "-p",
    "no:benchmark",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
]


class Screen:
    """A plugin of pytest: in place of running the tests it collected, tries changes with them."""

    def __init__(self, modules: list[str], lines: range | None, every: int) -> None:
        self._modules, self._lines, self._every = modules, lines, every
        self.survived = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """All modules, one after the other."""
        self._tests = ForkedTests(session)
        runs = recorded(ROOT / ".mutants/touched").values()
        self._runs = [run for run in runs if run.test in self._tests.items]
        self._red: dict[str, bool] = {}
        self._noticed_by: Counter[str] = Counter()
        try:
            for module in self._modules:
                importlib.import_module(module.removesuffix(".py").replace("/", "."))
            self._functions = Functions(f"{ROOT}/mpbroker/")
            for module in self._modules:
                self._try_module(module)
        finally:
            self._tests.close()
        return True

    def _try_module(self, module: str) -> None:
        text, began_s = (ROOT / module).read_text(), time.monotonic()
        counts = Counter(self._try(change, swaps, text) for change, swaps in self._changes(module, text))
        self.survived += counts["survived"]
        told = f"{counts['noticed']} noticed, {counts['survived']} survived, {counts['outside']} outside functions"
        print(f"== {module}: {told}, {time.monotonic() - began_s:.0f} s", flush=True)

    def _changes(self, module: str, text: str) -> Iterator[tuple[Change, list[Swap] | None]]:
        known = known_equivalents()
        found = [one for one in changes_of(module, text) if key_of(one) not in known]
        for change in found[:: self._every]:
            if self._lines is None or change.line in self._lines:
                try:
                    yield change, self._functions.swaps(str(ROOT / module), text, change.edit.apply(text))
                except SyntaxError:
                    continue

    def _try(self, change: Change, swaps: list[Swap] | None, text: str) -> str:
        if swaps is None:
            return "outside"

        def swap() -> None:
            for function, code in swaps:
                function.__code__ = code

        tried: list[str] = []
        for budget_s in ROUNDS_S:
            tests = [one for one in self._nearest(change, text, budget_s) if one not in tried]
            if not tests:
                continue
            outcome = self._tests.run(tests, swap, 5.0 + SLOWER_HERE * budget_s, all_of_them=False)
            if outcome.red or not outcome.ended:
                self._noticed_by.update(outcome.red)
                return "noticed"
            tried += tests
        print(f"{change}   [{len(tried)} tests]", flush=True)
        return "survived"

    def _nearest(self, change: Change, text: str, budget_s: float) -> list[str]:
        """Green tests near a change; those first that noticed others."""
        touching = near_to(change.path, places_at(change.path, text, change.line), self._runs, budget_s)
        named = [test for test in self._tests.items if f"/test_{Path(change.path).stem}.py::" in test]
        tests = self._green(list(dict.fromkeys([*named, *touching])))
        return sorted(tests, key=lambda test: -self._noticed_by[test])

    def _green(self, tests: list[str]) -> list[str]:
        """Without those that are red in such a child whatever is changed."""
        unknown = [test for test in tests if test not in self._red]
        while unknown:
            outcome = self._tests.run(unknown, lambda: None, CHECK_S, all_of_them=True)
            if outcome.ended:
                self._red.update((test, test in outcome.red) for test in unknown)
                break
            self._red.update(dict.fromkeys(outcome.red or unknown[:1], True))
            unknown = [test for test in unknown if test not in self._red]
        return [test for test in tests if not self._red[test]]


def main() -> int:
    """1 when something survived."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", help="modules or packages of mpbroker/")
    parser.add_argument("--lines", default="", help="FIRST-LAST: only changes there")
    parser.add_argument("--every", type=int, default=1, help="of the changes only every nth")
    arguments = parser.parse_args()
    modules = [one for one in changed_files(ROOT) if one.endswith(".py") and one.startswith(tuple(arguments.paths))]
    first, _, last = arguments.lines.partition("-")
    lines = range(int(first), int(last or first) + 1) if first else None
    screen = Screen(modules, lines, arguments.every)
    os.chdir(ROOT)
    status = pytest.main([*PYTEST, "tests/unit"], plugins=[screen])
    return int(status != pytest.ExitCode.OK or screen.survived > 0)


if __name__ == "__main__":
    sys.exit(main())
