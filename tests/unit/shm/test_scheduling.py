"""What prefer_latency makes of a process, seen from outside; each test in a process of its own."""

import os
import subprocess
import sys

import pytest

_BEGIN = """
import os, time
from mpbroker.shm.scheduling import prefer_latency
RANKS = {os.SCHED_OTHER: "other", os.SCHED_RR: "rr"}
def rank():
    return RANKS[os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK]
"""


def _run(body):
    return subprocess.run(
        [sys.executable, "-c", _BEGIN + body], capture_output=True, text=True, check=True, timeout=60
    ).stdout.split()


def _realtime_is_permitted():
    return _run("print(prefer_latency('auto'))") == ["realtime"]


def test_fair_is_never_realtime():
    kind, rank = _run("print(prefer_latency('fair'), rank())")
    assert kind in ("short-slice", "ordinary") and rank == "other"


def test_auto_is_realtime_where_permitted_and_else_fair():
    kind, rank = _run("print(prefer_latency('auto'), rank())")
    assert (kind, rank) == ("realtime", "rr") or (kind in ("short-slice", "ordinary") and rank == "other")


def test_who_computes_too_long_is_an_ordinary_process_again_and_may_ask_once_more():
    if not _realtime_is_permitted():
        pytest.skip("this user may not have real-time processes")
    assert _run("""
prefer_latency("auto")
begun = time.process_time()
while rank() == "rr" and time.process_time() - begun < 10:
    pass
print(rank())
print(prefer_latency("auto"), rank())
begun = time.process_time()
while rank() == "rr" and time.process_time() - begun < 10:
    pass
print(rank())
""") == ["other", "realtime", "rr", "other"]


def test_a_user_without_the_right_gets_what_is_left():
    if os.getuid() != 0:
        pytest.skip("only root can give rights up")
    assert _run("""
import resource
resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0))
os.setuid(65534)
print(prefer_latency("auto") != "realtime", rank())
""") == ["True", "other"]


def test_a_short_slice_leaves_the_nice_value():
    """Only of this process: without rights it cannot be another's."""
    assert _run("""
from mpbroker import _native
before = os.nice(5)  # another one than that of process 1
if os.getuid() == 0:
    os.setuid(65534)
print(_native.set_time_slice(100_000), os.nice(0) - before, rank())
""") == ["True", "0", "other"]


def test_real_time_is_of_the_lowest_rank_and_bounded():
    """A bound above the hard one is cut to that; what was refused is said."""
    if not _realtime_is_permitted():
        pytest.skip("this user may not have real-time processes")
    assert _run("""
import resource
from mpbroker import _native
def limit():
    return resource.prlimit(0, 15)[0]  # RLIMIT_RTTIME, for which the module has no name
print(_native.set_realtime(20_000), os.sched_getparam(0).sched_priority, rank(), limit())
print(_native.set_realtime(10_000), limit())
resource.prlimit(0, 15, (10_000, 30_000))
print(_native.set_realtime(29_999), limit(), _native.set_realtime(30_001), limit())
os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
if os.getuid() == 0:
    resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0))
    os.setuid(65534)
    print(_native.set_realtime(20_000), rank())
else:
    print(False, rank())
""") == ["True", "1", "rr", "20000", "True", "10000", "True", "29999", "True", "30000", "False", "other"]
