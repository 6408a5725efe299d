"""Fetches client libraries of other languages, and builds the programs beside this file that use them: `make clients`.

    python -m tests.clients.build [DIRECTORY]

Java needs javac and Maven, Go go, Node npm. What cannot be built here is said in a line each and left out; nothing else
fails for it. What was built is kept until its sources change.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
#: Where programs are built, and looked for: beside the packages of this checkout.
DIRECTORY = Path(os.environ.get("TEST_CLIENTS", HERE.parents[1] / ".venv" / "clients"))
_RELEASES = (("3.9", "3.9.2"), ("4", "4.3.1"))
KAFKA_RELEASES = {f"{name}-{short}": release for name in ("java", "streams", "tools") for short, release in _RELEASES}
BUILT = ".built"
LONG_ONLY = frozenset() if os.environ.get("LONG") else frozenset({"streams-3.9", "tools-3.9"})


def java(name: str, into: Path) -> None:
    """The jars of one release, and classes beside them if there are sources."""
    sources_in = HERE / PROGRAMS[name][1]
    release = f"-Dkafka.version={KAFKA_RELEASES[name]}"
    copy = ("-DincludeScope=runtime", f"-DoutputDirectory={into / 'jars'}")
    run("mvn", "-B", "-q", "-f", str(sources_in / "pom.xml"), release, "dependency:copy-dependencies", *copy)
    if sources := sorted(sources_in.glob("*.java")):
        run("javac", "-nowarn", "-Xlint:-removal", "-d", str(into), "-cp", f"{into}/jars/*", *map(str, sources))


def go(name: str, into: Path) -> None:
    """One Go program."""
    run("go", "build", "-o", str(into / name), f"./{name}", cwd=HERE / "go")


def node(name: str, into: Path) -> None:
    """The Node program with its packages."""
    for source in (HERE / "node").iterdir():
        shutil.copy(source, into)
    run("npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--silent", cwd=into)


#: Program → how it is built, the folder of its sources, what that takes.
PROGRAMS: dict[str, tuple[Callable[[str, Path], None], str, tuple[str, ...]]] = {
    "java-3.9": (java, "java", ("javac", "mvn")),
    "java-4": (java, "java", ("javac", "mvn")),
    "streams-3.9": (java, "streams", ("javac", "mvn")),
    "streams-4": (java, "streams", ("javac", "mvn")),
    "tools-3.9": (java, "tools", ("java", "mvn")),
    "tools-4": (java, "tools", ("java", "mvn")),
    "franz": (go, "go", ("go",)),
    "franz-chain": (go, "go", ("go",)),
    "franz-survivor": (go, "go", ("go",)),
    "sarama": (go, "go", ("go",)),
    "kafkajs": (node, "node", ("npm", "node")),
}


def run(*words: str, cwd: Path = HERE) -> None:
    """A step of a build; it says what it has to say."""
    subprocess.run(words, cwd=cwd, check=True, stdout=sys.stderr)


def digest(sources: str) -> str:
    """Of the files in a folder, whatever they are."""
    files = sorted(path for path in (HERE / sources).rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(path.read_bytes() for path in [*files, Path(__file__)])).hexdigest()


def build(name: str, directory: Path) -> str:
    """Build one program, unless it is there; a line about it."""
    make, sources, tools = PROGRAMS[name]
    into = directory / name
    if is_built(name, directory):
        return f"{name}: present"
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        return f"{name}: left out, there is no {' and no '.join(missing)}"
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    try:
        make(name, into)
    except subprocess.CalledProcessError as error:
        return f"{name}: left out, {error.cmd[0]} failed"
    (into / BUILT).write_text(digest(sources))
    return f"{name}: built"


def is_built(name: str, directory: Path = DIRECTORY) -> bool:
    """Whether the program stands there, made of the sources as they are now."""
    mark = directory / name / BUILT
    return mark.exists() and mark.read_text() == digest(PROGRAMS[name][1])


def main() -> None:
    """All programs."""
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else DIRECTORY
    for name in (name for name in PROGRAMS if name not in LONG_ONLY):
        print(build(name, directory), flush=True)


if __name__ == "__main__":
    main()
