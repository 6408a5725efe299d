"""CONTRIBUTING.md and CHANGELOG.md: short, what they promise is in them, what they name is there; slow tests say so."""

import ast
import re

from mpbroker import __version__
from tests.conftest import SLOW_ROOMS
from tests.tidy.source_tree import ROOT

CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
ONE_PAGE_LINES, MAX_UNRELEASED_LINES = 80, 60
SLOW = re.compile(r"pytest\.mark\.slow")
#: What starts a whole broker or a browser.
SLOW_HARNESS = {"tests.harness.broker.Broker", "tests.harness.browser", "mpbroker.testing.broker"}

SLOW_NAMES = r"\b(?:Broker|browser|broker)\n|import .*\b(?:Broker|browser|broker)\b"


def _targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_contributing_is_a_page_with_its_four_parts():
    titles = re.findall(r"^## (.+)$", CONTRIBUTING, re.MULTILINE)
    assert titles == ["The first hour", "How to add an API", "How to debug a hang", "How to measure"]
    assert len(CONTRIBUTING.splitlines()) <= ONE_PAGE_LINES


def test_what_contributing_names_is_there():
    targets = set(re.findall(r"(?:`|^    )make ([a-z][a-z-]*)", CONTRIBUTING, re.MULTILINE))
    assert targets >= {"install", "unit", "check", "test", "bench"} and not targets - _targets()
    paths = re.findall(r"`((?:mpbroker|native|tests|docs|perf)/[\w/.*]+)`", CONTRIBUTING)
    missing = [path for path in paths if not list(ROOT.glob(path.rstrip("/")))]
    assert len(paths) > 10 and not missing, missing


def test_ci_does_what_contributing_says():
    assert re.findall(r"^make ([\w-]+)", (ROOT / ".ci/run").read_text(), re.MULTILINE) == [
        "check",
        "test",
        "cluster-chaos",
    ]


def test_the_changelog_keeps_its_form():
    versions = re.findall(r"^## (.+)$", CHANGELOG, re.MULTILINE)
    assert versions[0] == "[Unreleased]" and f"[{__version__}]" in " ".join(versions)
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", version) for version in versions[1:])
    kinds = set(re.findall(r"^### (.+)$", CHANGELOG, re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    unreleased = CHANGELOG.partition("## [Unreleased]")[2].partition("\n## ")[0]
    assert len(unreleased.splitlines()) <= MAX_UNRELEASED_LINES


def _imports(tree: ast.Module) -> set[str]:
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {f"{node.module}.{alias.name}" for node in nodes for alias in node.names}


def test_files_that_start_a_broker_or_a_browser_say_that_they_are_slow():
    rooms = [ROOT / "tests" / room for room in SLOW_ROOMS]
    assert all(room.is_dir() for room in rooms)
    files = [path for path in (ROOT / "tests").rglob("test_*.py") if not any(map(path.is_relative_to, rooms))]
    texts = {path: path.read_text() for path in files}
    wrong = [
        str(path.relative_to(ROOT))
        for path, text in texts.items()
        if re.search(SLOW_NAMES, text) and not SLOW.search(text) and _imports(ast.parse(text)) & SLOW_HARNESS
    ]
    assert len(files) > 100 and not wrong, wrong
