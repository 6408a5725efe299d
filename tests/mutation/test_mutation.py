"""The mutation tool: its operators change what they should and leave code that compiles; a change that a test line
notices survives when that line is removed; the tree itself stays as it is; the list of equivalents fits the code; what
touched a function is nearest to its changes; a run goes on where it was."""

import json
import shutil
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path
from random import Random

import pytest

from tests.harness.broker import wait_until
from tests.mutation.__main__ import ROOT, drawn, judge_again, judge_some, part_of, wanted
from tests.mutation.change import C_ROOMS, PYTHON_ROOMS, changed_files, changes_of
from tests.mutation.equivalent import FILE, key_of, known_equivalents
from tests.mutation.judge import Judge, Verdict
from tests.mutation.native_build import DoesNotCompile, NativeBuild
from tests.mutation.nearest import Nearest
from tests.mutation.record import INSTRUMENTED
from tests.mutation.results import Results
from tests.mutation.touched import MAP_BYTES, Run, functions_of, place, places_at, recorded
from tests.mutation.working_copy import WorkingCopy, heed_signals

WHEEL = "mpbroker/purgatory/delayed_operation.py"
PYTHON = '''
"""A docstring of 7 words."""
LIMIT: int = 3
LIMIT_MS: int = 5


def f(a, b, log):
    """Words."""
    if a < b and not b:
        log.info("words", a=1)
        a.crash_point("f.1")
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
#ifdef MPB_INJECT
    count = 3 + 4;
#endif
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


def test_an_abstract_body_stays():
    text = "def f(a):\n    raise NotImplementedError\n\n\ndef g(a):\n    raise ValueError\n"
    assert [(change.line, change.after) for change in changes_of("x.py", text)] == [(6, "pass")]


def test_times_that_are_defaults_stay():
    text = "def f(a, b_ms=1, c=2, *, d_s=3, e=4, f_ns):\n    pass\n"
    assert _after("x.py", text) == {
        ("number", "def f(a, b_ms=1, c=3, *, d_s=3, e=4, f_ns):"),
        ("number", "def f(a, b_ms=1, c=2, *, d_s=3, e=5, f_ns):"),
    }


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


def test_every_room_is_changed_and_functions_are_found():
    files = changed_files(ROOT)
    rooms = {"/".join(file.split("/")[:2]) for file in files}
    assert rooms == {f"native/{room}" for room in C_ROOMS} | {f"mpbroker/{room}" for room in PYTHON_ROOMS}
    places = {}
    for file in files:
        text = (ROOT / file).read_text()
        functions = functions_of(file, text)
        places |= {(file, name): place(file, name) for name, _, _ in functions}
        assert all(first <= last for _, first, last in functions)
        if file.endswith(".c"):
            assert len(functions) >= text.count("\n{\n") - 1, file  # one stands behind an attribute
    assert len(set(places.values())) > 0.99 * len(places) > 2000


def test_every_change_of_python_compiles():
    files = [path for path in changed_files(ROOT) if path.endswith(".py")]
    for path in Random(1).sample(files, 40):
        text = (ROOT / path).read_text()
        changes = changes_of(path, text)
        for change in Random(path).sample(changes, min(5, len(changes))):
            compile(change.edit.apply(text), str(change), "exec")


def test_a_seed_draws_the_same_changes():
    changes = changes_of(WHEEL, (ROOT / WHEEL).read_text())
    assert drawn(changes, 1) == drawn(changes, 1) != drawn(changes, 2)
    line = changes[3].line
    assert {one.line for one in wanted(changes, "", f"{WHEEL}:{line}")} == {line}
    halves = part_of(changes, "1/2"), part_of(changes, "2/2")
    assert halves[0][1] is changes[2] and sorted(halves[0] + halves[1], key=changes.index) == changes


def test_equal_lines_are_two_changes():
    text = "def f(a):\n    a.x = 1\n\n\ndef g(a):\n    a.x = 1\n"
    changes = changes_of("x.py", text)
    left_out = [key_of(change) for change in changes if change.after == "pass"]
    assert left_out == [("x.py", "a.x = 1", "pass", 1), ("x.py", "a.x = 1", "pass", 2)]
    told = "x.py #2\n  - a.x = 1\n  + pass\n    A reason.\n"
    assert known_equivalents(told) == {left_out[1]: "A reason."}
    assert sorted(drawn(changes, 1), key=changes.index) == changes


def test_listed_equivalents_are_changes_of_today():
    known = known_equivalents()
    assert len(known) == FILE.read_text().count("\n  - ") and all(len(reason) > 20 for reason in known.values())
    today = {
        key_of(change)
        for path in {path for path, *_ in known}
        for change in changes_of(path, (ROOT / path).read_text())
    }
    assert not known.keys() - today


def test_results_are_kept_and_counted(tmp_path, capsys):
    file, changes = tmp_path / "seed.jsonl", changes_of(WHEEL, (ROOT / WHEEL).read_text())
    results = Results(file)
    verdicts = (Verdict.NOTICED, Verdict.SURVIVED, Verdict.SURVIVED, Verdict.SURVIVED, Verdict.INVALID)
    for change, verdict in zip(changes, verdicts, strict=False):
        results.add(change, verdict, 1.0, "")
    results.add(changes[1], Verdict.NOTICED, 1.0, "a new test")
    again, equivalents = Results(file), {key_of(changes[2])}
    assert again.counted(set()) == 4 and again.counted(equivalents) == 3
    results.add(changes[5], Verdict.NOTICED, 1.0, "")
    again.read_on()
    assert again.counted(set()) == 5 and again.latest == results.latest, "what another process wrote"
    assert again.report(equivalents) == pytest.approx(3 / 4)
    assert (
        "all                      3 of 4 noticed (75.0%), at first 50.0%; 0 same code, 1 invalid"
        in capsys.readouterr().out
    )


def _runs(*lines):
    return {test: Run(test, slow, 0.0, call_s, frozenset(touched)) for test, slow, call_s, touched in lines}


def test_what_touched_a_function_is_nearest():
    path, text = "mpbroker/purgatory/timing_wheel.py", (ROOT / "mpbroker/purgatory/timing_wheel.py").read_text()
    changes = changes_of(path, text)
    inside = next(change for change in changes if len(places_at(path, text, change.line)) == 1)
    (touched,) = places_at(path, text, inside.line)
    broker, named = "tests/integration/test_admin.py::a", "tests/unit/purgatory/test_timing_wheel.py::b"
    small, long = "tests/unit/server/test_apis.py::c", "tests/unit/server/test_apis.py::d"
    runs = _runs(
        (broker, True, 5.0, {touched}),
        (long, False, 30.0, {touched}),
        (small, False, 0.1, {touched}),
        (named, False, 0.2, {touched, 1, 2}),
        ("tests/unit/server/test_apis.py::e", False, 0.1, {touched + 1}),
        ("tests/unit/server/test_that_is_gone.py::f", False, 0.1, {touched}),
        ("program ring", False, 1.0, {touched}),
    )
    words = [selection.words for selection in Nearest(ROOT, runs).selections(inside, text)]
    assert words == [("program ring",), ("tests/unit/purgatory/test_timing_wheel.py",), (small,), (long,), (broker,)]


def test_many_cases_of_one_test_leave_the_other_files_their_turn():
    path, text = "mpbroker/purgatory/timing_wheel.py", (ROOT / "mpbroker/purgatory/timing_wheel.py").read_text()
    inside = next(change for change in changes_of(path, text) if len(places_at(path, text, change.line)) == 1)
    (touched,) = places_at(path, text, inside.line)
    many = [(f"tests/unit/server/test_apis.py::a[{number}]", False, 0.1, {touched}) for number in range(400)]
    other = ("tests/unit/server/test_dispatch.py::b", False, 0.1, {touched, 1, 2, 3})
    _, first, rest = [one.words for one in Nearest(ROOT, _runs(*many, other)).selections(inside, text)][:3]
    assert other[0] in first and len(first) == 40 and len(rest) <= 300 and not set(first) & set(rest)


def test_of_tests_that_start_a_broker_those_about_the_same_thing_come_first():
    path = "mpbroker/coordinator/transactions/transaction_shell.py"
    text = (ROOT / path).read_text()
    inside = next(change for change in changes_of(path, text) if len(places_at(path, text, change.line)) == 1)
    (touched,) = places_at(path, text, inside.line)
    about, other = "tests/chaos/test_transaction_kills.py::a", "tests/integration/test_admin.py::b"
    runs = _runs((other, True, 40.0, {touched}), (about, True, 40.0, {touched, 1, 2}))
    words = [selection.words for selection in Nearest(ROOT, runs).selections(inside, text)]
    assert words == [(about,)], "there is no time for both"


def test_a_program_that_takes_minutes_comes_last():
    path = "native/shm/ring.c"
    text = (ROOT / path).read_text()
    inside = next(change for change in changes_of(path, text) if len(places_at(path, text, change.line)) == 1)
    (touched,) = places_at(path, text, inside.line)
    long, longer = ("program turn_steps", False, 60.0, {touched}), ("program request_steps", False, 61.0, {touched})
    runs = _runs(
        longer, long, ("tests/unit/shm/test_x.py::a", False, 0.1, {touched}), ("program ring", False, 1.0, {touched})
    )
    words = [one.words[0] for one in Nearest(ROOT, runs).selections(inside, text)]
    assert words[0] == "program ring" and words[-1] == "program turn_steps" and "program request_steps" not in words


def test_where_no_broker_was_recorded_names_pick_its_tests():
    path = "mpbroker/coordinator/transactions/transaction_shell.py"
    text = (ROOT / path).read_text()
    inside = next(change for change in changes_of(path, text) if len(places_at(path, text, change.line)) == 1)
    (touched,) = places_at(path, text, inside.line)
    unit = ("tests/unit/server/test_apis.py::a", False, 0.1, {touched})
    words = [one.words for one in Nearest(ROOT, _runs(unit)).selections(inside, text)]
    assert words[0] == ("tests/unit/server/test_apis.py::a",) and ("tests/chaos/test_transaction_kills.py",) in words
    assert len(words) <= 3
    broker = ("tests/integration/test_admin.py::b", True, 5.0, {touched})
    words = [one.words for one in Nearest(ROOT, _runs(unit, broker)).selections(inside, text)]
    assert words[-1] == ("tests/integration/test_admin.py::b",)


def test_what_takes_too_long_survives(small_tree, tmp_path, monkeypatch):
    monkeypatch.setattr("tests.mutation.judge.MOST_S", -1.0)
    assert _judged(small_tree, tmp_path) == [Verdict.SURVIVED]


def test_without_a_record_names_decide():
    path = "native/shm/ring.c"
    change = changes_of(path, (ROOT / path).read_text())[0]
    words = [selection.words[0] for selection in Nearest(ROOT, {}).selections(change, (ROOT / path).read_text())]
    assert {"program ring", "program metadata", "tests/unit/shm/test_layout.py"} <= set(words)
    runs = _runs(
        ("tests/unit/shm/test_layout.py::a", False, 9.0, {1}), ("tests/unit/shm/test_segment.py::b", False, 8.0, {1})
    )
    words = [selection.words[0] for selection in Nearest(ROOT, runs).selections(change, (ROOT / path).read_text())]
    assert words[-2:] == ["tests/unit/shm/test_segment.py", "tests/unit/shm/test_layout.py"], (
        "what is quick comes first"
    )


def test_a_table_is_near_to_the_tests_that_import_it():
    """Whoever calls a function of its module says nothing of it."""
    path, text = "mpbroker/server/api_table.py", (ROOT / "mpbroker/server/api_table.py").read_text()
    table = changes_of(path, text)[0]
    caller = ("tests/unit/server/test_read_committed.py::a", False, 0.1, places_at(path, text, table.line))
    long = ("tests/unit/server/test_request_handler.py::b", False, 30.0, {1})
    words = [one.words[0] for one in Nearest(ROOT, _runs(caller, long)).selections(table, text)]
    assert "tests/tidy/test_handlers.py" in words
    assert "tests/unit/server/test_request_handler.py" not in words, "there is no time for it"
    path, text = "mpbroker/config/kinds.py", (ROOT / "mpbroker/config/kinds.py").read_text()
    changes = changes_of(path, text)
    inside = next(change for change in changes if len(places_at(path, text, change.line)) == 1)
    outside = next(change for change in changes if len(places_at(path, text, change.line)) > 1)
    runs = _runs(("tests/unit/config/test_kinds.py::c", False, 0.1, places_at(path, text, inside.line)))
    found = [[near.words[0] for near in Nearest(ROOT, runs).selections(one, text)] for one in (inside, outside)]
    assert ["tests/unit/config/test_table.py" in words for words in found] == [False, True]


def test_functions_are_watched_through_forks_and_kills(tmp_path):
    """The recorder's C file, in a Python that forks a child which kills itself."""
    (tmp_path / "mpbroker").mkdir()
    (tmp_path / "mpbroker" / "__init__.py").touch()  # a package of its own, wherever the real one is found
    (tmp_path / "mpbroker" / "some.py").write_text(
        "import os\nclass A:\n    def f(self):\n        return [g() for _ in 'a']\n"
        "def g():\n    if not (pid := os.fork()):\n        h()\n    os.waitpid(pid, 0)\n"
        "def h():\n    os.kill(os.getpid(), 9)\ndef never():\n    pass\n"
    )
    suffix, source = sysconfig.get_config_var("EXT_SUFFIX"), str(Path(__file__).with_name("touched.c"))
    flags = ["-O1", "-fPIC", "-DPYTHON", "-shared", "-Werror", "-Wall", f"-I{sysconfig.get_path('include')}"]
    subprocess.run(["gcc", *flags, source, "-o", str(tmp_path / f"mpbroker_touched{suffix}")], check=True)
    (tmp_path / "map").write_bytes(bytes(MAP_BYTES))
    every = Path(__file__).with_name("every_process")
    environment = {"PYTHONPATH": f"{every}:{tmp_path}", "TOUCHED_MAP": str(tmp_path / "map")}
    code = "import sys; sys.path[0] = sys.argv[1]; from mpbroker import some; some.A().f()"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], env=environment, check=True, timeout=30)
    seen = (tmp_path / "map").read_bytes()
    names = ("A.f", "g", "h", "never")
    assert [seen[place("mpbroker/some.py", name)] for name in names] == [1, 1, 1, 0]


def test_a_record_is_read_back(tmp_path):
    line = {"test": "a::b", "slow": True, "setup_s": 1.0, "call_s": 2.0, "touched": [3]}
    (tmp_path / "1.jsonl").write_text(json.dumps(line) + "\n")
    assert recorded(tmp_path) == {"a::b": Run("a::b", True, 1.0, 2.0, frozenset({3}))}


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
    results = Results(root / "results.jsonl")
    judge_some(Judge(tree, root / "work", {}), [change], results, 1, float("inf"))
    return list(results.latest.values())


@pytest.mark.slow
def test_a_removed_line_of_a_test_lets_a_change_survive(small_tree, tmp_path):
    file = small_tree / "tests/unit/purgatory/test_due.py"
    text = file.read_text()
    file.write_text(text.replace("    assert is_due(1, 1)\n", ""))
    assert _judged(small_tree, tmp_path / "without") == [Verdict.SURVIVED]
    file.write_text(text)
    assert "now >= then" in (small_tree / "mpbroker/purgatory/due.py").read_text()
    [change] = changes_of("mpbroker/purgatory/due.py", (small_tree / "mpbroker/purgatory/due.py").read_text())
    results = Results(tmp_path / "without" / "results.jsonl")
    judge_again(Judge(small_tree, tmp_path / "with", {}), [change], results, float("inf"))
    assert (results.first[key_of(change)], results.latest[key_of(change)]) == (Verdict.SURVIVED, Verdict.NOTICED)


@pytest.mark.slow
def test_tests_that_are_red_anyway_say_nothing(small_tree, tmp_path):
    file = small_tree / "tests/unit/purgatory/test_due.py"
    file.write_text(file.read_text() + "    assert is_due(1, 2)\n")
    assert _judged(small_tree, tmp_path / "red") == [Verdict.SURVIVED]


@pytest.mark.slow
def test_a_hang_is_noticed_and_a_busy_machine_is_not(small_tree, tmp_path, monkeypatch):
    """A run that is too long is tried unchanged: if that too takes long, the limit grows with it."""
    monkeypatch.setattr("tests.mutation.judge.LEAST_LIMIT_S", 0.5)
    monkeypatch.setattr("tests.mutation.judge.LEAST_TEST_S", 0.5)
    monkeypatch.setattr("tests.mutation.judge.TIMES", 12.0)
    (small_tree / "mpbroker/purgatory/due.py").write_text("def is_due(now, then):\n    return True\n")
    test = small_tree / "tests/unit/purgatory/test_due.py"
    test.write_text("import time\n\n\ndef test_due():\n    time.sleep(1.0)\n")
    name = "tests/unit/purgatory/test_due.py::test_due"
    runs = {name: Run(name, False, 0.0, 0.0, frozenset({place("mpbroker/purgatory/due.py", "is_due")}))}
    results = Results(tmp_path / "results.jsonl")
    changes = changes_of("mpbroker/purgatory/due.py", (small_tree / "mpbroker/purgatory/due.py").read_text())
    judge_some(Judge(small_tree, tmp_path / "work", runs), changes, results, 1, float("inf"))
    assert list(results.latest.values()) == [Verdict.SURVIVED]


def test_a_signal_is_noticed_under_nohup_too(tmp_path):
    (tmp_path / "tree").mkdir()
    before, ended = signal.signal(signal.SIGHUP, signal.SIG_IGN), signal.getsignal(signal.SIGTERM)
    try:
        heed_signals()
        assert not WorkingCopy(tmp_path / "tree", tmp_path / "copy").run(["sh", "-c", "kill -HUP $$"], 10).green
    finally:
        signal.signal(signal.SIGHUP, before)
        signal.signal(signal.SIGTERM, ended)


FORKS = """
import os, time
if os.fork():
    while not os.path.exists('{file}'):
        time.sleep(0.01)
    {parent}
os.chdir('/')
with open('{file}.new', 'w') as file:
    file.write(str(os.getpid()))
os.rename('{file}.new', '{file}')
time.sleep(600)
"""


@pytest.mark.parametrize("parent", ["time.sleep(600)", "os._exit(0)"], ids=["too long", "ended"])
def test_nothing_of_a_run_goes_on(tmp_path, parent):
    """A child that nothing ties to the copy, of a run that is too long and of one that has ended."""
    (tmp_path / "tree").mkdir()
    pid, copy = tmp_path / "pid", WorkingCopy(tmp_path / "tree", tmp_path / "copy")
    code = FORKS.format(parent=parent, file=pid)
    # On a busy machine a run that is too long may be over before it has a child; then it says nothing.
    for limit_s in (2.0, 10.0, 40.0) if "sleep" in parent else (30.0,):
        outcome = copy.run(["python3", "-c", code], limit_s)
        if pid.exists():
            break
    assert outcome.hung == ("sleep" in parent)
    wait_until(lambda: _has_ended(int(pid.read_text())), "what was killed to be gone")


def test_who_ends_the_tool_ends_its_run(tmp_path):
    (tmp_path / "tree").mkdir()
    tool = (
        "import sys, pathlib\nfrom tests.mutation.working_copy import WorkingCopy, heed_signals\nheed_signals()\n"
        "WorkingCopy(pathlib.Path(sys.argv[1], 'tree'), pathlib.Path(sys.argv[1], 'copy'))"
        ".run(['sh', '-c', 'echo $$ > ../../pid; exec sleep 600'], 600)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", tool, str(tmp_path)], cwd=ROOT)
    wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), "the run to begin", 20.0)
    process.terminate()
    assert process.wait(20) == 128 + signal.SIGTERM
    wait_until(lambda: _has_ended(int((tmp_path / "pid").read_text())), "what was killed to be gone")


def _has_ended(pid):
    """A zombie has: its parent, which is none of ours, reaps it when it comes to it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_only_the_core_is_watched(tmp_path):
    """A program that steps through it takes the steps that it takes unwatched."""
    if not shutil.which("make") or not shutil.which("gcc"):
        pytest.skip("make and gcc are not installed")
    (tmp_path / "native" / "tests" / "log").mkdir(parents=True)
    (tmp_path / "native" / "log").mkdir()
    shutil.copy(ROOT / "native" / "Makefile", tmp_path / "native")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "native" / "tests" / "log" / "test_a.c").write_text("int main(void) { return 0; }\n")
    (tmp_path / "native" / "log" / "a.c").write_text("int a(void) { return 0; }\n")
    build = NativeBuild(tmp_path, tmp_path / "build", more_flags=INSTRUMENTED)
    assert not any(flag.startswith("-g") for shared in (False, True) for flag in build._plain_flags[shared])
    asked = {}
    for source in ("log/a.c", "tests/log/test_a.c"):
        made = build._object(source, False)
        symbols = subprocess.run(["nm", str(made)], capture_output=True, text=True, check=True).stdout
        asked[source] = "__cyg_profile_func_enter" in symbols
    assert asked == {"log/a.c": True, "tests/log/test_a.c": False}


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
    some = Random(1).sample(changes_of(f"native/{source}", text), 12)
    for change in some:
        (tree / "native" / source).write_text(change.edit.apply(text))
        try:
            build.compile(source, shared=False)
        except DoesNotCompile:
            invalid += 1
    assert invalid <= 2
    (tree / "native" / source).write_text(text + "\n/* nothing */\n")
    assert not build.compile(source, shared=False), "a comment changes no object"
    (tree / "native" / source).write_text(text.replace("\n{\n", "\n\n{\n        ;\n"))
    assert not build.compile(source, shared=False), "nor do the places where things stand"
