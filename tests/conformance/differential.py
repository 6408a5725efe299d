"""Sends the corpus to this broker and to a real Apache Kafka and shows where their answers differ.

    python -m tests.conformance.differential --broker H:P --kafka H:P [--release 4.3] [--only TEXT] [--record FILE]

Both should have node id 0, one partition by default and auto-creation on. `--record` writes Kafka's answers down, for
tests/conformance/test_kafka_answers.py, which then needs no Kafka. Exit code 1: there are differences.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.conformance.corpus import CASES, Case
from tests.conformance.corpus.case import run_case
from tests.conformance.recorded_answers import FILES, write

KAFKA_SETTLES_S = 0.3
SHOWN = 250  # characters of an answer


def main() -> int:
    """See the module's description."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", metavar="H:P", help="this broker")
    parser.add_argument("--kafka", metavar="H:P", help="Apache Kafka")
    parser.add_argument("--release", default="3.9", choices=FILES, help="which Kafka that is; 4.3: what 3.9 lacks")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases whose name contains this")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write Kafka's answers here")
    options = parser.parse_args()
    if not options.kafka or not (options.broker or options.record):
        parser.error("--kafka and one of --broker and --record are needed")
    cases = [case for case in CASES if options.only in case.title and case.kafka == options.release]
    run = f"r{os.getpid() % 1_000_000:06d}"
    if options.record:
        write(options.record, [(case, _answers(case, options.kafka, run, KAFKA_SETTLES_S)) for case in cases])
        return 0
    found: dict[tuple[str, str], list[int]] = {}
    for case in cases:
        difference = _difference(case, options, run)
        if difference:
            found.setdefault((case.name, difference), []).append(case.version)
    for (name, difference), versions in found.items():
        print(f"--- {name}, versions {versions}\n{difference}")
    print(f"{len(cases)} cases, {sum(map(len, found.values()))} differ")
    return 1 if found else 0


def _answers(case: Case, address: str, run: str, settle_s: float = 0.0) -> list[Any]:
    host, port = address.rsplit(":", 1)
    return json.loads(json.dumps(run_case(case, host, int(port), run, settle_s)))


def _difference(case: Case, options: argparse.Namespace, run: str) -> str:
    ours = _answers(case, options.broker, run)
    kafkas = _answers(case, options.kafka, run, KAFKA_SETTLES_S)
    lines = [] if len(ours) == len(kafkas) else [f"    {len(ours)} answers, Kafka {len(kafkas)}"]
    for number, (mine, theirs) in enumerate(zip(ours, kafkas, strict=False)):
        lines += [f"  [{number}]{line}" for line in _paths(mine, theirs)]
    return "\n".join(lines)


def _paths(ours: Any, kafkas: Any, path: str = "") -> Iterator[str]:
    """One line per place where two normal forms differ."""
    if isinstance(ours, dict) and isinstance(kafkas, dict):
        for name in sorted(ours.keys() | kafkas.keys()):
            yield from _paths(ours.get(name, "default"), kafkas.get(name, "default"), f"{path} {name}")
    elif isinstance(ours, list) and isinstance(kafkas, list) and len(ours) == len(kafkas):
        for number, (mine, theirs) in enumerate(zip(ours, kafkas, strict=True)):
            yield from _paths(mine, theirs, f"{path}[{number}]")
    elif ours != kafkas:
        yield f"{path}: ours {_short(ours)} · Kafka {_short(kafkas)}"


def _short(answer: Any) -> str:
    return json.dumps(answer, ensure_ascii=False)[:SHOWN]


if __name__ == "__main__":
    sys.exit(main())
