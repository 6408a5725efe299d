"""Renews docs/studies/kafka-4453.md: runs the incident, light and heavy (or takes earlier runs), writes tables and a
figure of each into the page.

    python -m perf.incident_page [--light R] [--heavy R]     with earlier runs: of these alone

What people wrote stands around the measured part and is kept; read it again after renewing.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from mpbroker.analysis.bench.process_tree import machine

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "studies"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
RUNS = {"light": "kafka-4453", "heavy": "kafka-4453-heavy"}
PAGE = FOLDER / f"{RUNS['light']}.md"
COLUMNS = (
    ("double_p50_ms", "two leaders p50"),
    ("double_p99_ms", "p99"),
    ("asked_to_given_up_p50_ms", "asked → A gave up p50"),
    ("queue_p50_ms", "L in the queue p50"),
    ("queue_p99_ms", "p99"),
    ("work_p50_ms", "L's work p50"),
    ("doomed", "doomed"),
    ("answered_after_max_ms", "answered after, most"),
    ("gap_p50_ms", "no ack for, p50"),
    ("gap_max_ms", "most"),
    ("flood_per_s", "flood/s"),
)
PROBES = (
    ("acks_all_acknowledged", "acks=all acknowledged"),
    ("acks_all_lost", "of these lost"),
    ("acks_all_refused_6", "error 6"),
    ("acks_all_timed_out_7", "error 7"),
    ("acks_1_acknowledged", "acks=1 acknowledged"),
    ("acks_1_lost", "of these lost"),
)
COLOURS = ("#b33", "#d80", "#27a", "#394")
WIDTH, HEIGHT, LEFT, BOTTOM, LEAST_MS = 640, 300, 50, 40, 0.1


def rows(place: Path, table: str) -> list[dict[str, str]]:
    """Of a table of a run."""
    with (place / "tables" / f"incident.{table}.csv").open() as file:
        return list(csv.DictReader(file))


def table(found: list[dict[str, str]], columns: tuple[tuple[str, str], ...]) -> str:
    """As Markdown."""
    lines = ["| variant | " + " | ".join(title for _, title in columns) + " |", "|--|" + "--:|" * len(columns)]
    for row in found:
        cells = [f"{float(row[name]):,.1f}".removesuffix(".0") for name, _ in columns]
        lines.append(f"| {row['variant']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def figure(place: Path, most_ms: float) -> str:
    """Share of elections whose window is at most so long; logarithmic."""
    import math

    def x(ms: float) -> float:
        span = math.log10(most_ms) - math.log10(LEAST_MS)
        return LEFT + (WIDTH - LEFT - 10) * (math.log10(max(ms, LEAST_MS)) - math.log10(LEAST_MS)) / span

    def y(share: float) -> float:
        return (HEIGHT - BOTTOM) - (HEIGHT - BOTTOM - 10) * share

    elections = [row for row in rows(place, "elections") if row["to"] == "B"]
    box = f'viewBox="0 0 {WIDTH} {HEIGHT}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {box} font-family="sans-serif" font-size="12">']
    parts.append(f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>')
    ticks = [10.0**power for power in range(-1, 4) if 10.0**power <= most_ms]
    for tick in ticks:
        parts.append(f'<path d="M{x(tick):.1f} 10V{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        parts.append(f'<text x="{x(tick):.1f}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">{tick:g}</text>')
    for share in (0, 0.5, 1):
        parts.append(f'<path d="M{LEFT} {y(share):.1f}H{WIDTH - 10}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(share) + 4:.1f}" text-anchor="end">{share:.0%}</text>')
    parts.append(
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 6}" text-anchor="middle">two leaders for at most so many ms</text>'
    )
    for number, name in enumerate(dict.fromkeys(row["variant"] for row in elections)):
        values = sorted(float(row["double_ms"]) for row in elections if row["variant"] == name)
        path = f"M{x(values[0]):.1f} {y(0):.1f}"
        for rank, value in enumerate(values, 1):
            path += f"H{x(value):.1f}V{y(rank / len(values)):.1f}"
        parts.append(f'<path d="{path}" fill="none" stroke="{COLOURS[number]}" stroke-width="2"/>')
        parts.append(f'<text x="{LEFT + 8}" y="{26 + 16 * number}" fill="{COLOURS[number]}">{name}</text>')
    return "".join(parts) + "</svg>\n"


def measured(name: str, place: Path) -> str:
    """The part of one run."""
    meta = json.loads((place / "meta.json").read_text())
    most_ms = max(float(row["double_ms"]) for row in rows(place, "elections")) * 1.3
    file = FOLDER / f"kafka-4453-{name}.svg"
    file.write_text(figure(place, max(most_ms, 10.0)))
    return "\n\n".join(
        (
            f"**{name.capitalize()}** (`mpbroker lab run {RUNS[name]}`), {meta['elections']} elections from A to B in "
            "each variant; milliseconds:",
            table(rows(place, "variants"), COLUMNS),
            table(rows(place, "probes"), PROBES),
            f"![windows]({file.name})",
        )
    )


def main() -> int:
    """Renew the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in RUNS:
        parser.add_argument(f"--{name}", metavar="R", help=f"output of an earlier `mpbroker lab run {RUNS[name]}`")
    arguments = vars(parser.parse_args())
    about = machine()
    said = [f"Measured on {about['cpu']}, {about['cores']} cores, Linux {about['kernel']}, Python {about['python']}."]
    with tempfile.TemporaryDirectory(prefix="mpbroker-incident-") as directory:
        given = [name for name in RUNS if arguments[name]]
        for name in given or RUNS:
            incident, place = RUNS[name], Path(arguments[name] or Path(directory) / name)
            if not given:
                words = ["-m", "mpbroker", "lab", "run", incident, "--out", str(place)]
                subprocess.run([sys.executable, *words], check=True)
            said.append(measured(name, place))
    before, _, rest = PAGE.read_text().partition(BEGIN)
    text = "\n\n".join(said)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
