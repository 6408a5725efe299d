"""`mpbroker trace compact`: raw segments into Parquet files. Runs in the command's process; needs the extra
`studies`."""

import argparse
from pathlib import Path

from mpbroker.cli import trace_arguments, trace_text
from mpbroker.cli.extras import extras

DESCRIPTION = """\
Turn trace segments into Parquet files, sorted by time: a quarter of the size, and read by studies,
Spark, DuckDB and others. What a killed compaction leaves (DST.partial) is no trace."""
EXAMPLES = (
    ("mpbroker trace compact mpbroker-data/traces compacted", "then: mpbroker trace study latency --in compacted"),
    ("mpbroker trace compact traces hour --from 2026-11-21T17:00:00 --to 2026-11-21T18:00:00", "one hour of it"),
)


def define(parser: argparse.ArgumentParser, _: str = "compact") -> None:
    """The arguments of `trace compact`."""
    parser.add_argument(
        "sources", nargs="+", metavar="SRC", help="folders with segments (searched downwards), or segment files"
    )
    parser.add_argument("destination", metavar="DST", help="a folder that does not exist yet")
    trace_arguments.define_slice(parser)


def run(arguments: argparse.Namespace) -> int:
    """Compact and say what came out."""
    with extras():
        from mpbroker.analysis.engine.input.compaction import compact
        from mpbroker.analysis.engine.input.trace_input import open_input

        source = open_input(arguments.sources, **trace_arguments.slice_of(arguments))
        header = compact(source, Path(arguments.destination))
    trace_text.warn_of_damage(header.loss)
    for sentence in header.loss.sentences[header.loss.damaged_files :]:
        print(f"note: {sentence}")
    requests = sum(one.rows for one in header.files)
    size = sum((Path(arguments.destination) / one.path).stat().st_size for one in header.files)
    print(
        f"{requests} requests in {len(header.files)} files, {size} bytes ({size / max(1, requests):.1f} a request): "
        f"{arguments.destination}"
    )
    return 0
