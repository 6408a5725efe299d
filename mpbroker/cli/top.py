"""`mpbroker top`: one screen of a running broker that redraws itself; or one look, for scripts.

It finds the broker as `status` does, reads its shared memory and asks nobody but the coordinator for its groups. The
screen needs the package rich (`mpbroker[top]`); `--json` needs nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any, Final

from mpbroker.cli import broker_arguments, extras, terminal_keys
from mpbroker.cli.top_rates import document
from mpbroker.cli.top_sample import Reader
from mpbroker.cli.usage import UsageError
from mpbroker.errors import ConfigError

DESCRIPTION = """\
Show one screen of a running broker that redraws itself: processes, rings, requests with the
latency of their stages, topics, consumer groups with their lag; q ends it. Reads shared memory,
so a broker that hangs is shown, too. --once and --json look once, over --interval seconds, and
need no terminal. Exit code 3: nothing runs there."""
EXAMPLES = (
    ("mpbroker top", "the broker on ./mpbroker-data, else the only one that you run"),
    ("mpbroker top --once | head -20", "one look, as text"),
    ("mpbroker top --json --interval 5", "rates over five seconds, for a program"),
)
MIN_INTERVAL_S, MAX_INTERVAL_S = 0.1, 3600.0
GROUPS_WAIT_S: Final = 3.0
WIDTH, HEIGHT = 120, 100_000
"""Of one look that goes to no terminal: nothing is cut."""
FIRST_LOOK_S: Final = 0.5


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `top`."""
    broker_arguments.define(parser)
    parser.add_argument(
        "--interval", type=_interval, default=1.0, metavar="S", help="seconds between looks (default 1)"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--once", action="store_true", help="print one look as text and end")
    what.add_argument("--json", action="store_true", help="print one look as JSON and end")


def _interval(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not MIN_INTERVAL_S <= seconds <= MAX_INTERVAL_S:
        raise ConfigError("--interval", text, f"seconds from {MIN_INTERVAL_S} to {MAX_INTERVAL_S:.0f}")
    return seconds


def run(arguments: argparse.Namespace) -> int:
    """Show it; NothingRuns if there is no broker, or it ends meanwhile."""
    if not arguments.json:
        extras.require("rich")
    if not (arguments.json or arguments.once or terminal_keys.is_screen()):
        raise UsageError("top draws on a terminal, and here is none: use --once or --json")
    with Reader(broker_arguments.directory(arguments)) as reader:
        if arguments.json:
            print(json.dumps(_look_once(reader, arguments.interval)))
        elif arguments.once:
            _print(_look_once(reader, arguments.interval))
        else:
            _watch(reader, arguments.interval)
    return 0


def _look_once(reader: Reader, interval_s: float) -> dict[str, Any]:
    before = reader.sample()
    time.sleep(interval_s)
    reader.wait_for_groups(GROUPS_WAIT_S)
    return document(before, reader.sample())


def _print(found: dict[str, Any]) -> None:
    from rich.console import Console

    from mpbroker.cli import top_screen

    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    console.print(top_screen.draw(found, HEIGHT))


def _watch(reader: Reader, interval_s: float) -> None:
    """Until q or Ctrl-C. The size is looked at with the keys: a screen that changed is drawn anew at once."""
    from rich.console import Console
    from rich.live import Live

    from mpbroker.cli import top_screen

    console, drawn = Console(), None
    before = reader.sample()
    found, due_s = document(before, before), before.taken_s + min(interval_s, FIRST_LOOK_S)
    with terminal_keys.keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            if time.monotonic() >= due_s:
                now = reader.sample()
                found, drawn = document(before, now), None
                before, due_s = now, now.taken_s + interval_s
            if console.size != drawn:
                drawn = console.size
                live.update(top_screen.draw(found, drawn.height), refresh=True)
            if terminal_keys.wants_to_leave(keys, due_s - time.monotonic()):
                return
