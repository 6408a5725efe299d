"""The start-up test of the partitions' locks."""

import errno
import subprocess
import sys

import pytest

from mpbroker import _native
from mpbroker.errors import ConfigError
from mpbroker.shm import segment

#: In a process that has room for the lock, and none for the stack of a thread that dies with it.
NO_THREAD = """
import resource
from mpbroker import _native

pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (1 << 20), resource.RLIM_INFINITY))
try:
    _native.robust_lock_self_test()
except OSError as error:
    print(error.errno)
"""


def test_a_dead_holders_lock_is_inherited_here():
    assert _native.robust_lock_self_test() is None


def test_what_goes_wrong_is_said_by_its_number():
    """That of the call that failed, not of one that it made meanwhile."""
    told = subprocess.run([sys.executable, "-c", NO_THREAD], capture_output=True, text=True, timeout=60)
    assert told.stdout == f"{errno.EAGAIN}\n", told.stderr


def test_a_system_without_robust_locks_is_refused_in_one_sentence(monkeypatch, tmp_path):
    def fail():
        raise OSError(95, "not supported")

    monkeypatch.setattr(segment._native, "robust_lock_self_test", fail)
    with pytest.raises(ConfigError, match="does not free the locks of a killed process"):
        segment.create(segment.MemoryPlan(), str(tmp_path), 1)
