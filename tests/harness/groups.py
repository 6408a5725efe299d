"""Which tests run in one process, one after the other, when several processes share the slow ones.

A group is a file; but all tests with Spark are one, for they share its JVM, each build of the C programs is one, for
it is made once, and those that read the package's source are one. Stateless; used by tests/conftest.py.
"""

from __future__ import annotations

from typing import Any

#: Exit code of a forked child that an error led out of its test (tests/conftest.py).
CHILD_CAME_OUT = 70
SPARK = "spark"
#: They parse the whole package, once in a process.
SOURCE = "source"
SOURCE_TESTS = ("tests/tidy/", "tests/unit/config/test_settings_read.py", "tests/unit/shm/test_counters.py")
PROGRAMS = "tests/unit/native/test_programs.py"
#: What takes longest begins first, or all others are done long before it.
LONG = (
    SPARK,
    SOURCE,
    "native address",
    "native plain",
    "tests/filestates/test_filestates.py",
    "tests/chaos/test_coordinator_kills.py",
    "tests/conformance/test_group_outcomes.py",
    "tests/integration/test_traces_page.py",
    "tests/integration/test_lab.py",
    "tests/integration/test_cli_records.py",
    "tests/integration/test_cli.py",
    "tests/integration/test_health.py",
    "tests/integration/test_data_directory.py",
    "tests/unit/analysis/report/test_page_in_browser.py",
)


def group_of(node_id: str) -> str:
    """The group of a test, from its id."""
    file, _, name = node_id.partition("::")
    if "spark" in file:
        return SPARK
    if file.startswith(SOURCE_TESTS):
        return SOURCE
    if file == PROGRAMS and name.endswith("]"):
        return f"native {name[:-1].rpartition('-')[2]}"
    return file


def turn_of(node_id: str) -> int:
    """Where the test stands in the order of a run; equal ones keep theirs."""
    group = group_of(node_id)
    return LONG.index(group) if group in LONG else len(LONG)


def scheduler(config: Any, log: Any) -> Any:
    """pytest-xdist's scheduler that gives whole groups to processes."""
    from xdist.scheduler import LoadScopeScheduling

    class GroupScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return GroupScheduling(config, log)
