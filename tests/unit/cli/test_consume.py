"""When `consume` ends: at the end as it was when it began, or after so many records."""

import io
import sys
from types import SimpleNamespace

import pytest

from mpbroker.cli import consume


class Consumer:
    """Gives the next fetch of (partition, offset) pairs each time; a partition that was left is not asked for."""

    def __init__(self, positions, *fetches):
        self.positions, self.fetches = dict(positions), list(fetches)

    def poll(self, max_wait_ms):
        for partition, offset in self.fetches.pop(0):
            self.positions[partition] = offset + 1
            yield partition, SimpleNamespace(offset=offset)


@pytest.fixture
def printed(monkeypatch):
    """What is printed of some fetches, as `partition.offset`."""

    def run(consumer, ends, count=None):
        out = SimpleNamespace(buffer=io.BytesIO())
        monkeypatch.setattr(sys, "stdout", out)
        consume._print_records(consumer, lambda number, record: b"%d.%d " % (number, record.offset), ends, count)
        return out.buffer.getvalue().split()

    return run


def test_what_came_later_is_not_shown(printed):
    consumer = Consumer({0: 0, 1: 5}, [(0, 0), (0, 1)], [(0, 2), (0, 3), (0, 4)])
    assert printed(consumer, {0: 3, 1: 5}) == [b"0.0", b"0.1", b"0.2"]
    assert consumer.positions == {} and consumer.fetches == []


def test_an_empty_topic_asks_for_nothing(printed):
    assert printed(Consumer({0: 0}), {0: 0}) == []


def test_a_count_ends_it_in_the_middle_of_a_fetch(printed):
    consumer = Consumer({0: 0}, [(0, 0)], [(0, 1), (0, 2), (0, 3)])
    assert printed(consumer, {}, 3) == [b"0.0", b"0.1", b"0.2"]
    assert printed(Consumer({0: 0}), {}, 0) == []


def test_whichever_comes_first(printed):
    assert printed(Consumer({0: 0}, [(0, 0), (0, 1), (0, 2)]), {0: 2}, 9) == [b"0.0", b"0.1"]
