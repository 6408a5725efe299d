"""Names are found in what clients send, and only there; a processor tells of its connections, and counts what it cannot
tell."""

import os
import socket
import struct

import pytest

from mpbroker.network import connection_notices
from mpbroker.network.connection_notices import ConnectionNotices, names_in
from mpbroker.network.connection_table import ConnectionTable
from mpbroker.network.fd_passing import address_bytes
from mpbroker.protocol.headers import encode_request_frame
from mpbroker.protocol.messages.api_versions import ApiVersionsRequest
from mpbroker.shm.counters import Counter
from mpbroker.trace import notice
from mpbroker.trace.notice import (
    ClientNamed,
    CloseReason,
    ConnectionClosed,
    ConnectionOpened,
    ProcessorBegan,
    SoftwareNamed,
)


def introduction(client_id="app-1", version=3):
    request = ApiVersionsRequest(client_software_name="librdkafka", client_software_version="2.3.0")
    return encode_request_frame(request, version, 7, client_id)[4:]


def test_names_of_a_request():
    assert names_in(introduction()) == ("app-1", ("librdkafka", "2.3.0"))
    assert names_in(introduction(version=2)) == ("app-1", None)
    assert names_in(struct.pack(">hhih", 0, 7, 1, 3) + b"app" + bytes(50)) == ("app", None)
    assert names_in(struct.pack(">hhih", 18, 3, 1, -1) + b"\0\x03ab\x02c") == ("", ("ab", "c"))
    assert names_in(struct.pack(">hhih", 3, 1, 1, 2) + b"\xff\xfe") == ("\ufffd\ufffd", None)


def test_cut_or_odd_requests_name_less_and_never_fail():
    whole = introduction()
    for end in range(len(whole)):
        client_id, software = names_in(whole[:end])
        assert "app-1".startswith(client_id) and (software is None or "librdkafka".startswith(software[0]))
    for at in range(len(whole)):
        for value in (0, 1, 127, 128, 255):
            names_in(whole[:at] + bytes([value]) + whole[at + 1 :])


class Row:
    def __init__(self):
        self.counted = []

    def count(self, counter, n=1):
        self.counted.append(counter)


@pytest.fixture
def channel():
    ends = socket.socketpair()
    yield ConnectionTable().add(ends[0], (5 << 27) + 9, address_bytes("10.0.0.7"), 0)
    for end in ends:
        end.close()


def test_what_the_tracer_reads(channel, monkeypatch):
    reading, writing = os.pipe2(os.O_NONBLOCK)
    notices = ConnectionNotices(writing, 2, 1, Row())
    monkeypatch.setattr(type(channel), "take_introduction", lambda self: introduction())
    channel.requests = 12
    notices.began()
    notices.opened(channel, 4711, 100)
    notices.introduced(channel, 0xABCD)
    notices.closed(channel, CloseReason.IDLE, 200)
    number = 2 << 27 | 9
    began, *told = [notice.decode(line) for line in os.read(reading, 4096).splitlines()]
    assert isinstance(began, ProcessorBegan) and began.processor == 2
    assert told == [
        ConnectionOpened(100, number, 2, 1, "10.0.0.7:4711"),
        ClientNamed(number, 0xABCD, "app-1"),
        SoftwareNamed(number, "librdkafka", "2.3.0"),
        ConnectionClosed(200, number, 2, 1, 12, CloseReason.IDLE),
    ]
    os.close(reading)
    os.close(writing)


def test_lost_notices_are_counted_and_nobody_listening_costs_nothing(channel, monkeypatch):
    reading, writing = os.pipe2(os.O_NONBLOCK)
    os.close(reading)
    row = Row()
    ConnectionNotices(writing, 0, 0, row).opened(channel, 1, 2)
    assert row.counted == [Counter.TRACE_NOTICES_DROPPED]
    os.close(writing)
    silent = ConnectionNotices(-1, 0, 0, row)
    silent.began()
    silent.opened(channel, 1, 2)
    monkeypatch.setattr(type(channel), "take_introduction", lambda self: introduction())
    silent.introduced(channel, 3)
    silent.closed(channel, CloseReason.CLIENT, 3)
    assert len(row.counted) == 1 and connection_notices.CONNECTION_BITS == 27
    assert ConnectionNotices(0, 0, 0, row).wanted, "0 is a descriptor as any"


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        (b"\0\5name!\4ver", ("cl", ("name", ""))),
        (b"\0\5name\4ver", ("cl", ("name", "ver"))),
        (b"\0\5name\5ver", ("cl", ("name", ""))),
        (b"\0\5name\4ve", ("cl", ("name", ""))),
        (b"\0\5nam", ("cl", None)),
        (b"\0\1\4ver", ("cl", None)),
        (b"\0\0", ("cl", None)),
        (b"\0\x80" + b"x" * 200, ("cl", None)),
        (b"\1\5name\4ver", ("cl", None)),
        (b"\0", ("cl", None)),
        (b"", ("cl", None)),
    ],
)
def test_names_that_are_cut_off_are_not_there(fields, names):
    header = struct.pack(">hhih", 18, 3, 7, 2) + b"cl"
    assert names_in(header + fields) == names


@pytest.mark.parametrize(("key", "version"), [(18, 2), (3, 3)])
def test_only_api_versions_3_names_the_software(key, version):
    header = struct.pack(">hhih", key, version, 7, 2) + b"cl"
    assert names_in(header + b"\0\5name\4ver") == ("cl", None)
    assert names_in(struct.pack(">hhih", key, version, 7, -1)) == ("", None) and names_in(header[:9]) == ("", None)
