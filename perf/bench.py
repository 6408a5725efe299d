"""What `make bench` runs: CPU per request beside other brokers, large batches, start, memory; a table and JSON.

    python -m perf.bench [--short] [--json FILE] [--kafka H:P --kafka-pid N] [--kfake H:P --kfake-pid N]

Load: 8 connections, 20 requests in flight each, one 100-byte record per Produce 7 request, acks=1. Figures are medians
of interleaved runs, because a machine's speed drifts; CPU time is that of the whole process tree, from /proc. `--check`
ends with 1 when a figure misses its target.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from perf.load import footprint, large_batches, processes, targets
from perf.load.produce_load import LoadResult, ProduceLoad
from perf.load.targets import Target
from tests.harness.raw_records import create_by_metadata

TOPIC = "bench"
TARGETS = {
    "produce_cpu_us": 25.0,
    "produce_cpu_ratio_to_mock": 2.5,
    "large_cpu_ratio_to_plain_loop": 3.0,
    "start_ms": 300.0,
    "idle_pss_mib": 60.0,
}


def main() -> int:
    """Measure, print, and judge if asked to."""
    arguments = _arguments()
    runs, seconds = (2, 1.5) if arguments.short else (arguments.runs, arguments.seconds)
    results: dict[str, Any] = {"machine": processes.machine(), "runs": runs, "seconds": seconds}
    with ExitStack() as stack:
        brokers = [stack.enter_context(targets.ours()), stack.enter_context(targets.mock())]
        brokers += [
            targets.running(name, getattr(arguments, name), getattr(arguments, f"{name}_pid"))
            for name in ("kafka", "kfake")
            if getattr(arguments, name)
        ]
        results["produce"] = produce(brokers, runs, seconds)
    with targets.ours() as our, large_batches.plain_loop() as plain:
        results["large"] = large([our, plain], runs, seconds)
    footprint.start_ms()  # leaves the bytecode behind
    results["start_ms"] = _median(footprint.start_ms, runs)
    results["idle_pss_mib"] = footprint.idle_pss_mib()
    results["figures"] = figures(results)
    print(table(results))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results, indent=1) + "\n")
    return int(arguments.check and any(results["figures"][name] > limit for name, limit in TARGETS.items()))


def produce(brokers: list[Target], runs: int, seconds: float) -> dict[str, dict[str, Any]]:
    """Small requests: per broker the medians over interleaved runs, after one run that is not counted."""
    loads = []
    for broker in brokers:
        create_by_metadata(broker.host, broker.port, TOPIC)
        loads.append(ProduceLoad(broker.host, broker.port, TOPIC))
        loads[-1].run(seconds)
    measured: dict[str, list[dict[str, float]]] = {broker.name: [] for broker in brokers}
    for _ in range(runs):
        for broker, load in zip(brokers, loads, strict=True):
            before = processes.usage(broker.pid)
            result = load.run(seconds)
            measured[broker.name].append(_one_run(result, processes.usage(broker.pid).since(before)))
    for load in loads:
        load.close()
    return {name: {key: median(run[key] for run in rows) for key in rows[0]} for name, rows in measured.items()}


def large(brokers: list[Target], runs: int, seconds: float) -> dict[str, float]:
    """Requests of 1 MB: CPU seconds per GB, medians over interleaved runs."""
    large_batches.prepare(brokers[0])
    measured: dict[str, list[float]] = {broker.name: [] for broker in brokers}
    for _ in range(runs):
        for broker in brokers:
            measured[broker.name].append(large_batches.cpu_seconds_per_gb(broker, seconds))
    return {name: median(rows) for name, rows in measured.items()}


def figures(results: dict[str, Any]) -> dict[str, float]:
    """The numbers that have a target."""
    mine, mock = results["produce"]["mpbroker"], results["produce"]["librdkafka-mock"]
    return {
        "produce_cpu_us": mine["cpu_us"],
        "produce_cpu_ratio_to_mock": mine["cpu_us"] / mock["cpu_us"],
        "large_cpu_ratio_to_plain_loop": results["large"]["mpbroker"] / results["large"]["plain loop"],
        "start_ms": results["start_ms"],
        "idle_pss_mib": results["idle_pss_mib"],
    }


def table(results: dict[str, Any]) -> str:
    """What a reader of the terminal sees."""
    machine = results["machine"]
    lines = [
        f"{machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}, Python {machine['python']}, "
        f"load {machine['load_average']:.1f}; medians of {results['runs']} runs of {results['seconds']} s",
        "",
        f"{'Produce, 100 bytes, acks=1':28}{'CPU µs':>9}{'user':>7}{'kernel':>8}{'req/s':>9}{'p50 ms':>9}{'p99 ms':>9}",
    ]
    for name, row in results["produce"].items():
        lines.append(
            f"{name:28}{row['cpu_us']:9.1f}{row['user_us']:7.1f}{row['system_us']:8.1f}{row['requests_per_s']:9.0f}"
            f"{row['p50_ms']:9.1f}{row['p99_ms']:9.1f}"
        )
    lines += ["", f"{'Produce, 1 MB, acks=1':28}{'CPU s/GB':>9}"]
    lines += [f"{name:28}{value:9.2f}" for name, value in results["large"].items()]
    lines += ["", f"{'':34}{'measured':>9}{'target':>9}"]
    lines += [
        f"{name:34}{results['figures'][name]:9.1f}{limit:9.1f}{'' if results['figures'][name] <= limit else '  missed'}"
        for name, limit in TARGETS.items()
    ]
    return "\n".join(lines)


def _one_run(result: LoadResult, used: processes.Usage) -> dict[str, float]:
    if result.errors or not result.requests:
        raise RuntimeError(f"{result.errors} of {result.requests} requests failed")
    return {
        "cpu_us": used.total_us / result.requests,
        "user_us": used.user_us / result.requests,
        "system_us": used.system_us / result.requests,
        "requests_per_s": result.requests_per_s,
        "p50_ms": result.p50_ms,
        "p99_ms": result.p99_ms,
        "driver_cpu_us": result.driver_cpu_us / result.requests,
    }


def _median(measure: Callable[[], float], runs: int) -> float:
    return median(measure() for _ in range(runs))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="two runs of 1.5 s: does it work at all")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each run")
    parser.add_argument("--json", metavar="FILE", help="write everything there")
    parser.add_argument("--check", action="store_true", help="exit 1 when a target is missed")
    for name in ("kafka", "kfake"):
        parser.add_argument(f"--{name}", metavar="HOST:PORT", help=f"a running {name} to measure beside ours")
        parser.add_argument(f"--{name}-pid", type=int, metavar="N", help="its process")
    arguments = parser.parse_args()
    for name in ("kafka", "kfake"):
        if bool(getattr(arguments, name)) != bool(getattr(arguments, f"{name}_pid")):
            parser.error(f"--{name} and --{name}-pid belong together")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
