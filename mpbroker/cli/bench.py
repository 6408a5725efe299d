"""`mpbroker bench`: the same loads against ours or any broker, in one table."""

import argparse
import signal
import sys
from pathlib import Path

DESCRIPTION = """\
Measure a broker: W1 bulk produce, W2 bulk consume, W3 one record a request, W4 acknowledgement
latency at a fixed rate. Throughput, CPU per request of the broker's whole process tree, and
latency in one table ("client µs": what the load generator itself used for a request); the same in
bench.json, and the traces for `mpbroker trace study`.
Without --bootstrap it starts a broker of its own and removes it. Ends within five minutes."""
EXAMPLES = (
    ("mpbroker bench", "all four loads against a broker of its own"),
    ("mpbroker bench --workload W3 --sweep --out R", "one load, then processors × handlers over the cores there are"),
    ("mpbroker bench --bootstrap 127.0.0.1:9092 --pid 1234", "against any broker; --pid tells whose CPU to count"),
)
SECONDS_MAX = 20.0


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `bench`."""
    parser.add_argument(
        "--out", metavar="R", default="mpbroker-bench", help="where bench.json and traces go (default: ./%(default)s)"
    )
    parser.add_argument(
        "--workload", metavar="W1,W2", default="", help="which loads (default: all; with --sweep: none)"
    )
    parser.add_argument(
        "--sweep", action="store_true", help="brokers of our own with other numbers of processors and handlers"
    )
    parser.add_argument(
        "-b",
        "--bootstrap-server",
        "--bootstrap",
        dest="bootstrap",
        metavar="HOST:PORT",
        help="measure this broker instead of one of our own",
    )
    parser.add_argument("--pid", type=int, metavar="N", help="with --bootstrap: the root of the broker's process tree")
    parser.add_argument("--seconds", type=float, metavar="S", help="shorten every load to that")


def run(arguments: argparse.Namespace) -> int:
    """Measure and print; 1 when a request was refused or not answered."""
    from mpbroker.analysis.bench import bench_run, workloads
    from mpbroker.cli.usage import UsageError

    if arguments.pid is not None and not arguments.bootstrap:
        raise UsageError("--pid can only be used with --bootstrap")
    if arguments.sweep and arguments.bootstrap:
        raise UsageError("--sweep starts brokers of our own and cannot sweep that of --bootstrap")
    if arguments.seconds is not None and not 0 < arguments.seconds <= SECONDS_MAX:
        raise UsageError(f"--seconds {arguments.seconds:g}: must be more than 0, at most {SECONDS_MAX:g}")
    words = arguments.workload or ("" if arguments.sweep else ",".join(workloads.NAMES))
    names = bench_run.chosen(words) if words else []
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # end as after Ctrl-C: nothing is left behind
    options = bench_run.BenchOptions(
        Path(arguments.out), names, arguments.bootstrap, arguments.pid, arguments.sweep, arguments.seconds
    )
    result = bench_run.run(options, lambda text: print(text, file=sys.stderr, flush=True))
    print(bench_run.text(result))
    print(f"written: {Path(arguments.out) / bench_run.FILE}")
    return int(any(row["errors"] for row in [*result["workloads"], *result["sweep"]]))
