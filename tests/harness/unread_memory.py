"""Gigabytes that nobody reads or writes, for calls that look at a length alone: no memory is taken for them."""

import mmap
from collections.abc import Iterator
from contextlib import contextmanager

MAP_NORESERVE = 0x4000  # mmap knows its name from a later Python on


@contextmanager
def unread_memory(size: int) -> Iterator[memoryview]:
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
    with mmap.mmap(-1, size, flags=flags) as memory, memoryview(memory) as view:
        yield view
