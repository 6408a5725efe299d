"""`mpbroker trace rollup`: a trace into histograms that add up. Runs in the command's process; needs the extra
`studies`."""

import argparse
from pathlib import Path

from mpbroker.cli import trace_arguments
from mpbroker.cli.extras import extras

DESCRIPTION = """\
Add the histograms of a trace (windows of 10 s, by run, broker, API, listener, plane and error) to a
Parquet file. Rollups of any number of traces add up exactly; a segment is never counted twice."""
EXAMPLES = (
    ("mpbroker trace rollup mpbroker-data/traces rollup.parquet", "keep what matters of a trace before it is deleted"),
)


def define(parser: argparse.ArgumentParser, _: str = "rollup") -> None:
    """The arguments of `trace rollup`."""
    parser.add_argument(
        "sources", nargs="+", metavar="SRC", help="folders with traces (searched downwards), or their files"
    )
    parser.add_argument("destination", metavar="DST", help="the Parquet file; made if it is not there")
    trace_arguments.define_slice(parser)
    parser.add_argument(
        "--window-ms", type=int, default=10_000, metavar="N", help="length of a window (default: %(default)s)"
    )
    parser.add_argument(
        "--engine", choices=("auto", "local", "spark"), default="auto", help="who computes it (default: auto)"
    )
    parser.add_argument("--master", metavar="URL", help="Spark's master (default: this machine)")


def run(arguments: argparse.Namespace) -> int:
    """Add it and say what the file has now."""
    with extras():
        from mpbroker.analysis.engine.engines import rollup_store
        from mpbroker.analysis.engine.engines.choose_engine import choose_engine
        from mpbroker.analysis.engine.input.trace_input import open_input

        source = open_input(arguments.sources, **trace_arguments.slice_of(arguments))
        engine = choose_engine(arguments.engine, source, master=arguments.master)
        try:
            table = rollup_store.add(engine, Path(arguments.destination), arguments.window_ms)
        finally:
            engine.close()
    print(f"{source.loss.records} requests added; {table.num_rows} rows: {arguments.destination}")
    return 0
