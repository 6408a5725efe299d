"""`mpbroker trace report`: writes the page of a finished run anew. Runs in the command's process; needs the extra
`studies`."""

import argparse
from pathlib import Path

from mpbroker.cli.extras import extras

DESCRIPTION = "Write R/report.html again from what `trace study --out R` has left, without reading the trace."
EXAMPLES = (("mpbroker trace report report", "the page of an earlier run, as this version draws it"),)


def define(parser: argparse.ArgumentParser, _: str = "report") -> None:
    """The argument of `trace report`."""
    parser.add_argument("directory", metavar="R", help="a folder that `trace study --out R` has written")


def run(arguments: argparse.Namespace) -> int:
    """Write it and say where it is."""
    with extras():
        from mpbroker.analysis.engine.running.saved_report import write_again

        print(f"report: {write_again(Path(arguments.directory))}")
    return 0
