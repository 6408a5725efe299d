"""When leaders go back to their preferred replicas: how often it is looked, what counts, from which share on."""

from types import SimpleNamespace

import pytest

from mpbroker.cluster.balance import Balance
from mpbroker.cluster.cluster_config import FIRST_BALANCE_MS, ClusterConfig
from mpbroker.cluster.cluster_image import Assignment, PartitionId

ID = b"t" * 16


class Image:
    """Brokers 1 and 2 live; partitions in the order they were added."""

    def __init__(self):
        self.brokers = {1: "one", 2: "two"}
        self.partitions, self.assignments = {}, {}
        self.assignment = self.assignments.get

    def add(self, replicas, leader, isr=(1, 2), **moving):
        partition = PartitionId(ID, len(self.partitions))
        self.partitions[partition] = SimpleNamespace(record=SimpleNamespace(leader=leader, isr=list(isr)))
        self.assignments[partition] = None if replicas is None else Assignment(tuple(replicas), **moving)


def numbers(partitions):
    return [one.number for one in partitions]


@pytest.mark.parametrize("enabled", [True, False])
def test_how_often_it_is_looked(enabled):
    image = Image()
    image.add([1, 2], 2)
    config = ClusterConfig(auto_leader_rebalance_enable=enabled, leader_imbalance_check_interval_seconds=10)
    balance = Balance(image, config)
    balance.start(1000)
    first_ms = 1000 + FIRST_BALANCE_MS
    looked = {now_ms: bool(balance.due(now_ms)) for now_ms in (1000, first_ms - 1, first_ms, first_ms + 1)}
    assert list(looked.values()) == [False, False, enabled, False]
    again_ms = first_ms + 10_000
    assert [bool(balance.due(now_ms)) for now_ms in (again_ms - 1, again_ms, again_ms + 1)] == [False, enabled, False]


@pytest.mark.parametrize(("now_ms", "looks"), [(100_000 - 10_001, True), (100_000 - 10_000, False)])
def test_after_a_step_of_the_clock_it_looks_at_once_or_one_interval_late(now_ms, looks):
    image = Image()
    image.add([1, 2], 2)
    balance = Balance(image, ClusterConfig(leader_imbalance_check_interval_seconds=10))
    balance.start(100_000 - FIRST_BALANCE_MS)
    assert bool(balance.due(now_ms)) is looks
    assert bool(balance.due(now_ms + 9999)) is False


@pytest.mark.parametrize(
    ("replicas", "leader", "isr", "moving", "is_misplaced"),
    [
        ([1, 2], 2, (1, 2), {}, True),
        ([1, 2], -1, (1, 2), {}, True),
        ([1, 2], 1, (1, 2), {}, False),
        ([1, 2], 2, (2,), {}, False),
        ([3, 2], 2, (2, 3), {}, False),
        ([1, 2], 2, (1, 2), {"adding": (1,)}, False),
        ([3, 1, 2], 2, (1, 2), {"removing": (3,)}, False),
        ([1], 2, (1, 2), {"removing": (1,)}, False),
        (None, 2, (1, 2), {}, False),
    ],
    ids=[
        "another leads",
        "nobody does",
        "right",
        "not in sync",
        "dead",
        "comes",
        "others go",
        "nobody is left",
        "gone",
    ],
)
def test_whom_it_goes_back_to(replicas, leader, isr, moving, is_misplaced):
    image = Image()
    image.add(replicas, leader, isr, **moving)
    balance = Balance(image, ClusterConfig(leader_imbalance_per_broker_percentage=0))
    assert numbers(balance.misplaced()) == ([0] if is_misplaced else [])


@pytest.mark.parametrize(
    ("percentage", "found"), [(24, [0, 1, 4]), (25, [0, 1]), (49, [0, 1]), (50, []), (0, [0, 1, 4])]
)
def test_a_broker_may_miss_a_share(percentage, found):
    """Broker 1 misses two of four, broker 2 one of four; in the order of the brokers."""
    image = Image()
    for number in range(8):
        preferred = [1, 2] if number < 4 else [2, 1]
        image.add(preferred, preferred[1] if number in (0, 1, 4) else preferred[0])
    balance = Balance(image, ClusterConfig(leader_imbalance_per_broker_percentage=percentage))
    assert numbers(balance.misplaced()) == found


def test_the_count_is_of_all_that_others_lead():
    image = Image()
    for leader in (1, 1, 2, 3, -1):
        image.add([1, 2], leader)
    image.add(None, 2)
    assert Balance(image, ClusterConfig()).imbalance() == 3
    image.add([1, 2], 1)
    assert Balance(image, ClusterConfig()).imbalance() == 3
