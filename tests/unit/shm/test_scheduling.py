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
