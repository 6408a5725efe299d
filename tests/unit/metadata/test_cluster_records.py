"""What stands in the metadata store, letter by letter: a broker of today reads what one of yesterday wrote there."""

import msgspec
import pytest

from mpbroker.metadata import cluster_records, topic_record
from mpbroker.metadata.cluster_records import (
    BrokerRecord,
    ControllerEpochRecord,
    ControllerRecord,
    ListenerRecord,
    PartitionRecord,
)
from mpbroker.metadata.topic_record import (
    BrokerConfigRecord,
    FeaturesRecord,
    GroupConfigRecord,
    ProducerIdBlock,
    TopicConfigRecord,
    TopicDeletion,
    TopicRecord,
    decode_record,
    encode_record,
)

LISTENER = '{"name":"A","protocol":"PLAINTEXT","host":"h","port":9}'
STORED = [
    (
        BrokerRecord(3, "m", "d", "i", [ListenerRecord("A", "PLAINTEXT", "h", 9)]),
        f'{{"id":3,"machine":"m","directory":"d","incarnation":"i","listeners":[{LISTENER}],"rack":null,'
        '"unclean":false,"failed":[],"v":1}',
    ),
    (ControllerRecord(1, 4, "i"), '{"id":1,"epoch":4,"incarnation":"i","v":1}'),
    (ControllerEpochRecord(4), '{"epoch":4,"v":1}'),
    (
        PartitionRecord(1, 2, [1, 3], 4),
        '{"leader":1,"leader_epoch":2,"isr":[1,3],"controller_epoch":4,"recovering":false,"v":1}',
    ),
    (
        TopicRecord("ab", "t", [[0]], 5),
        '{"id":"ab","name":"t","replicas":[[0]],"created_ms":5,"directories":[],"adding":[],"removing":[],"v":1}',
    ),
    (TopicConfigRecord({"a": "1"}), '{"configs":{"a":"1"},"v":1}'),
    (BrokerConfigRecord({"a": "1"}), '{"configs":{"a":"1"},"v":1}'),
    (GroupConfigRecord({"a": "1"}), '{"configs":{"a":"1"},"v":1}'),
    (TopicDeletion("ab", "t", 3), '{"id":"ab","name":"t","partitions":3,"v":1}'),
    (
        FeaturesRecord(1, 25, 1),
        '{"epoch":1,"metadata_version":25,"kraft_version":1,"transaction_version":0,"group_version":0,"v":1}',
    ),
    (ProducerIdBlock(1000), '{"next_id":1000,"v":1}'),
]


@pytest.mark.parametrize(("record", "stored"), STORED, ids=lambda one: type(one).__name__)
def test_a_record_stands_in_the_store_like_this(record, stored):
    assert encode_record(record).decode() == stored
    assert decode_record(type(record), stored.encode(), "k") == record
    with pytest.raises(AttributeError):
        record.v = 2  # what was read is what is there: a change is a transaction


def test_every_kind_of_record_is_in_the_table():
    kinds = {
        one
        for module in (cluster_records, topic_record)
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, msgspec.Struct)
    }
    assert kinds - {ListenerRecord} == {type(record) for record, _ in STORED}
    assert all(kind.__struct_config__.frozen for kind in kinds)
