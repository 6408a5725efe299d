"""A module that nothing imports, and no table names, is dead: it is deleted, not kept for later."""

import re
from functools import cache
from pathlib import Path

from tests.tidy.source_tree import ROOT, imports, modules

#: Entry points: started by name, never imported; and what tests and tools need whole, a broker in parts.
ENTRY_POINTS = {"mpbroker", "mpbroker.__main__", "mpbroker.cli.main"}

#: Packages whose modules are found by listing the package, or by a table of names.
FOUND_BY_LISTING = ("mpbroker.server.handlers.", "mpbroker.cli.", "mpbroker.analysis.studies.")

#: Parts of the cluster that are built before the process that runs them. A line goes when its modules are imported.
BUILT_FIRST = ("mpbroker.replication.",)


@cache
def _named_in_source() -> set[str]:
    """Modules that a table names as a string, as the process and command tables do."""
    source = "\n".join(path.read_text() for path in modules().values())
    return {f"mpbroker.{name}" for name in re.findall(r"[\"'](?:mpbroker\.)?([a-z_.]+)[:\"']", source)}


def test_no_dead_modules():
    used = set().union(*(imports(path) for path in modules().values()))
    makefile = (ROOT / "Makefile").read_text()
    dead = [
        module
        for module, path in modules().items()
        if module not in used | ENTRY_POINTS
        and path.name != "__init__.py"
        and module not in _named_in_source()
        and f"-m {module}" not in makefile
        and not module.startswith((*FOUND_BY_LISTING, *BUILT_FIRST))
    ]
    assert not dead, f"imported by nobody: {dead}"


def test_no_machine_paths():
    """No path of a developer's machine stands in the repository."""
    places = [place for place in (ROOT, Path.home()) if len(place.parts) > 2]  # /src or /app may well be named
    pattern = re.compile("|".join(re.escape(f"{place}/") for place in places) or "$^")
    tracked = [
        p
        for folder in ("mpbroker", "native", "tests", "perf", "deploy", "docs", ".ci")
        for p in (ROOT / folder).rglob("*")
        if p.is_file() and p.suffix in {".py", ".c", ".h", ".md", ".toml", ".json", ".jsonl", ".svg", ""}
    ]
    wrong = [
        str(path) for path in tracked if "build" not in path.parts and pattern.search(path.read_text(errors="ignore"))
    ]
    assert not wrong, wrong
