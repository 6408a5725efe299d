"""Plays the scripts of transactions to Apache Kafka 4.3 and shows where this broker differs.

    python -m tests.conformance.transaction_differential --kafka H:P [--broker H:P] [--only TEXT] [--record FILE]

Both brokers need the settings of `transaction_scripts.stage.SETTINGS`. `--record` writes Kafka's outcomes down, for the
tests, which then need no Kafka. Exit code 1: there are differences.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from tests.conformance.differential import _paths
from tests.conformance.transaction_scripts import SCRIPTS
from tests.conformance.transaction_scripts.stage import Script, played, write_outcomes


def all_played(scripts: list[Script], port: int) -> list[Any]:
    """The outcomes of every script behind a port."""
    run = f"{os.getpid() % 100_000:05d}"
    found: list[Any] = []
    for number, script in enumerate(scripts):
        try:
            found.append(played(script, port, f"r{run}-{number:03d}-"))
        except Exception as error:
            found.append([f"{type(error).__name__}: {error}"])
    return found


def differences(scripts: list[Script], ours: list[Any], kafkas: list[Any]) -> dict[str, list[str]]:
    """Title → lines, of those that differ."""
    return {
        script.title: [f"{len(mine)} steps, Kafka {len(theirs)}", *_paths(mine, theirs)]
        for script, mine, theirs in zip(scripts, ours, kafkas, strict=True)
        if mine != theirs
    }


def main() -> int:
    """See the module's description."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", metavar="H:P", help="this broker")
    parser.add_argument("--kafka", metavar="H:P", required=True, help="Apache Kafka 4.3")
    parser.add_argument("--only", default="", metavar="TEXT", help="only scripts whose title contains this")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write Kafka's outcomes here")
    options = parser.parse_args()
    scripts = [script for script in SCRIPTS if options.only in script.title]
    kafkas = all_played(scripts, int(options.kafka.rsplit(":", 1)[1]))
    if options.record:
        write_outcomes(options.record, list(zip(scripts, kafkas, strict=True)))
    if not options.broker:
        return 0
    ours = all_played(scripts, int(options.broker.rsplit(":", 1)[1]))
    wrong = differences(scripts, ours, kafkas)
    for title, lines in wrong.items():
        print(f"--- {title}\n  " + "\n  ".join(lines))
    print(f"{len(scripts)} scripts, {len(wrong)} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
