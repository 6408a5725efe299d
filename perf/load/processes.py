"""CPU time and memory of a process with all its descendants, from /proc."""

from __future__ import annotations

from pathlib import Path

from mpbroker.analysis.bench.process_tree import Usage, machine, tree, usage

__all__ = ["Usage", "machine", "pss_kib", "tree", "usage"]


def pss_kib(root: int) -> int:
    """Proportional set size of the tree, in KiB: shared pages are counted once over all who share them."""
    total = 0
    for pid in tree(root):
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += next((int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")), 0)
    return total
