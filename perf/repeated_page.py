"""Renews docs/studies/SCENARIO.md from repeated runs: its variants (or phases) side by side, with intervals over runs.

    python -m perf.repeated_page disciplines --repeat 5 [--seconds 4] [--phase mixed] [--seed 1] [--from R]

Runs `mpbroker lab run SCENARIO --repeat N`, in which every repeat has each variant once, in an order drawn anew, or
takes an earlier run; prints the table and puts it into the page, if there is one. A figure is the median of the runs
with the order statistics that hold it with 95 in a hundred; a ratio is that of geometric means, with its 95 % interval.
What people wrote around the measured part is kept; read it again after renewing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from mpbroker.analysis.bench.process_tree import machine
from mpbroker.analysis.engine.mathematics import run_intervals
from perf.request_queue import BEGIN, END, interval

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "studies"
Rows = list[dict[str, Any]]


class Runs(NamedTuple):
    """What a run of the laboratory left: meta.json, the rows of its table client_runs, and how long each phase took by
    (variant, repeat, phase)."""

    meta: dict[str, Any]
    rows: Rows
    seconds: dict[tuple[str, int, str], float]


def read(place: Path) -> Runs:
    """From the folder that `mpbroker lab run --repeat` wrote."""
    meta = json.loads((place / "meta.json").read_text())
    seconds = {
        (variant["name"], variant["repeat"], name): (end - begin) / 1e9
        for variant in meta["variants"]
        for name, begin, end in variant["phases"]
    }
    return Runs(meta, pq.read_table(place / "tables" / "clients.client_runs.parquet").to_pylist(), seconds)


def table(runs: Runs, phase: str = "") -> str:
    """A row for each group and variant in `phase`; without one, for each group and phase of the only variant."""
    key = "variant" if phase else "phase"
    rows = [row for row in runs.rows if not phase or row["phase"] == phase]
    names = list(dict.fromkeys(row[key] for row in rows))
    lines = [
        f"| clients | {key} | requests a second | net p50 | net p99 | "
        f"p50 beside “{names[0]}” | p99 beside “{names[0]}” |",
        "|--|--|--:|--:|--:|--:|--:|",
    ]
    for group in (one["name"] for one in runs.meta["groups"]):
        mine = {name: _of(rows, group, key, name) for name in names}
        lines += [
            f"| {group} | {name} | {_cells(runs, found)} | {_ratios(found, mine[names[0]], paired=not phase)} |"
            for name, found in mine.items()
            if found
        ]
    return "\n".join(lines)


def _of(rows: Rows, group: str, key: str, name: str) -> Rows:
    """The runs of one row, in their order."""
    return sorted((row for row in rows if row["group"] == group and row[key] == name), key=lambda row: row["repeat"])


def _cells(runs: Runs, found: Rows) -> str:
    rate = [row["requests"] / runs.seconds[row["variant"], row["repeat"], row["phase"]] for row in found]
    columns = [_cell(rate, 0)]
    columns += [_cell([row[name] / 1000 for row in found], 2) for name in ("net_p50_us", "net_p99_us")]
    return " | ".join(columns)


def _cell(values: list[float], digits: int) -> str:
    """Median [interval]."""
    return "{} [{}, {}]".format(*(f"{value:,.{digits}f}" for value in interval(values)))


def _ratios(found: Rows, base: Rows, paired: bool) -> str:
    return " | ".join(_beside(found, base, paired, name) for name in ("net_p50_us", "net_p99_us"))


def _beside(found: Rows, base: Rows, paired: bool, name: str) -> str:
    """How many times that of the first row; nothing for the first one itself, or where too few ran."""
    ours, theirs = ([row[name] for row in side] for side in (found, base))
    if found == base or len(ours) != len(theirs) or len(ours) < run_intervals.MIN_RUNS or min(*ours, *theirs) <= 0:
        return ""
    ratio = run_intervals.paired_ratio(ours, theirs) if paired else run_intervals.ratio(ours, theirs)
    return f"{ratio.estimate:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"


def measured(runs: Runs, phase: str = "") -> str:
    """The part of the page that numbers are in."""
    about, meta = machine(), runs.meta
    where = f" in phase “{phase}”" if phase else ""
    return (
        f"Measured {meta['created'][:10]} on {about['cpu']}, {about['cores']} cores, Linux "
        f"{about['kernel'].split('-')[0]}, Python {about['python']}: {meta['repeat']} runs of {meta['seconds']:g} s "
        f"for each variant, in turns (seed {meta['seed']}); {meta['input_records']:,} requests in the traces, "
        f"{meta['dropped']} records lost. Milliseconds{where}; *net* is without what the clients waited for themselves "
        f"([lab.md](../lab.md)).\n\n{table(runs, phase)}"
    )


def renew(page: Path, text: str) -> None:
    """Put it between the marks of the page."""
    before, mark, rest = page.read_text().partition(BEGIN)
    if mark:
        page.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}")


def main() -> int:
    """Run (or take an earlier run), print, and write into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", help="of load for each variant (default: the scenario's)")
    parser.add_argument("--phase", default="", help="in which variants are compared (default: phases are)")
    parser.add_argument("--from", dest="earlier", metavar="R", help="output of an earlier `mpbroker lab run --repeat`")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mpbroker-study-") as directory:
        place = Path(arguments.earlier or directory)
        if not arguments.earlier:
            words = ["--repeat", str(arguments.repeat), "--seed", str(arguments.seed), "--out", str(place)]
            words += ["--seconds", arguments.seconds] if arguments.seconds else []
            subprocess.run([sys.executable, "-m", "mpbroker", "lab", "run", arguments.scenario, *words], check=True)
        text = measured(read(place), arguments.phase)
    print(text)
    page = FOLDER / f"{arguments.scenario}.md"
    if page.exists():
        renew(page, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
