"""Plays the scripts of groups to a real Apache Kafka and shows where this broker, or its logic alone, differs.

    python -m tests.conformance.group_differential --kafka H:P [--release 4.3|3.9-preview] [--broker H:P] [--only TEXT]
        [--record FILE]

Both brokers need the settings of `transports.SETTINGS`, Kafka 3.9 also `group.coordinator.rebalance.protocols=classic`,
4.3 the lower bounds of `group.consumer.min.session.timeout.ms` and `group.consumer.min.heartbeat.interval.ms`. The
preview is 3.9 with `group.coordinator.rebalance.protocols=classic,consumer`,
`group.consumer.migration.policy=bidirectional` and the same bounds.
`--record` writes Kafka's outcomes down, for the tests, which then need no Kafka. Exit code 1: there are differences.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.conformance.differential import _paths
from tests.conformance.group_scripts import PREVIEWS, SCRIPTS
from tests.conformance.group_scripts.recorded import write
from tests.conformance.group_scripts.stage import CLASSIC, NEXT, PREVIEW, Script, play
from tests.conformance.group_scripts.transports import Logic, Sockets

AT_ONCE = 8  # a script mostly waits
ATTEMPTS = 3  # a busy machine may answer after the moment when a script looks


def alone(script: Script) -> Any:
    """The outcomes of the logic without a broker."""
    return play(script, Logic(), f"r{0:06d}-{0:03d}-")


def played(scripts: list[Script], port: int, expected: list[Any]) -> list[Any]:
    """The outcomes of every script behind a port; one that is not as expected is played again."""
    run = f"{os.getpid() % 100_000:05d}"

    def one(numbered: tuple[int, Script]) -> Any:
        number, script = numbered
        for attempt in range(ATTEMPTS):
            transport = Sockets(port)
            try:
                found: Any = play(script, transport, f"r{attempt}{run}-{number:03d}-")
            except Exception as error:
                found = [f"{type(error).__name__}: {error}"]
            finally:
                transport.close()
            if found == expected[number]:
                break
        return found

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(one, enumerate(scripts)))


def main() -> int:
    """See the module's description."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", metavar="H:P", help="this broker; else the logic alone")
    parser.add_argument("--kafka", metavar="H:P", required=True, help="Apache Kafka")
    parser.add_argument("--release", choices=(CLASSIC, NEXT, PREVIEW), default=CLASSIC, help="the scripts of this one")
    parser.add_argument("--only", default="", metavar="TEXT", help="only scripts whose title contains this")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write Kafka's outcomes here")
    options = parser.parse_args()
    scripts = [
        script for script in SCRIPTS + PREVIEWS if options.only in script.title and script.release == options.release
    ]
    ours = [alone(script) for script in scripts]
    kafkas = played(scripts, int(options.kafka.rsplit(":", 1)[1]), ours)
    if options.record:
        write(options.record, list(zip(scripts, kafkas, strict=True)))
    if options.broker:
        ours = played(scripts, int(options.broker.rsplit(":", 1)[1]), kafkas)
    different = 0
    for script, mine, theirs in zip(scripts, ours, kafkas, strict=True):
        if mine != theirs:
            different += 1
            print(f"--- {script.title}")
            print("\n".join(_differences(mine, theirs)))
    print(f"{len(scripts)} scripts, {different} differ")
    return 1 if different else 0


def _differences(ours: list[Any], kafkas: list[Any]) -> list[str]:
    lines = [] if len(ours) == len(kafkas) else [f"  {len(ours)} steps, Kafka {len(kafkas)}: {ours[-1]} {kafkas[-1]}"]
    for number, (mine, theirs) in enumerate(zip(ours, kafkas, strict=False)):
        label = mine[0] if mine else ""
        lines += [f"  [{number} {label}]{line}" for line in _paths(mine, theirs)]
    return lines


if __name__ == "__main__":
    sys.exit(main())
