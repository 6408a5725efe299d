"""What four studies cost in each engine at two sizes: the start, and CPU seconds a million requests.

    python -m perf.engine_costs [--records 2000000 12000000] [--seconds 12] [--trace FOLDER] [--json FILE]

The traces, processes and studies of perf/spark_studies.py. mpbroker/analysis/engine/engines/engine_costs.py has the
result as its constants, by which `--engine auto` chooses; tests/unit/analysis/engine/test_engine_costs.py compares the
two. Two sizes, because a line has two numbers. Both are CPU seconds: other work on the machine stretches the clock's.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from perf.load import processes
from perf.spark_rollup import record
from perf.spark_studies import STUDIES, repeat, run_engine

ENGINES = ("local", "spark")


def fit(points: list[dict[str, Any]]) -> dict[str, float]:
    """The line through the smallest and the largest point of one engine."""
    small, large = min(points, key=lambda one: one["records"]), max(points, key=lambda one: one["records"])
    millions = (large["records"] - small["records"]) / 1e6
    cpu_s = (large["cpu_s"] - small["cpu_s"]) / millions
    return {"start_s": round(small["cpu_s"] - cpu_s * small["records"] / 1e6, 1), "cpu_s": round(cpu_s, 2)}


def costs(found: dict[str, Any]) -> dict[str, dict[str, float]]:
    """By engine."""
    return {name: fit([one for one in found["points"] if one["engine"] == name]) for name in ENGINES}


def measure(trace: Path, folder: Path, sizes: list[int]) -> dict[str, Any]:
    """Both engines over each size."""
    found: dict[str, Any] = {"machine": processes.machine(), "studies": STUDIES}
    found["points"] = []
    for size in sizes:
        records = repeat(trace, folder / f"repeated-{size}", size)
        said = []
        for name in ENGINES:
            one = run_engine(name, folder / f"repeated-{size}", folder / f"{name}-{size}")
            said.append(one.pop("said"))
            found["points"].append({"engine": name, "records": records, **one})
            print(f"{name:8} {records:12,} requests {one['cpu_s']:8.1f} CPU-s {one['wall_s']:8.1f} s", flush=True)
        found["equal"] = found.get("equal", True) and said[0] == said[1]
    return found


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, nargs=2, default=[2_000_000, 12_000_000])
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--trace", metavar="FOLDER")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mpbroker-costs-") as name:
        trace = Path(arguments.trace) if arguments.trace else record(Path(name), arguments.seconds)
        found = measure(trace, Path(name), sorted(arguments.records))
    print(json.dumps(costs(found)), f"the same sentences: {found['equal']}")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(found, indent=1) + "\n")
    return int(not found["equal"])


if __name__ == "__main__":
    sys.exit(main())
