"""When requests might have gone, had their generator always been on time: its lateness is its own, and so is what later
requests of the same connection inherit of it. Pure (numpy).

A generator that sleeps for 100 ms sends one request of a full connection 100 ms late; those behind it wait for that
one's answer, and no answer was slow. So each connection is replayed: the broker takes for each answer what it took, the
generator nothing. What still has to wait is held back by the broker; a stall of the broker is all there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]


class Sends(NamedTuple):
    """Requests and their times; `freed`: when each one's answer made room for another, -1: never."""

    connection: Int64s
    corr_id: Int64s
    intended: Int64s
    ready: Int64s
    sent: Int64s
    freed: Int64s


def ready_ns(sends: Sends, in_flight: int) -> Int64s:
    """`ready` again, without what was inherited; never before `intended`. Requests of one connection count in the order
    of their correlation ids: those that were not sent (all of it -1) come first, and stay as they are."""
    found = sends.ready.copy()
    order = np.lexsort((sends.corr_id, sends.connection))
    begins = np.flatnonzero(np.diff(sends.connection[order])) + 1
    for rows in np.split(order, begins):
        times = (each[rows].tolist() for each in (sends.intended, sends.ready, sends.sent, sends.freed))
        found[rows] = np.fromiter(_replayed(in_flight, *times), np.int64, len(rows))
    return found


def _replayed(
    in_flight: int, intended: list[int], ready: list[int], sent: list[int], freed: list[int]
) -> Iterator[int]:
    """Of one connection. Answers come in order, so none is earlier than the one before it, however late its request
    was; what waited for the socket waited for the request before it."""
    late = latest = 0
    freed_on_time: list[int] = []
    for number, ready_at in enumerate(ready):
        before = number - in_flight
        waited_for_answer = before >= 0 and ready_at == freed[before]
        free_at = freed_on_time[before] if waited_for_answer else ready_at - late
        on_time = min(ready_at, max(intended[number], free_at))
        late = sent[number] - on_time
        latest = max(latest, freed[number] - late)
        freed_on_time.append(latest)
        yield on_time
