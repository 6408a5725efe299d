"""What some rounds of work leave behind in the interpreter's memory."""

import ctypes
import functools
import gc
import sys
from collections.abc import Callable
from typing import ClassVar

ROUNDS, WARM_UP, LOOKS = 60, 20, 3


def kept(work) -> int:
    """Blocks that ROUNDS of it leave behind, once all that is cached is there. The least of some looks: another thread
    of the process, as that of the tests' own messages, may have kept something in one of them."""
    for _ in range(WARM_UP):
        work()
    return min(_kept(work) for _ in range(LOOKS))


def settle() -> None:
    """Between two files, when the last fixture of the one before is gone: its garbage goes, with what descriptors it
    holds, and no search for garbage looks again at what it leaves (modules, caches). Late in a suite each search that
    does would take half a second."""
    gc.collect()
    gc.freeze()


def _kept(work) -> int:
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(ROUNDS):
        work()
    gc.collect()
    return sys.getallocatedblocks() - before


class _Mallinfo(ctypes.Structure):
    """mallinfo2(3): of its ten numbers the eighth is what is in use."""

    _fields_: ClassVar = [("before", ctypes.c_size_t * 7), ("in_use", ctypes.c_size_t), ("after", ctypes.c_size_t * 2)]


@functools.cache
def _mallinfo() -> Callable[[], _Mallinfo]:
    """Of a C library that has none, nothing is known."""
    try:
        call = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return _Mallinfo
    call.restype = _Mallinfo
    return call


def in_use() -> int:
    """Bytes that malloc has handed out; 0 where it does not say."""
    return int(_mallinfo()().in_use)
