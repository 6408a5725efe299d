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
