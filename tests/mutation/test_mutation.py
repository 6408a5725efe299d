"""The mutation tool: its operators change what they should and leave code that compiles; a change that a test line
notices survives when that line is removed; the tree itself stays as it is; the list of equivalents fits the code."""

import shutil
import signal
from random import Random

import pytest

from tests.mutation.__main__ import ROOT, drawn, judge_some, report, wanted
from tests.mutation.change import C_ROOMS, PYTHON_ROOMS, changed_files, changes_of
from tests.mutation.equivalent import FILE, known_equivalents
from tests.mutation.judge import Judge, Verdict
from tests.mutation.native_build import DoesNotCompile, NativeBuild
from tests.mutation.nearest import PROGRAMS, programs_of, pytest_runs
from tests.mutation.working_copy import WorkingCopy, heed_hangups

WHEEL = "mpbroker/purgatory/delayed_operation.py"
PYTHON = '''
"""A docstring of 7 words."""
LIMIT: int = 3


def f(a, b, log):
    """Words."""
    if a < b and not b:
        log.info("words", a=1)
        a.x = b + LIMIT
        raise ValueError(f"{a + 1}")
    return min(a, b) if a is None else True
'''
C = """#define LIMIT (3 < 4)
static int f(struct row *row, const char *text)
{
    /* comment 1 < 2 */
    int count = 0;
    if (row->used && text[0] == '1') {
        row->used = false;
        call(row, "2 + 3");
        MPB_CRASH(core, "f.1");
        count++;
    }
    return row->at + count;
}
"""


def _after(path, text):
    return {(change.edit.operator, change.after) for change in changes_of(path, text)}


def test_what_is_changed_in_python():
    assert _after("x.py", PYTHON) == {
        ("number", "LIMIT: int = 4"),
        ("comparison", "if a <= b and not b:"),
        ("and/or", "if a < b or not b:"),
        ("condition", "if a < b and (b):"),
        ("condition", "if not (a < b and not b):"),
        ("left out", "pass"),
        ("arithmetic", "a.x = b - LIMIT"),
        ("min/max", "return max(a, b) if a is None else True"),
        ("condition", "return min(a, b) if not (a is None) else True"),
        ("comparison", "return min(a, b) if a is not None else True"),
        ("truth", "return min(a, b) if a is None else False"),
    }
    assert [change.before for change in changes_of("x.py", PYTHON) if change.after == "pass"] == [
        "a.x = b + LIMIT",
        'raise ValueError(f"{a + 1}")',
    ]


def test_what_is_changed_in_c():
    assert _after("x.c", C) == {
        ("number", "int count = 1;"),
        ("condition", "if (!(row->used && text[0] == '1')) {"),
        ("and/or", "if (row->used || text[0] == '1') {"),
        ("number", "if (row->used && text[1] == '1') {"),
        ("comparison", "if (row->used && text[0] != '1') {"),
        ("left out", ";"),
        ("truth", "row->used = true;"),
        ("arithmetic", "return row->at - count;"),
    }
    assert [change.line for change in changes_of("x.c", C) if change.after == ";"] == [7, 8, 10]


def test_every_room_is_changed_and_has_tests():
    files = changed_files(ROOT)
    rooms = {"/".join(file.split("/")[:2]) for file in files}
    assert rooms == {f"native/{room}" for room in C_ROOMS} | {f"mpbroker/{room}" for room in PYTHON_ROOMS}
    for file in files:
        assert pytest_runs(ROOT, file)
        paths = [part for run in pytest_runs(ROOT, file) for part in run if part.startswith("tests/")]
        assert paths and all((ROOT / path).exists() for path in paths), file
    for names in PROGRAMS.values():
        assert all(list((ROOT / "native" / "tests").glob(f"*/test_{name}.c")) for name in names)
    assert programs_of("native/shm/ring.c")[0] == "ring"


def test_every_change_of_python_compiles():
    for path in changed_files(ROOT):
        if path.endswith(".py"):
            text = (ROOT / path).read_text()
            for change in Random(path).sample(changes_of(path, text), min(5, len(changes_of(path, text)))):
                compile(change.edit.apply(text), str(change), "exec")


def test_a_seed_draws_the_same_changes():
    changes = changes_of(WHEEL, (ROOT / WHEEL).read_text())
    assert drawn(changes, 1) == drawn(changes, 1) != drawn(changes, 2)
    line = changes[3].line
    assert {one.line for one in wanted(changes, "", f"{WHEEL}:{line}")} == {line}


def test_listed_equivalents_are_changes_of_today():
    known = known_equivalents()
    assert len(known) == FILE.read_text().count("\n  - ") and all(len(reason) > 20 for reason in known.values())
    today = {
        (path, change.before, change.after)
        for path in {path for path, _, _ in known}
        for change in changes_of(path, (ROOT / path).read_text())
    }
    assert not known.keys() - today


def test_the_share_is_counted():
    counts = {("native/log", Verdict.NOTICED): 3, ("mpbroker/log", Verdict.SURVIVED): 1, ("a", Verdict.INVALID): 5}
    assert report(counts) == 0.75


@pytest.fixture
def small_tree(tmp_path):
    """A tree with one module, and tests of one line for each of its conditions."""
    tree = tmp_path / "tree"
    for directory in ("mpbroker/purgatory", "native", "tests/unit/purgatory"):
        (tree / directory).mkdir(parents=True)
    shutil.copy(ROOT / "pyproject.toml", tree)
    shutil.copy(ROOT / "native" / "Makefile", tree / "native")
    for package in ("mpbroker", "mpbroker/purgatory"):
        (tree / package / "__init__.py").touch()
    (tree / "mpbroker/purgatory/due.py").write_text("def is_due(now, then):\n    return now >= then\n")
    (tree / "tests/unit/purgatory/test_due.py").write_text(
        "from mpbroker.purgatory.due import is_due\n\n\n"
        "def test_due():\n    assert is_due(2, 1) and not is_due(1, 2)\n    assert is_due(1, 1)\n"
    )
    return tree


def _judged(tree, root):
    [change] = changes_of("mpbroker/purgatory/due.py", (tree / "mpbroker/purgatory/due.py").read_text())
    return judge_some(Judge(tree, root), [change], 1, float("inf"))


def test_a_removed_line_of_a_test_lets_a_change_survive(small_tree, tmp_path):
    room, file = "mpbroker/purgatory", small_tree / "tests/unit/purgatory/test_due.py"
    assert _judged(small_tree, tmp_path / "with") == {(room, Verdict.NOTICED): 1}
    file.write_text(file.read_text().replace("    assert is_due(1, 1)\n", ""))
    assert _judged(small_tree, tmp_path / "without") == {(room, Verdict.SURVIVED): 1}
    assert "now >= then" in (small_tree / "mpbroker/purgatory/due.py").read_text()


def test_tests_that_are_red_anyway_say_nothing(small_tree, tmp_path):
    file = small_tree / "tests/unit/purgatory/test_due.py"
    file.write_text(file.read_text() + "    assert is_due(1, 2)\n")
    assert _judged(small_tree, tmp_path / "red") == {("mpbroker/purgatory", Verdict.SURVIVED): 1}


def test_a_signal_is_noticed_under_nohup_too(tmp_path):
    (tmp_path / "tree").mkdir()
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        heed_hangups()
        assert not WorkingCopy(tmp_path / "tree", tmp_path / "copy").run(["sh", "-c", "kill -HUP $$"], 10)
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.slow
def test_changes_of_c_compile_and_programs_notice_them(tmp_path):
    if not shutil.which("make") or not shutil.which("gcc"):
        pytest.skip("make and gcc are not installed")
    tree, source = tmp_path / "tree", "trace/trace_lane.c"
    shutil.copytree(ROOT / "native", tree / "native", ignore=shutil.ignore_patterns("build"))
    shutil.copy(ROOT / "pyproject.toml", tree)
    text, invalid = (tree / "native" / source).read_text(), 0
    build = NativeBuild(tree, tmp_path / "build")
    build.prepare(source, shared=False)
    some = Random(1).sample(changes_of(f"native/{source}", text), 40)
    for change in some:
        (tree / "native" / source).write_text(change.edit.apply(text))
        try:
            build.compile(source, shared=False)
        except DoesNotCompile:
            invalid += 1
    assert invalid <= len(some) // 10
    (tree / "native" / source).write_text(text + "\n/* nothing */\n")
    assert not build.compile(source, shared=False), "a comment changes no object"
