"""Length budgets. They keep a file one idea and a function one step; a giant is split, the budget is not raised."""

import re
import statistics
import subprocess

from tests.tidy.layers import BANNED_MODULE_NAMES
from tests.tidy.source_tree import ROOT, functions, modules, tree

FUNCTION_LINES, FILE_LINES, MEDIAN_FILE_LINES = 60, 500, 150
C_FUNCTION_LINES, C_FILE_LINES = 80, 600
#: The largest is a recording of another broker's answers.
KEPT_FILE_BYTES = 1_000_000


def _python_files():
    return [path for folder in ("mpbroker", "tests", "perf") for path in sorted((ROOT / folder).rglob("*.py"))]


def _c_files():
    return sorted((ROOT / "native").rglob("*.[ch]"))


def _lines(path) -> int:
    return len(path.read_text().splitlines())


def test_python_functions_are_short():
    long = [
        f"{path}:{line} {name} has {length} lines"
        for path in _python_files()
        for name, line, length in functions(path)
        if length > FUNCTION_LINES
    ]
    assert not long, "\n".join(long)


def test_python_files_are_short():
    long = [f"{path}: {_lines(path)}" for path in _python_files() if _lines(path) > FILE_LINES]
    assert not long, "\n".join(long)


def test_median_python_file_stays_small():
    assert statistics.median(_lines(path) for path in modules().values()) <= MEDIAN_FILE_LINES


def _c_functions(text: str):
    """(first line, length) of every C function: from a line that opens a body in column 0 to its closing brace."""
    lines, start = text.splitlines(), None
    for number, line in enumerate(lines, 1):
        if line.startswith("{") or re.match(r"^[A-Za-z_].*\)\s*\{$", line):
            start = number
        elif line.startswith("}") and start is not None:
            if not line.startswith("};"):
                yield start, number - start + 1
            start = None


def test_c_functions_and_files_are_short():
    long = [f"{path}: {_lines(path)} lines" for path in _c_files() if _lines(path) > C_FILE_LINES]
    for path in _c_files():
        long += [
            f"{path}:{start} function of {length} lines"
            for start, length in _c_functions(path.read_text())
            if length > C_FUNCTION_LINES
        ]
    assert not long, "\n".join(long)


def test_no_module_is_named_after_nothing():
    wrong = [str(path) for path in _python_files() if path.stem in BANNED_MODULE_NAMES]
    assert not wrong, wrong


def test_every_module_says_what_it_is():
    import ast

    silent = [module for module, path in modules().items() if not ast.get_docstring(tree(path))]
    assert not silent, f"no module docstring: {silent}"


def test_what_git_keeps_is_text_that_somebody_wrote():
    """A wheel of 54 MB was once committed beside the code, by `git add` in the folder into which pip had loaded it."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    kept = [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]
    large = [str(path) for path in kept if path.stat().st_size > KEPT_FILE_BYTES]
    binary = [str(path) for path in kept if b"\0" in path.read_bytes()[:8192]]
    assert kept and not large and not binary, (large, binary)
