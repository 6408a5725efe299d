"""The start-up test of the partitions' locks."""

import pytest

from mpbroker import _native
from mpbroker.errors import ConfigError
from mpbroker.shm import segment


def test_a_dead_holders_lock_is_inherited_here():
    assert _native.robust_lock_self_test() is None


def test_a_system_without_robust_locks_is_refused_in_one_sentence(monkeypatch, tmp_path):
    def fail():
        raise OSError(95, "not supported")

    monkeypatch.setattr(segment._native, "robust_lock_self_test", fail)
    with pytest.raises(ConfigError, match="does not free the locks of a killed process"):
        segment.create(segment.MemoryPlan(), str(tmp_path), 1)
