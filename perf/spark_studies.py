"""Four studies over compacted requests in both engines: CPU seconds of all processes, and the same sentences.

    python -m perf.spark_studies [--records 20000000] [--seconds 12] [--trace FOLDER] [--json FILE] [--check]

A broker is loaded for some seconds, its trace compacted, and the files of that stand in a compacted trace as often as
it takes: real requests, many times. Each engine runs in a process of its own; its CPU time is from /proc and includes
everything: start, JVM, compilation, the report.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from mpbroker.analysis.engine.input import compact_header
from perf.load import processes
from perf.spark_rollup import record

STUDIES = ("latency", "throughput", "tail", "fleet")
TARGET_RATIO = 2.0


def repeat(trace: Path, folder: Path, records: int) -> int:
    """A compacted trace that has the files of another one often enough; returns its requests."""
    head = compact_header.read(trace)
    copies = -(-records // sum(one.rows for one in head.files))
    folder.mkdir()
    for extra in (compact_header.EVENTS_FILE, *(path.name for path in trace.glob("dict-*.jsonl"))):
        shutil.copyfile(trace / extra, folder / extra)
    files = []
    for copy in range(copies):
        for number, one in enumerate(head.files):
            path = f"part-{copy:05d}-{number:03d}.parquet"
            os.link(trace / one.path, folder / path)
            files.append(one._replace(path=path))
    loss = head.loss._replace(records=head.loss.records * copies, finished=head.loss.finished * copies)
    compact_header.write(folder, head._replace(files=tuple(files), loss=loss))
    return loss.records


def run_engine(name: str, trace: Path, out: Path) -> dict[str, Any]:
    """One engine in a process of its own."""
    begun = time.monotonic()
    command = [sys.executable, "-m", "perf.spark_studies", "--engine", name, "--trace", str(trace), "--out", str(out)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return {**json.loads(done.stdout.splitlines()[-1]), "wall_s": round(time.monotonic() - begun, 1)}


def studies(name: str, trace: Path, out: Path) -> None:
    """In this process; prints what it and its children have used."""
    from mpbroker.analysis.engine.engines.choose_engine import open_engine
    from mpbroker.analysis.engine.running.runner import run_studies

    engine = open_engine(name, [trace], {})
    outcome = run_studies(STUDIES, engine, out)
    used = processes.usage(os.getpid())
    said = [sentence for result in outcome.results for sentence in result.verdicts]
    print(json.dumps({"cpu_s": used.total_us / 1e6, "said": said}), flush=True)
    engine.close()


def main() -> int:
    """Measure, print, and judge if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=20_000_000)
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--trace", metavar="FOLDER")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--check", action="store_true", help="exit 1 when Spark needs more than twice the CPU")
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.engine:
        studies(arguments.engine, Path(arguments.trace), arguments.out)
        return 0
    with tempfile.TemporaryDirectory(prefix="mpbroker-studies-") as name:
        folder = Path(name)
        trace = Path(arguments.trace) if arguments.trace else record(folder, arguments.seconds)
        found: dict[str, Any] = {"machine": processes.machine(), "studies": STUDIES}
        found["records"] = repeat(trace, folder / "repeated", arguments.records)
        print(f"{found['records']:,} requests, {', '.join(STUDIES)}", flush=True)
        for engine in ("local", "spark"):
            found[engine] = run_engine(engine, folder / "repeated", folder / engine)
            print(f"{engine:8} {found[engine]['cpu_s']:8.1f} CPU-s {found[engine]['wall_s']:8.1f} s", flush=True)
    found["equal"] = found["local"].pop("said") == found["spark"].pop("said")
    found["ratio"] = found["spark"]["cpu_s"] / found["local"]["cpu_s"]
    print(f"the same sentences: {found['equal']}; Spark needs {found['ratio']:.2f} times the local engine's CPU")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(found, indent=1) + "\n")
    return int(not found["equal"] or (arguments.check and found["ratio"] > TARGET_RATIO))


if __name__ == "__main__":
    sys.exit(main())
