"""Renews docs/studies/SCENARIO.md: runs the scenario (or takes an earlier run), writes its tables and figures into the
page.

    python -m perf.study_pages control-under-flood noisy-neighbour [--from R]

What people wrote stands around the measured part and is kept; read it again after renewing. Figures need a Chromium on
PATH; without one the old ones stay, and it says so.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from mpbroker.analysis.bench.process_tree import machine
from tests.harness import browser

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "studies"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
FIGURES = {
    "clients-over-time": "over time",
    "clients-percentiles": "percentiles",
    "clients-where-it-waits": "where it waits",
}
WIDTH, FIGURE_BYTES_MOST = 860, 100_000
_CLIENTS = (
    ("variant", "variant"),
    ("phase", "phase"),
    ("requests", "requests"),
    ("p50_us", "p50"),
    ("p99_us", "p99"),
    ("max_us", "max"),
    ("net_p50_us", "net p50"),
    ("net_p99_us", "net p99"),
)
_WAITS = (
    ("variant", "variant"),
    ("phase", "phase"),
    ("net_us", "net"),
    ("held_back_us", "held back"),
    ("rx_wait_us", "rx_wait"),
    ("queue_us", "queue"),
    ("rest_of_broker_us", "rest of broker"),
    ("on_the_way_us", "on the way"),
    ("rx_wait_and_queue_share", "rx_wait and queue"),
)


def main() -> int:
    """Renew the pages named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="+", metavar="SCENARIO")
    parser.add_argument(
        "--from", dest="earlier", metavar="R", help="output of an earlier `mpbroker lab run` of the one scenario named"
    )
    arguments = parser.parse_args()
    for scenario in arguments.scenarios:
        with tempfile.TemporaryDirectory(prefix="mpbroker-study-") as directory:
            place = Path(arguments.earlier or directory)
            if not arguments.earlier:
                subprocess.run(
                    [sys.executable, "-m", "mpbroker", "lab", "run", scenario, "--out", str(place)], check=True
                )
            renew(scenario, place)
    return 0


def renew(scenario: str, place: Path) -> None:
    """Put what a run measured into its page."""
    page = FOLDER / f"{scenario}.md"
    before, _, rest = page.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    names = draw(scenario, place / "report.html")
    page.write_text(f"{before}{BEGIN}\n{measured(scenario, place, names)}\n{END}{after}")
    print(f"renewed: {page.relative_to(FOLDER.parents[1])}")


def measured(scenario: str, place: Path, figures: list[str]) -> str:
    """The part of the page that numbers are in."""
    meta = json.loads((place / "meta.json").read_text())
    about, load = machine(), meta["seconds"]
    flood = [
        row
        for row in _rows(place, "clients.client_latency")
        if row["group"] != meta["measured"] and row["loop"] == "closed"
    ]
    seconds = {
        (variant["name"], name): (end - begin) / 1e9
        for variant in meta["variants"]
        for name, begin, end in variant["phases"]
    }
    lines = [
        f"Measured {meta['created'][:10]} on {about['cpu']}, {about['cores']} cores, Linux "
        f"{about['kernel'].split('-')[0]}, "
        f"Python {about['python']}; {load:g} s of load for each variant, {meta['input_records']:,} requests in the "
        f"traces, {meta['dropped']} records lost.",
        "",
    ]
    if flood:
        lines += [
            "What the flood got (closed loop):",
            "",
            "| variant | phase | group | requests a second |",
            "|--|--|--|--:|",
            *(
                f"| {row['variant']} | {row['phase']} | {row['group']} | "
                f"{int(row['requests']) / seconds[row['variant'], row['phase']]:,.0f} |"
                for row in flood
            ),
            "",
        ]
    wanted = [row for row in _rows(place, "clients.client_latency") if row["group"] == meta["measured"]]
    lines += [f"What the group *{meta['measured']}* saw, milliseconds:", "", *_table(wanted, _CLIENTS), ""]
    slow = [
        row
        for row in _rows(place, "clients.where_it_waits")
        if row["group"] == meta["measured"] and row["which"] != "all"
    ]
    lines += ["Where its slowest 1 % waited, mean milliseconds of net latency:", "", *_table(slow, _WAITS), ""]
    lines += [f"![{FIGURES[name]}]({scenario}-{name.partition('-')[2]}.svg)" for name in figures]
    return "\n".join(lines)


def _rows(place: Path, table: str) -> list[dict[str, Any]]:
    with open(place / "tables" / f"{table}.csv", newline="") as file:
        return list(csv.DictReader(file))


def _table(rows: list[dict[str, Any]], columns: tuple[tuple[str, str], ...]) -> list[str]:
    lines = [
        "| " + " | ".join(title for _, title in columns) + " |",
        "|" + "|".join("--" if key in ("variant", "phase") else "--:" for key, _ in columns) + "|",
    ]
    return lines + ["| " + " | ".join(_cell(key, row[key]) for key, _ in columns) + " |" for row in rows]


def _cell(key: str, value: str) -> str:
    if key.endswith("_us"):
        return f"{float(value) / 1000:.2f}"
    return f"{float(value):.0%}" if key.endswith("share") else value


def draw(scenario: str, report: Path) -> list[str]:
    """The report's own figures as SVG files beside the page; which there are."""
    program = browser.find()
    target = {name: FOLDER / f"{scenario}-{name.partition('-')[2]}.svg" for name in FIGURES}
    if program is None:
        print("no Chromium on PATH: the figures are those of an earlier run", file=sys.stderr)
        return [name for name, path in target.items() if path.exists()]
    with browser.Browser(program) as tab:
        tab.open(report, width=WIDTH + 380)
        for name, path in target.items():
            place = f"document.querySelector('figure#{name} .chart')"
            picture = tab.evaluate(
                f"Plotly.toImage({place}, {{format: 'svg', width: {WIDTH}, height: {place}.clientHeight}})"
                ".then(url => decodeURIComponent(url.slice(url.indexOf(',') + 1)))"
            )
            if len(picture.encode()) > FIGURE_BYTES_MOST:
                raise SystemExit(f"{path.name} would have {len(picture.encode())} bytes, more than {FIGURE_BYTES_MOST}")
            path.write_text(picture + "\n")
    return list(target)


if __name__ == "__main__":
    sys.exit(main())
