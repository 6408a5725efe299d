"""Calls of the extension for which the interpreter has no memory left at one place after the other."""

import functools
import gc
import sys
from array import array
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests.harness.kept_blocks import in_use
from tests.harness.one_thread import has_one_thread

ROUNDS, WARM_UP, LOOKS = 3, 2, 8
#: So many calls in a row that go well: there is no allocation left to refuse.
GOOD_IN_A_ROW, MOST = 3, 3000
BYTES_OF_A_LEAK = 16


@functools.cache
def _testcapi() -> Any:
    """A part of CPython that distributions may leave out; references are counted without it."""
    return pytest.importorskip("_testcapi")


def refuse_each(
    work: Callable[[], object], before: Callable[[], object] | None = None, after: Callable[[], object] | None = None
) -> int:
    """Calls it with the first allocation refused, then with the second, and so on; how often it raised MemoryError. Any
    other error is one. `before` and `after` each call have all the memory they want."""
    assert has_one_thread(), "another thread would be refused memory, too: use one_thread"
    refused, good, number, testcapi = 0, 0, 0, _testcapi()
    gc.collect()  # of what the interpreter keeps for the next list or tuple, it lets go
    held = []
    while good < GOOD_IN_A_ROW:
        assert number < MOST, "it never succeeds"
        if before is not None:
            before()
        held.append(_what_is_kept(number))
        try:
            testcapi.set_nomemory(number, number + 1)
            try:
                work()
            finally:
                testcapi.remove_mem_hooks()
            good += 1
        except MemoryError:
            refused, good = refused + 1, 0
        if after is not None:
            after()
        number += 1
    return refused


def _what_is_kept(number: int) -> list[object]:
    """What the call before gave back, and the interpreter would use anew without asking for memory. Nothing that is
    made here is given back, or the call would have that."""
    lists: list[object] = [[number] for _ in range(6)]
    tuples = [(number,) * size for size in range(1, 11) for _ in range(3)]
    return [lists, tuples, {}, {}, 0.5 + number]


def leaves_nothing(work: Callable[[], object], touched: Iterable[Any] = ()) -> None:
    """Rounds of it leave neither objects nor bytes of malloc nor references to each of `touched`. Another thread of the
    process may keep or free something meanwhile, and what is freed would hide what is left: what is no leak is gone at
    the next look."""
    touched = [*touched]
    for _ in range(WARM_UP):
        work()
    for _ in range(LOOKS):
        objects, size, references = _look(work, touched)
        if 0 <= objects < ROUNDS and size < BYTES_OF_A_LEAK * ROUNDS and not any(references):
            return
    leaked = [one for one, count in zip(touched, references, strict=True) if count]
    pytest.fail(f"{ROUNDS} rounds leave {objects} objects, {size} bytes, and references to {leaked}")


def _look(work: Callable[[], object], touched: list[Any]) -> tuple[int, int, list[int]]:
    """What rounds leave: objects, bytes, and of references to each whole ones a round."""
    gc.collect()
    references = array("q", [sys.getrefcount(one) for one in touched])  # a list would hold numbers that are touched
    gc.collect()  # of what that was made of: it would be missed afterwards
    size, objects = in_use(), sys.getallocatedblocks()
    for _ in range(ROUNDS):
        work()
    gc.collect()
    objects, size = sys.getallocatedblocks() - objects, in_use() - size
    now = [sys.getrefcount(one) for one in touched]
    return objects, size, [int((n - was) / ROUNDS) for was, n in zip(references, now, strict=True)]
