"""The sieve: a change in functions that run already, tests in children that leave nothing, who counts as noticed."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation import screen as module
from tests.mutation.change import changes_of
from tests.mutation.code_swap import Functions
from tests.mutation.forked_tests import Outcome, remove_names
from tests.mutation.screen import Screen

TEXT = """
import functools

LIMIT = 5

def outer(n, least=1):
    def inner(m):
        return m + n
    return [inner(one) for one in range(n) if one >= least]

class Thing:
    size = 3

    @functools.cache
    def twice(self):
        return 2 * self.size

    pick, take = staticmethod(lambda a, b: a), staticmethod(lambda a: [a])
"""


@pytest.fixture
def made(tmp_path):
    """The module, and what exchanges its functions."""
    path = tmp_path / "made.py"
    path.write_text(TEXT)
    spec = importlib.util.spec_from_file_location("made_for_screen", path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    functions = Functions(str(tmp_path))

    def swap(before, after):
        found = functions.swaps(str(path), TEXT, TEXT.replace(before, after))
        for function, code in found or ():
            function.__code__ = code
        return found is not None

    made.swap = swap
    return made


@pytest.mark.parametrize(
    ("before", "after", "call", "result"),
    [
        ("one >= least", "one > least", lambda made: made.outer(3), [5]),
        ("return m + n", "return m - n", lambda made: made.outer(3), [-2, -1]),
        ("2 * self.size", "4 * self.size", lambda made: made.Thing().twice(), 12),
        ("lambda a, b: a", "lambda a, b: b", lambda made: made.Thing.pick(1, 2), 2),
    ],
    ids=["a function", "one within it", "a method behind a wrapper", "a lambda"],
)
def test_what_functions_do_is_exchanged(made, before, after, call, result):
    assert call(made) != result
    assert made.swap(before, after) and call(made) == result


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("LIMIT = 5", "LIMIT = 6"),
        ("size = 3", "size = 4"),
        ("least=1", "least=2"),
        ("@functools.cache", "@property"),
    ],
)
def test_what_was_done_when_it_was_imported_is_not(made, before, after):
    assert not made.swap(before, after)


def test_of_two_functions_of_one_line_the_changed_one_is_exchanged(made):
    assert made.swap("lambda a: [a]", "lambda a: (a)")
    assert (made.Thing.pick(1, 2), made.Thing.take(1)) == (1, 1)


def test_what_changes_nothing_is_not_tried(made):
    assert not made.swap("return m + n", "return m + n  # said")


class World(Screen):
    """A screen whose tests in children answer as they are told."""

    def __init__(self, *outcomes):
        super().__init__([], None, 1)
        self.asked, self._outcomes = [], list(outcomes)
        self._tests, self._runs, self._red = self, [], {}
        self._noticed_by = module.Counter()
        self.items = dict.fromkeys(["tests/unit/log/test_roll.py::a", "tests/unit/log/test_roll.py::b", "x.py::c"])

    def run(self, tests, first, limit_s, all_of_them):
        self.asked.append((list(tests), all_of_them))
        return self._outcomes.pop(0)


A, B = "tests/unit/log/test_roll.py::a", "tests/unit/log/test_roll.py::b"
GREEN = Outcome([], True)
CHANGE = changes_of("mpbroker/log/roll.py", "def f(n):\n    return n + 1\n")[0]


@pytest.mark.parametrize(
    ("outcomes", "verdict", "asked"),
    [
        ([GREEN, Outcome([B], True)], "noticed", [([A, B], True), ([A, B], False)]),
        ([GREEN, Outcome([], False)], "noticed", [([A, B], True), ([A, B], False)]),
        ([GREEN, GREEN], "survived", [([A, B], True), ([A, B], False)]),
        ([Outcome([A], True), GREEN], "survived", [([A, B], True), ([B], False)]),
        (
            [Outcome([A], False), GREEN, GREEN],
            "survived",
            [([A, B], True), ([B], True), ([B], False)],
        ),
    ],
    ids=["red", "it hangs", "green", "one is red anyway", "one ends the child anyway"],
)
def test_who_notices(outcomes, verdict, asked):
    world = World(*outcomes)
    assert world._try(CHANGE, [], "def f(n):\n    return n + 1\n") == verdict
    assert world.asked == asked
    assert world._try(CHANGE, None, "") == "outside"


def test_who_noticed_before_is_asked_first():
    world = World(GREEN, Outcome([B], True))
    text = "def f(n):\n    return n + 1\n"
    world._try(CHANGE, [], text)
    world._outcomes = [GREEN]
    world._try(CHANGE, [], text)
    assert world.asked[2] == ([B, A], False)


def test_what_a_killed_child_leaves_is_removed(tmp_path):
    """Names of its own; those that have its number within another one are not its."""
    pid = int(f"{os.getpid()}1")
    names = [Path("/dev/shm", f"mpbroker-test-{pid}-{what}") for what in ("lane", "dashcam")]
    others = Path("/dev/shm", f"mpbroker-test-x{pid}x-lane")
    try:
        for path in (names[0], others):
            path.touch()
        names[1].mkdir()
        remove_names(pid, tmp_path)
        assert [path.exists() for path in (*names, others)] == [False, False, True]
    finally:
        others.unlink()


@pytest.mark.slow
@pytest.mark.timeout(330)  # some 20 s; on a slow disk, with much else to do, ten times as long
def test_a_module_from_end_to_end(tmp_path):
    """Real changes, real tests; what children wrote is gone."""
    command = [sys.executable, "-m", "tests.mutation.screen", "mpbroker/purgatory/timing_wheel.py", "--every", "12"]
    environment = {"TMPDIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, cwd=Path(__file__).parents[2], env=environment
    )
    told = re.search(
        r"^== mpbroker/purgatory/timing_wheel.py: (\d+) noticed, (\d+) survived, 0 outside", done.stdout, re.MULTILINE
    )
    assert told, done.stdout + done.stderr
    noticed, survived = map(int, told.groups())
    assert noticed >= 3, "by the tests that are named after it; more only where it was recorded which touch it"
    assert (
        done.returncode == (survived > 0) and done.stdout.count("mpbroker/purgatory/timing_wheel.py:") == 1 + survived
    )
    assert list(tmp_path.iterdir()) == []
