"""One connection to a leader: requests that go in pieces, answers that come in pieces, and what ends it."""

import select
import socket
import struct
from types import SimpleNamespace

import pytest

from mpbroker.client.address_lookup import Address
from mpbroker.errors import ProtocolError
from mpbroker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from mpbroker.protocol.messages.fetch import FetchRequest, FetchResponse, FetchTopic
from mpbroker.replication.leader_connection import ConnectionEnded, LeaderConnection


@pytest.fixture
def leader():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        yield server


@pytest.fixture
def pair(leader):
    connection = LeaderConnection(Address(socket.AF_INET, leader.getsockname()), "follower", 1000)
    far, _ = leader.accept()
    far.settimeout(5)
    with far:
        yield connection, far
    connection.close()


def read_until(connection):
    """The answer, when all of it has come."""
    while (found := connection.read()) is None:
        assert select.select([connection], [], [], 5)[0]
    return found


def test_a_large_request_goes_in_pieces(pair):
    connection, far = pair
    assert connection.is_idle and not connection.wants_to_write
    topics = [FetchTopic(topic="t" * 30_000, partitions=[]) for _ in range(300)]
    connection.ask(FetchRequest(topics=topics), FetchResponse, 11)
    assert connection.wants_to_write and not connection.is_idle
    connection.write()
    assert connection.wants_to_write, "the socket takes less"
    received = bytearray()
    while connection.wants_to_write:
        received += far.recv(1 << 20)
        connection.write()
    (length,) = struct.unpack_from(">i", received)
    while len(received) < length + 4:
        received += far.recv(1 << 20)
    assert len(received) == length + 4 and received.count(b"t" * 30_000) == 300


def test_answers_come_in_pieces_and_one_after_the_other(pair):
    connection, far = pair
    for number in (1, 2):
        connection.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)
        connection.write()
        assert struct.unpack_from(">ihhi", far.recv(1000), 0)[3] == number
        body = struct.pack(">ihi", number, 35, 0)
        for byte in struct.pack(">i", len(body)) + body[:-1]:
            far.sendall(bytes([byte]))
            assert connection.read() is None and not connection.is_idle
        far.sendall(body[-1:])
        assert read_until(connection).error_code == 35 and connection.is_idle


@pytest.mark.parametrize("length", [-1, 1001, 3])
def test_an_impossible_length_ends_it_before_anything_is_held(pair, length):
    connection, far = pair
    connection.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)
    connection.write()
    far.sendall(struct.pack(">i", length) + bytes(20))
    with pytest.raises((ProtocolError, ConnectionEnded)):
        read_until(connection)


def test_the_end_of_the_stream_ends_it(pair):
    connection, far = pair
    connection.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)
    far.close()
    with pytest.raises(ConnectionEnded):
        read_until(connection)


@pytest.mark.parametrize(("error", "why"), [(OSError(32, "Broken pipe"), "Broken pipe"), (OSError("odd"), "odd")])
def test_what_ends_it_is_told_in_words(pair, error, why):
    connection, _ = pair
    near, connection._socket = (
        connection._socket,
        SimpleNamespace(send=lambda _: (_ for _ in ()).throw(error), recv=lambda _: (_ for _ in ()).throw(error)),
    )
    connection.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)
    for call in (connection.write, connection.read):
        with pytest.raises(ConnectionEnded) as ended:
            call()
        assert str(ended.value) == why
    connection._socket = near
