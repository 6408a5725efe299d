"""What a connection may expect: order, muting, refusals, limits. Raw sockets against a real broker."""

import struct
from contextlib import suppress

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.api_versions import ApiVersionsRequest
from mpbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.conformance.conftest import CONTROL_PLANE, LISTENERS
from tests.harness.broker import Broker, wait_until
from tests.harness.peer import Closed, Peer, batch, create_topic, fetch_request, produce, produce_request
from tests.harness.raw_client import RawConnection, api_versions, frame


def _counter(broker, name: str) -> int:
    return broker.status()["counters"][name]


def test_a_waiting_request_holds_up_the_requests_behind_it_and_order_is_kept(peer, topic):
    """One request of a connection at a time: the fetch waits for its time, the metadata behind it waits for the
    fetch."""
    peer.send(fetch_request(topic, {0: 0}, max_wait_ms=300, min_bytes=1), 11)
    peer.send(MetadataRequest(topics=[]), 8)
    assert peer.receive().responses[0].partitions[0].records in (b"", None)
    assert peer.receive().brokers


def test_acks_0_is_never_answered_and_the_connection_goes_on(peer, topic):
    peer.send(produce_request(topic, {0: batch(b"a")}, acks=0), 7)
    peer.forget()
    assert peer.ask(ApiVersionsRequest(), 0).error_code == 0, "the next answer belongs to the next request"


def test_an_error_of_acks_0_closes_the_connection(peer):
    peer.send(produce_request("no-such-topic", {0: batch(b"a")}, acks=0), 7)
    assert peer.is_closed()


@pytest.mark.parametrize(
    ("api_key", "what"),
    [
        (4, "LeaderAndIsr"),
        (5, "StopReplica"),
        (6, "UpdateMetadata"),
        (39, "RenewDelegationToken"),
        (49, "AlterClientQuotas"),
        (38, "CreateDelegationToken"),
    ],
)
@pytest.mark.parametrize("listener", [0, 2])
def test_an_api_that_is_not_served_closes_its_connection_on_every_listener(broker, api_key, what, listener):
    with RawConnection(broker.port(listener)) as connection:
        connection.send(frame(api_key, 0, 1, b"\0" * 32))
        assert connection.is_closed(), what


def test_api_versions_names_the_client_software_or_is_refused(peer):
    accepted = ApiVersionsRequest(client_software_name="my-client", client_software_version="1.2.3")
    assert peer.ask(accepted, 3).error_code == ErrorCode.NONE
    refused = ApiVersionsRequest(client_software_name="no spaces", client_software_version="1")
    assert peer.ask(refused, 3).error_code == ErrorCode.INVALID_REQUEST
    assert peer.answers()


def test_api_versions_of_an_unknown_version_is_answered_in_version_0(broker):
    with RawConnection(broker.port()) as connection:
        assert connection.ask(frame(18, 100, 7)) == (7, bytes.fromhex("0023 00000001 0012 0000 0004"))


def test_trailing_bytes_are_tolerated_and_a_body_cut_short_is_not(broker):
    null_topics = struct.pack(">i", -1)
    with RawConnection(broker.port()) as connection:
        assert connection.ask(frame(3, 1, 5, null_topics + b"trailing"))[0] == 5
        connection.send(frame(3, 1, 6, null_topics[:2]))
        assert connection.is_closed()


def test_text_that_is_no_utf_8_is_read_with_replacements(broker):
    name = b"bad\xff\xc3("
    body = struct.pack(">ih", 1, len(name)) + name + b"\0"
    with RawConnection(broker.port()) as connection:
        correlation_id, answer = connection.ask(frame(3, 4, 8, body, client_id=b"\xff\xfe"))
        assert correlation_id == 8 and "bad\ufffd\ufffd(".encode() in answer
        assert connection.ask(api_versions(9))[0] == 9


def test_a_name_too_long_to_be_answered_closes_and_harms_nobody(broker):
    """Every byte becomes three in the answer, more than a name can have on the wire."""
    name = b"\xff" * 20_000
    pids = [row["pid"] for row in broker.status()["processes"]]
    for version in (1, 4, 8):
        body = struct.pack(">ih", 1, len(name)) + name + b"\0\0\0"
        with RawConnection(broker.port()) as connection:
            connection.send(frame(3, version, 8, body))
            assert connection.is_closed()
    with RawConnection(broker.port()) as connection:
        assert connection.ask(api_versions(1))
    assert [row["pid"] for row in broker.status()["processes"]] == pids


def test_a_client_that_leaves_while_its_fetch_waits_leaves_nothing_behind(broker, peer, topic):
    """Its fetch waits on, for a record that comes when nobody is there any more."""
    with Peer(broker.port()) as leaving:
        leaving.send(fetch_request(topic, {0: 0}, max_wait_ms=60_000, min_bytes=1), 11)
        wait_until(lambda: _counter(broker, "entries_in_use") > 0, "the fetch to wait")
    assert produce(peer, topic, batch(b"a")).error_code == 0
    wait_until(lambda: _counter(broker, "entries_in_use") == 0, "its entry to be free")


def test_no_entry_is_left_in_use_when_all_is_answered(broker, peer, topic):
    for _ in range(50):
        assert peer.answers()
    peer.send(produce_request(topic, {0: batch(b"x")}, acks=0), 7)
    peer.forget()
    assert peer.answers()
    wait_until(lambda: _counter(broker, "entries_in_use") == 0, "all entries to be free")
    counters = broker.status()["counters"]
    assert counters["requests_received"] == counters["requests_finished"]


def test_a_frame_above_the_limit_closes_its_connection(broker):
    with RawConnection(broker.port()) as connection:
        connection.send(struct.pack(">i", 4_000_001) + b"\0" * 1000)
        assert connection.is_closed()


def test_many_new_connections_at_once_are_all_served(broker):
    """A processor takes at most 20 of them in a turn; the rest waits for the next turns."""
    connections = [RawConnection(broker.port(1)) for _ in range(150)]
    for number, connection in enumerate(connections):
        connection.send(api_versions(number))
    assert [connection.receive()[0] for connection in connections] == list(range(150))
    for connection in connections:
        connection.close()


def test_an_idle_connection_is_closed(tmp_path):
    """A slow machine may let one be idle before it asks: then another one is opened, and both are counted."""
    with Broker(tmp_path, overrides={"connections.max.idle.ms": 400, "num.network.threads": 1}) as broker:
        before, opened = _counter(broker, "connections_idle"), []

        def served():
            opened.append(RawConnection(broker.port()))
            with suppress(ConnectionError):
                return opened[-1].ask(api_versions(1))

        wait_until(served, "a connection to be served")
        assert all(connection.is_closed() for connection in opened)
        assert _counter(broker, "connections_idle") - before == len(opened)
        for connection in opened:
            connection.close()


def test_an_address_over_its_limit_is_closed_and_its_place_comes_back(tmp_path):
    with Broker(tmp_path, overrides={"max.connections.per.ip": 2, "num.network.threads": 1}) as broker:

        def admitted():
            connection = Peer(broker.port())
            return connection if connection.answers() else connection.socket.close()

        held = [wait_until(admitted, "a place for a connection") for _ in range(2)]
        for turn in range(5):
            assert admitted() is None, f"exactly one place came back (turn {turn})"
            held.pop(0).socket.close()
            held.append(wait_until(admitted, "the place of the one that left"))
        for connection in held:
            connection.socket.close()


def test_a_listener_over_its_limit_makes_new_connections_wait(tmp_path):
    overrides = CONTROL_PLANE | {"listener.name.external.max.connections": 1, "num.network.threads": 1}
    with Broker(tmp_path, overrides=overrides, listeners=LISTENERS) as broker:
        first = RawConnection(broker.port(1))
        assert first.ask(api_versions(1))
        waiting = RawConnection(broker.port(1), timeout_s=0.5)
        waiting.send(api_versions(2))
        with pytest.raises(TimeoutError):
            waiting.receive()
        with RawConnection(broker.port(0)) as other:
            assert other.ask(api_versions(3)), "other listeners are not held up"
        first.close()
        waiting.socket.settimeout(10)
        assert waiting.receive()[0] == 2
        waiting.close()
        wait_until(lambda: _counter(broker, "acceptor_blocked_us") > 0, "the time to be counted, when it is over")


def test_a_broker_over_its_limit_closes_what_is_unused_for_longest(tmp_path):
    overrides = CONTROL_PLANE | {"max.connections": 2, "num.network.threads": 1}
    with Broker(tmp_path, overrides=overrides, listeners=LISTENERS) as broker:
        oldest, newer = RawConnection(broker.port(1)), RawConnection(broker.port(1))
        assert oldest.ask(api_versions(1)) and newer.ask(api_versions(2))
        with RawConnection(broker.port(0)) as protected:
            assert protected.ask(api_versions(3)), "the brokers' own listener has no broker-wide limit"
            assert oldest.is_closed()
            assert newer.ask(api_versions(4)) and protected.ask(api_versions(5))
            assert broker.status()["counters"]["connections_excess"] == 1
        newer.close()


def test_metadata_below_version_4_creates_topics(peer):
    """Clients of that age have no way to ask for it (kafka-python 2.0 waits for ever otherwise)."""
    for version in range(4):
        name = f"created-by-version-{version}"
        assert name not in {t.name for t in peer.ask(MetadataRequest(topics=None if version else []), version).topics}
        asked = _metadata_named(name)
        assert peer.ask(asked, version).topics[0].error_code in (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.LEADER_NOT_AVAILABLE,
        )
        found = wait_until(
            lambda asked=asked, version=version: [t for t in peer.ask(asked, version).topics if not t.error_code],
            "the topic to be there",
        )
        assert len(found[0].partitions) == 2, "num.partitions"


def test_metadata_from_version_4_creates_topics_only_when_asked(peer):
    asked = _metadata_named("not-created", allow_auto_topic_creation=False)
    for _ in range(3):
        assert peer.ask(asked, 4).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    everything = peer.ask(MetadataRequest(topics=None), 8)
    assert "not-created" not in {t.name for t in everything.topics}


def _metadata_named(name: str, **fields) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name)], **fields)


def test_what_is_advertised_has_kafkas_ranges(peer):
    ranges = {api.api_key: (api.min_version, api.max_version) for api in peer.ask(ApiVersionsRequest(), 0).api_keys}
    assert ranges == {
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
    assert all(low <= high for low, high in ranges.values())


@pytest.mark.parametrize("version", [0, 1, 2])
def test_produce_of_the_oldest_versions_is_advertised_and_closes(broker, version):
    with Peer(broker.port()) as peer:
        peer.send(produce_request("any", {0: batch(b"a")}), version)
        with pytest.raises(Closed):
            peer.receive()


def test_a_topic_named_twice_in_different_listeners_is_one(broker, topic):
    with Peer(broker.port(1)) as external, Peer(broker.port(2)) as control:
        for connection in (external, control):
            assert create_topic(connection, topic).error_code == ErrorCode.TOPIC_ALREADY_EXISTS
