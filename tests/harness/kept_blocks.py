"""What some rounds of work leave behind in the interpreter's memory."""

import gc
import sys

ROUNDS, WARM_UP, LOOKS = 60, 20, 3


def kept(work) -> int:
    """Blocks that ROUNDS of it leave behind, once all that is cached is there. The least of some looks: another thread
    of the process, as that of the tests' own messages, may have kept something in one of them."""
    for _ in range(WARM_UP):
        work()
    return min(_kept(work) for _ in range(LOOKS))


def _kept(work) -> int:
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(ROUNDS):
        work()
    gc.collect()
    return sys.getallocatedblocks() - before
