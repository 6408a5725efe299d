"""Builds what a changed C file goes into: one object anew, the programs of native/tests and the extension linked again.

With the flags of native/Makefile (plain build) and of pyproject.toml, less warnings and debug information: an object
that is the same with a change and without proves that the change changes nothing.
"""

from __future__ import annotations

import subprocess
import sysconfig
import tomllib
from pathlib import Path

COMPILE_S = 120


class DoesNotCompile(Exception):
    """The change is none that a person could have made."""


class NativeBuild:
    """Objects of the unchanged tree, made when they are first needed."""

    def __init__(self, tree: Path, build: Path) -> None:
        self._native, self._build, self._tree = tree / "native", build, tree
        asked = "--eval=listed: ; @echo $(CORE) / $(CFLAGS)"
        listed = _run(["make", "-s", "--no-print-directory", asked, "listed", "SAN="], self._native)
        core, flags = listed.split(" / ")
        self.core = core.split()
        self._plain = [flag for flag in flags.split() if not flag.startswith("-W") and flag != "-g"] + ["-w"]
        settings = tomllib.loads((tree / "pyproject.toml").read_text())["tool"]["setuptools"]["ext-modules"][0]
        self.extension = [source.removeprefix("native/") for source in settings["sources"]]
        flags = [flag for flag in settings["extra-compile-args"] if not flag.startswith("-W") and flag != "-g"]
        self._shared = [*flags, "-w", "-fPIC", "-DMPB_INJECT=1", "-I.", f"-I{sysconfig.get_path('include')}"]
        self._programs = {path.stem[5:]: path for path in self._native.glob("tests/*/test_*.c")}
        self.changed: dict[tuple[str, bool], Path] = {}

    def compile(self, source: str, *, shared: bool) -> bool:
        """Compile a changed file (path below native/); False if the object is what it was. Raises DoesNotCompile."""
        before = self._object(source, shared)
        after = self._build / "changed" / str(int(shared)) / (source.replace("/", "_") + ".o")
        self._cc(source, after, shared)
        self.changed[(source, shared)] = after
        return before.read_bytes() != after.read_bytes()

    def prepare(self, source: str, *, shared: bool) -> None:
        """The object of a file that is not changed yet."""
        self._object(source, shared)

    def program(self, name: str) -> Path:
        """A program of native/tests with the changed objects in it."""
        target = self._build / f"test_{name}"
        main = self._object(str(self._programs[name].relative_to(self._native)), False)
        objects = [str(self._linked(source, False)) for source in self.core]
        _run(["gcc", "-pthread", str(main), *objects, "-lrt", "-o", str(target)], self._native)
        return target

    def link_extension(self) -> None:
        """mpbroker._native of the copy with the changed objects in it."""
        target = self._tree / "mpbroker" / f"_native{sysconfig.get_config_var('EXT_SUFFIX')}"
        objects = [str(self._linked(source, True)) for source in self.extension]
        target.unlink(missing_ok=True)
        _run(["gcc", "-shared", "-pthread", *objects, "-o", str(target)], self._native)

    def _linked(self, source: str, shared: bool) -> Path:
        return self.changed.get((source, shared)) or self._object(source, shared)

    def _object(self, source: str, shared: bool) -> Path:
        target = self._build / str(int(shared)) / (source.replace("/", "_") + ".o")
        if not target.exists():
            self._cc(source, target, shared)
        return target

    def _cc(self, source: str, target: Path, shared: bool) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            _run(["gcc", *(self._shared if shared else self._plain), "-c", source, "-o", str(target)], self._native)
        except subprocess.CalledProcessError as error:
            raise DoesNotCompile(error.stderr) from None


def _run(command: list[str], where: Path) -> str:
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, check=True, timeout=COMPILE_S)
    return done.stdout.strip()
