"""What keeps pages shared between the broker's processes: free places filled before a fork, library pages released, an
image of the heap behind the heap."""

import os
import subprocess
import sys

import pytest

from mpbroker import _native

LARGEST_FILL_BYTES = 32 * 65536 + 70 * 65536  # of every size that CPython and malloc are asked for
HOLES = """
from mpbroker import _native
made = [bytes({size}) for _ in range(100)]
places = [id(each) for each in made]
kept = made[::2]
del made
free = set(places[1::2])
before = {{id(each) for each in [bytes({size}) for _ in range(20)]}} & free
filled = _native.fill_free_memory()
after = {{id(each) for each in [bytes({size}) for _ in range(20)]}} & free
print(len(before), len(after), filled)
"""

HOLES_LATER = """
from mpbroker import _native
first = _native.fill_free_memory()
made = [bytes({size}) for _ in range(100)]
kept = made[::2]
del made
print(first, _native.fill_free_memory())
"""

#: One place of a fresh pool is taken for each size; then everything is full but the rests of those pools.
POOLS = """
import ctypes
from mpbroker import _native
malloc, sbrk = ctypes.pythonapi.PyObject_Malloc, ctypes.CDLL(None).sbrk
for function in (malloc, sbrk):
    function.restype, function.argtypes = ctypes.c_size_t, [ctypes.c_ssize_t]
fill = _native.fill_free_memory
taken, places = ((ctypes.c_size_t * (count * len({sizes})))() for count in (1, 3))  # no list that grows meanwhile
fill(), fill()
full, begin = fill(), sbrk(0)
for _ in range(8):
    fill()
end = sbrk(0)
for number, size in enumerate({sizes}):
    taken[number] = malloc(size) % {pool} - {header}
rests = fill()
for number in range(len(places)):
    size = {sizes}[number // 3]
    places[number] = malloc(size) % {pool} - {header} - number % 3 * size
print(full, end - begin, end % 4096, rests, sum(map(bool, taken)), sum(map(bool, places[:-3])), sum(places[-3:]))
"""

COUNTED = """
import os
from mpbroker import _native
texts = [str(number) for number in range(100_000)]
print(_native.take_heap_image(), _native.take_heap_image(), flush=True)
if os.fork() == 0:
    for text in texts:  # each is counted up and down: every page of them is copied, and what it was again
        pass
    first, second = _native.give_back_heap(), _native.give_back_heap()
    print(first, second, sum(map(int, texts)), flush=True)
    os._exit(0)
os.wait()
"""


@pytest.mark.parametrize("size", [60, 400, 600, 1200])
def test_what_is_allocated_later_lies_between_no_objects(size):
    """Small objects come from CPython's pools, larger ones from malloc."""
    before, after, filled = in_a_python(HOLES.format(size=size))
    assert before > 0
    assert after == 0
    assert 50 * size < filled < LARGEST_FILL_BYTES


@pytest.mark.parametrize("size", [600, 1200])
def test_what_is_filled_is_told(size):
    """Once all is filled, only the new holes are: larger ones than CPython's."""
    first, filled = in_a_python(HOLES_LATER.format(size=size))
    assert 40 * size < filled < 60 * size + first // 2


def test_pools_are_filled_to_their_end_and_no_further():
    """What is full is left alone, for good: the end of the heap, and the places that were tried in a fresh pool."""
    sizes, pool, header = range(192, 513, 16), 16384, 48  # smaller ones are what the interpreter itself has use for
    full, grown, end, rests, *places = in_a_python(POOLS.format(sizes=sizes, pool=pool, header=header))
    not_first, displaced, of_the_largest = places
    assert (end, not_first, of_the_largest) == (0, 0, 0) and displaced <= 6, (
        "of two sizes, which the script itself took"
    )
    assert grown < 300_000, "as much as malloc asks for at a time, for what was given back at once"
    assert full < 60_000, "the numbers and lists of the script itself"
    expected = sum(((pool - header) // size - 1) * size for size in sizes)
    assert abs(rests - full - expected) < 60_000 < 4 * expected


def test_another_allocator_costs_a_bounded_amount():
    (filled,) = in_a_python("from mpbroker import _native; print(_native.fill_free_memory())", PYTHONMALLOC="malloc")
    assert filled < LARGEST_FILL_BYTES


def test_a_process_has_fewer_pages_of_libraries_afterwards():
    """What it uses comes back by itself: here, what reads the file again."""
    before = file_pages_kb()
    assert _native.release_library_pages() > 0
    assert file_pages_kb() < before


def test_what_a_fork_copied_for_nothing_is_given_back():
    bytes_of_image, once_more, first, second, total = in_a_python(COUNTED)
    assert bytes_of_image > 6 << 20 and once_more == 0
    assert 5 << 20 < first < bytes_of_image and second < 1 << 16
    assert total == sum(range(100_000))


def in_a_python(script, **environment):
    """The numbers that it prints."""
    words = [sys.executable, "-c", script]
    told = subprocess.run(words, env={**os.environ, **environment}, capture_output=True, text=True, check=True).stdout
    return [int(number) for number in told.split()]


def file_pages_kb():
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssFile:"))
