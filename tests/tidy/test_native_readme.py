"""native/README.md: every file of the core stands in its table, and nothing else."""

import re

from tests.tidy.source_tree import ROOT

NATIVE = ROOT / "native"


def test_every_file_stands_in_the_table_once():
    rows = [line for line in (NATIVE / "README.md").read_text().splitlines() if line.startswith("| ")]
    named = [name for row in rows for name in re.findall(r"`([\w.]+)`", row.split("|")[3])]
    assert len(named) == len(set(named))
    files = {path.name for path in NATIVE.glob("*/*.[ch]") if path.parent.name != "tests"}
    stands_for = {name: {name} if name.endswith(".h") else {f"{name}.c", f"{name}.h"} & files for name in named}
    assert all(stands_for.values()) and set().union(*stands_for.values()) == files
