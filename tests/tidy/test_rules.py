"""docs/append-rules.md and docs/request-rules.md: every rule says what failed without it and which test shows that;
every "append rule N" of the code is there. And what code and pages name is in the repository."""

import re
import subprocess
from functools import cache

import pytest

from tests.tidy.named_tests import exists
from tests.tidy.source_tree import ROOT

PAGES = {"append": ROOT / "docs" / "append-rules.md", "request": ROOT / "docs" / "request-rules.md"}
RULE = re.compile(r"^### (\d+)\. (.+?)$(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
NAMED_TEST = re.compile(r"`((?:native/)?tests/[\w/]+\.(?:c|py)(?:::\w+)?)`")
CITED = re.compile(r"(?:\b(append|request) )?\brules? (\d+)(?:(?:, | and | to )(\d+))*(?!\d)", re.IGNORECASE)
PAGE_NAME = re.compile(r"[\w./-]*\w\.md\b")
TEXTS = {".c", ".h", ".py", ".pyi", ".md", ".toml", ".yml", ".yaml", ".service", ".sh", ""}
#: Made by a test or a command, or an example of a name.
MADE_ELSEWHERE = {"docs/studies/SCENARIO.md"}


@cache
def _files() -> dict[str, str]:
    """Path → text of everything that git keeps and somebody reads."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [ROOT / name for name in listed.split("\0") if name]
    kept = [path for path in paths if path.suffix in TEXTS and path.is_file()]
    return {str(path.relative_to(ROOT)): path.read_text(errors="ignore") for path in kept}


@cache
def _rules(kind: str) -> list[tuple[int, str, str]]:
    """(number, title, text) of a page's rules."""
    return [(int(number), title, text) for number, title, text in RULE.findall(PAGES[kind].read_text())]


def _joined(text: str) -> str:
    """Words that a line break or a comment's margin parts stand together."""
    return re.sub(r"\s*\n\s*(?:\*|#|//)?\s*", " ", text)


@pytest.mark.parametrize("kind", PAGES)
def test_rules_are_numbered_and_complete(kind):
    rules = _rules(kind)
    assert [number for number, _, _ in rules] == list(range(1, len(rules) + 1)) and len(rules) >= 15
    assert not [number for number, _, text in rules if "\nWithout it: " not in text or "\nShown by: " not in text]


@pytest.mark.parametrize("kind", PAGES)
def test_every_rule_names_a_test_that_exists(kind):
    for number, _, text in _rules(kind):
        named = NAMED_TEST.findall(text.partition("\nShown by: ")[2])
        assert named and all(exists(name) for name in named), (number, named)


def test_every_rule_that_is_cited_exists():
    wrong, cited = [], 0
    for path, text in _files().items():
        for match in CITED.finditer(_joined(text)) if "rule" in text.lower() else ():
            kind, numbers = match[1], [int(number) for number in re.findall(r"\d+", match[0])]
            known = kind is not None and max(numbers) <= len(_rules(kind.lower())) and min(numbers) >= 1
            cited += known
            if not known:
                wrong.append(f"{path}: {match[0]}")
    assert not wrong, "\n".join(wrong)
    assert cited > 30


def test_every_page_that_is_named_exists():
    """Nothing of the repository leads to a page outside it."""
    wrong = [
        f"{path}: {name}"
        for path, text in _files().items()
        if ".md" in text
        for name in PAGE_NAME.findall(text)
        if name not in MADE_ELSEWHERE and not any((base / name).is_file() for base in _bases(path))
    ]
    assert not wrong, "\n".join(sorted(wrong))


def _bases(path: str):
    """Where a name of a page may begin: beside the file, at the root, in docs."""
    return (ROOT / path).parent, ROOT, ROOT / "docs", ROOT / "docs" / "adr"


def test_no_path_leaves_the_repository():
    """A relative path that leads up must end within."""
    wrong = [
        f"{path}: {up}"
        for path, text in _files().items()
        if path.startswith(("native/", "docs/", "mpbroker/", "perf/", "deploy/"))
        for up in re.findall(r"(?<![\w./\"'])(?:\.\./)+[\w./-]+", text)
        if not ((ROOT / path).parent / up).resolve().is_relative_to(ROOT)
    ]
    assert not wrong, "\n".join(wrong)
