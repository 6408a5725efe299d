"""Names of keys in the metadata store, letter by letter: a broker of today finds what one of yesterday wrote there."""

from mpbroker.metadata.keys import STORE_FILE, Keys

ID = bytes(range(16))
HEX = "000102030405060708090a0b0c0d0e0f"


def test_every_key_of_a_cluster():
    keys, root = Keys("abc"), "/mpb/v1/abc/"
    assert vars(keys) == {
        "prefix": root,
        "topics": f"{root}t/",
        "topic_configs": f"{root}config/topic/",
        "broker_configs": f"{root}config/broker/",
        "group_configs": f"{root}config/group/",
        "deletions": f"{root}admin/delete/",
        "features": f"{root}features",
        "producer_id_block": f"{root}pid_block",
        "operations": f"{root}op/",
        "brokers": f"{root}brokers/",
        "controller": f"{root}controller",
        "controller_epoch": f"{root}controller_epoch",
        "transaction": f"{root}transaction",
        "partitions": f"{root}p/",
    }
    assert [
        keys.topic_name("t"),
        keys.topic(ID),
        keys.topic_config("t"),
        keys.broker_config(None),
        keys.broker_config(0),
        keys.broker_config(7),
        keys.group_config("g"),
        keys.broker(7),
        keys.partitions_of(ID),
        keys.partition(ID, 5),
        keys.deletion(ID),
        keys.operations_of(255),
        keys.operation(255, 9),
    ] == [
        f"{root}tn/t",
        f"{root}t/{HEX}",
        f"{root}config/topic/t",
        f"{root}config/broker/default",
        f"{root}config/broker/0",
        f"{root}config/broker/7",
        f"{root}config/group/g",
        f"{root}brokers/7",
        f"{root}p/{HEX}/",
        f"{root}p/{HEX}/5",
        f"{root}admin/delete/{HEX}",
        f"{root}op/00000000000000ff/",
        f"{root}op/00000000000000ff/00000000000000000009",
    ]
    assert STORE_FILE == "metadata.db"
