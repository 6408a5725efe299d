"""What this process has open, for tests that see that nothing stays so."""

import os

from tests.harness.kept_blocks import collect


def open_descriptors() -> set[str]:
    """Their numbers. What lies about as garbage would close its own later, between two looks: it goes first. What an
    earlier test left to a thread of its own may go, too: so compare by <=."""
    collect()
    return set(os.listdir("/proc/self/fd"))
