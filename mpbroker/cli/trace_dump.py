"""`mpbroker trace dump`: has the dash-cam of a running broker write what it holds; `--list` shows the dumps there are.
Runs in the command's process."""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from mpbroker.cli import broker_arguments
from mpbroker.errors import MpbrokerError, NothingRuns
from mpbroker.trace import dump, mark_spool

DESCRIPTION = """\
Write the traces that the dash-cam of a running broker keeps in memory to disk, and print the
directory. The dash-cam is on when mpbroker.trace.dashcam.bytes is above 0; it also writes by itself
when a request is slow, many fail, or a process dies (mpbroker.trace.dashcam.*), and at SIGUSR1.
Exit code 3: no broker runs there. 2: it has no dash-cam."""
EXAMPLES = (
    ("mpbroker trace dump", "the minutes before now"),
    ('mpbroker trace dump --after 30 "the shop is slow"', "and the half minute after it, with a marker of that text"),
    ("mpbroker trace dump --list", "the dumps of this broker, and why each was written"),
)
PATIENCE_S = 90.0
_PAUSE_S = 0.05


class NoDashcam(MpbrokerError):
    """The broker writes its traces as requests finish, or none. Exit code 2."""

    exit_code = 2


def define(parser: argparse.ArgumentParser, _: str = "dump") -> None:
    """The arguments of `trace dump`."""
    parser.add_argument("text", nargs="*", metavar="TEXT", help="what the marker says (default: asked for)")
    parser.add_argument(
        "--after", type=_seconds, default=0.0, metavar="S", help="go on for so many seconds (default: 0; at most 3600)"
    )
    broker_arguments.define(parser)
    parser.add_argument("--list", action="store_true", help="show the dumps there are instead")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Ask, wait until it is written, say where."""
    memory, dumps = _places(arguments)
    if arguments.list:
        _show(sorted(_complete(dumps).items()), arguments.json)
        return 0
    t0_ns = time.monotonic_ns()
    text = " ".join(arguments.text) or "asked for by mpbroker trace dump"
    mark_spool.put(memory, text, t0_ns, dump_after_ms=int(arguments.after * 1000))
    deadline = time.monotonic() + PATIENCE_S + arguments.after
    while time.monotonic() < deadline:
        for path, said in _complete(dumps).items():
            if any(cause.t0_ns == t0_ns and cause.text == text for cause in said["causes"]):
                _show([(path, said)], arguments.json)
                return 0
        time.sleep(_PAUSE_S)
    raise MpbrokerError(f"no dump was written into {dumps} within {PATIENCE_S:.0f} s; the broker's log says why")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= mark_spool.MAX_DUMP_AFTER_MS / 1000:
        raise argparse.ArgumentTypeError(f"{text!r}: a number of seconds from 0 to 3600")
    return seconds


def _places(arguments: argparse.Namespace) -> tuple[Path, Path]:
    """Where the traces are in memory, where dumps go; NothingRuns, NoDashcam."""
    from mpbroker.log import data_dir as locks
    from mpbroker.supervisor.status_file import read_status_file

    data_dir = broker_arguments.directory(arguments)
    said = read_status_file(data_dir) if locks.holder(data_dir) is not None else None
    if said is None:
        raise NothingRuns(data_dir)
    if not said.dump_dir:
        raise NoDashcam(f"the broker on {data_dir} has no dash-cam: mpbroker.trace.dashcam.bytes is 0")
    return Path(said.trace_dir), Path(said.dump_dir)


def _complete(dumps: Path) -> dict[Path, dict[str, Any]]:
    found = {path: dump.read(path) for path in dumps.glob(dump.PATTERN)}
    return {path: said for path, said in found.items() if said is not None}


def _show(found: list[tuple[Path, dict[str, Any]]], as_json: bool) -> None:
    if as_json:
        rows = [
            said | {"directory": str(path), "causes": [cause.document() for cause in said["causes"]]}
            for path, said in found
        ]
        print(json.dumps(rows))
        return
    for path, said in found:
        lost = f", {said['segments_lost']} segments lost" if said["segments_lost"] else ""
        print(f"{path}  {said['records']:,} records{lost}  {'; '.join(cause.text for cause in said['causes'])}")
