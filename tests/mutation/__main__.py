"""Changes from a seed: `python -m tests.mutation --changes 300 --seed 1` (`make mutants`).

Prints each change that the nearest tests did not notice, and the share they noticed. Exit code 1 below 95 %. Verdicts
stand in `.mutants/seed-N.jsonl`: the same command goes on after an interruption, `--again` judges survivors anew:
have the files of new tests recorded first (record.py), or only a file that is named after the changed one is run.
`--part 1/2` and `--part 2/2`, started beside each other, share the work and the verdicts.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
import time
from pathlib import Path

from tests.mutation.change import Change, changed_files, changes_of
from tests.mutation.equivalent import key_of, known_equivalents
from tests.mutation.judge import Judge, Verdict
from tests.mutation.results import Results
from tests.mutation.touched import recorded
from tests.mutation.working_copy import heed_signals

ROOT = Path(__file__).resolve().parents[2]
STATE = ROOT / ".mutants"
LEAST_SHARE = 0.95


def drawn(changes: list[Change], seed: int) -> list[Change]:
    """All changes in the order in which this seed tries them; code that changes meanwhile leaves the others' order."""
    return sorted(changes, key=lambda change: hashlib.sha1(f"{seed} {_drawn_by(change)}".encode()).digest())


def _drawn_by(change: Change) -> tuple[str | int, ...]:
    """The first of equal lines stands where it stood when nothing told them apart."""
    key = key_of(change)
    return key if change.nth > 1 else key[:3]


def wanted(changes: list[Change], under: str, at: str | None) -> list[Change]:
    """Those below a path, or of one `PATH:LINE`."""
    if at is not None:
        path, _, line = at.rpartition(":")
        return [change for change in changes if change.path == path and change.line == int(line)]
    return [change for change in changes if change.path.startswith(under)]


def part_of(changes: list[Change], part: str) -> list[Change]:
    """Every Nth change, from the Kth on, of `K/N`."""
    first, _, number = part.partition("/")
    return changes[int(first) - 1 :: int(number)]


def judge_some(judge: Judge, changes: list[Change], results: Results, number: int, until: float) -> None:
    """Judge changes until `number` of the results count or the time is over. What survives is printed at once."""
    known = set(known_equivalents())
    for change in changes:
        results.read_on()
        if results.counted(known) >= number or time.monotonic() > until:
            break
        if key_of(change) in known or key_of(change) in results.latest:
            continue
        judge_one(judge, change, results)


def judge_again(judge: Judge, changes: list[Change], results: Results, until: float) -> None:
    """Judge once more what survived and is no equivalent."""
    known = known_equivalents()
    for change in changes:
        survived = results.latest.get(key_of(change)) is Verdict.SURVIVED
        if survived and key_of(change) not in known and time.monotonic() < until:
            judge_one(judge, change, results)


def judge_one(judge: Judge, change: Change, results: Results) -> None:
    """Judge, write down, tell."""
    begun = time.monotonic()
    verdict = judge.judge(change)
    spent = time.monotonic() - begun
    results.add(change, verdict, spent, judge.noticed_by)
    print(f"{verdict.value} in {spent:.0f} s {judge.noticed_by}\n  {change}", file=sys.stderr, flush=True)
    if verdict is Verdict.SURVIVED:
        print(change, flush=True)


def main() -> int:
    """Run them from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--under", default="", help="only files whose path begins so: native/, mpbroker/log/")
    parser.add_argument("--at", metavar="PATH:LINE", help="all changes of one line, whatever became of them before")
    parser.add_argument("--part", metavar="K/N", default="1/1", help="every Nth change, from the Kth on")
    parser.add_argument("--minutes", type=float, default=24 * 60, help="begin no further change after so long")
    parser.add_argument("--again", action="store_true", help="judge the survivors once more")
    arguments = parser.parse_args()
    heed_signals()
    changes = [change for path in changed_files(ROOT) for change in changes_of(path, (ROOT / path).read_text())]
    chosen = part_of(drawn(wanted(changes, arguments.under, arguments.at), arguments.seed), arguments.part)
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        results = Results(Path(directory, "at") if arguments.at else STATE / f"seed-{arguments.seed}.jsonl")
        judge = Judge(ROOT, Path(directory), recorded(STATE / "touched"), STATE / "objects")
        until = time.monotonic() + 60 * arguments.minutes
        if arguments.again:
            judge_again(judge, chosen, results, until)
        else:
            judge_some(judge, chosen, results, arguments.changes, until)
        for run in judge.useless:
            print(f"red without any change, so left out: {run[:200]}")
    print(f"{len(results.latest)} tried of {len(changes)} changes, seed {arguments.seed}")
    return 0 if results.report(set(known_equivalents())) >= LEAST_SHARE else 1


if __name__ == "__main__":
    sys.exit(main())
