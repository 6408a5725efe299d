"""`mpbroker trace study`: runs studies over traces and writes a report. Runs in the command's process, and in
spark-submit's.

Needs the extra `studies`; with --engine spark also `spark`.
"""

import argparse
import math
import signal
from pathlib import Path
from typing import Any

from mpbroker.cli import trace_arguments
from mpbroker.cli.extras import extras
from mpbroker.cli.study_text import outcome_text
from mpbroker.errors import MpbrokerError

DESCRIPTION = """\
Run studies over traces: what costs most time and what to change, figures and tables in one page,
R/report.html, with every table beside it (R/tables/*.parquet, *.csv) and what it was made from in
R/meta.json. R is a new folder, an empty one, or one of an earlier `trace study`.
Without a name: lists the studies there are."""
EXAMPLES = (
    ("mpbroker trace study", "what studies there are, and what each answers"),
    (
        "mpbroker trace study latency throughput --in mpbroker-data/traces --out report",
        "where the time goes, and how much is done",
    ),
    (
        "mpbroker trace study tail --api Produce --from 2026-11-21T17:00:00 --to 2026-11-21T17:05:00",
        "the slowest of five minutes",
    ),
    ("mpbroker trace study compare --in after1 after2 after3 --baseline before1 before2 before3", "what a change did"),
    (
        "mpbroker trace study whatif --handlers 4 --discipline shortest",
        "what the same requests would have taken then",
    ),
    ("mpbroker trace study latency --in traces --engine spark --master 'spark://host:7077'", "the same on a cluster"),
)
#: Options of `whatif` with a flag of their own.
_WHATIF = (
    ("handlers", "N,…", "request handlers to replay with"),
    ("discipline", "NAME,…", "fifo, plane, priority, fair, shortest, deadline"),
    ("costs", "API:X,…", "handler time of an API, times X"),
)


WINDOW_MS = 1000


class BadOption(MpbrokerError):
    """--set without a value, or options that do not go together."""

    exit_code = 2


def define(parser: argparse.ArgumentParser, _: str = "study") -> None:
    """The arguments of `trace study`."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="studies to run, in this order")
    trace_arguments.define_input(parser)
    trace_arguments.define_slice(parser)
    parser.add_argument(
        "--out", metavar="R", default="trace-report", help="where everything is written (default: %(default)s)"
    )
    parser.add_argument(
        "--engine",
        choices=("auto", "local", "spark"),
        default="auto",
        help="auto: the quicker one for so many records on this machine's cores (default)",
    )
    trace_arguments.define_spark(parser)
    parser.add_argument("--baseline", nargs="+", metavar="T", help="traces to compare with (study compare)")
    parser.add_argument(
        "--window-ms",
        type=trace_arguments.whole_number(1, 86_400_000),
        metavar="N",
        help="length of a time window (default: 1000; of a rollup table its own)",
    )
    parser.add_argument(
        "--warmup-ms",
        type=trace_arguments.whole_number(0, 86_400_000),
        metavar="N",
        help="leave out so much of the beginning (default: found by the study)",
    )
    parser.add_argument("--target-p99-ms", type=_positive, metavar="X", help="what p99 is wanted")
    parser.add_argument("--title", metavar="TEXT", help="the page's title")
    parser.add_argument(
        "--set", dest="options", action="append", default=[], metavar="NAME=VALUE", help="an option of a study"
    )
    for name, metavar, what in _WHATIF:
        parser.add_argument(f"--{name}", metavar=metavar, help=f"whatif: {what}")


def run(arguments: argparse.Namespace) -> int:
    """Run them and say where the report is."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # end as after Ctrl-C: Spark's files go
    with extras():
        return _run(arguments)


def _run(arguments: argparse.Namespace) -> int:
    from mpbroker.analysis.engine.engines.choose_engine import open_engine
    from mpbroker.analysis.engine.running import output_folder, runner

    if not arguments.names:
        print(listing())
        return 0
    if arguments.engine == "local" and (arguments.master or arguments.remote or arguments.settings):
        raise BadOption("--master, --remote and --conf are Spark's: leave out --engine local, or them")
    for name in arguments.names:
        runner.find_study(name)
    output_folder.require_own(Path(arguments.out), output_folder.STUDY)
    paths, part = trace_arguments.paths_of(arguments), trace_arguments.slice_of(arguments)
    trace_arguments.require_traces(arguments)
    cluster = trace_arguments.cluster_of(arguments)
    engine = open_engine(arguments.engine, paths, part, cluster)
    try:
        baseline = arguments.baseline and open_engine(engine.name, arguments.baseline, part, cluster)
        outcome = runner.run_studies(
            arguments.names,
            engine,
            Path(arguments.out),
            _parameters(arguments, engine, baseline or None),
            paths=paths,
            title=arguments.title,
        )
    finally:
        engine.close()
    print(outcome_text(outcome))
    return 0


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < math.inf:
        raise ValueError(text)
    return value


def _parameters(arguments: argparse.Namespace, engine: Any, baseline: Any) -> Any:
    from mpbroker.analysis.engine.running.study import StudyParameters

    options = {}
    for text in arguments.options:
        name, equals, value = text.partition("=")
        if not equals:
            raise BadOption(f"--set {text}: write --set NAME=VALUE")
        options[name] = value
    options |= {name: getattr(arguments, name) for name, *_ in _WHATIF if getattr(arguments, name)}
    window_ms = arguments.window_ms or max(WINDOW_MS, engine.least_window_ms)
    return StudyParameters(window_ms, arguments.warmup_ms, arguments.target_p99_ms, baseline=baseline, options=options)


def listing() -> str:
    """Every study with its two lines."""
    from mpbroker.analysis.engine.running import runner

    lines = []
    for name in runner.study_names():
        lines += [name, *("    " + line for line in runner.find_study(name).summary.splitlines())]
    return "\n".join(lines)
