"""Queueing theory and replay: what a queue with k servers would have done. Pure (numpy).

Times are nanoseconds. Theory: Erlang's C for M/M/k; Allen and Cunneen's approximation for G/G/k (Probability,
Statistics and Queueing Theory, 1978), exact for M/M/k and for M/G/1. Replay: one queue, first come first served, with
the arrivals and services that were; exact, and free of any assumption but that services stay as they were.
"""

import heapq
import math
from typing import NamedTuple

import numpy as np

from mpbroker.analysis.engine.mathematics.histogram import Int64s


class Prediction(NamedTuple):
    """Of one window. `load`: of what all servers can do; mean waits in ns, None where the queue would grow for ever.
    `poisson_ns` takes arrivals as Poisson's (M/G/k), `general_ns` with the variance they had (G/G/k)."""

    load: float
    poisson_ns: float | None
    general_ns: float | None


def erlang_c(servers: int, offered: float) -> float:
    """The probability of waiting in M/M/k; `offered` load in Erlang, below the number of servers."""
    blocked = 1.0  # Erlang's B by its recursion, which neither overflows nor cancels
    for number in range(1, servers + 1):
        blocked = offered * blocked / (number + offered * blocked)
    return blocked / (1 - offered / servers * (1 - blocked))


def predict(gaps: Int64s, services: Int64s, servers: int) -> Prediction:
    """From the times between arrivals and the services of one window."""
    mean_gap, mean_service = float(np.mean(gaps)), float(np.mean(services))
    if mean_gap <= 0:
        return Prediction(math.inf, None, None)
    offered = mean_service / mean_gap
    if offered >= servers or mean_service <= 0:
        return Prediction(offered / servers, None if mean_service > 0 else 0.0, None if mean_service > 0 else 0.0)
    markov = erlang_c(servers, offered) * mean_service / (servers - offered)
    of_services, of_arrivals = (_variation(services, mean_service), _variation(gaps, mean_gap))
    return Prediction(offered / servers, markov * (1 + of_services) / 2, markov * (of_arrivals + of_services) / 2)


def _variation(values: Int64s, mean: float) -> float:
    """Variance by the mean's square."""
    return float(np.var(values)) / mean**2


def replay(arrivals: Int64s, services: Int64s, servers: int) -> Int64s:
    """How long each would have waited, first come first served. `arrivals` ascending."""
    free = [int(arrivals[0])] * servers if len(arrivals) else []
    heapq.heapify(free)
    waits = np.empty(len(arrivals), np.int64)
    for place, (arrival, service) in enumerate(zip(arrivals.tolist(), services.tolist(), strict=True)):
        begins = max(arrival, free[0])
        heapq.heapreplace(free, begins + service)
        waits[place] = begins - arrival
    return waits
