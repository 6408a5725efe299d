"""The reader of requests that wait for room, stepped: who waits, in which order, and who is let in."""

from collections import deque
from types import SimpleNamespace

import pytest

from mpbroker.channel.processor_port import PLANE_FULL
from mpbroker.network import request_reader as module
from mpbroker.network.request_reader import RequestReader

READ = PLANE_FULL + 1  # anything else that a retry may answer


class Channel:
    """A connection with a frame; `wants`: arena bytes for the beginning of a large one."""

    def __init__(self, name="", wants=0, view=None, closed=False):
        self.name, self.wants, self.large_view, self.closed = name, wants, view, closed
        self.waits = self.large = False
        self.number, self.generation, self.out_count, self.large_offset = 4, 5, 1, 4096
        self.first_ns, self.first_arrival_ns, self.readable = 111, 222, True
        self.frame_started_ns = self.frame_bytes_seen = -1
        self.complete, self.ended = False, 0

    def wants_arena_bytes(self):
        return self.wants

    def begin_large(self, offset, view):
        self.large_offset, self.large_view = offset, view

    def receive_large(self):
        return self.complete

    def end_large(self):
        self.ended += 1


class World:
    """`submits`: what the native turn makes of small frames; `space`: arena bytes, or None."""

    def __init__(self, monkeypatch):
        self.done, self.retries, self.submits, self.space, self.serves = [], deque(), deque(), (4096, b"view"), True
        self.over_limit, self.entry_taken = False, True
        monkeypatch.setattr(module, "monotonic_ns", lambda: 999)
        self.port = SimpleNamespace(
            retry=lambda entry: self.done.append(("retry", entry)) or self.retries.popleft(),
            reserve=lambda length: self.done.append(("reserve", length)) or self.space,
            submit_reserved=lambda *words, **named: self.done.append(("submit", words, named)) or 77,
        )
        self.turn = SimpleNamespace(
            over_limit=lambda: self.over_limit, traced=True, serves=lambda channel, view: self.serves,
            submit=self.submit, schedule=lambda channel: self.done.append("scheduled"),
            submitted=lambda channel, view, entry, now_ns: self.done.append((entry, now_ns)) or self.entry_taken,
        )  # fmt: skip
        self.reader = RequestReader(self.port, self.turn, 1, 2, self.guard, lambda: self.done.append("events"))

    def guard(self, channel, act, *arguments):
        act(channel, *arguments)

    def submit(self, channel):
        """True: it was queued, else its event puts it back where it waited."""
        self.done.append(channel.name)
        fits = self.submits.popleft() if self.submits else True
        if not fits:
            self.reader.wait_for_room(channel)
        return fits


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


def test_nothing_is_read_while_a_request_is_parked_or_a_frame_waits(world):
    reader, channel = world.reader, Channel()
    assert reader.may_read() and not reader.waits_for_room()
    reader.park(7)
    assert not reader.may_read() and not reader.waits_for_room()
    world.retries.append(READ)
    reader.retry_parked()
    assert reader.may_read()
    reader.wait_for_room(channel)
    assert not reader.may_read() and reader.waits_for_room() and channel.waits


def test_what_is_parked_is_tried_oldest_first_until_one_finds_no_room(world):
    for entry in (1, 2, 3):
        world.reader.park(entry)
    world.retries.extend([READ, PLANE_FULL])
    world.reader.retry_parked()
    assert world.done == [("retry", 1), ("retry", 2)] and list(world.reader._parked) == [2, 3]


def test_who_finds_no_room_keeps_its_place(world):
    channels = [Channel(name) for name in "abc"]
    for channel in channels:
        world.reader.wait_for_room(channel)
    world.submits.extend([True, False])
    world.reader.admit_waiting()
    assert world.done == ["a", "b", "events"] and list(world.reader._without_room) == channels[1:]
    assert [channel.waits for channel in channels] == [False, True, True]
    world.reader.admit_waiting()
    assert world.done[3:] == ["b", "c"] and not world.reader.waits_for_room()


def test_a_connection_that_is_closed_waits_no_more(world):
    world.reader.wait_for_room(Channel("gone", closed=True))
    world.reader.wait_for_room(Channel("a"))
    world.reader.admit_waiting()
    assert world.done == ["a"]


def test_while_one_is_parked_nobody_is_admitted(world):
    world.reader.wait_for_room(Channel("a"))
    world.reader.park(1)
    world.reader.admit_waiting()
    assert world.done == [] and world.reader.waits_for_room()


def test_large_frames_begin_after_whole_ones(world):
    large = Channel("large", wants=1000)
    world.space = None
    world.reader.read_large(large, 1000)
    assert large.waits and world.reader.may_read() and world.reader.waits_for_room()
    world.reader.wait_for_room(Channel("small"))
    world.submits.append(False)
    world.done.clear()
    world.reader.admit_waiting()
    assert world.done == ["small", "events"]
    world.space = (64, b"view")
    world.reader.admit_waiting()
    assert world.done[2:] == ["small", ("reserve", 1000), "scheduled"]
    assert (large.large_offset, large.large_view, large.waits) == (64, b"view", False)
    assert (large.frame_started_ns, large.frame_bytes_seen) == (999, 0) and not world.reader.waits_for_room()


def test_above_the_limit_of_request_memory_no_large_frame_begins(world):
    world.over_limit = True
    world.reader.read_large(Channel(wants=10), 10)
    assert world.done == [] and world.reader.waits_for_room()


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("taken", [False, True])
def test_a_large_frame_that_is_whole_is_queued_with_its_times(world, traced, taken):
    channel = Channel(view=b"frame")
    channel.complete, world.turn.traced, world.entry_taken = True, traced, taken
    world.reader.read_large(channel, 0)
    [(_, words, named), second, third] = world.done
    assert words == (1, 4, 5, 2, 4096, 5, 111 if traced else 0, 999) and named == {"arrival_ns": 222, "inflight": 1}
    assert (second, third) == ((77, 999), "events") and channel.ended == taken


def test_a_large_frame_of_no_api_is_told_and_not_queued(world):
    channel = Channel(view=b"frame")
    channel.complete, world.serves = True, False
    world.reader.read_large(channel, 0)
    assert world.done == ["events"] and channel.ended == 0


def test_a_large_frame_waits_whole_behind_a_parked_request(world):
    channel = Channel(view=b"frame")
    channel.complete = True
    world.reader.park(1)
    world.reader.read_large(channel, 0)
    assert channel.waits and list(world.reader._without_room) == [channel] and world.done == ["events"]
    world.retries.append(READ)
    world.reader.retry_parked()
    world.reader.admit_waiting()
    assert [step[0] for step in world.done if step[0] == "submit"] == ["submit"] and not channel.waits


@pytest.mark.parametrize("readable", [False, True])
def test_a_large_frame_that_is_not_whole_is_read_on_when_there_is_more(world, readable):
    channel = Channel(view=b"frame")
    channel.readable = readable
    world.reader.read_large(channel, 0)
    assert world.done == (["scheduled"] if readable else [])


def test_who_is_held_up_by_us_does_not_stand_still(world):
    """A large frame that has its memory is read on, and may."""
    whole, large, small, waiting = Channel("whole"), Channel("large"), Channel("small"), Channel("waiting")
    large.large = waiting.large = waiting.waits = True
    world.reader._want_arena.append(waiting)
    assert world.reader.held_up([whole, large, small, waiting]) == [waiting]
    world.reader.wait_for_room(whole)
    assert world.reader.held_up([whole, large, small, waiting]) == [whole, small, waiting]
