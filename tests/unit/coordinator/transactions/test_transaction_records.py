"""Where a transactional id is recorded."""

import pytest

from mpbroker.coordinator.transactions.transaction_records import partition_of


@pytest.mark.parametrize(
    ("transactional_id", "partition"), [("tx", 16), ("my-group", 12), ("", 0), ("polygenelubricants", 0)]
)
def test_partition_of_an_id(transactional_id, partition):
    """Computed by Java: Utils.abs(id.hashCode()) % 50 of Kafka, the smallest integer as 0."""
    assert partition_of(transactional_id, 50) == partition
