"""`mpbroker status`: what every process of a broker does right now, read from outside without the broker's help."""

import argparse
import json

from mpbroker.cli import broker_arguments, status_text
from mpbroker.supervisor.status import read_stacks, read_status

DESCRIPTION = """\
Show the processes, queues and counters of the broker that runs on a data directory. Reads its
shared memory and asks nobody, so it works while the broker hangs. Exit code 3: nothing runs there.
--stacks does ask: every process writes its Python stack, also one that is stuck in a C call."""
EXAMPLES = (
    ("mpbroker status", "the broker on ./mpbroker-data"),
    ("mpbroker status --data-dir /var/lib/mpbroker --json", "for a program"),
    ("mpbroker status --stacks", "where in the code every process is, for a broker that hangs"),
)


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `status`."""
    broker_arguments.define(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--stacks", action="store_true", help="print the Python stack of every process")


def run(arguments: argparse.Namespace) -> int:
    """Print the status; NothingRuns if there is no broker."""
    status = read_status(broker_arguments.directory(arguments))
    if arguments.stacks:
        status["stacks"] = read_stacks(status)
    if arguments.json:
        print(json.dumps(status))
    else:
        print(status_text.stacks(status) if arguments.stacks else status_text.status(status))
    return 0
