"""Which partition coordinates a group: as Kafka's broker computes it with Java's hash, for every id."""

import pytest

from mpbroker.metadata import coordinator_partitions
from mpbroker.metadata.coordinator_partitions import CACHED_IDS, CACHED_LENGTH, java_hash, partition_of


@pytest.mark.parametrize(
    ("text", "hash_code", "partition"),
    [
        ("", 0, 0),
        ("a", 97, 47),
        ("Aa", 2112, 12),
        ("BB", 2112, 12),
        ("hello", 99162322, 22),
        ("my-group", -1906497762, 12),
        ("zzzzzz", -685785664, 14),
        ("polygenelubricants", -2147483648, 0),
        ("\U0001f600", 1772899, 49),
        ("x" * 128, -1896103936, 36),
        ("x" * 129, 1350320248, 48),
    ],
)
def test_the_partition_of_a_group_among_fifty(text, hash_code, partition):
    assert java_hash(text) == hash_code
    assert partition_of(text, 50) == partition == partition_of(text, 50)
    assert partition_of(text, 1) == 0


@pytest.mark.parametrize(("length", "remembered"), [(CACHED_LENGTH, 1), (CACHED_LENGTH + 1, 0)])
def test_ids_that_are_very_long_are_not_remembered(length, remembered):
    kept = coordinator_partitions._remembered
    kept.cache_clear()
    partition_of("x" * length, 50)
    assert kept.cache_info().currsize == remembered and kept.cache_info().maxsize == CACHED_IDS == 4096
