"""Whether the nearest tests notice a change: applies it in the copy, builds, runs, takes it back.

A red test counts if it is green without the change and red with it twice: on a busy machine a test can be red by
itself. A hang is one if the same run, unchanged and now, takes less than a third of the time that was given. What no
test noticed within some minutes survived.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from tests.mutation.change import Change
from tests.mutation.native_build import DoesNotCompile, NativeBuild
from tests.mutation.nearest import Nearest, Selection
from tests.mutation.touched import Run
from tests.mutation.working_copy import Outcome, WorkingCopy

LEAST_LIMIT_S, LEAST_TEST_S, TIMES, TRIES = 30.0, 20.0, 4.0, 4
PROGRAM_LIMIT_S, LONG_PROGRAM_S, MOST_S = 10.0, 30.0, 240.0


class Verdict(enum.Enum):
    """What became of a change. `SAME_CODE`: the compiler makes the same of it."""

    NOTICED = "noticed"
    SURVIVED = "survived"
    SAME_CODE = "same machine code"
    INVALID = "does not compile"


class Judge:
    """Runs of tests in one copy. A test that is red without any change says nothing: it is left out and listed in
    `useless`."""

    def __init__(self, original: Path, root: Path, runs: Mapping[str, Run], kept: Path | None = None) -> None:
        self.copy = WorkingCopy(original, root)
        self._nearest = Nearest(self.copy.tree, runs)
        self._kept = kept
        self._unchanged: dict[tuple[str, ...], Outcome] = {}
        self._end = 0.0
        self.noticed_by = ""

    @cached_property
    def _native(self) -> NativeBuild:
        return NativeBuild(self.copy.tree, self.copy.build, self._kept)

    @property
    def useless(self) -> list[str]:
        """Runs that are red on the unchanged tree."""
        return [" ".join(words) for words, outcome in self._unchanged.items() if not outcome.green]

    def judge(self, change: Change) -> Verdict:
        """One change; the copy is as it was afterwards."""
        self.noticed_by, self._end = "", time.monotonic() + MOST_S
        text = (self.copy.tree / change.path).read_text()
        selections = self._nearest.selections(change, text)
        try:
            if change.path.endswith(".c"):
                return self._c(change, selections)
            compile(change.edit.apply(text), change.path, "exec")
            return self._first_red(change, selections)
        except (DoesNotCompile, SyntaxError):
            return Verdict.INVALID
        finally:
            self.copy.restore()

    def _c(self, change: Change, selections: list[Selection]) -> Verdict:
        source = change.path.removeprefix("native/")
        try:
            if not self._compile(change, source, shared=source not in self._native.core):
                return Verdict.SAME_CODE
            programs = [one for one in selections if one.program and not _is_long(one)]
            if self._first_red(change, programs) is Verdict.NOTICED:
                return Verdict.NOTICED
            self._compile(change, source, shared=True)
            self._native.link_extension()
            return self._first_red(change, [one for one in selections if one not in programs])
        finally:
            linked = self._is_linked()
            self._native.changed.clear()
            if linked:
                self._native.link_extension()

    def _compile(self, change: Change, source: str, *, shared: bool) -> bool:
        """False if the object is the same as without the change."""
        self.copy.restore()
        self._native.prepare(source, shared=shared)
        self.copy.change(change)
        return self._native.compile(source, shared=shared)

    def _is_linked(self) -> bool:
        return any(shared for _, shared in self._native.changed)

    def _first_red(self, change: Change, selections: list[Selection]) -> Verdict:
        return Verdict.NOTICED if any(self._red(change, one) for one in selections) else Verdict.SURVIVED

    def _red(self, change: Change, selection: Selection) -> bool:
        """Whether a run is red with the change and green without; what is red anyway is left out of it."""
        for _ in range(TRIES):
            selection = self._sound(selection)
            if not selection.words or time.monotonic() > self._end:
                return False
            outcome = self._changed(change, selection, 1.0)
            if outcome.green or (outcome.hung and _is_long(selection)):
                return False
            culprit = Selection((outcome.failed,), 0.0, 0.0) if outcome.failed else selection
            if self._is_guilty(change, culprit):
                self.noticed_by = " ".join(culprit.words[:3])
                return True
            selection = selection.without(culprit.words[0])
        return False

    def _sound(self, selection: Selection) -> Selection:
        for words, outcome in self._unchanged.items():
            if not outcome.green and len(words) == 1:
                selection = selection.without(words[0])
        return selection

    def _is_guilty(self, change: Change, culprit: Selection) -> bool:
        """Of a run that was red with the change: whether the change is why."""
        if culprit.words not in self._unchanged:
            self._unchanged[culprit.words] = self._without(change, culprit)
        unchanged = self._unchanged[culprit.words]
        if not unchanged.green:
            return False
        factor = max(1.0, TIMES * unchanged.seconds / LEAST_TEST_S)
        return not self._changed(change, culprit, factor).green

    def _changed(self, change: Change, selection: Selection, factor: float) -> Outcome:
        self.copy.restore()
        self.copy.change(change)
        return self._run(selection, factor)

    def _without(self, change: Change, selection: Selection) -> Outcome:
        self.copy.restore()
        if not change.path.endswith(".c"):
            return self._run(selection, TIMES)
        changed, linked = self._native.changed, self._is_linked()
        self._native.changed = {}
        if linked:
            self._native.link_extension()
        outcome = self._run(selection, TIMES)
        self._native.changed = changed
        if linked:
            self._native.link_extension()
        return outcome

    def _run(self, selection: Selection, factor: float) -> Outcome:
        if selection.program:
            limit_s = factor * (PROGRAM_LIMIT_S + TIMES * min(selection.expected_s, LONG_PROGRAM_S))
            return self.copy.run([str(self._native.program(selection.program))], limit_s)
        limit_s = factor * (LEAST_LIMIT_S + TIMES * selection.expected_s)
        return self.copy.pytest(selection.words, limit_s, factor * (LEAST_TEST_S + TIMES * selection.longest_s))


def _is_long(selection: Selection) -> bool:
    """A program that is not waited for until it is green: what it finds, it finds early."""
    return selection.program is not None and selection.expected_s > LONG_PROGRAM_S
