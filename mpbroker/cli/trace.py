"""`mpbroker trace PART`: what the broker's traces say. Each part is a module with DESCRIPTION, EXAMPLES, define and
run.

Runs in the command's process. Looking (ls, stats, tail) needs the standard library alone; what needs more says which
extra.
"""

import argparse
from importlib import import_module
from typing import Any

DESCRIPTION = """\
Show where requests spent their time. A broker writes one 128-byte record for every request
it finished, into segment files under D/traces (mpbroker.trace.dir)."""
EXAMPLES = (
    (
        "mpbroker trace stats --data-dir mpbroker-data",
        "queue, local, purgatory, response queue, send and total per API",
    ),
    (
        "mpbroker trace study latency throughput --in mpbroker-data/traces --out report",
        "a page with figures: report/report.html",
    ),
    ("mpbroker trace tail --follow", "watch requests as they finish (up to a fifth of a second later)"),
)

#: part → (module of this package, what it does)
PARTS = {
    "ls": ("trace_look", "the segments: their time, records, losses"),
    "stats": ("trace_look", "per API: number, errors, and percentiles of each stage"),
    "tail": ("trace_look", "the last records, and with --follow those that come"),
    "mark": ("trace_mark", "put a marker into the trace of a running broker"),
    "top": ("trace_top", "where the requests of the last minute spent their time, live"),
    "dump": ("trace_dump", "write what the dash-cam of a running broker holds to disk"),
    "study": ("trace_study", "run studies and write a report"),
    "report": ("trace_report", "write the page of a finished run anew"),
    "compact": ("trace_compact", "turn segments into Parquet files, a quarter of the size"),
    "export": ("trace_export", "write a slice for the Perfetto viewer"),
    "rollup": ("trace_rollup", "turn a trace into histograms that add up"),
}


def define(parser: argparse.ArgumentParser) -> None:
    """One parser per part."""
    from mpbroker.cli.usage import example_text

    parts = parser.add_subparsers(dest="what", required=True, metavar="PART", title="parts")
    for name, (module_name, summary) in PARTS.items():
        module = part(module_name)
        description, examples = getattr(module, "PARTS", {}).get(name, (module.DESCRIPTION, module.EXAMPLES))
        one = parts.add_parser(
            name,
            help=summary,
            description=description,
            epilog=example_text(examples),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.define(one, name)


def run(arguments: argparse.Namespace) -> int:
    """The part named."""
    return int(part(PARTS[arguments.what][0]).run(arguments))


def part(module_name: str) -> Any:
    """The module of a part."""
    return import_module(f"mpbroker.cli.{module_name}")
