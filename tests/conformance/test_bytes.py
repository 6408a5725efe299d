"""Bytes against independent encoders: kafka-python's and a plain Python one, for every message at every version."""

from random import Random

import pytest

from mpbroker.protocol import headers
from mpbroker.protocol.codec import decode, encode, encoded_size
from mpbroker.protocol.messages_by_key import REQUESTS, RESPONSES
from mpbroker.protocol.schema import schema_of
from tests.conformance.kafka_python_peer import UNDESCRIBED, peer_class, to_peer
from tests.fuzz import plain_codec
from tests.fuzz.random_messages import random_message

VERSIONS = [
    (cls, version)
    for table in (REQUESTS, RESPONSES)
    for key, cls in table.items()
    if key not in UNDESCRIBED
    for version in range(schema_of(cls).versions[0], schema_of(cls).versions[1] + 1)
]
SETS_OF_OPERATIONS = "DescribeTopicPartitionsResponse"  # what kafka-python has in place of the number there
named = pytest.mark.parametrize(("cls", "version"), VERSIONS, ids=lambda value: getattr(value, "__name__", value))


@named
def test_bytes_equal_those_of_kafka_python(cls, version):
    if cls.__name__ == SETS_OF_OPERATIONS:
        return
    random = Random(f"{cls.__name__} {version}")
    for _ in range(8):
        message = random_message(random, cls, version)
        ours = encode(message, version)
        assert ours == bytes(to_peer(message, version, peer_class(cls.__name__)).encode(version=version))
        assert decode(cls, version, ours) == message


@named
def test_bytes_equal_those_of_the_plain_codec(cls, version):
    random = Random(f"plain {cls.__name__} {version}")
    for _ in range(20):
        message = random_message(random, cls, version, max_elements=4)
        ours = encode(message, version)
        assert ours == plain_codec.encode(message, version)
        assert encoded_size(message, version) == len(ours)
        assert plain_codec.decode(cls, version, ours) == (message, len(ours))


@pytest.mark.parametrize(("key", "version"), [(schema_of(c).key, v) for c, v in VERSIONS if c in REQUESTS.values()])
def test_whole_frames_equal_those_of_kafka_python(key, version):
    for table, read in ((REQUESTS, True), (RESPONSES, False)):
        if table[key].__name__ == SETS_OF_OPERATIONS:
            continue
        message = random_message(Random(key * 100 + version), table[key], version)
        peer = to_peer(message, version, peer_class(table[key].__name__))
        if read:
            peer.with_header(correlation_id=77, client_id="größe")
            ours = headers.encode_request_frame(message, version, 77, "größe")
        else:
            peer.with_header(correlation_id=77)
            ours = headers.encode_response_frame(key, version, 77, message)
        assert ours == bytes(peer.encode(header=True, framed=True))
