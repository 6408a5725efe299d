"""docs/architecture.md: within its length, in its order, and every file and function it names is there."""

import ast
import re

import pytest

from tests.tidy.source_tree import ROOT, tree

PAGE = ROOT / "docs" / "architecture.md"
MAX_LINES = 435
SECTIONS = [
    "How to use this page",
    "Processes and what each owns",
    "The picture",
    "The way of a request",
    "Shared memory",
    "Locks and memory order",
    "When a process dies",
    "Limits",
    "Layers",
    "Where things are",
    "Invariants that have caused bugs",
]
STEP = re.compile(r"^\| (\d+) \| `([^`]+)` \| `([^`]+)` \| ([\w-]+) \|", re.MULTILINE)
PATH = re.compile(r"`((?:mpbroker|native|tests|perf|deploy|docs)/[\w./-]*)`")
PROCESSES = {
    "acceptor",
    "processor",
    "handler",
    "controller",
    "coordinator",
    "fetcher",
    "log keeper",
    "cluster-controller",
}


def _steps() -> list[tuple[str, str, str, str]]:
    return STEP.findall(PAGE.read_text())


def _python_has(path, function: str) -> bool:
    """`function`, or `Class.method`, defined in a file."""
    holder, _, name = function.rpartition(".")
    body = tree(path).body
    if holder:
        body = next((node.body for node in body if isinstance(node, ast.ClassDef) and node.name == holder), [])
    return any(isinstance(node, ast.FunctionDef) and node.name == name for node in body)


def _c_has(path, function: str) -> bool:
    """A definition: the name at the start of a line after its type, its body opened before any semicolon."""
    return re.search(rf"^[A-Za-z_][^;(]*\b{function}\([^;{{]*\)\s*{{", path.read_text(), re.MULTILINE) is not None


def test_it_is_short_and_in_order():
    text = PAGE.read_text()
    assert len(text.splitlines()) <= MAX_LINES
    assert re.findall(r"^## (\d+)\. (.+)$", text, re.MULTILINE) == [(str(n), name) for n, name in enumerate(SECTIONS)]


def test_both_ways_are_described():
    produce, fetch = (
        PAGE.read_text().partition(title)[2].partition("###")[0] for title in ("### Produce", "### Fetch")
    )
    numbers = [int(step) for step, *_ in STEP.findall(produce)]
    assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) >= 20
    assert len(STEP.findall(fetch)) >= 8
    assert {process for *_, process in _steps()} <= PROCESSES


@pytest.mark.parametrize("step", _steps(), ids=lambda step: f"{step[1]}-{step[2]}")
def test_a_step_names_a_function_that_exists(step):
    path = ROOT / step[1]
    assert path.is_file()
    assert (_python_has if path.suffix == ".py" else _c_has)(path, step[2])


def test_every_path_exists():
    missing = sorted({path for path in PATH.findall(PAGE.read_text()) if not (ROOT / path).exists()})
    assert not missing
