"""From the pipe to records and names: lines in any pieces, connections of dead processors, junk."""

import os

import pytest

from mpbroker.supervisor.shared_state import TRACE_NOTICES_BYTES
from mpbroker.trace import notice, notice_intake, record
from mpbroker.trace.dictionary_writer import DictionaryWriter
from mpbroker.trace.notice import (
    ClientNamed,
    CloseReason,
    ConnectionClosed,
    ConnectionOpened,
    NoticesLost,
    ProcessorBegan,
    RoleChanged,
    SoftwareNamed,
)
from mpbroker.trace.notice_intake import NoticeIntake
from mpbroker.trace.role_change import NO_LEADER, RoleChange


class World:
    """An intake with what it gave away."""

    def __init__(self, directory):
        self.names = DictionaryWriter(directory, 1, 2)
        self.reading, self.writing = os.pipe2(os.O_NONBLOCK)
        self.events = []
        self.intake = NoticeIntake(
            self.reading, self.names, lambda processor, data: self.events.append((processor, record.unpack(data)))
        )

    def tell(self, *notices):
        os.write(self.writing, b"".join(map(notice.encode, notices)))
        return self.intake.take()

    def told(self):
        """(kind, processor, conn_id, t0, aux, error) of every record."""
        return [(one.kind, processor, one.conn_id, one.t0_ns, one.aux, one.error) for processor, one in self.events]


@pytest.fixture
def world(tmp_path):
    one = World(tmp_path)
    yield one
    os.close(one.reading)
    os.close(one.writing)


def test_a_connections_life(world):
    assert (
        world.tell(
            ConnectionOpened(10, 5, 1, 2, "h:1"),
            ClientNamed(5, 77, "app"),
            SoftwareNamed(5, "kcat", "1"),
            NoticesLost(1, 3),
            ConnectionClosed(20, 5, 1, 2, 2**40, CloseReason.IDLE),
        )
        == 5
    )
    assert world.told() == [(1, 1, 5, 10, 0, 0), (2, 1, 5, 20, 2**32 - 1, CloseReason.IDLE)]
    assert [row["k"] for row in world.names._waiting] == ["conn", "client", "software", "lost"]


def test_lines_come_in_any_pieces(world, monkeypatch):
    lines = b"".join(notice.encode(ConnectionOpened(number, number, 1, 2, "h:1")) for number in range(40))
    for size in (1, 7, 64):
        monkeypatch.setattr(notice_intake, "READ_BYTES", size)
        monkeypatch.setattr(notice_intake, "MAX_READS", len(lines))
        world.events.clear()
        os.write(world.writing, lines)
        assert world.intake.take() == 40 and [told[2] for told in world.told()] == list(range(40))
    assert world.intake.junk == 0


def test_a_turn_is_bounded(world, monkeypatch):
    monkeypatch.setattr(notice_intake, "READ_BYTES", 100)
    monkeypatch.setattr(notice_intake, "MAX_READS", 3)
    line = notice.encode(ConnectionOpened(1, 5, 1, 2, "h:1"))
    os.write(world.writing, line * 50)
    turns = [world.intake.take() for _ in range(50 * len(line) // 300 + 1)]
    assert max(turns) <= 300 // len(line) + 1 and sum(turns) == 50


def test_a_turn_reads_twice_what_the_pipe_holds(world, monkeypatch):
    """However fast others write into it."""
    asked = []

    def read(fd, most):
        asked.append((fd, most))
        return b"\n" * most

    monkeypatch.setattr(notice_intake.os, "read", read)
    monkeypatch.setattr(world.intake, "_take_line", lambda line: None)
    world.intake.take()
    assert {fd for fd, _ in asked} == {world.reading}
    assert sum(most for _, most in asked) == 2 * TRACE_NOTICES_BYTES


def test_a_successor_closes_what_its_predecessor_had_open(world):
    world.tell(
        ProcessorBegan(1, 1),
        ConnectionOpened(10, 5, 1, 2, "h:1"),
        ConnectionOpened(11, 6, 1, 2, "h:2"),
        ConnectionOpened(12, 7, 0, 2, "h:3"),
        ConnectionClosed(13, 6, 1, 2, 1, 0),
    )
    world.events.clear()
    world.tell(ProcessorBegan(50, 1), ConnectionOpened(51, 8, 1, 2, "h:4"))
    assert world.told() == [(2, 1, 5, 50, 0, CloseReason.DIED), (1, 1, 8, 51, 0, 0)]


def test_junk_is_counted_and_bounded(world):
    os.write(world.writing, b'nn":1}\n' + b"x" * 3 * notice.PIPE_BUF)
    world.intake.take()
    assert len(world.intake._rest) <= notice.PIPE_BUF and world.intake.junk == 2
    os.write(world.writing, b"\n")
    world.tell(ConnectionOpened(10, 5, 1, 2, "h:1"))
    assert len(world.events) == 1


def test_open_connections_are_bounded(world, monkeypatch):
    monkeypatch.setattr(notice_intake, "MAX_OPEN", 2)
    world.tell(*(ConnectionOpened(number, number, 1, 0, "h:1") for number in range(5)))
    world.events.clear()
    world.tell(ProcessorBegan(50, 1))
    assert [told[2] for told in world.told()] == [3, 4]


def test_without_a_pipe_and_without_writers_nothing_happens(tmp_path):
    assert NoticeIntake(-1, DictionaryWriter(tmp_path, 1, 2), lambda *_: None).take() == 0
    reading, writing = os.pipe2(os.O_NONBLOCK)
    os.close(writing)
    assert NoticeIntake(reading, DictionaryWriter(tmp_path, 1, 2), lambda *_: None).take() == 0
    os.close(reading)


@pytest.mark.parametrize(("leader", "known"), [(0, 0), (7, 7), (NO_LEADER, None)])
def test_a_change_of_role_is_no_processors(tmp_path, leader, known):
    told, fields = [], (5, 0xDEADBEEF, 3, 7, 0, 1, 40, 12, 2)
    reading, writing = os.pipe2(os.O_NONBLOCK)
    try:
        os.write(writing, notice.encode(RoleChanged(*fields, leader)))
        intake = NoticeIntake(reading, DictionaryWriter(tmp_path, 1, 2), lambda *how: told.append(how))
        assert intake.take() == 1 and told == [(notice.NO_PROCESSOR, RoleChange(*fields, known).pack(0))]
    finally:
        os.close(reading), os.close(writing)


def test_every_descriptor_is_a_pipe(tmp_path, monkeypatch):
    """0 is one where the tracer's input was closed."""
    lines = [notice.encode(ProcessorBegan(1, 1)), b""]
    monkeypatch.setattr(notice_intake.os, "read", lambda fd, most: lines.pop(0))
    assert NoticeIntake(0, DictionaryWriter(tmp_path, 1, 2), lambda *_: None).take() == 1 and lines == []


@pytest.mark.parametrize(("length", "junk"), [(4096, 0), (4097, 1)])
def test_the_beginning_of_a_line_is_kept_as_long_as_one_can_be(world, length, junk):
    os.write(world.writing, b"x" * length)
    assert world.intake.take() == 0
    assert (len(world.intake._rest), world.intake.junk) == (0 if junk else length, junk)
