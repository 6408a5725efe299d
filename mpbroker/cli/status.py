"""`mpbroker status`: what every process of a broker does right now, read from outside without the broker's help."""

import argparse
import json
from typing import Any

from mpbroker.cli import broker_arguments
from mpbroker.supervisor.status import read_status

DESCRIPTION = """\
Show the processes, queues and counters of the broker that runs on a data directory. Reads its
shared memory and asks nobody, so it works while the broker hangs. Exit code 3: nothing runs there."""
EXAMPLES = (
    ("mpbroker status", "the broker on ./mpbroker-data"),
    ("mpbroker status --data-dir /var/lib/mpbroker --json", "for a program"),
)
_COLUMNS = ("slot", "role", "index", "listener", "pid", "state", "wait", "beat ms", "request", "restarts", "last exit")


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `status`."""
    broker_arguments.define(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Print the status; NothingRuns if there is no broker."""
    status = read_status(broker_arguments.directory(arguments))
    print(json.dumps(status) if arguments.json else as_text(status))
    return 0


def as_text(status: dict[str, Any]) -> str:
    """The same for people."""
    listeners = " ".join(f"{each['name']}://{each['host']}:{each['port']}" for each in status["listeners"])
    lines = [
        f"node {status['node_id']}  {status['state']}  {listeners}",
        "",
        *_table(_COLUMNS, [_cells(row) for row in status["processes"]]),
        "",
        *_table(
            ("ring", "waiting", "capacity", "peak"),
            [(ring["name"], ring["depth"], ring["capacity"], ring["peak"]) for ring in status["rings"]],
        ),
        "",
        *_table(("counter", "value"), [(name, value) for name, value in status["counters"].items() if value]),
    ]
    return "\n".join(lines)


def _cells(row: dict[str, Any]) -> tuple[Any, ...]:
    request = row["request"]
    shown = f"{request['api']} v{request['version']} {request['age_ms']} ms" if request else "-"
    return (
        row["slot"],
        row["role"],
        row["index"],
        row["listener"] or "-",
        row["pid"] or "-",
        row["state"],
        row["wait"],
        row["heartbeat_age_ms"],
        shown,
        row["restarts"],
        row["last_exit"] or "-",
    )


def _table(heads: tuple[str, ...], rows: list[tuple[Any, ...]]) -> list[str]:
    cells = [heads, *(tuple(map(str, row)) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads))]
    return ["  ".join(f"{text:{width}}" for text, width in zip(row, widths, strict=True)).rstrip() for row in cells]
