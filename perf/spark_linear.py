"""Is Spark's rollup linear? The same trace many times over: CPU seconds, and whether all integers are in proportion.

    python -m perf.spark_linear [--records 10000000 100000000] [--seconds 12] [--trace FOLDER] [--json FILE]

The traces and processes of perf/spark_rollup.py, Spark alone. A table of k times as many copies must have k times each
count and sum and the same longest times, so a request that is left out or counted twice shows at any size.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mpbroker.analysis.engine.input import compact_header
from perf.load import processes
from perf.spark_rollup import record, run_engine, tile


def in_proportion(small: pa.Table, large: pa.Table, copies: tuple[int, int]) -> bool:
    """Whether each row of the second table is that of the first, at its number of copies."""
    same = [name for name in small.column_names if name not in ("n", "sum_ns")]
    scaled = [
        pc.equal(pc.multiply(small[name], copies[1]), pc.multiply(large[name], copies[0])) for name in ("n", "sum_ns")
    ]
    return small.select(same).equals(large.select(same)) and all(pc.all(one).as_py() for one in scaled)


def measure(trace: Path, folder: Path, sizes: list[int]) -> dict[str, Any]:
    """A run for each size."""
    once = sum(one.rows for one in compact_header.read(trace).files)
    found: dict[str, Any] = {"machine": processes.machine(), "runs": []}
    tables: list[tuple[pa.Table, int]] = []
    for size in sizes:
        tiles = folder / f"tiles-{size}"
        tiles.mkdir()
        records, files, _ = tile(trace, tiles, size)
        one = {"records": records, "files": files, **run_engine("spark", tiles, folder / f"{size}.parquet")}
        found["runs"].append(one)
        tables.append((pq.read_table(folder / f"{size}.parquet"), records // once))
        print(f"{records:14,} requests {one['cpu_s']:8.1f} CPU-s {one['wall_s']:8.1f} s", flush=True)
    first = tables[0]
    found["in_proportion"] = all(in_proportion(first[0], one, (first[1], copies)) for one, copies in tables[1:])
    return found


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, nargs="+", default=[10_000_000, 100_000_000])
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--trace", metavar="FOLDER")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mpbroker-linear-") as name:
        trace = Path(arguments.trace) if arguments.trace else record(Path(name), arguments.seconds)
        found = measure(trace, Path(name), sorted(arguments.records))
    print(f"integers in proportion: {found['in_proportion']}")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(found, indent=1) + "\n")
    return int(not found["in_proportion"])


if __name__ == "__main__":
    sys.exit(main())
