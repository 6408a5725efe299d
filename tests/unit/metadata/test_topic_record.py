"""Store records and keys: readable, versioned, and refused with their key when they are not ours."""

import json

import pytest

from mpbroker.metadata.cluster_records import PartitionRecord, broker_epoch, partition_epoch
from mpbroker.metadata.keys import Keys
from mpbroker.metadata.topic_names import collision_key, is_internal_topic
from mpbroker.metadata.topic_record import BadRecord, ProducerIdBlock, TopicRecord, decode_record, encode_record


def test_a_record_is_json_with_a_version():
    value = encode_record(TopicRecord("00" * 16, "orders", [[0], [0]], 5))
    assert json.loads(value) == {
        "id": "00" * 16,
        "name": "orders",
        "replicas": [[0], [0]],
        "created_ms": 5,
        "directories": [],
        "adding": [],
        "removing": [],
        "v": 1,
    }
    assert decode_record(TopicRecord, value, "t/1").replicas == [[0], [0]]


@pytest.mark.parametrize("value", [b"", b"{}", b"[1]", b'{"next_id": "x"}', b'{"next_id": 1, "v": 2}'])
def test_what_cannot_be_read_is_named_by_its_key(value):
    with pytest.raises(BadRecord, match="pid_block"):
        decode_record(ProducerIdBlock, value, "/mpb/v1/c/pid_block")


def test_keys_hang_under_the_cluster():
    keys = Keys("abc")
    assert keys.topic(b"\x01" * 16) == "/mpb/v1/abc/t/" + "01" * 16
    assert keys.topic_name("orders") == "/mpb/v1/abc/tn/orders"
    assert keys.topic_config("orders") == "/mpb/v1/abc/config/topic/orders"
    assert keys.deletion(b"\x01" * 16) == "/mpb/v1/abc/admin/delete/" + "01" * 16


def test_keys_of_a_cluster_do_not_run_into_each_other():
    keys = Keys("abc")
    assert keys.broker(12) == "/mpb/v1/abc/brokers/12"
    assert (
        keys.partition(b"\x01" * 16, 7) == keys.partitions_of(b"\x01" * 16) + "7" == keys.partitions + "01" * 16 + "/7"
    )
    assert not keys.controller.endswith("/")
    assert keys.controller_epoch.startswith(keys.controller)  # so neither may be watched as a prefix of its own


def test_epochs_of_the_wire_come_from_the_store():
    record = PartitionRecord(leader=1, leader_epoch=0, isr=[1, 2], controller_epoch=1)
    assert decode_record(PartitionRecord, encode_record(record), "p") == record
    assert (partition_epoch(1), broker_epoch(7)) == (0, 7)


def test_operation_keys_sort_by_age_and_by_boot():
    keys = Keys("abc")
    assert keys.operation(1, 9) < keys.operation(1, 10) < keys.operation(1, 2**63)
    assert keys.operation(1, 9).startswith(keys.operations_of(1))
    assert not keys.operation(1, 9).startswith(keys.operations_of(16))


def test_names_that_share_a_metric_collide():
    assert collision_key("a.b_c") == collision_key("a_b.c") != collision_key("a-b_c")
    assert is_internal_topic("__consumer_offsets")
    assert not is_internal_topic("orders")
