"""Is the metadata store whole? Asked by the controller before anything in the data directory is changed.

A store of which a page or a record is damaged names other topics than there are, or none: a broker that believed it
would make them anew, empty, beside their records. So it is refused, with what to do; everything here only reads.
"""

from collections.abc import Callable
from typing import Final

from mpbroker.errors import ConfigError, MpbrokerError
from mpbroker.metadata.keys import STORE_FILE, Keys
from mpbroker.metadata.meta_store import Entry
from mpbroker.metadata.sqlite_store import SqliteStore
from mpbroker.metadata.topic_names import is_legal_topic_name
from mpbroker.metadata.topic_record import (
    BadRecord,
    BrokerConfigRecord,
    FeaturesRecord,
    GroupConfigRecord,
    ProducerIdBlock,
    TopicConfigRecord,
    TopicDeletion,
    TopicRecord,
    decode_record,
)

KEY: Final = "log.dirs"
ID_DIGITS: Final = 32


def check_store(
    store: SqliteStore, keys: Keys, data_dir: str, check_configs: Callable[[dict[str, str]], object]
) -> None:
    """ConfigError if the store is damaged. `check_configs` raises for settings that no topic can have."""
    try:
        store.verify()
        _check_records(store, keys, check_configs)
    except MpbrokerError as error:
        problem = (
            f"{data_dir} has a damaged store ({error}): put a copy of {STORE_FILE} back; or move {STORE_FILE}* away, "
            f"and `mpbroker adopt {data_dir}` takes the topics in by their directories, without their settings"
        )
        raise ConfigError(KEY, data_dir, problem=problem) from error


def _check_records(store: SqliteStore, keys: Keys, check_configs: Callable[[dict[str, str]], object]) -> None:
    named = {entry.key.removeprefix(keys.topic_name("")): entry.value for entry in _all(store, keys.topic_name(""))}
    for entry in _all(store, keys.topics):
        topic = decode_record(TopicRecord, entry.value, entry.key)
        if entry.key != f"{keys.topics}{topic.id}" or not _is_id(topic.id) or not topic.replicas:
            raise BadRecord(f"metadata store, {entry.key}: contradicts itself")
        if not is_legal_topic_name(topic.name) or named.pop(topic.name, None) != topic.id.encode():
            raise BadRecord(f"metadata store, {entry.key}: topic {topic.name!r} has another name or another id")
    if named:
        raise BadRecord(f"metadata store: topic {min(named)!r} has no record")
    for entry in _all(store, keys.topic_configs):
        record = decode_record(TopicConfigRecord, entry.value, entry.key)
        try:
            check_configs(record.configs)
        except Exception as error:  # whatever they cannot be read as: they were checked when they were written
            raise BadRecord(f"metadata store, {entry.key}: {error}") from error
    for prefix, kind in (
        (keys.features, FeaturesRecord),
        (keys.producer_id_block, ProducerIdBlock),
        (keys.group_configs, GroupConfigRecord),
        (keys.broker_configs, BrokerConfigRecord),
    ):
        for entry in _all(store, prefix):
            decode_record(kind, entry.value, entry.key)
    for entry in _all(store, keys.deletions):
        if not _is_id(decode_record(TopicDeletion, entry.value, entry.key).id):
            raise BadRecord(f"metadata store, {entry.key}: contradicts itself")


def _all(store: SqliteStore, prefix: str) -> list[Entry]:
    return [entry for page in store.scan(prefix) for entry in page.entries]


def _is_id(text: str) -> bool:
    return len(text) == ID_DIGITS and all(digit in "0123456789abcdef" for digit in text)
