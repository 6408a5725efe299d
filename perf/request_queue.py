"""Runs an experiment on the request queue's shape (Q1) or kind (Q5) and renews the measured part of its page.

    python -m perf.request_queue q1-shapes [--page docs/studies/queue-shapes.md]

Builds perf/queues/request_queue.c, which is no part of the broker, with the compiler of the C core. Every repeat runs
all cells once, in an order of its own; a figure is the median over the repeats, with the interval that holds it with 95
in a hundred.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from mpbroker.analysis.bench.process_tree import machine

HERE = Path(__file__).resolve().parent
NATIVE, QUEUES = HERE.parent / "native", HERE / "queues"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
SHAPES = {
    "sp": "one for all, answers apart (Kafka)",
    "ss": "one for all, answers in one",
    "pp": "one a handler, answers apart",
    "ps": "one a handler, answers in one",
}
KINDS = {
    "claim": "ring over a claim table",
    "mutex": "mutex and condition variable",
    "steal": "a ring a handler, with stealing",
    "pipe": "pipe",
}
FIGURES = {
    "per_s": "requests a second",
    "cpu_us": "µs of processor a request, beside the work",
    "wait_p50_us": "wait p50, µs",
    "wait_p99_us": "wait p99, µs",
    "switches": "sleeps a request",
    "passed_on": "answers passed on",
}
DIGITS = {"per_s": 0, "cpu_us": 2, "wait_p50_us": 0, "wait_p99_us": 0, "switches": 2, "passed_on": 2}


class Cell(NamedTuple):
    """What one run varies."""

    shape: str
    kind: str
    spread: float


def build(folder: Path) -> Path:
    """The program."""
    program = folder / "request_queue"
    sources = [str(QUEUES / "request_queue.c"), "shm/ring.c", "shm/core.c"]
    flags = ["-std=gnu11", "-O2", "-pthread", "-fno-strict-aliasing", "-I.", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["gcc", *flags, *sources, "-lm", "-o", str(program)], cwd=NATIVE, check=True)
    return program


def measure(program: Path, plan: dict[str, Any], seed: int) -> dict[Cell, list[dict[str, float]]]:
    """Every run of every cell."""
    cells = [Cell(s, k, c) for s in plan["shapes"] for k in plan["kinds"] for c in plan["spread"]]
    runs: dict[Cell, list[dict[str, float]]] = {cell: [] for cell in cells}
    chance = random.Random(seed)
    for repeat in range(plan["repeats"]):
        for cell in chance.sample(cells, len(cells)):
            numbers = (plan["processors"], plan["handlers"], plan["depth"], plan["service_ns"], cell.spread)
            words = [cell.shape, cell.kind, *map(str, numbers), str(plan["milliseconds"]), str(seed + repeat)]
            done = subprocess.run([program, *words], capture_output=True, text=True, check=True, timeout=30)
            runs[cell].append(json.loads(done.stdout))
    return runs


def interval(values: list[float]) -> tuple[float, float, float]:
    """Median, and the order statistics between which it lies with at least 95 in a hundred (from 6 values on)."""
    ordered = sorted(values)
    outside, n = 0.0, len(ordered)
    chance, k = 0.5**n, 0
    while outside + chance <= 0.025 and k < n // 2:  # binomial tail
        outside += chance
        chance = chance * (n - k) / (k + 1)
        k += 1
    low = max(k - 1, 0)
    return statistics.median(ordered), ordered[low], ordered[n - 1 - low]


def table(runs: dict[Cell, list[dict[str, float]]], kinds: bool) -> str:
    """A row for each cell: median [interval]."""
    shown = [name for name in FIGURES if name != "passed_on" or not kinds]
    lines = [
        "| request queue | spread of the work | " + " | ".join(FIGURES[name] for name in shown) + " |",
        "|--|--:|" + "--:|" * len(shown),
    ]
    for cell, found in runs.items():
        name = KINDS[cell.kind] if kinds else SHAPES[cell.shape]
        columns = []
        for figure in shown:
            middle, low, high = (f"{value:,.{DIGITS[figure]}f}" for value in interval([run[figure] for run in found]))
            columns.append(f"{middle} [{low}, {high}]")
        lines.append(f"| {name} | {cell.spread:g} | " + " | ".join(columns) + " |")
    return "\n".join(lines)


def main() -> int:
    """Measure, print, and write into the page if one is named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", choices=sorted(path.stem for path in QUEUES.glob("*.toml")))
    parser.add_argument("--page", type=Path, help="its page, whose measured part is renewed")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    plan = tomllib.loads((QUEUES / f"{arguments.experiment}.toml").read_text())
    with tempfile.TemporaryDirectory() as folder:
        runs = measure(build(Path(folder)), plan, arguments.seed)
    about = machine()
    said = (
        f"Measured on {about['cpu']}, {about['cores']} cores, Linux {about['kernel']}: {plan['repeats']} runs of "
        f"{plan['milliseconds']} ms for each row, in turns, {plan['processors']} processors with {plan['depth']} "
        f"requests each, {plan['handlers']} handlers, {plan['service_ns'] / 1000:g} µs of work a request."
    )
    text = f"{said}\n\n{table(runs, len(plan['kinds']) > 1)}\n"
    sys.stdout.write(text)
    if arguments.page:
        page = arguments.page.read_text()
        before, _, rest = page.partition(BEGIN)
        arguments.page.write_text(f"{before}{BEGIN}\n{text}{END}{rest.partition(END)[2]}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
