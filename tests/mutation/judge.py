"""Whether the nearest tests notice a change: applies it in the copy, builds, runs, takes it back."""

from __future__ import annotations

import enum
from functools import cached_property
from pathlib import Path

from tests.mutation import nearest
from tests.mutation.change import Change
from tests.mutation.native_build import DoesNotCompile, NativeBuild
from tests.mutation.working_copy import WorkingCopy


class Verdict(enum.Enum):
    """What became of a change. `SAME_CODE`: the compiler makes the same of it."""

    NOTICED = "noticed"
    SURVIVED = "survived"
    SAME_CODE = "same machine code"
    INVALID = "does not compile"


class Judge:
    """Runs of tests in one copy. A run that is red without any change too says nothing: it is left out and listed in
    `useless`."""

    def __init__(self, original: Path, root: Path) -> None:
        self.copy = WorkingCopy(original, root)
        self._sound: dict[tuple[str, ...], bool] = {}
        self.noticed_by = ""

    @cached_property
    def _native(self) -> NativeBuild:
        return NativeBuild(self.copy.tree, self.copy.build)

    @property
    def useless(self) -> list[str]:
        """Runs that are red on the unchanged tree."""
        return [" ".join(run) for run, sound in self._sound.items() if not sound]

    def judge(self, change: Change) -> Verdict:
        """One change; the copy is as it was afterwards."""
        self.noticed_by = ""
        try:
            return self._c(change) if change.path.endswith(".c") else self._python(change)
        except (DoesNotCompile, SyntaxError):
            return Verdict.INVALID
        finally:
            self.copy.restore()

    def _python(self, change: Change) -> Verdict:
        compile(change.edit.apply((self.copy.tree / change.path).read_text()), change.path, "exec")
        return self._python_tests(change)

    def _c(self, change: Change) -> Verdict:
        source = change.path.removeprefix("native/")
        in_core = source in self._native.core
        try:
            if not self._compile(change, source, shared=not in_core):
                return Verdict.SAME_CODE
            for program in nearest.programs_of(change.path):
                if self._red(change, ("program", program)):
                    return Verdict.NOTICED
            self._compile(change, source, shared=True)
            self._native.link_extension()
            return self._python_tests(change)
        finally:
            linked = any(shared for _, shared in self._native.changed)
            self._native.changed.clear()
            if linked:
                self._native.link_extension()

    def _compile(self, change: Change, source: str, *, shared: bool) -> bool:
        """False if the object is the same as without the change."""
        self.copy.restore()
        self._native.prepare(source, shared=shared)
        self.copy.change(change)
        return self._native.compile(source, shared=shared)

    def _python_tests(self, change: Change) -> Verdict:
        for arguments in nearest.pytest_runs(self.copy.tree, change.path):
            if self._red(change, tuple(arguments)):
                return Verdict.NOTICED
        return Verdict.SURVIVED

    def _red(self, change: Change, run: tuple[str, ...]) -> bool:
        """Whether a run is red with the change and green without."""
        if self._sound.get(run) is False:
            return False
        self.copy.restore()
        self.copy.change(change)
        if self._green(run):
            return False
        if run not in self._sound:
            self._sound[run] = self._is_green_unchanged(change, run)
        if self._sound[run]:
            self.noticed_by = " ".join(run)
        return self._sound[run]

    def _is_green_unchanged(self, change: Change, run: tuple[str, ...]) -> bool:
        self.copy.restore()
        if not change.path.endswith(".c"):
            return self._green(run)
        changed, self._native.changed = self._native.changed, {}
        linked = any(shared for _, shared in changed)
        if linked:
            self._native.link_extension()
        green = self._green(run)
        self._native.changed = changed
        if linked:
            self._native.link_extension()
        return green

    def _green(self, run: tuple[str, ...]) -> bool:
        if run[0] == "program":
            return self.copy.run([str(self._native.program(run[1]))], nearest.program_limit_s(run[1]))
        return self.copy.pytest(list(run), nearest.PYTEST_LIMIT_S)
