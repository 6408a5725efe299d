"""The two planes of the request path, as values.

A plane is up to seven class rings of one kind, and one more for what recovery put back, which is served first
(native/request/plane.c); so far all requests are of one class. Processors choose a plane by the listener a request came
on: whatever arrives on the control-plane listener is control traffic, whichever API it calls (KIP-291).
"""

from typing import Final

from mpbroker import _native

DATA: Final = _native.PLANE_DATA
CONTROL: Final = _native.PLANE_CONTROL
CONTROL_REQUESTS: Final = 20
"""Kafka's fixed bound of the control plane."""
