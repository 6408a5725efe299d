"""What tracing costs: two brokers of this checkout, one with traces and one without, under the same small requests in
turn.

    python -m perf.trace_cost [--pairs 50] [--seconds 0.6] [--apart] [--json FILE] [--check]

Load: as in perf/bench.py, 8 connections with 20 Produce requests of 100 bytes in flight each. A pair is one run on each
broker, one right after the other and with the first place changing, because a machine's speed drifts. Other work on the
machine makes both brokers slower, by more than traces do: what is judged is the quieter half of each one's runs, those
with the least CPU time per request. Beside it stand the quartiles of the differences within all pairs, which show how
quiet it was. CPU time, by the scheduler's clock, is that of the broker's whole process tree; `path_us` is the
difference in processors and handlers alone, `tracer_us` what the tracer's process takes, some of it by turn, not by
request. `--apart` puts the load on one core and both brokers on another: who wakes whom on which core is what differs
most from run to run. (The kernel stamps every packet of a machine on which one traced broker runs, so that part is in
both.) The raw writer is what the tracer does with a full lane: segment file, checksum, summary; its disk writes are not
synced here.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import Any, NamedTuple

from mpbroker.trace import lane
from perf.load import processes, targets
from perf.load.produce_load import ProduceLoad
from perf.load.targets import Target
from tests.harness.raw_records import create_by_metadata
from tests.unit.trace.traces import drain_of, full_request

TOPIC = "bench"
LIMITS = {"throughput_loss_percent": 5.0, "cpu_us": 1.0, "path_us": 0.1, "tracer_us": 0.5}
PATH, TRACER = ("processor", "handler"), ("tracer",)
LEAST = {"writer_records_per_cpu_s": 10e6}
WRITER_ROUNDS = 100


class Run(NamedTuple):
    """One run on one broker; microseconds of CPU time a request."""

    requests_per_s: float
    cpu_us: float
    path_us: float
    tracer_us: float


def main() -> int:
    """Measure, print, and judge if asked to."""
    arguments = _arguments()
    machine = processes.machine()
    writer = writer_records_per_cpu_s()
    with ExitStack() as stack:
        on = stack.enter_context(targets.ours())
        off = stack.enter_context(targets.ours({"mpbroker.trace.enabled": "false"}))
        if arguments.apart:
            keep_apart(on, off)
        pairs = measure(on, off, arguments.pairs, arguments.seconds)
    results: dict[str, Any] = {
        "machine": machine,
        "apart": arguments.apart,
        "pairs": [[*one, *other] for one, other in pairs],
        "seconds": arguments.seconds,
        "figures": figures(pairs, writer),
    }
    print(table(pairs, results["figures"]))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results, indent=1) + "\n")
    return int(arguments.check and bool(missed(results["figures"])))


def keep_apart(*brokers: Target) -> None:
    """This process on the first core it may use, the brokers' on the last; what they start later stays there."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise SystemExit("--apart needs two cores")
    os.sched_setaffinity(0, cores[:1])
    for pid in (pid for broker in brokers for pid in processes.tree(broker.pid)):
        for thread in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(thread), cores[-1:])


def measure(on: Target, off: Target, pairs: int, seconds: float) -> list[tuple[Run, Run]]:
    """Runs with and without traces, in turn, after one of each that is not counted."""
    loads = {}
    for broker in (on, off):
        create_by_metadata(broker.host, broker.port, TOPIC)
        loads[broker] = ProduceLoad(broker.host, broker.port, TOPIC)
        loads[broker].run(seconds)
    found = []
    for number in range(pairs):
        order = (on, off) if number % 2 else (off, on)
        runs = {broker: one_run(broker, loads[broker], seconds) for broker in order}
        found.append((runs[on], runs[off]))
    for load in loads.values():
        load.close()
    return found


def one_run(broker: Target, load: ProduceLoad, seconds: float) -> Run:
    """The load for some seconds; what the tracer writes of it just afterwards is counted, too."""
    parts = (processes.tree(broker.pid), processes.named(broker.pid, *PATH), processes.named(broker.pid, *TRACER))
    before = [processes.scheduled_us_of(pids) for pids in parts]
    result = load.run(seconds)
    time.sleep(0.15)
    used_us = [processes.scheduled_us_of(pids) - was for pids, was in zip(parts, before, strict=True)]
    if result.errors or not result.requests:
        raise RuntimeError(f"{result.errors} of {result.requests} requests failed")
    return Run(result.requests_per_s, *(part_us / result.requests for part_us in used_us))


def writer_records_per_cpu_s() -> float:
    """Records that the tracer moves from full lanes into a segment in a second of CPU time; median of rounds."""
    name, place = f"/mpbroker-trace-cost-{os.getpid()}", Path(tempfile.mkdtemp(prefix="mpbroker-bench-"))
    try:
        full = lane.create(name, 0, boot_id=1)
        drain = drain_of(full, place, segment_bytes=1 << 30)
        rates, record = [], full_request(1).pack()
        for _ in range(WRITER_ROUNDS):
            for _ in range(lane.CAPACITY_RECORDS):
                full.native.put(record)
            begun = time.process_time_ns()
            moved = drain.step(time.monotonic_ns())
            rates.append(moved / (time.process_time_ns() - begun) * 1e9)
        return median(rates)
    finally:
        lane.unlink(name)
        shutil.rmtree(place)


def figures(pairs: list[tuple[Run, Run]], writer: float) -> dict[str, float]:
    """The numbers that have a target, and the quartiles over all pairs of the two that vary most."""
    on, off = (quieter_half([pair[place] for pair in pairs]) for place in (0, 1))
    found = {
        "throughput_loss_percent": 100 * (1 - on.requests_per_s / off.requests_per_s),
        "cpu_us": on.cpu_us - off.cpu_us,
        "path_us": on.path_us - off.path_us,
        "tracer_us": on.tracer_us - off.tracer_us,
        "writer_records_per_cpu_s": writer,
    }
    losses = [100 * (1 - one.requests_per_s / other.requests_per_s) for one, other in pairs]
    for name, values in (
        ("throughput_loss_percent", losses),
        *((name, [getattr(one, name) - getattr(other, name) for one, other in pairs]) for name in Run._fields[1:]),
    ):
        found[f"{name}_q1"], found[f"{name}_median"], found[f"{name}_q3"] = quantiles(values, n=4)
    return found


def quieter_half(runs: list[Run]) -> Run:
    """Means of the runs that took the least CPU time per request."""
    kept = sorted(runs, key=lambda run: run.cpu_us)[: (len(runs) + 1) // 2]
    return Run(*(fmean(values) for values in zip(*kept, strict=True)))


def missed(found: dict[str, float]) -> list[str]:
    """Names of the figures that miss their target."""
    return [name for name, limit in LIMITS.items() if found[name] > limit] + [
        name for name, limit in LEAST.items() if found[name] < limit
    ]


def table(pairs: list[tuple[Run, Run]], found: dict[str, float]) -> str:
    """What a reader of the terminal sees."""
    lines = [f"{'Produce, 100 bytes, acks=1':28}{'req/s':>10}{'CPU µs':>9}"]
    for name, place in (("traced", 0), ("not traced", 1)):
        run = quieter_half([pair[place] for pair in pairs])
        lines.append(f"{name:28}{run.requests_per_s:10.0f}{run.cpu_us:9.2f}")
    wrong = missed(found)
    lines += [
        "",
        f"{f'quieter half of {len(pairs)} pairs':28}{'measured':>10}{'quartiles of all pairs':>26}{'target':>10}",
    ]
    for name, limit in LIMITS.items():
        between = " .. ".join(f"{found[f'{name}_{part}']:.2f}" for part in ("q1", "median", "q3"))
        lines.append(
            f"{name:28}{found[name]:10.2f}{between:>26}{f'≤ {limit:.1f}':>10}{'  missed' if name in wrong else ''}"
        )
    for name, least in LEAST.items():
        lines.append(
            f"{name:28}{found[name] / 1e6:8.1f} "
            f"M{'':26}{f'≥ {least / 1e6:.0f} M':>10}{'  missed' if name in wrong else ''}"
        )
    return "\n".join(lines)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=50, help="at least 2")
    parser.add_argument("--seconds", type=float, default=0.6, help="of each run")
    parser.add_argument("--apart", action="store_true", help="load and brokers on cores of their own")
    parser.add_argument("--json", metavar="FILE", help="write everything there")
    parser.add_argument("--check", action="store_true", help="exit 1 when a target is missed")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
