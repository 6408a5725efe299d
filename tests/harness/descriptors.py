"""What this process has open, for tests that see that nothing stays so."""

import gc
import os
from contextlib import suppress


def open_descriptors() -> set[tuple[str, str]]:
    """(number, what it is of) each, but that of the look itself. What lies about as garbage would close its own later,
    between two looks: it goes first. What an earlier test left to a thread of its own may go at any time, so look at
    what is new: `open_descriptors() - before`. Where clients with threads run beside, in the slow part, they may open
    pipes at any time, too: look at one kind there."""
    gc.collect()
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            found.add((number, os.readlink(f"/proc/self/fd/{number}")))
    return found
