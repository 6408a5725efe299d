"""States from a seed: `python -m tests.filestates --states 10000 --seed 1` (`make filestates`).

Exit code 1 and the states that went wrong, each with the numbers that make it again (`--seed S --only N`).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

from tests.filestates.bases import Base, make_bases
from tests.filestates.one_state import Result, run_state

SHARED_MEMORY = Path("/dev/shm")


def random_of(seed: int, number: int) -> Random:
    """The state of this number, whatever came before it."""
    return Random(f"{seed}/{number}")


def run_states(directory: Path, bases: list[Base], seed: int, numbers: range, real_of: int) -> dict[int, Result]:
    """States by number; one of `real_of` is started by a real broker. What went wrong stays in `directory`."""
    results = {}
    for number in numbers:
        random = random_of(seed, number)
        really = random.randrange(real_of) == 0
        results[number] = run_state(random, bases, directory / f"state-{seed}-{number}", really=really)
        if results[number].problems:
            print(report(seed, number, results[number]), flush=True)
        if number % 500 == 499:
            print(f"{number + 1} states", file=sys.stderr, flush=True)
    return results


def report(seed: int, number: int, result: Result) -> str:
    """A state that went wrong, in some lines."""
    lines = [f"--seed {seed} --only {number}", *(f"  {one}" for one in result.mutations)]
    return "\n".join([*lines, *(f"  ✗ {one}" for one in result.problems)])


def main() -> int:
    """Run them from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--states", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="one state")
    parser.add_argument("--real-of", type=int, default=40, help="one of so many states is started by a real broker")
    parser.add_argument("--keep", metavar="D", type=Path, help="keep bases and failed states in this new directory")
    arguments = parser.parse_args()
    where = str(SHARED_MEMORY) if SHARED_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="filestates-", dir=where) as temporary:
        directory = arguments.keep or Path(temporary)
        bases = make_bases(directory)
        numbers = range(arguments.states) if arguments.only is None else range(arguments.only, arguments.only + 1)
        begun = time.monotonic()
        results = run_states(directory, bases, arguments.seed, numbers, arguments.real_of)
    failed = sum(bool(result.problems) for result in results.values())
    outcomes = Counter(result.outcome for result in results.values())
    print(f"{len(results)} states in {time.monotonic() - begun:.0f} s: {dict(outcomes)}; {failed} went wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
