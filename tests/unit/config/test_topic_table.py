"""The table of topic settings against what a real Kafka 3.9.2 describes for a topic without overrides (captured)."""

import json
from pathlib import Path

import pytest

from mpbroker.config.describe import describe_topic
from mpbroker.config.table import SETTINGS
from mpbroker.config.topic_table import TOPIC_SETTINGS

KAFKA = json.loads((Path(__file__).parent / "data" / "kafka_3_9_topic.json").read_text())


def test_names_are_kafkas():
    assert set(TOPIC_SETTINGS) == set(KAFKA)


@pytest.mark.parametrize("name", sorted(KAFKA))
def test_type_value_and_synonyms_are_kafkas(name, configure):
    kind, value, synonyms = KAFKA[name]
    (entry,) = describe_topic({}, configure(), [name])
    assert (entry.kind, entry.value) == (kind, value)
    assert [list(synonym) for synonym in entry.synonyms] == synonyms
    assert (entry.source, entry.is_default, entry.read_only, entry.sensitive) == (5, True, False, False)


def test_bounds_are_at_least_as_wide_as_the_broker_settings():
    for row in TOPIC_SETTINGS.values():
        if row.broker:
            broker = SETTINGS[row.broker]
            assert (row.allowed, row.most) == (broker.allowed, broker.most) or row.check
