"""Lets a load generator wake when it should: on a machine that carries broker and clients both, its own wait for a core
would be counted as the broker's. Linux only, no privilege; where the kernel refuses, the lateness stands in the log.
"""

from __future__ import annotations

import ctypes
import platform
from pathlib import Path

SHORT_SLICE_NS, TIMER_SLACK_NS = (
    100_000,
    1_000,
)  # a waking process with a short slice runs soon; its share stays the same
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}


class _SchedulingAttributes(ctypes.Structure):
    """The kernel's struct sched_attr, first version; the C library has no wrapper for it."""

    _fields_ = [
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime_ns", ctypes.c_uint64),
        ("deadline_ns", ctypes.c_uint64),
        ("period_ns", ctypes.c_uint64),
    ]


def no_timer_slack() -> bool:
    """Timers end when asked to, not up to 50 µs later."""
    try:
        Path("/proc/self/timerslack_ns").write_text(str(TIMER_SLACK_NS))
    except OSError:
        return False
    return True


def short_time_slice() -> bool:
    """Run soon after waking, beside processes that never sleep (Linux 6.12 and later)."""
    number = _SCHED_SETATTR.get(platform.machine())
    if number is None:
        return False
    wanted = _SchedulingAttributes(size=ctypes.sizeof(_SchedulingAttributes), runtime_ns=SHORT_SLICE_NS)
    return bool(ctypes.CDLL(None, use_errno=True).syscall(number, 0, ctypes.byref(wanted), 0) == 0)
