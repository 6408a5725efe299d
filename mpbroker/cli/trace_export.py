"""`mpbroker trace export`: a slice of a trace for another program. Runs in the command's process; needs the extra
`studies`."""

import argparse
from pathlib import Path

from mpbroker.cli import trace_arguments
from mpbroker.cli.extras import extras

DESCRIPTION = """\
Write a slice of a trace as Chrome trace events, for https://ui.perfetto.dev (which reads the file in
the browser and sends it nowhere): a track per processor and handler with arrows that follow each
request, each request with its stages, depths of rings, markers. At most about a million events (some
30,000 requests): choose a time, an API, or the slowest."""
EXAMPLES = (
    ("mpbroker trace export --perfetto --in mpbroker-data/traces --out slice.json", "the first 30,000 requests or so"),
    ("mpbroker trace export --perfetto --slowest 1000 --out slow.json.gz", "the thousand slowest"),
    (
        "mpbroker trace export --perfetto --from 2026-11-21T17:00:00 --to 2026-11-21T17:00:01 --out slice.json.gz",
        "one second, compressed",
    ),
    ("mpbroker trace export --perfetto --api Fetch --out fetches.json", "one API"),
)


def define(parser: argparse.ArgumentParser, _: str = "export") -> None:
    """The arguments of `trace export`."""
    parser.add_argument(
        "--perfetto", action="store_true", required=True, help="the format: Chrome trace events as JSON"
    )
    trace_arguments.define_input(parser)
    trace_arguments.define_slice(parser)
    parser.add_argument(
        "--slowest",
        type=trace_arguments.whole_number(1, 1_000_000),
        metavar="N",
        help="only the N slowest requests, not counting waiting that their clients asked for",
    )
    parser.add_argument(
        "--out",
        metavar="F",
        default="trace.json",
        help="the file; compressed if it ends with .gz (default: %(default)s)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Write it, and say what it has."""
    with extras():
        from mpbroker.analysis.engine.engines.choose_engine import choose_engine
        from mpbroker.analysis.engine.input.trace_input import open_input
        from mpbroker.analysis.report import perfetto

        trace_arguments.require_traces(arguments)
        source = open_input(trace_arguments.paths_of(arguments), **trace_arguments.slice_of(arguments))
        engine = choose_engine("local", source)
        try:
            written = perfetto.export(engine, Path(arguments.out), slowest=arguments.slowest)
        finally:
            engine.close()
    for sentence in written.sentences:
        print(f"note: {sentence}")
    print(f"{written.events:,} events of {written.requests:,} requests: {written.path}")
    return 0
