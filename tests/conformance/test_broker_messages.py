"""Messages that only brokers exchange, against bytes written by Apache Kafka 3.9.2.

kafka-python does not know these messages any more, so the bytes are kept here: kafka_3_9_broker_messages.jsonl, a line
for every message at every version, with the values as Kafka's own JSON converters read them and the bytes that its
generated classes wrote for them.
"""

import base64
import json
from pathlib import Path

import pytest

from mpbroker.protocol.codec import decode, encode, encoded_size
from mpbroker.protocol.messages_by_key import REQUESTS, RESPONSES
from mpbroker.protocol.schema import fields_of, schema_of
from tests.conformance.kafka_python_peer import BROKERS_ONLY, snake

LINES = [json.loads(line) for line in Path(__file__).with_name("kafka_3_9_broker_messages.jsonl").open()]
CLASSES = {cls.__name__: cls for table in (REQUESTS, RESPONSES) for cls in table.values()}


def built(cls, values):
    """Our message with Kafka's values; what is not named keeps our default."""
    rows = {field.name: field for field in fields_of(cls)}
    given = {snake(name): value for name, value in values.items()}
    assert given.keys() <= rows.keys(), f"{cls.__name__} lacks {given.keys() - rows.keys()}"
    return cls(**{name: _value(rows[name], value) for name, value in given.items()})


def _value(field, value):
    if isinstance(value, list):
        return [_value(field, one) for one in value]
    if field.kind == "uuid":
        return base64.urlsafe_b64decode(value + "==")
    return built(field.struct, value) if field.struct and value is not None else value


def test_every_version_of_every_message_is_there():
    versions = {(line["message"], line["version"]) for line in LINES}
    expected = {
        (cls.__name__, version)
        for key in BROKERS_ONLY
        for cls in (REQUESTS[key], RESPONSES[key])
        for version in range(schema_of(cls).versions[0], schema_of(cls).versions[1] + 1)
    }
    assert versions == expected


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line['message']}-{line['version']}")
def test_bytes_are_those_of_kafka(line):
    cls, version, theirs = CLASSES[line["message"]], line["version"], bytes.fromhex(line["hex"])
    message = built(cls, line["fields"])
    assert encode(message, version) == theirs
    assert encoded_size(message, version) == len(theirs)
    assert decode(cls, version, theirs) == message
