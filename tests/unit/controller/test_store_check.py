"""A store that is damaged is refused, whatever of it is: a page, a record, a name."""

import sqlite3

import pytest

from mpbroker.controller.controller_context import TopicState
from mpbroker.controller.controller_store import ControllerStore
from mpbroker.controller.store_check import check_store
from mpbroker.errors import ConfigError
from mpbroker.metadata.features import FeatureLevels
from mpbroker.metadata.keys import Keys
from mpbroker.metadata.sqlite_store import SqliteStore
from mpbroker.metadata.store_peek import STORE_FILE

ID = bytes([7] * 16)
KEYS = Keys("c")


@pytest.fixture
def path(tmp_path):
    """The file of a store with a topic, settings and a deletion."""
    file = tmp_path / STORE_FILE
    store = SqliteStore(file)
    kept = ControllerStore(store, KEYS, boot_id=1)
    topics = [TopicState(ID, "t", [[0], [0]], {"retention.ms": "5"}, 1), TopicState(bytes(16), "gone", [[0]], {}, 1)]
    kept.create_topics(topics, 0, b"")
    kept.delete_topics(topics[1:], 0, b"")
    store.close()
    return file


def refused(path, check_configs=lambda configs: None) -> str:
    """The sentence, empty if the store is accepted."""
    store = SqliteStore(path)
    try:
        check_store(store, KEYS, str(path.parent), check_configs)
        return ""
    except ConfigError as error:
        return str(error)
    finally:
        store.close()


def change(path, statement: str, *values: object) -> None:
    db = sqlite3.connect(path)
    assert db.execute(statement, values).rowcount == 1
    db.commit()
    db.close()


def replace(path, key: str, old: bytes, new: bytes) -> None:
    change(path, "UPDATE kv SET value = CAST(replace(value, ?, ?) AS BLOB) WHERE key = ?", old, new, key)


def test_a_whole_store_is_accepted(path):
    assert refused(path) == ""


@pytest.mark.parametrize(
    ("key", "old", "new", "why"),
    [
        (KEYS.topic(ID), b'"name"', b'"nama"', "missing required field"),
        (KEYS.topic(ID), b'"t"', b'"u"', "another name"),
        (KEYS.topic(ID), b'"t"', b'"\xa2"', "metadata store"),
        (KEYS.topic(ID), b'"id":"07', b'"id":"17', "contradicts itself"),
        (KEYS.topic(ID), b"[[0],[0]]", b"[       ]", "contradicts itself"),
        (KEYS.topic_name("t"), b"07", b"08", "another id"),
        (KEYS.topic_config("t"), b'"5"', b'"5}', "malformed"),
        (KEYS.deletion(bytes(16)), b'"id":"00', b'"id":"0x', "contradicts itself"),
    ],
)
def test_a_damaged_record_is_refused_with_what_to_do(path, key, old, new, why):
    replace(path, key, old, new)
    said = refused(path)
    assert why in said and "damaged store" in said and "mpbroker adopt" in said


def test_a_name_without_a_record_is_refused(path):
    change(path, "DELETE FROM kv WHERE key = ?", KEYS.topic(ID))
    assert "'t' has no record" in refused(path)


def test_settings_that_no_topic_can_have_are_refused(path):
    def check_configs(configs):
        raise KeyError(min(configs))

    assert "retention.ms" in refused(path, check_configs)


def test_a_key_that_is_no_text_is_refused(path):
    change(path, "UPDATE kv SET key = CAST(X'2FA2' AS TEXT) WHERE key = ?", KEYS.topic_name("t"))
    assert "damaged store" in refused(path)


def test_a_store_without_its_revision_is_refused(path):
    change(path, "UPDATE meta SET name = 'rew' WHERE name = 'rev'")
    assert "revision" in refused(path)


def test_a_damaged_page_is_refused(path):
    data = bytearray(path.read_bytes())
    pages = range(4096, len(data), 4096)
    assert len(pages) > 1
    for page in pages:
        data[page : page + 8] = bytes(8)
    path.write_bytes(data)
    assert "damaged store" in refused(path)


def test_levels_of_features_that_cannot_be_read_are_damage(path):
    store = SqliteStore(path)
    ControllerStore(store, KEYS, boot_id=1).update_features(FeatureLevels(), 0, b"")
    store.close()
    assert refused(path) == ""
    change(path, "UPDATE kv SET value = CAST('no record' AS BLOB) WHERE key = ?", KEYS.features)
    assert "has a damaged store" in refused(path)


@pytest.mark.parametrize("key", [KEYS.producer_id_block, KEYS.group_config("g"), KEYS.broker_config(None)])
def test_what_is_read_later_in_a_start_is_looked_at_too(path, key):
    change(path, "INSERT INTO kv VALUES (?, CAST(? AS BLOB), 1, 1, 1, 0)", key, '{"next_id":5,"configs":{}}')
    assert refused(path) == ""
    change(path, "UPDATE kv SET value = CAST('{' AS BLOB) WHERE key = ?", key)
    said = refused(path)
    assert key in said and "has a damaged store" in said and "mpbroker adopt" in said
