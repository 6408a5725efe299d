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


_frozen: list[bool] = []


def collect() -> None:
    """Collect all garbage, and look no more at what is none until the file's last test is over (`look_again`): late in
    a suite each look would take half a second."""
    gc.collect()
    gc.freeze()
    _frozen[:] = [True]


def look_again() -> None:
    """What was no garbage when it was looked at may be by now, and hold descriptors."""
    if _frozen:
        _frozen.clear()
        gc.unfreeze()
        gc.collect()
        gc.freeze()


def _kept(work) -> int:
    collect()
    before = sys.getallocatedblocks()
    for _ in range(ROUNDS):
        work()
    collect()
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
