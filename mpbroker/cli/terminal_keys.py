"""A terminal whose keys are read one by one, for screens that redraw themselves. Runs in the command's process."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Final

LOOK_AT_KEYS_S: Final = 0.2
_ENDS: Final = frozenset("qQ\x03\x04")


def is_screen() -> bool:
    """Whether there is a terminal that can draw."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")


def wants_to_leave(keys: IO[str], wait_s: float) -> bool:
    """Whether q or Ctrl-D was pressed, or the terminal has gone, within a wait of at most LOOK_AT_KEYS_S."""
    ready, _, _ = select.select([keys], [], [], min(LOOK_AT_KEYS_S, max(0.0, wait_s)))
    return bool(ready) and (os.read(keys.fileno(), 64).decode(errors="replace") or "q")[0] in _ENDS


@contextmanager
def keys() -> Iterator[IO[str]]:
    """Standard input without lines and echo; put back as it was."""
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield sys.stdin
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
