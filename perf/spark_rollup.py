"""Spark's rollup of 100 million requests against DuckDB's of the same files, in CPU seconds of all processes.

    python -m perf.spark_rollup [--records 100000000] [--seconds 12] [--json FILE] [--check] [--trace FOLDER]

A broker is loaded for some seconds, its trace compacted, and the files of that are linked as often as it takes: real
requests, many times. Both engines then make the same rollup (1-second windows, by API, all stages) and must agree in
every integer. Each engine runs in a process of its own; its CPU time is from /proc and includes everything: start, JVM,
compilation. `--trace` takes a compacted trace instead of recording one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mpbroker.analysis.engine.input import compact_header
from mpbroker.analysis.engine.input.column_set import sorted_table
from mpbroker.analysis.engine.input.compaction import compact
from mpbroker.analysis.engine.input.durations import ASKED_KINDS, ASKED_WAIT, ROLLUP_STAGES, SUMS
from mpbroker.analysis.engine.input.trace_input import open_input
from perf.load import processes
from perf.load.produce_load import ProduceLoad
from tests.harness.broker import Broker
from tests.harness.raw_records import create_by_metadata

WINDOW_MS = 1000
TARGET_RATIO = 2.0
PARTITIONS = 8
KEYS = ("window_ms", "api", "stage", "bucket")


def record(folder: Path, seconds: float) -> Path:
    """A compacted trace of a broker under load."""
    with Broker(folder / "broker", overrides={"num.partitions": PARTITIONS}) as broker:
        create_by_metadata("127.0.0.1", broker.port(0), "load")
        load = ProduceLoad("127.0.0.1", broker.port(0), "load", partitions=PARTITIONS)
        load.run(seconds)
        load.close()
        broker.stop()
    compact(open_input([folder / "broker"]), folder / "compact")
    return folder / "compact"


def tile(trace: Path, folder: Path, records: int) -> tuple[int, int, int]:
    """Links the files of a compacted trace until they hold so many records: (records, files, bytes)."""
    head = compact_header.read(trace)
    once = sum(one.rows for one in head.files)
    copies = -(-records // once)
    links = size = 0
    for copy in range(copies):
        for number, one in enumerate(head.files):
            os.link(trace / one.path, folder / f"part-{copy:05d}-{number:03d}.parquet")
            links, size = links + 1, size + (trace / one.path).stat().st_size
    return once * copies, links, size


def spark_rollup(tiles: Path) -> pa.Table:
    """By the product's own code."""
    from mpbroker.analysis.engine.engines.engine import Ask
    from mpbroker.analysis.spark import compact_parts, partial_sums
    from mpbroker.analysis.spark.failures import collected
    from mpbroker.analysis.spark.session import open_session

    asks = [Ask("rollup", WINDOW_MS, ("api",))]
    with open_session("light") as opened:
        files = sorted(tiles.glob("*.parquet"))
        parts = compact_parts.of_files(opened.spark, files, asks)
        (table,) = partial_sums.tables_of(collected(partial_sums.merged(parts)), asks)
        _note(table)
    return table


def duckdb_rollup(tiles: Path) -> pa.Table:
    """The same in SQL as one writes it for DuckDB."""
    import duckdb

    connection = duckdb.connect(config={"threads": len(os.sched_getaffinity(0))})
    table = connection.sql(duckdb_query(f"'{tiles}/*.parquet'")).to_arrow_table()
    _note(table)
    return table


def duckdb_query(files: str) -> str:
    """A row per request and stage, then groups. UNPIVOT was the cheapest of five forms that were tried."""
    ticks = ", ".join(f'{_ticks(name)} AS "{name}"' for name in ROLLUP_STAGES)
    names = ", ".join(f'"{name}"' for name in ROLLUP_STAGES)
    return f"""
        WITH wide AS (SELECT epoch_us(ts) // {1000 * WINDOW_MS} * {WINDOW_MS} AS window_ms, api, weight, {ticks}
                      FROM read_parquet({files})),
             single AS (UNPIVOT wide ON {names} INTO NAME stage VALUE ticks)
        SELECT window_ms, api, stage, CAST(floor(log2(ticks * 64 + 1) * 32) AS INTEGER) AS bucket,
               CAST(sum(weight) AS BIGINT) AS n, CAST(sum(ticks * weight) * 64 AS BIGINT) AS sum_ns,
               max(ticks) * 64 AS max_ns
        FROM single WHERE ticks >= 0 GROUP BY ALL"""


def _ticks(name: str) -> str:
    if name == ASKED_WAIT:
        kinds = ", ".join(f"'{kind}'" for kind in ASKED_KINDS)
        return f"CASE WHEN purg_kind IN ({kinds}) THEN purgatory_ticks::BIGINT ELSE -1 END"
    if name not in SUMS:
        return f"{name}_ticks::BIGINT"
    one = SUMS[name]
    there = " AND ".join(f"{part}_ticks >= 0" for part in (*one.parts, *one.less))
    plus = [f"{part}_ticks::BIGINT" for part in one.parts] + [f"greatest({_ticks(part)}, 0)" for part in one.optional]
    less = [f"{part}_ticks" for part in one.less] + [f"greatest({_ticks(part)}, 0)" for part in one.less_optional]
    total = " + ".join(plus) + "".join(f" - {part}" for part in less)
    return f"CASE WHEN {there} THEN greatest({total}, 0) ELSE -1 END"


ENGINES = {"duckdb": duckdb_rollup, "spark": spark_rollup}


def _note(table: pa.Table) -> None:
    """What this process and its children have used until now; before they end."""
    used = processes.usage(os.getpid())
    print(json.dumps({"cpu_s": used.total_us / 1e6, "user_s": used.user_us / 1e6, "rows": table.num_rows}), flush=True)


def run_engine(name: str, tiles: Path, result: Path) -> dict[str, Any]:
    """One engine in a process of its own."""
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "perf.spark_rollup", "--engine", name, "--tiles", str(tiles), "--result", str(result)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return {**json.loads(done.stdout.splitlines()[-1]), "wall_s": time.monotonic() - begun}


def measure(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Both engines, one after the other."""
    trace = Path(arguments.trace) if arguments.trace else record(folder, arguments.seconds)
    (folder / "tiles").mkdir()
    records, files, size = tile(trace, folder / "tiles", arguments.records)
    print(f"{records:,} requests in {files} files, {size / records:.1f} bytes a request", flush=True)
    found: dict[str, Any] = {"machine": processes.machine(), "records": records, "files": files, "bytes": size}
    tables = {}
    for name in ENGINES:
        found[name] = run_engine(name, folder / "tiles", folder / f"{name}.parquet")
        tables[name] = pq.read_table(folder / f"{name}.parquet")
        print(
            f"{name:8} {found[name]['cpu_s']:8.1f} CPU-s {found[name]['wall_s']:8.1f} s  {found[name]['rows']:,} rows",
            flush=True,
        )
    found["equal"] = tables["duckdb"].equals(tables["spark"].cast(tables["duckdb"].schema))
    found["ratio"] = found["spark"]["cpu_s"] / found["duckdb"]["cpu_s"]
    return found


def main() -> int:
    """Measure, print, and judge if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=100_000_000)
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--trace", metavar="FOLDER")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--check", action="store_true", help="exit 1 when Spark needs more than twice DuckDB's CPU")
    parser.add_argument("--engine", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("--tiles", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--result", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.engine:
        pq.write_table(sorted_table(ENGINES[arguments.engine](arguments.tiles), KEYS), arguments.result)
        return 0
    with tempfile.TemporaryDirectory(prefix="mpbroker-rollup-") as name:
        found = measure(arguments, Path(name))
    print(
        f"the same integers: {found['equal']}; Spark needs {found['ratio']:.2f} times DuckDB's CPU (at most "
        f"{TARGET_RATIO:.0f})"
    )
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(found, indent=1) + "\n")
    return int(not found["equal"] or (arguments.check and found["ratio"] > TARGET_RATIO))


if __name__ == "__main__":
    sys.exit(main())
