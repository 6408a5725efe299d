"""How long a light client waits beside heavy producers: on the data listener, on the control-plane listener, and idle.

    python -m perf.control_plane [--producers 64] [--seconds 5] [--runs 5] [--json FILE] [--check]

64 producers of 16 kB requests run in a process of their own on the data listener; two probes ask ApiVersions in turn,
one on each listener, with a pause between. Printed are medians over the runs of each run's p50 and p99, from sending to
the moment the kernel has the whole answer in the probe's socket: that is how long the broker let the client wait, and
what a client on another machine would see. `…_seen_…` is when the probe had it: on this machine it also waits for a
core, beside the flood, and in that the listener makes no difference.

Each run is judged by itself, against its own data listener and its own idle probe; the medians of those ratios are what
has to be at most 1 (`--check` ends with 1 when one is not).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from perf.load import processes
from perf.load.probe import Probe, ask_in_turn, percentile, share_seen, trace_of_probes
from tests.harness.broker import Broker
from tests.harness.raw_records import create_by_metadata

TOPIC = "flood"
LISTENERS = ("PLAINTEXT://127.0.0.1:0", "CONTROLLER://127.0.0.1:0")
OVERRIDES = {
    "control.plane.listener.name": "CONTROLLER",
    "num.partitions": 4,
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
}
IDLE_S, IDLE_CORR_ID, BESIDE_CORR_ID = 1.0, 1 << 24, 1 << 25
#: The control listener's p99 is at most so much: a share of the data listener's, milliseconds, times its own idle p99.
SHARE_OF_DATA, MAX_MS, AIM_MS, TIMES_IDLE = 0.2, 5.0, 1.0, 2.0


def run_once(producers: int, seconds: float) -> dict[str, float]:
    """A fresh broker: idle probes, then probes beside the flood, then its trace."""
    with tempfile.TemporaryDirectory(prefix="mpbroker-control-") as directory:
        with Broker(Path(directory), overrides=OVERRIDES, listeners=LISTENERS) as broker:
            ports = {"data": broker.port(0), "control": broker.port(1)}
            create_by_metadata("127.0.0.1", ports["data"], TOPIC)
            idle = ask_in_turn(ports, IDLE_S, IDLE_CORR_ID)
            flood = subprocess.Popen(
                [sys.executable, "-m", "perf.load.flood", str(ports["data"]), TOPIC, str(producers), str(seconds + 2)],
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )  # a share of the cores of its own, as clients elsewhere have
            time.sleep(1.0)
            beside = ask_in_turn(ports, seconds, BESIDE_CORR_ID)
            requests_per_s = float(flood.communicate(timeout=seconds + 60)[0])
        trace = trace_of_probes(broker.data_dir / "traces")
    run = {f"idle_{name}": value for name, value in figures(idle).items()} | figures(beside)
    run |= {f"{name}_{key}": value for name, one in beside.items() for key, value in share_seen(one, trace).items()}
    return run | judged(run) | {"flood_requests_per_s": requests_per_s}


def figures(probes: dict[str, Probe]) -> dict[str, float]:
    """p50 and p99 of each probe, in milliseconds."""
    return {
        f"{name}_{seen}{label}_ms": percentile(times_ms, share)
        for name, one in probes.items()
        for seen, times_ms in (("", one.waited_ms), ("seen_", one.seen_ms))
        for label, share in (("p50", 0.5), ("p99", 0.99))
    }


def judged(run: dict[str, float]) -> dict[str, float]:
    """The two limits of one run, and how much of each the control listener's p99 uses (at most 1 is met)."""
    floor = TIMES_IDLE * run["idle_control_p99_ms"]
    relative, absolute = max(SHARE_OF_DATA * run["data_p99_ms"], floor), max(MAX_MS, floor)
    return {
        "limit_beside_data_ms": relative,
        "limit_ms": absolute,
        "of_limit_beside_data": run["control_p99_ms"] / relative,
        "of_limit": run["control_p99_ms"] / absolute,
    }


def comparison(result: dict[str, float], runs: int) -> str:
    """The medians as sentences; `result` as of run_once."""
    lines = [
        f"median of {runs} runs, flood of {result['flood_requests_per_s']:.0f} requests of 16 kB a second",
        "",
        f"{'p99, ms':22}{'idle':>9}{'flood':>9}{'seen':>9}   of the slowest 5 %, ms: "
        f"{'rx_wait':>8}{'queue':>8}{'broker':>8}"
        f"{'way':>8}   rx_wait and queue",
    ]
    for name in ("data", "control"):
        row = {key: result[f"{name}_{key}"] for key in ("rx_wait_ms", "queue_ms", "in_broker_ms", "on_the_way_ms")}
        lines.append(
            f"{name + ' listener':22}{result[f'idle_{name}_p99_ms']:9.2f}{result[f'{name}_p99_ms']:9.2f}"
            f"{result[f'{name}_seen_p99_ms']:9.2f}{'':26}"
            + "".join(f"{value:8.2f}" for value in row.values())
            + f"{result[f'{name}_rx_wait_and_queue_share']:12.0%}"
        )
    lines += [
        "",
        f"control p99 {result['control_p99_ms']:.2f} ms against {result['limit_beside_data_ms']:.2f} ms, the larger of "
        f"{SHARE_OF_DATA} × the data listener's p99 and {TIMES_IDLE:.0f} × its own idle p99 of the run: "
        + _verdict(result["of_limit_beside_data"]),
        f"control p99 {result['control_p99_ms']:.2f} ms against {result['limit_ms']:.2f} ms, the larger of "
        f"{MAX_MS:.0f} ms "
        f"and {TIMES_IDLE:.0f} × its own idle p99 of the run (aim: {AIM_MS:.0f} ms): " + _verdict(result["of_limit"]),
    ]
    return "\n".join(lines)


def _verdict(used: float) -> str:
    return f"{'met' if used <= 1 else 'MISSED'} ({used:.2f} of it)"


def main() -> int:
    """Measure, print, and judge if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--producers", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--check", action="store_true", help="exit 1 when a limit is missed")
    arguments = parser.parse_args()
    runs = [run_once(arguments.producers, arguments.seconds) for _ in range(arguments.runs)]
    result = {key: median(run[key] for run in runs) for key in runs[0]}
    for label in ("p50", "p99", "seen_p50", "seen_p99"):
        result[f"{label}_ratio"] = result[f"control_{label}_ms"] / result[f"data_{label}_ms"]
    for key, value in result.items():
        print(f"{key:32} {value:10.3f}")
    print("\n" + comparison(result, len(runs)))
    if arguments.json:
        Path(arguments.json).write_text(
            json.dumps({"machine": processes.machine(), "runs": runs, "median": result}, indent=1) + "\n"
        )
    return int(arguments.check and max(result["of_limit"], result["of_limit_beside_data"]) > 1)


if __name__ == "__main__":
    sys.exit(main())
