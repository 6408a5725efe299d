"""Changes from a seed: `python -m tests.mutation --changes 300 --seed 1` (`make mutants`).

Prints each change that the nearest tests did not notice, and the share they noticed. Exit code 1 below 95 %.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

from tests.mutation.change import Change, changed_files, changes_of
from tests.mutation.equivalent import key_of, known_equivalents
from tests.mutation.judge import Judge, Verdict
from tests.mutation.working_copy import heed_hangups

ROOT = Path(__file__).resolve().parents[2]
LEAST_SHARE = 0.95


def drawn(changes: list[Change], seed: int) -> list[Change]:
    """All changes in the order in which this seed tries them."""
    return Random(seed).sample(changes, len(changes))


def wanted(changes: list[Change], under: str, at: str | None) -> list[Change]:
    """Those below a path, or of one `PATH:LINE`."""
    if at is not None:
        path, _, line = at.rpartition(":")
        return [change for change in changes if change.path == path and change.line == int(line)]
    return [change for change in changes if change.path.startswith(under)]


def judge_some(judge: Judge, changes: list[Change], number: int, until: float) -> Counter[tuple[str, Verdict]]:
    """Judge changes until `number` of them count or the time is over. What survives is printed at once."""
    counts: Counter[tuple[str, Verdict]] = Counter()
    known, counted = known_equivalents(), 0
    for change in changes:
        if counted == number or time.monotonic() > until:
            break
        if key_of(change) in known:
            continue
        begun = time.monotonic()
        verdict = judge.judge(change)
        counts[(change.room, verdict)] += 1
        counted += verdict in (Verdict.NOTICED, Verdict.SURVIVED)
        print(f"{verdict.value} in {time.monotonic() - begun:.0f} s {judge.noticed_by}", file=sys.stderr)
        print(f"  {change}", file=sys.stderr, flush=True)
        if verdict is Verdict.SURVIVED:
            print(change, flush=True)
    return counts


def report(counts: Counter[tuple[str, Verdict]]) -> float:
    """The share of each room and of all; of nothing, everything was noticed."""
    shares = []
    for room in ["", *sorted({room for room, _ in counts})]:
        of_room = Counter[Verdict]()
        for (one, verdict), count in counts.items():
            of_room[verdict] += count if one.startswith(room) else 0
        noticed, survived = of_room[Verdict.NOTICED], of_room[Verdict.SURVIVED]
        shares.append(noticed / (noticed + survived) if noticed + survived else 1.0)
        rest = f"{of_room[Verdict.SAME_CODE]} same code, {of_room[Verdict.INVALID]} invalid"
        print(f"{room or 'all':24} {noticed} of {noticed + survived} noticed ({shares[-1]:.1%}); {rest}")
    return shares[0]


def main() -> int:
    """Run them from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--under", default="", help="only files whose path begins so: native/, mpbroker/log/")
    parser.add_argument("--at", metavar="PATH:LINE", help="all changes of one line")
    parser.add_argument("--minutes", type=float, default=24 * 60, help="begin no further change after so long")
    arguments = parser.parse_args()
    os.nice(10)
    heed_hangups()
    changes = [change for path in changed_files(ROOT) for change in changes_of(path, (ROOT / path).read_text())]
    chosen = drawn(wanted(changes, arguments.under, arguments.at), arguments.seed)
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        judge = Judge(ROOT, Path(directory))
        until = time.monotonic() + 60 * arguments.minutes
        counts = judge_some(judge, chosen, arguments.changes, until)
        for run in judge.useless:
            print(f"red without any change, so left out: {run}")
    print(f"{sum(counts.values())} tried of {len(changes)} changes, seed {arguments.seed}")
    return 0 if report(counts) >= LEAST_SHARE else 1


if __name__ == "__main__":
    sys.exit(main())
