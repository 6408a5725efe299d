"""What requests of a full connection waited for: for a generator that slept, or for a broker that answered nothing.

On a clock of the test: requests are due every 5 ticks, and an answer takes one. A generator that never sleeps is the
yardstick: what it waits for is the broker's."""

from typing import NamedTuple

import numpy as np
import pytest

from mpbroker.analysis.lab import on_time

DUE = tuple(range(0, 400, 5))
NEVER = -1


class _Times(NamedTuple):
    ready: list[int]
    sent: list[int]
    arrived: list[int]


def _after(moment, pauses):
    return next((end for begin, end in pauses if begin <= moment < end), moment)


def _client(asleep=(), stalled=(), in_flight=1):
    """One connection: while the generator is asleep it neither sends nor reads, a stalled broker answers afterwards."""
    seen = _Times([], [], [])
    for number, due in enumerate(DUE):
        free = seen.arrived[number - in_flight] if number >= in_flight else 0
        seen.ready.append(max(due, free))
        seen.sent.append(max(_after(seen.ready[-1], asleep), *seen.sent[-1:], 0))
        seen.arrived.append(max(_after(seen.sent[-1], stalled) + 1, *seen.arrived[-1:], 0))
    return seen


def _ready(seen, in_flight=1, due=DUE):
    numbers = np.arange(len(due))
    columns = (np.array(each) for each in (due, seen.ready, seen.sent, seen.arrived))
    return on_time.ready_ns(on_time.Sends(numbers * 0, numbers, *columns), in_flight).tolist()


def _held(ready):
    return [at - due for at, due in zip(ready, DUE, strict=True)]


@pytest.mark.parametrize("in_flight", [1, 4])
def test_what_queued_while_the_generator_slept_was_held_back_by_nobody_else(in_flight):
    seen = _client(asleep=[(20, 120)], in_flight=in_flight)
    assert max(_held(seen.ready)) > 70  # what the log says of them
    assert _ready(seen, in_flight) == list(DUE)


@pytest.mark.parametrize("in_flight", [1, 4])
def test_a_stall_of_the_broker_is_all_there(in_flight):
    seen = _client(stalled=[(20, 120)], in_flight=in_flight)
    assert seen.sent == seen.ready == _ready(seen, in_flight) and max(_held(seen.ready)) > 70


@pytest.mark.parametrize("stalled", [(20, 120), (270, 370)])
def test_each_of_two_stalls_is_its_own_ones(stalled):
    """The broker stalls before the generator sleeps, or when all that waited for the generator is gone."""
    seen = _client(asleep=[(150, 200)], stalled=[stalled])
    assert _ready(seen) == _client(stalled=[stalled]).sent and seen.sent != _ready(seen)


def test_a_broker_that_stalls_when_the_generator_wakes_answers_for_its_own_stall():
    """It falls on those that queued up meanwhile instead of on later ones, but it is neither longer nor shorter."""
    stalled = [(120, 220)]
    held = _held(_ready(_client(asleep=[(20, 120)], stalled=stalled)))
    alone = _held(_client(stalled=stalled).sent)
    assert max(held) == max(alone) == 96 and sum(each > 0 for each in held) == sum(each > 0 for each in alone)
    assert sum(held) == sum(alone)


def test_a_place_that_becomes_free_while_the_generator_sleeps():
    """Until the answer came the broker held it back, from then on the generator did."""
    stalled = [(15, 40)]
    seen = _client(asleep=[(20, 120)], stalled=stalled)
    assert seen.ready[4] == 41 and seen.sent[4] == 120 and seen.ready[5] == 121
    assert _ready(seen) == _client(stalled=stalled).sent
    assert _ready(seen)[4:7] == [41, 42, 43]


def test_an_answer_behind_a_slow_one_would_not_have_come_earlier():
    """Two in flight: the second is sent 50 late, but the broker owes the first one's answer until 100."""
    seen = _Times(ready=[0, 5, 100, 101], sent=[0, 55, 100, 101], arrived=[100, 101, 102, 103])
    assert _ready(seen, in_flight=2, due=(0, 5, 10, 15)) == [0, 5, 100, 100]


def test_the_socket_is_full_of_what_was_sent_late():
    """Ten in flight; the second waits until the socket took the first, sent 100 late; the third until 180, 76 longer,
    because the broker reads nothing."""
    seen = _Times(ready=[0, 104, 180], sent=[100, 104, 180], arrived=[200, 201, 202])
    assert _ready(seen, in_flight=10, due=(0, 5, 10)) == [0, 5, 81]


def test_an_arrival_that_is_known_badly_makes_nothing_later_than_it_was():
    """The first answer is stamped with what came behind it, the second by the broker's record."""
    seen = _Times(ready=[0, 5, 30, 20], sent=[0, 5, 30, 30], arrived=[30, 20, 31, 32])
    assert _ready(seen, in_flight=2, due=(0, 5, 10, 15)) == [0, 5, 30, 20]


def test_connections_are_apart_and_what_was_not_sent_stays():
    sends = on_time.Sends(
        connection=np.array([1, 0, 0, 1, 0]),
        corr_id=np.array([9, 1, 2, 8, NEVER]),
        intended=np.array([5, 0, 5, 0, 10]),
        ready=np.array([60, 0, 70, 0, NEVER]),
        sent=np.array([60, 0, 70, 50, NEVER]),
        freed=np.array([NEVER, 70, 71, 60, NEVER]),
    )
    assert on_time.ready_ns(sends, 1).tolist() == [10, 0, 70, 0, NEVER]
    assert on_time.ready_ns(on_time.Sends(*(each[:0] for each in sends)), 1).tolist() == []
