"""`mpbroker trace rollup`: new segments into a table of histograms. Runs in the command's process; needs the extra
`studies`, with --engine spark also `spark`."""

import argparse
from typing import TYPE_CHECKING

from mpbroker.cli import trace_arguments
from mpbroker.cli.extras import extras

if TYPE_CHECKING:
    from mpbroker.analysis.engine.engines.cluster import Cluster
    from mpbroker.analysis.engine.rollups.job import Report

DESCRIPTION = """\
Add what is new in traces to a table of histograms and sums, which `trace study` reads in their
stead. Closed segments are counted, each once, however often this runs and wherever it is killed;
one that is being written or damaged is left out with a reason, and taken up by a later run."""
EXAMPLES = (
    ("mpbroker trace rollup mpbroker-data/traces rollups", "every hour: keep what matters of traces before they go"),
    ("mpbroker trace study latency throughput fleet --in rollups", "studies of the table"),
)
MAX_NOTES = 20


def define(parser: argparse.ArgumentParser, _: str = "rollup") -> None:
    """The arguments of `trace rollup`."""
    parser.add_argument(
        "sources", nargs="+", metavar="SRC", help="folders with trace segments (searched downwards), or such files"
    )
    parser.add_argument(
        "destination",
        metavar="DST",
        help="the table's folder, or with Spark its URL or "
        "table:CATALOG.NAMESPACE.TABLE (Iceberg); made if it is not there",
    )
    parser.add_argument(
        "--window-ms",
        type=trace_arguments.whole_number(1, 3_600_000),
        metavar="N",
        help="length of a window of a new table (default: 10000)",
    )
    parser.add_argument(
        "--engine", choices=("local", "spark"), default="local", help="who counts (default: this process)"
    )
    trace_arguments.define_spark(parser)


def run(arguments: argparse.Namespace) -> int:
    """Count what is new and say what was done."""
    with extras():
        from mpbroker.analysis.engine.input.places import is_table, local_path
        from mpbroker.analysis.engine.rollups import job, table
        from mpbroker.analysis.engine.rollups.table_files import LocalFiles

        cluster = trace_arguments.cluster_of(arguments)
        if arguments.engine == "spark" or cluster.is_named or is_table(arguments.destination):
            report = _in_spark(arguments, cluster)
        else:
            found = table.open_or_create(LocalFiles(local_path(arguments.destination)), arguments.window_ms)
            report = job.run(arguments.sources, found, job.LocalCounter())
    print(text_of(report, arguments.destination))
    return 0


def _in_spark(arguments: argparse.Namespace, cluster: "Cluster") -> "Report":
    from mpbroker.analysis.engine.rollups import job
    from mpbroker.analysis.spark.remote_places import open_to_write
    from mpbroker.analysis.spark.segment_counter import SparkCounter

    session, found = open_to_write(arguments.destination, arguments.window_ms, cluster)
    with session:
        return job.run(arguments.sources, found, SparkCounter(session.spark))


def text_of(report: "Report", destination: str) -> str:
    """A line for each segment that was left out for another reason than being written, and one in all."""
    from mpbroker.analysis.engine.rollups.segment_count import GROWING

    damaged = [one for one in report.left if one.reason != GROWING]
    lines = [f"left out: {one.reason if one.path in one.reason else f'{one.path}: {one.reason}'}" for one in damaged]
    if len(lines) > MAX_NOTES:
        lines[MAX_NOTES:] = [f"left out: {len(lines) - MAX_NOTES} more"]
    growing = len(report.left) - len(damaged)
    lines.append(
        f"{report.segments} segments with {report.requests} requests added, {report.known} were counted before, "
        f"{growing} are being written, {len(damaged)} are damaged: {destination}"
    )
    return "\n".join(lines)
