"""When throttled replicas went too fast, by the samples of it."""

from types import SimpleNamespace

import pytest

from mpbroker.config.dynamic import DynamicSettings
from mpbroker.config.replication_throttle import FOLLOWER_RATE, LEADER_RATE, is_throttled
from mpbroker.shm.counters import Counter
from mpbroker.shm.process_table import ProcessRow
from mpbroker.shm.replication_quota import ReplicationQuota, is_exceeded, summed
from tests.harness.small_core import small_core

SECOND = 1000


class Rate:
    """A quota of 1,000 bytes a second over three samples of a second."""

    def __init__(self):
        self.moved = 0
        self.quota = ReplicationQuota(lambda: self.moved)

    def __call__(self, now_ms, more=0):
        self.moved += more
        return self.quota.is_exceeded(now_ms, 1000, 3, SECOND)


def test_what_went_before_the_first_look_does_not_count():
    rate = Rate()
    assert not rate(0, 1 << 30)


def test_a_burst_is_spread_over_the_samples():
    rate = Rate()
    rate(0)
    assert not rate(1, 1000)  # of the sample that has begun
    assert rate(2, 1500)
    assert rate(2 * SECOND)
    assert not rate(2500)


def test_old_samples_are_forgotten():
    rate = Rate()
    for second in range(10):
        assert not rate(second * SECOND, 900)
    rate(10 * SECOND, 10_000)
    assert rate(11 * SECOND) and rate(12 * SECOND) and not rate(14 * SECOND)
    assert len(rate.quota._seen) <= 4


def test_all_processes_count():
    core = small_core().core
    total = summed(core, (3, 4), Counter.LEADER_THROTTLED_BYTES)
    ProcessRow(core, 3).count(Counter.LEADER_THROTTLED_BYTES, 5)
    ProcessRow(core, 4).count("leader_throttled_bytes", 7)
    assert total() == 12


def test_the_brokers_own_rate_holds_else_that_of_all():
    def exceeded(**layers):
        config = SimpleNamespace(
            dynamic=DynamicSettings(**layers),
            replication_quota_window_num=11,
            replication_quota_window_size_seconds=1,
        )
        quota = ReplicationQuota(iter((0, 500)).__next__)
        return [is_exceeded(quota, config, LEADER_RATE, at) for at in (0, 1)][-1]

    assert not exceeded() and not exceeded(broker={FOLLOWER_RATE: "1"}) and not exceeded(cluster={LEADER_RATE: "500"})
    assert exceeded(cluster={LEADER_RATE: "499"}) and exceeded(broker={LEADER_RATE: "0"})
    assert not exceeded(broker={LEADER_RATE: "500"}, cluster={LEADER_RATE: "1"})


@pytest.mark.parametrize(("listed", "found"), [((), False), (("*",), True), (("1:7", "2:1"), True), (("2:7",), False)])
def test_lists_name_replicas(listed, found):
    assert is_throttled(listed, 2, 1) is found
