"""Scheduling of processes that must answer soon: the control plane's processor and its reserved handlers.

They work little and seldom, beside data workers that never stop. The kernel's fair scheduler lets a process with a
short time slice run soon after it wakes; its share of the processor stays what it was. Needs no privilege.
"""

from mpbroker import _native

SHORT_SLICE_NS = 100_000  # the least the kernel takes; the default is about 3 ms


def prefer_latency() -> bool:
    """Ask for a short time slice for this process; False where the kernel knows no such thing (nothing is lost)."""
    return _native.set_time_slice(SHORT_SLICE_NS)
