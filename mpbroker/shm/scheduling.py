"""Scheduling of the processes that must answer soon: the control plane's acceptor, processor and reserved handlers.

They work little and seldom, beside data workers that never stop, and each request needs three of their wakes. Where the
kernel permits it they are real-time processes of the lowest rank, which run as soon as they wake. The rank is taken
from whoever computes for REALTIME_LIMIT_US without waiting, and asked for again once a second, so a control request,
however large, never keeps the data plane from its cores for longer. Without the permission a short time slice brings
most of it: a process that uses little then runs soon after it wakes. See docs/adr/0013.
"""

from mpbroker import _native

SHORT_SLICE_NS = 100_000  # the least the kernel takes; the default is about 3 ms
REALTIME_LIMIT_US = 20_000


def prefer_latency(mode: str) -> str:
    """What this process is from now on: `realtime`, `short-slice`, or `ordinary` (the kernel knows neither).

    `mode`: mpbroker.control.plane.scheduling, `auto` or `fair`.
    """
    if mode == "auto" and _native.set_realtime(REALTIME_LIMIT_US):
        return "realtime"
    return "short-slice" if _native.set_time_slice(SHORT_SLICE_NS) else "ordinary"
