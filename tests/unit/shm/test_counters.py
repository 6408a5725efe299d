"""Every counter is declared once, explained, and counted by somebody: in C or in Python."""

import ast
import functools
import re

import pytest

from mpbroker.shm.counters import COUNTERS, NATIVE_COUNTERS, Counter
from tests.tidy.source_tree import ROOT, last_name, modules, tree

READERS = {"counter"}  # row.counter(Counter.X) reads
HOME = "mpbroker.shm.counters"
NAMED = re.compile(r"\bCounter\.|\b_?count\(|\bset_gauge\(")


def _mentions(node, readers=READERS):
    """Counters that a piece of code names otherwise than to read or compare them."""
    if isinstance(node, ast.Compare):
        return
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in readers:
        return
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Counter":
        yield node.attr
    if isinstance(node, ast.Call) and last_name(node.func) in ("count", "_count", "set_gauge"):
        yield from (
            arg.value.upper() for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
        )
    for child in ast.iter_child_nodes(node):
        yield from _mentions(child, readers)


def _counted_in_python():
    files = [path for module, path in modules().items() if module != HOME and NAMED.search(path.read_text())]
    return {name for path in files for name in _mentions(tree(path))}


def _counted_in_c():
    """Counters named in the source of a call that adds or stores; headers only declare them."""
    found = set()
    for path in (ROOT / "native").glob("*/*.[ch]"):
        if path.parent.name == "tests" or path.name == "counters.h":
            continue
        for line in re.findall(r"[^;]*MPB_C_[A-Z_]+[^;]*;", path.read_text()):
            if re.search(r"count|store", line):
                found |= set(re.findall(r"MPB_C_([A-Z_]+)", line))
    return found


@functools.cache
def _counted():
    """Where → names. Not while tests are collected: every process of a run does that."""
    return {"python": _counted_in_python(), "c": _counted_in_c()}


@pytest.mark.parametrize("counter", Counter, ids=lambda counter: counter.name)
def test_every_counter_is_counted(counter):
    where = "c" if counter < NATIVE_COUNTERS else "python"
    assert counter.name in _counted()[where], f"nobody counts {counter.name}: count it, or delete it"


def test_every_counter_is_explained_under_its_own_name():
    assert set(COUNTERS) == set(Counter)
    for counter, info in COUNTERS.items():
        assert info.name == counter.name.lower()
        assert info.sentence.endswith(".")
