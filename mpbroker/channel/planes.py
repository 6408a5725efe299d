"""The two planes of the request path, as values.

A plane is up to seven class rings of one kind, and one more for what recovery put back, which is served first
(native/request/plane.c). Processors choose a plane by the listener a request came on: whatever arrives on the
control-plane listener is control traffic, whichever API it calls (KIP-291). Within the data plane a queueing discipline
chooses (native/request/discipline.h): the processor's says which class a request is of, the handler's which is next.
"""

from typing import Final

from mpbroker import _native
from mpbroker.config.broker_config import BrokerConfig

DATA: Final = _native.PLANE_DATA
CONTROL: Final = _native.PLANE_CONTROL
CONTROL_REQUESTS: Final = 20
"""Kafka's fixed bound of the control plane."""

_NUMBERS: Final = {
    "fifo": _native.DISCIPLINE_FIFO,
    "plane": _native.DISCIPLINE_PLANE,
    "priority": _native.DISCIPLINE_PRIORITY,
    "fair": _native.DISCIPLINE_FAIR,
    "shortest": _native.DISCIPLINE_SHORTEST,
    "deadline": _native.DISCIPLINE_DEADLINE,
}


def handlers_discipline(config: BrokerConfig) -> int:
    """By which handlers choose, from a configuration whose listeners agree."""
    return _NUMBERS[config.handlers_discipline]


def listener_discipline(config: BrokerConfig, listener: str) -> int:
    """By which a listener's processors put requests into classes."""
    own = _NUMBERS[config.queue_discipline(listener)]
    by_deadline = handlers_discipline(config) == _native.DISCIPLINE_DEADLINE
    return _native.DEADLINE_REST if by_deadline and own != _native.DISCIPLINE_DEADLINE else own
