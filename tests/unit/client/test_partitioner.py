"""The hash of keys is that of the Java client, as kafka-python has it too."""

import random

import pytest

from mpbroker.client.partitioner import murmur2, partition_of


def test_it_is_the_java_clients():
    # org.apache.kafka.common.utils.UtilsTest
    known = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536, b"": 275646681}
    assert {key: murmur2(key) - (1 << 32) * (murmur2(key) >> 31) for key in known} == known


def test_it_agrees_with_kafka_python():
    partitioner = pytest.importorskip("kafka.partitioner.default")
    source = random.Random(1)
    keys = [source.randbytes(length) for length in range(70)]
    assert [murmur2(key) for key in keys] == [partitioner.murmur2(key) & 0xFFFFFFFF for key in keys]


def test_equal_keys_meet_and_others_spread():
    keys = [b"key-%d" % number for number in range(1000)]
    found = [partition_of(key, 7) for key in keys]
    assert found == [partition_of(key, 7) for key in keys]
    assert min(found.count(number) for number in range(7)) > 100
