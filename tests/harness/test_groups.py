"""Which tests share a process."""

from pathlib import Path

from tests.harness import groups
from tests.tidy.source_tree import ROOT

PROGRAM = f"{groups.PROGRAMS}::test_program"


def test_a_group_is_a_file_but_for_spark_the_source_and_the_builds_of_c_programs():
    assert groups.group_of("tests/unit/log/test_a.py::test_b[c-address]") == "tests/unit/log/test_a.py"
    assert groups.group_of("tests/unit/analysis/spark/test_a.py::test_b") == groups.SPARK
    assert groups.group_of("tests/integration/test_spark_engine.py::test_b") == groups.SPARK
    assert groups.group_of(f"{PROGRAM}[append-address]") == groups.group_of(f"{PROGRAM}[ring-address]")
    assert groups.group_of("tests/tidy/test_a.py::b") == groups.group_of("tests/unit/shm/test_counters.py::b")
    assert groups.group_of(f"{PROGRAM}[append-plain]") != groups.group_of(f"{PROGRAM}[append-address]")


def test_every_file_that_begins_first_is_there():
    files = [group for group in (*groups.LONG, groups.PROGRAMS) if group.endswith(".py")]
    assert len(files) > 4 and all((ROOT / Path(file)).is_file() for file in files)


def test_long_groups_come_first():
    short, long, longest = "tests/chaos/test_soak.py::a", "tests/integration/test_lab.py::a", f"{PROGRAM}[a-address]"
    assert sorted([short, long, longest], key=groups.turn_of) == [longest, long, short]
