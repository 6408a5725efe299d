"""A disk whose every sync takes equally long, for the laboratory (`mpbroker.experiment.sync.ms`): how fast a real one
is changes from minute to minute, and variants of an experiment run one after the other. Request handlers use it, in the
sync that `flush.messages` asks for."""

from __future__ import annotations

import time
from collections.abc import Callable

from mpbroker.shm.clock import Clock

Sync = Callable[[int], tuple[int, int]]
"""Of the partition in a row: (error, how far it is synced now)."""


def steady(sync: Sync, least_ms: int, clock: Clock, sleep: Callable[[float], None] = time.sleep) -> Sync:
    """`sync`, of which each call takes at least so long: a wait like that for the disk, with no lock held."""

    def synced(ordinal: int) -> tuple[int, int]:
        due_ns = clock.monotonic_ns() + least_ms * 1_000_000
        result = sync(ordinal)
        left_ns = due_ns - clock.monotonic_ns()
        if left_ns > 0:
            sleep(left_ns / 1e9)
        return result

    return synced
