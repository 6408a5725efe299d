"""Metric families of topics: transactions, which only partitions with some have."""

from mpbroker.admin.topic_families import oldest_transaction, topic_families
from mpbroker.shm.partition_metrics import PartitionMetrics


def partition(number: int, high: int, last_stable: int, ongoing: int) -> PartitionMetrics:
    return PartitionMetrics(0, number, True, 0, high, high, 100, 1, 100, high, 0, last_stable, ongoing)


def test_transactions_are_told_of_partitions_that_have_some():
    rows = [partition(0, 9, 4, 2), partition(1, 9, 9, 0)]
    families = {family.name: list(family.samples) for family in topic_families({0: "t"}, rows)}
    [ongoing] = families["mpbroker_transactions_ongoing"]
    [lag] = families["mpbroker_transactions_last_stable_offset_lag"]
    assert "2" in str(ongoing) and "5" in str(lag)


def test_the_age_of_the_oldest_one():
    assert "1.5" in str(oldest_transaction(1000, 2500).samples)
    assert "0.0" in str(oldest_transaction(None, 2500).samples)
