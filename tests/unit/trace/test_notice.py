"""Notices: what comes out is what went in, lines stay below PIPE_BUF, a full pipe is counted and said."""

import os

import pytest

from mpbroker.trace import notice
from mpbroker.trace.notice import (
    ClientNamed,
    CloseReason,
    ConnectionClosed,
    ConnectionOpened,
    NoticesLost,
    NoticeWriter,
    ProcessorBegan,
    RoleChanged,
    SoftwareNamed,
)

NOTICES = [
    ConnectionOpened(2**63, 0x08000001, 1, 2, "[::1]:9092"),
    ConnectionClosed(5, 2**32 - 1, 31, 0, 12, CloseReason.IDLE),
    ClientNamed(1, 0xDEADBEEF, 'über\n"client"\x00'),
    SoftwareNamed(1, "librdkafka", "2.3.0"),
    NoticesLost(3, 7),
    ProcessorBegan(5, 31),
    RoleChanged(5, 0xDEADBEEF, 3, 7, 0, 1, 2**40, 12, 2, 0xFFFFFFFF),
]


@pytest.mark.parametrize("one", NOTICES)
def test_a_notice_survives_the_pipe(one):
    line = notice.encode(one)
    assert line.endswith(b"\n") and line.count(b"\n") == 1 and line.isascii()
    assert notice.decode(line) == one == notice.decode(line[:-1])


@pytest.mark.parametrize("letter", ["a", "\x00", "\U0001f600", "\ud800"])
def test_lines_are_bounded(letter):
    assert len(notice.encode(SoftwareNamed(1, letter * 5000, letter * 5000))) <= notice.PIPE_BUF
    assert len(notice.encode(ClientNamed(1, 2, letter * 5000))) <= notice.PIPE_BUF
    decoded = notice.decode(notice.encode(ClientNamed(1, 2, letter * 5000)))
    assert decoded is not None and decoded.name == letter * notice.MAX_CLIENT_ID


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b"null",
        b'{"k":"open"}',
        b'{"k":[]}',
        b"\xff",
        b"[" * 4000,
        b" " * 5000,
        b'{"k":"client","conn":-1,"hash":1,"name":"x"}',
        b'{"k":"client","conn":4294967296,"hash":1,"name":"x"}',
        b'{"k":"client","conn":true,"hash":1,"name":"x"}',
        b'{"k":"client","conn":1,"hash":1,"name":5}',
        b'{"k":"client","conn":1,"hash":1,"name":"' + b"x" * 256 + b'"}',
    ],
)
def test_what_is_no_notice_reads_as_none(line):
    assert notice.decode(line) is None


def test_a_full_pipe_drops_counts_and_tells_later():
    reading, writing = os.pipe2(os.O_NONBLOCK)
    writer = NoticeWriter(writing, 4)
    written = 0
    while writer.tell(NOTICES[0]):
        written += 1
    assert not writer.tell(NOTICES[0]) and writer.dropped == 2
    lines = []
    while len(lines) < written:
        lines += os.read(reading, 1 << 20).splitlines()
    assert [notice.decode(line) for line in lines] == [NOTICES[0]] * written
    assert writer.tell(NOTICES[1])
    assert [notice.decode(line) for line in os.read(reading, 4096).splitlines()] == [NOTICES[1], NoticesLost(4, 2)]
    assert writer.tell(NOTICES[2]) and len(os.read(reading, 4096).splitlines()) == 1 and writer.dropped == 2
    os.close(reading)
    assert not writer.tell(NOTICES[0])
    os.close(writing)


def test_without_a_pipe_nothing_is_told():
    assert not NoticeWriter(-1, 0).tell(NOTICES[0])
