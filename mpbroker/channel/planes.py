"""The two planes of the request path and the queueing disciplines, as values.

A plane is up to seven class rings of one kind, and one more for what recovery put back, which is served first. A
discipline is two functions: request → class, and which class a handler takes from next. They run in the C core
(native/request/plane.c); here stand their names and what they mean. Processors choose a plane by the listener a request
came on: whatever arrives on the control-plane listener is control traffic, whichever API it calls (KIP-291).
"""

from typing import Final, NamedTuple

from mpbroker import _native

DATA: Final = _native.PLANE_DATA
CONTROL: Final = _native.PLANE_CONTROL
CONTROL_REQUESTS: Final = 20
"""Kafka's fixed bound of the control plane."""


class Discipline(NamedTuple):
    """How waiting requests of a plane are ordered. `classes`: class rings in use."""

    name: str
    classes: int
    sentence: str


FIFO: Final = Discipline("fifo", 1, "One class: requests are taken in the order in which they were queued.")
DISCIPLINES: Final = {FIFO.name: FIFO}
