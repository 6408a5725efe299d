"""Notices: what comes out is what went in, lines stay below PIPE_BUF, a full pipe is counted and said."""

import json
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


U8, U15, U16, U31, U32, U64 = 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
#: Of each kind its class, and of each field how much of it a record or a row of the dictionary has room for; as
#: letters: how long a text may be.
ROOM = {
    "begin": (ProcessorBegan, {"t0": U64, "proc": U16}),
    "open": (ConnectionOpened, {"t0": U64, "conn": U32, "proc": U16, "listener": U8, "peer": "x" * 64}),
    "close": (
        ConnectionClosed,
        {"t0": U64, "conn": U32, "proc": U16, "listener": U8, "requests": U64, "reason": U15},
    ),
    "client": (ClientNamed, {"conn": U32, "hash": U32, "name": "x" * 255}),
    "software": (SoftwareNamed, {"conn": U32, "name": "x" * 100, "version": "x" * 100}),
    "role": (
        RoleChanged,
        {"t0": U64, "topic": U32, "partition": U31, "epoch": U31, "old": U8, "new": U8, "end": U64, "hw": U64,
         "controller": U31, "leader": U32},
    ),
    "lost": (NoticesLost, {"proc": U16, "n": U64}),
}  # fmt: skip


def more(value):
    return value + (1 if isinstance(value, int) else "x")


@pytest.mark.parametrize("kind", ROOM)
def test_a_field_is_believed_as_far_as_there_is_room_for_it(kind):
    """And a writer cuts what is more: a notice that says a little less is better than none."""
    made, room = ROOM[kind]
    largest = made(*room.values())
    assert notice.decode(json.dumps({"k": kind, **room}).encode()) == largest
    assert notice.encode(made(*map(more, room.values()))) == notice.encode(largest)
    zero = {key: 0 if isinstance(value, int) else "" for key, value in room.items()}
    assert notice.decode(json.dumps({"k": kind, **zero}).encode()) == made(*zero.values())
    for key, value in room.items():
        assert notice.decode(json.dumps({"k": kind, **room, key: more(value)}).encode()) is None, key
        missing = {other: one for other, one in room.items() if other != key}
        assert notice.decode(json.dumps({"k": kind, **missing}).encode()) is None, key
        if isinstance(value, int):
            for wrong in (-1, True, 1.0, "1", None):
                assert notice.decode(json.dumps({"k": kind, **room, key: wrong}).encode()) is None, key


@pytest.mark.parametrize(("size", "is_one"), [(4096, True), (4097, False)])
def test_a_line_is_no_longer_than_what_is_written_in_one_piece(size, is_one):
    assert notice.PIPE_BUF == 4096, "POSIX: lines of several writers are mixed beyond it"
    line = notice.encode(NOTICES[-2])[:-1].ljust(size)
    assert (notice.decode(line) is not None) is is_one


def test_why_connections_end_is_said_by_numbers_that_stay():
    """They stand in the records of traces, and docs/trace-format.md."""
    assert [reason.name for reason in sorted(CloseReason)] == [
        "CLIENT", "ANSWERED", "REFUSED", "IDLE", "FRAME_TIMEOUT", "EXCESS", "STUCK", "STOPPING", "DIED", "FAILED",
    ]  # fmt: skip
    assert list(map(int, CloseReason)) == list(range(10)) and notice.NO_PROCESSOR == U16


def test_a_notice_that_found_room_in_part_was_dropped(monkeypatch):
    written = []
    monkeypatch.setattr(notice.os, "write", lambda fd, data: written.append((fd, data)) or len(data) - 1)
    writer = NoticeWriter(0, 4)
    assert not writer.tell(NOTICES[0]) and writer.dropped == 1 and written == [(0, notice.encode(NOTICES[0]))]


def test_what_was_lost_is_told_again_until_it_found_room(monkeypatch):
    room, written = [0, 1, 0, 1, 1], []

    def write(fd, data):
        if not room.pop(0):
            raise BlockingIOError
        written.append(notice.decode(data))
        return len(data)

    monkeypatch.setattr(notice.os, "write", write)
    writer = NoticeWriter(5, 4)
    assert [writer.tell(NOTICES[number]) for number in range(3)] == [False, True, True]
    assert written == [NOTICES[1], NOTICES[2], NoticesLost(4, 1)] and writer.dropped == 1 and room == []
