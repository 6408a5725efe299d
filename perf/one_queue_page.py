"""Renews docs/studies/one-queue-or-planes.md (Q2, F044): runs the incident `one-queue-or-planes`, or takes an earlier
run, and writes its tables into the page, medians with intervals over the elections.

    python -m perf.one_queue_page [--from R]

What people wrote stands around the measured part and is kept; read it again after renewing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from mpbroker.analysis.bench.process_tree import machine
from mpbroker.analysis.lab.incident.incident_tables import RECORDS, at, between
from mpbroker.analysis.lab.variant_run import slug
from mpbroker.trace import record, segment
from perf.incident_page import rows
from perf.request_queue import BEGIN, END, interval

INCIDENT = "one-queue-or-planes"
PAGE = Path(__file__).resolve().parents[1] / "docs" / "studies" / f"{INCIDENT}.md"
PARTS = (("double_ms", "two leaders"), ("queue_ms", "L in the queue"), ("work_ms", "L's work"))
CONTROL = {4: "LeaderAndIsr", 6: "UpdateMetadata"}


def cell(values: list[float], digits: int = 2) -> str:
    """Median [interval]."""
    return "{} [{}, {}]".format(*(f"{value:,.{digits}f}" for value in interval(values)))


def elections(place: Path) -> str:
    """What LeaderAndIsr met, by variant."""
    found = [row for row in rows(place, "elections") if row["to"] == "B"]
    flood = {row["variant"]: float(row["flood_per_s"]) for row in rows(place, "variants")}
    head = [f"{title} p50" for _, title in PARTS] + ["L in the queue, most", "elections", "flood/s"]
    lines = ["| variant | " + " | ".join(head) + " |", "|--|" + "--:|" * len(head)]
    for variant, per_s in flood.items():
        mine = [row for row in found if row["variant"] == variant]
        cells = [cell([float(row[name]) for row in mine]) for name, _ in PARTS]
        most = max(float(row["queue_ms"]) for row in mine)
        lines.append(f"| {variant} | " + " | ".join((*cells, f"{most:,.1f}", str(len(mine)), f"{per_s:,.0f}")) + " |")
    return "\n".join(lines)


def control_requests(folder: Path) -> np.ndarray:
    """The trace records of broker A's control requests of both kinds."""
    found = []
    for path in sorted(folder.glob(f"*{segment.SUFFIX}")):
        for chunk in segment.read_chunks(segment.read_info(path), 65536):
            read = np.frombuffer(chunk, RECORDS)
            found.append(read[(read["kind"] == record.REQUEST) & np.isin(read["api_key"], list(CONTROL))])
    return np.concatenate(found)


def ranks(place: Path) -> str:
    """How long the two kinds waited on broker A, and how often one of them did while the other was there."""
    head = ["requests", "in the queue p50", "p99", "most", "while the other kind waited"]
    lines = ["| variant | kind | " + " | ".join(head) + " |", "|--|--|" + "--:|" * len(head)]
    for row in rows(place, "variants"):
        records = control_requests(place / "traces" / slug(row["variant"]) / "broker-1")
        begin, end = at(records, "enqueued"), at(records, "dequeued")
        for key, name in CONTROL.items():
            mine, others = records["api_key"] == key, records["api_key"] != key
            waits = between(records[mine], "enqueued", "dequeued") / 1e6
            met = [
                bool(np.any((begin[others] < end_ns) & (end[others] > begin_ns)))
                for begin_ns, end_ns in zip(begin[mine], end[mine], strict=True)
            ]
            figures = (np.median(waits), np.quantile(waits, 0.99), waits.max())
            cells = [str(len(waits)), *(f"{figure:,.2f}" for figure in figures), f"{sum(met)}"]
            lines.append(f"| {row['variant']} | {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def measured(place: Path) -> str:
    """The part that is renewed."""
    meta, about = json.loads((place / "meta.json").read_text()), machine()
    return "\n\n".join(
        (
            f"Measured on {about['cpu']}, {about['cores']} cores, Linux {about['kernel']}, Python {about['python']}; "
            f"{meta['elections']} elections from A to B in each variant; milliseconds, medians with the interval that "
            "holds them with 95 in a hundred.",
            elections(place),
            "Control requests on broker A, from elections in both directions:",
            ranks(place),
        )
    )


def main() -> int:
    """Renew the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--from", dest="earlier", metavar="R", help=f"output of an earlier `mpbroker lab run {INCIDENT}`"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mpbroker-incident-") as directory:
        place = Path(arguments.earlier or Path(directory) / "R")
        if not arguments.earlier:
            subprocess.run([sys.executable, "-m", "mpbroker", "lab", "run", INCIDENT, "--out", str(place)], check=True)
        text = measured(place)
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
