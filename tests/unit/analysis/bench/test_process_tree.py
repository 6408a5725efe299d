"""CPU time of a tree: children count."""

import subprocess
import sys

from mpbroker.analysis.bench import process_tree

CHILD = """
import subprocess, sys
p = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=sys.stdin)
print(p.pid, flush=True)
p.wait()
"""


def test_a_tree_has_its_children():
    with subprocess.Popen(
        [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        grandchild = int(process.stdout.readline())
        assert set(process_tree.tree(process.pid)) == {process.pid, grandchild}
        assert process_tree.usage(process.pid).total_us >= 0
        process.communicate("\n", timeout=20)


def test_the_machine_is_described():
    assert process_tree.machine().keys() == {"cpu", "cores", "memory_mib", "kernel", "python", "load_average"}
