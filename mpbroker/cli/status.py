"""`mpbroker status`: what every process of a broker does right now, read from outside without the broker's help."""

import argparse
import json

from mpbroker.cli import broker_arguments, status_text
from mpbroker.supervisor.status import read_health, read_stacks, read_status

DESCRIPTION = """\
Show health, topics, disks, processes, queues and counters of a running broker. Reads its shared
memory and asks nobody, so it works while the broker hangs. Exit code 3: nothing runs there.
--check prints one line and exits with 1 when the broker is not well: a process hangs, the broker
is degraded, or it does not serve yet. --stacks does ask: every process writes its Python stack,
also one that is stuck in a C call."""
EXAMPLES = (
    ("mpbroker status", "the broker on ./mpbroker-data, else the only one that you run"),
    ("mpbroker status --check", "for a health check: exit code 0 well, 1 not well, 3 nothing runs"),
    ("mpbroker status --data-dir /var/lib/mpbroker --json", "for a program"),
    ("mpbroker status --stacks", "where in the code every process is, for a broker that hangs"),
)


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `status`."""
    broker_arguments.define(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="only say whether it is well; exit code 1 when it is not")
    what.add_argument("--stacks", action="store_true", help="print the Python stack of every process")


def run(arguments: argparse.Namespace) -> int:
    """Print the status; NothingRuns if there is no broker."""
    path = broker_arguments.directory(arguments)
    if arguments.check:
        found = read_health(path)
        print(json.dumps(found) if arguments.json else status_text.health(found))
        return 0 if found["health"]["state"] == "ok" else 1
    status = read_status(path)
    if arguments.stacks:
        status["stacks"] = read_stacks(status)
    if arguments.json:
        print(json.dumps(status))
    else:
        print(status_text.stacks(status) if arguments.stacks else status_text.status(status))
    return 0
