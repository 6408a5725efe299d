"""docs/operations.md: every warning and error that the broker logs is in its table, and nothing else."""

import ast
import re

from tests.tidy.source_tree import ROOT, modules, nodes

PAGE = (ROOT / "docs" / "operations.md").read_text()


def _events():
    """Names of events that are logged as warnings and errors, where the code has them as literals."""
    found = set()
    for module, path in modules().items():
        if module.startswith("mpbroker.analysis"):
            continue
        for node in nodes(path):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
                continue
            name, first = node.func.attr, node.args[0]
            if name in ("warning", "error", "exception", "io_failed") and isinstance(first, ast.Constant):
                found.add(first.value)
    return found


def test_every_warning_and_error_is_in_the_table():
    table = PAGE.partition("## What a line of the log asks for\n")[2]
    told = {name for row in re.findall(r"^\| (`.+?`) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    events = _events()
    assert len(events) > 30 and not sorted(events - told)
    source = "".join(path.read_text() for path in modules().values())
    dynamic = {"process_hung", "process_silent"}  # f"process_{level}"
    assert not [name for name in told - dynamic if f'"{name}"' not in source], "events that nobody logs"
