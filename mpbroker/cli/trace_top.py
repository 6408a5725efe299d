"""`mpbroker trace top`: where requests of the last minute spent their time, on a screen that redraws itself; or one
look, for scripts.

Reads the histograms that processors keep in shared memory, so it costs the broker nothing. The screen needs the package
rich (`mpbroker[top]`); `--json` needs nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from mpbroker.cli import broker_arguments, extras, trace_arguments
from mpbroker.cli.usage import UsageError
from mpbroker.errors import MpbrokerError, NothingRuns

if TYPE_CHECKING:
    from mpbroker.shm.latency_window import LatencyWindow

DESCRIPTION = """\
Show where the requests of the last minute spent their time: for each API how many there were, and
p50 and p99 of each stage. The screen redraws itself; q ends it. Costs the broker nothing: it reads
histograms in shared memory. They need mpbroker.trace.enabled; sampling does not touch them.
Exit code 3: nothing runs there. 2: the broker does not trace."""
EXAMPLES = (
    ("mpbroker trace top", "the broker on ./mpbroker-data, else the only one that you run"),
    ("mpbroker trace top --json --seconds 10", "ten seconds, for a program"),
)
STAGES: Final = ("queue", "local", "remote", "response_queue", "send", "total")
WIDTH: Final = 120
_REDRAW_S: Final = 1.0


class NotTraced(MpbrokerError):
    """There are no durations. Exit code 2."""

    exit_code = 2


def define(parser: argparse.ArgumentParser, _: str = "top") -> None:
    """The arguments of `trace top`."""
    broker_arguments.define(parser)
    number = trace_arguments.whole_number(1, 3600)
    parser.add_argument(
        "--seconds", type=number, metavar="S", help="how far it looks back (default: 60; --json, --once: 2)"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--once", action="store_true", help="print one look as text and end")
    what.add_argument("--json", action="store_true", help="print one look as JSON and end")


def run(arguments: argparse.Namespace) -> int:
    """Show it; NothingRuns if there is no broker, or it ends meanwhile."""
    from mpbroker.cli import terminal_keys

    if not arguments.json:
        extras.require("rich")
    if not (arguments.json or arguments.once or terminal_keys.is_screen()):
        raise UsageError("trace top draws on a terminal, and here is none: use --once or --json")
    data_dir = broker_arguments.directory(arguments)
    if trace_arguments.tracing_is_off(data_dir):
        raise NotTraced(f"the broker on {data_dir} does not trace: mpbroker.trace.enabled is false")
    if arguments.json or arguments.once:
        found = _look_once(data_dir, float(arguments.seconds or 2))
        print(json.dumps(found)) if arguments.json else _print(found)
    else:
        _watch(data_dir, float(arguments.seconds or 60))
    return 0


class _Reader:
    """Samples of one broker; one that was started again meanwhile begins anew."""

    def __init__(self, data_dir: str, window: LatencyWindow) -> None:
        self._data_dir, self._window, self._pid = data_dir, window, 0

    def look(self) -> dict[str, Any]:
        """What the window holds now. NothingRuns."""
        from mpbroker.protocol.api_keys import API_NAMES
        from mpbroker.shm import latency_window
        from mpbroker.shm.core_view import CoreError
        from mpbroker.shm.metrics_view import MetricsView
        from mpbroker.supervisor.status_file import read_status_file

        said = read_status_file(self._data_dir)
        if said is None:
            raise NothingRuns(self._data_dir)
        if said.pid != self._pid:
            self._window.forget()
            self._pid = said.pid
        try:
            view = MetricsView(said.pid)
            try:
                view.refresh()
                self._window.add(time.monotonic(), view.apis())
            finally:
                view.close()
        except (CoreError, OSError):
            raise NothingRuns(self._data_dir) from None
        return latency_window.document(self._window, API_NAMES)


def _look_once(data_dir: str, seconds: float) -> dict[str, Any]:
    from mpbroker.shm.latency_window import LatencyWindow

    reader = _Reader(data_dir, LatencyWindow(seconds, every_s=seconds))
    reader.look()
    time.sleep(seconds)
    return reader.look()


def _watch(data_dir: str, seconds: float) -> None:
    """Until q or Ctrl-C."""
    from rich.console import Console
    from rich.live import Live

    from mpbroker.cli import terminal_keys
    from mpbroker.shm.latency_window import LatencyWindow

    reader, console = _Reader(data_dir, LatencyWindow(seconds, every_s=min(5.0, seconds / 12))), Console()
    due_s = 0.0
    with terminal_keys.keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            if time.monotonic() >= due_s:
                due_s = time.monotonic() + _REDRAW_S
                live.update(draw(reader.look()), refresh=True)
            if terminal_keys.wants_to_leave(keys, due_s - time.monotonic()):
                return


def _print(found: dict[str, Any]) -> None:
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else WIDTH).print(draw(found))


def draw(found: dict[str, Any]) -> Any:
    """The table: a row per API, p50 and p99 of each stage in milliseconds."""
    from rich.table import Table

    title = f"the last {found['seconds']:.0f} s; stages: p50 / p99 ms"
    table = Table(
        title=title, title_justify="left", box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False
    )
    table.add_column("API", no_wrap=True)
    for head in ("requests/s", "errors", *(stage.replace("_", " ") for stage in STAGES)):
        table.add_column(head, justify="right", no_wrap=True)
    for row in found["apis"]:
        stages = [row["stages_ms"][stage] for stage in STAGES]
        shown = ("-" if one is None else f"{one['p50']:.3g} / {one['p99']:.3g}" for one in stages)
        table.add_row(row["api"], f"{row['per_s']:,.1f}", str(row["errors"]), *shown)
    return table
