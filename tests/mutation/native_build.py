"""Builds what a changed C file goes into: one object anew, the programs of native/tests and the extension linked again.

With the flags of native/Makefile (plain build) and of pyproject.toml, less warnings and debug information: an object
that is the same with a change and without proves that the change changes nothing. Objects of unchanged files are kept
in `kept` by their content, so that a run that goes on after an interruption does not compile everything again.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sysconfig
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

COMPILE_S, COMPILERS = 120, 2


class DoesNotCompile(Exception):
    """The change is none that a person could have made."""


class NativeBuild:
    """Objects of the unchanged tree, made when they are first needed. `more_flags` go to every compilation but those of
    the programs' own files: what steps through the core must not be watched itself, or it takes steps of its own."""

    def __init__(self, tree: Path, build: Path, kept: Path | None = None, more_flags: Sequence[str] = ()) -> None:
        self._native, self._build, self._tree = tree / "native", build, tree
        self._kept = kept or build / "kept"
        asked = "--eval=listed: ; @echo $(CORE) / $(CFLAGS)"
        listed = _run(["make", "-s", "--no-print-directory", asked, "listed", "SAN="], self._native)
        core, flags = listed.split(" / ")
        self.core = core.split()
        plain = [flag for flag in flags.split() if not flag.startswith(("-W", "-g"))]
        settings = tomllib.loads((tree / "pyproject.toml").read_text())["tool"]["setuptools"]["ext-modules"][0]
        self.extension = [source.removeprefix("native/") for source in settings["sources"]]
        flags = [flag for flag in settings["extra-compile-args"] if not flag.startswith(("-W", "-g"))]
        shared = [*flags, "-fPIC", "-DMPB_INJECT=1", "-I.", f"-I{sysconfig.get_path('include')}"]
        self._plain_flags = {False: [*plain, "-w"], True: [*shared, "-w"]}
        self._more_flags = list(more_flags)
        self._headers = b"".join(path.read_bytes() for path in sorted(self._native.glob("**/*.h")))
        self._programs = {path.stem[5:]: path for path in self._native.glob("tests/*/test_*.c")}
        self._objects: dict[tuple[str, bool], Path] = {}
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

    def program(self, name: str, more: Sequence[str] = ()) -> Path:
        """A program of native/tests with the changed objects (and `more`) in it."""
        target = self._build / f"test_{name}"
        main = self._object(str(self._programs[name].relative_to(self._native)), False)
        objects = self._linked(self.core, False)
        _run(["gcc", "-pthread", str(main), *objects, *more, "-lrt", "-o", str(target)], self._native)
        return target

    def link_extension(self, more: Sequence[str] = ()) -> Path:
        """mpbroker._native of the copy with the changed objects (and `more`) in it."""
        target = self._tree / "mpbroker" / f"_native{sysconfig.get_config_var('EXT_SUFFIX')}"
        objects = self._linked(self.extension, True)
        target.unlink(missing_ok=True)
        _run(["gcc", "-shared", "-pthread", *objects, *more, "-o", str(target)], self._native)
        return target

    def _linked(self, sources: list[str], shared: bool) -> list[str]:
        unchanged = [source for source in sources if (source, shared) not in self.changed]
        with ThreadPoolExecutor(COMPILERS) as compilers:
            list(compilers.map(lambda source: self._object(source, shared), unchanged))
        return [str(self.changed.get((source, shared)) or self._objects[(source, shared)]) for source in sources]

    def _object(self, source: str, shared: bool) -> Path:
        """Of the unchanged file: whoever asks first, asks before the change."""
        if (source, shared) not in self._objects:
            flags = " ".join(self._flags(source, shared)).encode()
            text = (self._native / source).read_bytes() + self._headers + flags
            target = self._kept / hashlib.sha1(source.encode() + text).hexdigest()
            if not target.exists():
                made = self._build / str(int(shared)) / (source.replace("/", "_") + ".o")
                self._cc(source, made, shared)
                self._kept.mkdir(parents=True, exist_ok=True)
                shutil.move(made, target)
            self._objects[(source, shared)] = target
        return self._objects[(source, shared)]

    def _flags(self, source: str, shared: bool) -> list[str]:
        return [*self._plain_flags[shared], *([] if source.startswith("tests/") else self._more_flags)]

    def _cc(self, source: str, target: Path, shared: bool) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            _run(["gcc", *self._flags(source, shared), "-c", source, "-o", str(target)], self._native)
        except subprocess.CalledProcessError as error:
            raise DoesNotCompile(error.stderr) from None


def _run(command: list[str], where: Path) -> str:
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, check=True, timeout=COMPILE_S)
    return done.stdout.strip()
