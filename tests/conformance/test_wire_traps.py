"""What made real clients fail with other brokers, and how a Kafka 3.9 answers odd bytes: each proven on raw sockets."""

import struct
import time

import pytest

from mpbroker.protocol.messages.api_versions import ApiVersionsRequest
from mpbroker.protocol.messages.list_offsets import ListOffsetsRequest
from mpbroker.protocol.messages.metadata import MetadataRequest
from tests.harness.peer import Closed, Peer, batch, fetch_request, metadata, produce, produce_request
from tests.harness.raw_client import RawConnection, frame

NULL_TOPICS = struct.pack(">i", -1)
ADVERTISED = {
    0: (0, 13),
    1: (4, 17),
    2: (1, 10),
    3: (0, 13),
    8: (2, 9),
    9: (1, 9),
    10: (0, 6),
    11: (0, 9),
    12: (0, 4),
    13: (0, 5),
    14: (0, 5),
    15: (0, 5),
    16: (0, 5),
    17: (0, 1),
    18: (0, 4),
    19: (0, 7),
    20: (0, 6),
    21: (0, 2),
    22: (0, 5),
    23: (0, 4),
    24: (0, 5),
    25: (0, 4),
    26: (0, 5),
    27: (0, 1),
    28: (0, 5),
    29: (0, 3),
    30: (0, 3),
    31: (0, 3),
    32: (0, 4),
    33: (0, 2),
    34: (0, 2),
    35: (0, 4),
    36: (0, 2),
    37: (0, 3),
    42: (0, 2),
    43: (0, 2),
    44: (0, 1),
    45: (0, 0),
    46: (0, 0),
    47: (0, 0),
    48: (0, 1),
    50: (0, 0),
    57: (0, 1),
    60: (0, 1),
    61: (0, 0),
    65: (0, 0),
    66: (0, 1),
    68: (0, 1),
    69: (0, 1),
    74: (0, 1),
    75: (0, 0),
    76: (1, 1),
    77: (1, 1),
    78: (1, 2),
    79: (1, 2),
}


def _advertised(peer: Peer, version: int) -> dict[int, tuple[int, int]]:
    asked = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    return {each.api_key: (each.min_version, each.max_version) for each in peer.ask(asked, version).api_keys}


@pytest.mark.parametrize("version", range(5))
def test_exactly_what_is_served_is_advertised(peer, version):
    """Produce from 0 on, or old librdkafka sends plain what should be compressed; no minimum above its maximum, or
    aiokafka gives up; neither DescribeCluster 0 alone nor telemetry: kafka-python fails, clients begin to push."""
    advertised = _advertised(peer, version)
    assert advertised == ADVERTISED
    assert all(low <= high for low, high in advertised.values())
    assert advertised[60][1] >= 1
    assert not {71, 72} & advertised.keys()
    assert {68, 69} <= advertised.keys(), "librdkafka takes one for the other"


@pytest.mark.parametrize("version", range(3))
def test_produce_below_3_closes_although_it_is_advertised(broker, version):
    with RawConnection(broker.port()) as connection:
        connection.send(frame(0, version, 1, struct.pack(">hii", 1, 1000, 0)))
        assert connection.is_closed()


@pytest.mark.parametrize("version", [5, 9, 100, 32767, -1, -32768])
def test_api_versions_of_any_other_version_gets_sixteen_bytes(broker, version):
    """Error 35 and one key in version 0, whatever the body is; the connection goes on."""
    with RawConnection(broker.port()) as connection:
        for body in (b"", b"\0", b"\5rust\0", b"\xff" * 40):
            connection.send(frame(18, version, 7, body))
            assert connection.receive() == (7, bytes.fromhex("0023 00000001 0012 0000 0004"))
        assert connection.ask(frame(18, 0, 8))[0] == 8


@pytest.mark.parametrize("version", [5, 100, 32767, -1])
@pytest.mark.parametrize(
    "after_correlation_id",
    [b"", b"\0", b"\xff\xff", b"\0\5ab", b"\xff\xfe", b"\xff\xff\5", b"\0\2\xff\xfe"],
    ids=["nothing", "half a length", "no tags", "client id cut", "length -2", "tags cut", "bad utf-8"],
)
def test_api_versions_of_any_other_version_is_answered_whatever_follows_the_correlation_id(
    broker, version, after_correlation_id
):
    """Nobody knows the header of a version to come: only its first eight bytes are read. (Kafka 3.9.2 closes where the
    rest is no header of version 1 or 2: nothing that a client asks which versions there are for.)"""
    payload = struct.pack(">hhi", 18, version, 7) + after_correlation_id
    with RawConnection(broker.port()) as connection:
        for _ in range(2):
            connection.send(struct.pack(">i", len(payload)) + payload)
            assert connection.receive() == (7, bytes.fromhex("0023 00000001 0012 0000 0004"))


def test_api_versions_never_has_tagged_fields_in_its_header(broker):
    with RawConnection(broker.port()) as connection:
        _, rest = connection.ask(frame(18, 3, 7, b"\0" + b"\2a\2b\0"))
    assert rest[:2] == b"\0\0" and rest[2] == len(ADVERTISED) + 1, "error code and compact count follow at once"


@pytest.mark.parametrize(
    ("key", "version"),
    [(500, 0), (-1, 0), (87, 0), (0, 99), (3, 99), (3, -1), (1, 3), (1, 18), (2, 0), (4, 0), (10, 3), (19, 8), (22, 6)],
)
def test_unknown_keys_and_versions_close(broker, key, version):
    with RawConnection(broker.port()) as connection:
        connection.send(frame(key, version, 1, b"\0" * 64))
        assert connection.is_closed()


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", 200_000_000) + b"\0" * 100,
        struct.pack(">i", -5) + b"\0" * 100,
        struct.pack(">i", 0),
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        frame(18, 3, 1),
    ],
)
def test_what_is_no_frame_closes(broker, data):
    with RawConnection(broker.port()) as connection:
        connection.send(data)
        assert connection.is_closed()


def test_bytes_after_a_request_are_tolerated_and_missing_ones_are_not(broker):
    with RawConnection(broker.port()) as connection:
        assert connection.ask(frame(3, 1, 5, NULL_TOPICS + b"more than was asked for"))[0] == 5
        connection.send(frame(3, 1, 6, NULL_TOPICS[:-1]))
        assert connection.is_closed()


def test_one_request_at_a_time_and_answers_in_order(broker, peer, topic):
    """A fetch at the log's end holds up what was sent behind it for as long as it waits: until there is a record."""
    peer.send(fetch_request(topic, {0: 0}, max_wait_ms=60_000, min_bytes=1), 11)
    peer.send(MetadataRequest(topics=[]), 8)
    peer.send(ListOffsetsRequest(replica_id=-1, topics=[]), 5)
    peer.socket.settimeout(0.1)
    with pytest.raises(TimeoutError):
        peer.socket.recv(1)
    peer.socket.settimeout(15)
    with Peer(broker.port()) as other:
        assert produce(other, topic, batch(b"a")).error_code == 0
    assert peer.receive().responses[0].partitions[0].error_code == 0
    assert peer.receive().brokers
    assert peer.receive().topics == []


def test_acks_0_gets_nothing_and_an_error_hangs_up(peer, topic):
    peer.send(produce_request(topic, {0: batch(b"a")}, acks=0), 7)
    peer.forget()
    assert peer.answers()
    peer.send(produce_request(topic, {0: batch(b"a"), 9: batch(b"b")}, acks=0), 7)
    assert peer.is_closed()


@pytest.mark.parametrize("version", range(9))
def test_metadata_creates_topics_by_itself_below_version_4(broker, version):
    """Those versions have no flag for it; pykafka and kafka-python 2.0 ask for ever otherwise."""
    name = f"trap-{version}"
    with Peer(broker.port()) as peer:
        deadline = time.monotonic() + 10
        metadata(peer, name, version=version)
        while version < 4 and metadata(peer, name, version=8).topics[0].error_code and time.monotonic() < deadline:
            time.sleep(0.01)
        made = metadata(peer, name, version=8).topics[0].error_code == 0
    assert made == (version < 4)


def test_many_topics_asked_for_one_right_after_the_other_all_come_into_being(broker):
    with Peer(broker.port()) as peer, Peer(broker.port(1)) as other:
        names = [f"one-of-many-{number}" for number in range(40)]
        for name in names:
            metadata(peer, name, version=4, create=True)
        deadline = time.monotonic() + 10
        while any(t.error_code for t in metadata(other, *names).topics) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert [t.name for t in metadata(other, *names).topics if t.error_code] == []


def test_a_client_without_a_name_is_served(broker):
    for client_id in (None, b"", b"\xff\xfe", b"x" * 32767):
        with RawConnection(broker.port()) as connection:
            assert connection.ask(frame(3, 1, 9, struct.pack(">i", 0), client_id))[0] == 9


def test_a_name_too_long_to_be_answered_closes_its_connection_alone(broker, topic):
    with RawConnection(broker.port()) as connection:
        connection.send(frame(3, 1, 9, struct.pack(">ih", 1, 32767) + b"\xff" * 32767))
        assert connection.is_closed()
    with Peer(broker.port()) as peer:
        assert produce(peer, topic, batch(b"a")).error_code == 0


def test_closed_is_an_answer_of_its_own(broker):
    """The harness tells a closed connection from silence: otherwise the tests above would prove nothing."""
    with Peer(broker.port()) as peer:
        peer.socket.sendall(struct.pack(">i", -1))
        with pytest.raises(Closed):
            peer.receive_raw()
