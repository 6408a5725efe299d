"""Builds in turns: what a Produce costs, how long a start takes, and what a broker at rest holds.

    python -m perf.in_turns before=/b/.venv/bin/python now=/n/.venv/bin/python [--pairs 30] [--starts 15] [--json FILE]

A build is a virtual environment into which `pip install .` put a commit, named by its interpreter; so none has crash
points. Load: 8 connections with 20 Produce requests of 100 bytes in flight each, for 0.7 s on each build in turn, both
brokers up. CPU time, by the scheduler's clock, is the process tree's. A start lasts from exec to the first answer. Idle
memory is the tree's PSS 2.5 s later, with no other broker there: other Pythons of the same kind on the machine take
their part of the interpreter's pages, up to 3 MiB.

Brokers begin without this process's PYTHONPATH, which would make all of them the same build, and a build whose process
has mapped another one's native module is an error.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

from perf.load.processes import machine, pss_kib, scheduled_us, tree
from perf.load.produce_load import ProduceLoad
from tests.harness.raw_client import RawConnection, api_versions
from tests.harness.raw_records import create_by_metadata

TOPIC = "bench"
RUN_S, AFTER_S, IDLE_S = 0.7, 0.3, 2.5
START_S = 30.0
IDLE_STARTS = 3
"""Of the starts: how many are followed by a look at the memory."""
READY = re.compile(r"mpbroker ready .*PLAINTEXT://127\.0\.0\.1:(\d+)")


class Build:
    """One broker of a build at a time."""

    def __init__(self, name: str, python: str) -> None:
        self.name = name
        self.prefix = str(Path(python).parent.parent)
        self._python = python
        self._place = ""
        self._process: subprocess.Popen[str] | None = None
        self.port = 0

    @property
    def pid(self) -> int:
        """Of its supervisor."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> float:
        """Milliseconds from exec to the first answer."""
        self._place = tempfile.mkdtemp(prefix="mpbroker-turns-")
        words = ["-m", "mpbroker", "start", "--data-dir", f"{self._place}/d", "--listener", "PLAINTEXT://127.0.0.1:0"]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        began = time.monotonic()
        self._process = subprocess.Popen(
            [self._python, *words, "--override", "num.partitions=4"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=self._place,
            env=environment,
        )
        assert self._process.stdout is not None
        patience = threading.Timer(START_S, self._process.kill)
        patience.start()
        found = next(filter(None, map(READY.search, self._process.stdout)), None)
        patience.cancel()
        if found is None:
            raise SystemExit(f"{self.name}: the broker did not start")
        self.port = int(found[1])
        with RawConnection(self.port) as connection:
            if connection.ask(api_versions(1)) is None:
                raise SystemExit(f"{self.name}: the broker closed the connection")
        return (time.monotonic() - began) * 1000

    def check(self) -> None:
        """It runs its own native module, and no other build's."""
        maps = "".join(Path(f"/proc/{pid}/maps").read_text() for pid in tree(self.pid))
        mapped = {line.split()[-1] for line in maps.splitlines() if "/mpbroker/_native." in line}
        if not mapped or any(not path.startswith(self.prefix) for path in mapped):
            raise SystemExit(f"{self.name}: it runs {', '.join(sorted(mapped)) or 'no native module'}")

    def stop(self) -> None:
        """Its files go with it."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(30)
            self._process.kill()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None
        shutil.rmtree(self._place, ignore_errors=True)


class Run(NamedTuple):
    """One run of the load on one build."""

    cpu_us: float
    requests_per_s: float


def starts(builds: list[Build], rounds: int) -> dict[str, dict[str, list[float]]]:
    """Milliseconds of starts and MiB at rest of each build, in turn."""
    found: dict[str, dict[str, list[float]]] = {build.name: {"start_ms": [], "idle_pss_mib": []} for build in builds}
    for number in range(rounds):
        for build in builds if number % 2 else builds[::-1]:
            found[build.name]["start_ms"].append(build.start())
            if number < IDLE_STARTS:
                time.sleep(IDLE_S)
                found[build.name]["idle_pss_mib"].append(pss_kib(build.pid) / 1024)
            build.stop()
    return found


def runs(builds: list[Build], pairs: int) -> dict[str, list[Run]]:
    """The load on each build in turn, after one run of each that is not counted."""
    loads = {}
    for build in builds:
        build.start()
        build.check()
        create_by_metadata("127.0.0.1", build.port, TOPIC)
        loads[build.name] = ProduceLoad("127.0.0.1", build.port, TOPIC)
        loads[build.name].run(RUN_S)
    found: dict[str, list[Run]] = {build.name: [] for build in builds}
    for number in range(pairs):
        for build in builds if number % 2 else builds[::-1]:
            found[build.name].append(_run(build, loads[build.name]))
    for load in loads.values():
        load.close()
    return found


def _run(build: Build, load: ProduceLoad) -> Run:
    before_us = scheduled_us(build.pid)
    result = load.run(RUN_S)
    time.sleep(AFTER_S)
    if result.errors or not result.requests:
        raise SystemExit(f"{build.name}: {result.errors} of {result.requests} requests failed")
    return Run((scheduled_us(build.pid) - before_us) / result.requests, result.requests_per_s)


def figures(builds: list[Build], idle: dict[str, Any], produced: dict[str, list[Run]]) -> dict[str, Any]:
    """Medians of each build; `ratio`: its CPU by the first build's, `of_pairs`: the median of the pairs' ratios."""
    first = [run.cpu_us for run in produced[builds[0].name]]
    found = {}
    for build in builds:
        cpu = [run.cpu_us for run in produced[build.name]]
        found[build.name] = {
            "cpu_us": median(cpu),
            "cpu_us_quartiles": quantiles(cpu, n=4)[::2],
            "requests_per_s": median(run.requests_per_s for run in produced[build.name]),
            "ratio": median(cpu) / median(first),
            "of_pairs": median(one / other for one, other in zip(cpu, first, strict=True)),
            "start_ms": median(idle[build.name]["start_ms"]),
            "start_ms_least": min(idle[build.name]["start_ms"]),
            "idle_pss_mib": median(idle[build.name]["idle_pss_mib"]),
        }
    return found


def table(found: dict[str, Any]) -> str:
    """What a reader of the terminal sees."""
    lines = [
        f"{'':12}{'CPU us':>8}{'ratio':>8}{'of pairs':>10}{'req/s':>9}{'start ms':>10}{'least':>7}{'idle MiB':>10}"
    ]
    for name, one in found.items():
        lines.append(
            f"{name:12}{one['cpu_us']:8.2f}{one['ratio']:8.3f}{one['of_pairs']:10.3f}{one['requests_per_s']:9.0f}"
            f"{one['start_ms']:10.1f}{one['start_ms_least']:7.1f}{one['idle_pss_mib']:10.1f}"
        )
    return "\n".join(lines)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("builds", nargs="+", metavar="NAME=PYTHON", help="the first is what others are compared with")
    parser.add_argument("--pairs", type=int, default=30, help="runs of the load on each build, at least 2")
    parser.add_argument("--starts", type=int, default=15, help="of each build, at least 1")
    parser.add_argument("--json", metavar="FILE", help="write everything there")
    arguments = parser.parse_args()
    if not all("=" in each for each in arguments.builds):
        parser.error("builds are given as NAME=PYTHON")
    builds = [Build(name, python) for name, _, python in (each.partition("=") for each in arguments.builds)]
    try:
        idle = starts(builds, arguments.starts)
        produced = runs(builds, arguments.pairs)
    finally:
        for build in builds:
            build.stop()
    found = figures(builds, idle, produced)
    print(table(found))
    if arguments.json:
        everything = {"machine": machine(), "figures": found, "starts": idle, "runs": produced}
        Path(arguments.json).write_text(json.dumps(everything, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
