"""The dictionary is written once per name, whole lines only, and stays bounded whatever clients do."""

import errno
import os

import pytest

from mpbroker.trace import dictionary, dictionary_writer
from mpbroker.trace.dictionary_writer import DictionaryWriter

BOOT = 0xABCDEF0123456789


@pytest.fixture
def writer(tmp_path):
    one = DictionaryWriter(tmp_path, 4, BOOT)
    yield one
    one.close()


def names_in(directory):
    return dictionary.read(dictionary.find(directory)).of(4, BOOT)


def rows_in(writer):
    return [row["k"] for row in dictionary.rows(writer.path)]


def test_what_is_written_is_read(tmp_path, writer):
    assert not writer.path.exists()
    writer.flush()
    assert not writer.path.exists()  # no rows, no file
    writer.client(7, "billing\n")
    writer.topic(9, "orders")
    writer.connection(5, 1, "[::1]:99", 2, 1000)
    writer.software(5, "kcat", "1")
    writer.lose_notices(3)
    writer.lose_notices(4)
    assert writer.marker("now", 50) == 0 and writer.marker("then", 60) == 1 and writer.marker("now", 50) == 0
    writer.flush()
    names = names_in(tmp_path)
    assert (names.clients, names.topics, names.lost_notices) == ({7: "billing\n"}, {9: "orders"}, 7)
    assert names.connections == {5: dictionary.Connection(5, 1, "[::1]:99", 2, 1000, "kcat", "1")}
    assert [one.text for one in names.markers.values()] == ["now", "then"]
    assert rows_in(writer)[0] == "boot" and writer.path.stat().st_mode & 0o777 == 0o600


def test_a_successor_goes_on_and_repeats_nothing(tmp_path, writer):
    writer.client(7, "a")
    writer.marker("m", 10)
    writer.lose_notices(2)
    writer.flush()
    with open(writer.path, "ab") as file:
        file.write(b'{"k":"client","hash":8,"na')  # torn by kill -9
    again = DictionaryWriter(tmp_path, 4, BOOT)
    again.client(7, "a")
    again.client(8, "b")
    again.lose_notices(1)
    assert again.marker("m", 10) == 0 and again.marker("m", 11) == 1
    again.flush()
    again.close()
    assert rows_in(again) == ["boot", "client", "marker", "lost", "client", "lost", "marker"]
    names = names_in(tmp_path)
    assert names.clients == {7: "a", 8: "b"} and names.lost_notices == 3


def test_old_rows_make_room(tmp_path, writer, monkeypatch):
    monkeypatch.setattr(dictionary_writer, "MAX_OF_A_KIND", 3)
    monkeypatch.setattr(dictionary_writer, "_REWRITE_AT", 6)
    writer.topic(1, "kept")
    for number in range(100):
        writer.connection(number, 0, "p", 0, number + 1)
        writer.flush()
        assert len(rows_in(writer)) <= 2 + 6
    assert names_in(tmp_path).topics == {1: "kept"}
    assert max(names_in(tmp_path).connections) == 99 and rows_in(writer)[0] == "boot"
    assert os.listdir(tmp_path) == [writer.path.name] and writer.path.stat().st_mode & 0o777 == 0o600


def test_what_takes_the_dictionarys_place_is_on_the_disk(writer, monkeypatch):
    """Whole, before it does: a machine that stops then has the old one or the new one."""
    monkeypatch.setattr(dictionary_writer, "_REWRITE_AT", 2)
    synced = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append((os.fstat(fd), writer.path.stat().st_ino)))
    for number in range(2):
        writer.connection(number, 0, "p", 0, number + 1)
        writer.flush()
    before = writer.path.stat()
    writer.connection(2, 0, "p", 0, 3)
    writer.flush()
    [(new, in_place)] = synced
    assert (new.st_size, in_place) == (before.st_size, before.st_ino) and new.st_ino == writer.path.stat().st_ino


@pytest.mark.parametrize("part", [0, 1, 30, 10_000])
def test_a_full_disk_makes_rows_wait(tmp_path, writer, monkeypatch, part):
    writer.client(1, "before")
    writer.flush()
    writer.client(2, "while")
    write = os.write

    def full(file, data):
        if part == 0:
            raise OSError(28, "No space left on device")
        return write(file, data[: min(part, len(data) - 1)])

    with monkeypatch.context() as patch:
        patch.setattr(dictionary_writer.os, "write", full)
        with pytest.raises(OSError) as raised:
            writer.flush()
        assert raised.value.errno == errno.ENOSPC
    writer.flush()
    assert names_in(tmp_path).clients == {1: "before", 2: "while"}


def test_waiting_rows_are_bounded_and_counted(tmp_path, writer, monkeypatch):
    monkeypatch.setattr(dictionary_writer, "MAX_WAITING", 5)
    for number in range(8):
        writer.client(number, "x" * 1000)
    assert writer.lost == 3
    writer.flush()
    assert list(names_in(tmp_path).clients) == [3, 4, 5, 6, 7]


def test_rows_of_each_kind_are_counted_once(writer):
    writer.client(7, "billing")
    writer.client(8, "other")
    writer.topic(9, "orders")
    writer.flush()
    counts = dict(writer._written)
    assert (sum(counts.values()), counts.pop("boot")) == (4, 1) and sorted(counts.values()) == [1, 2]


@pytest.mark.parametrize("torn", [b"", b'{"k":"cli'])
def test_only_a_torn_line_is_ended_first(tmp_path, writer, torn):
    writer.client(7, "billing")
    writer.flush()
    writer.close()
    with open(writer.path, "ab") as file:
        file.write(torn)
    before = writer.path.read_bytes()
    writer.topic(9, "orders")
    writer.flush()
    added = writer.path.read_bytes().removeprefix(before)
    assert added.startswith(b"\n") is bool(torn) and added.count(b"\n") == 1 + bool(torn)


def test_a_closed_file_is_given_back(writer):
    writer.client(7, "billing")
    writer.flush()
    descriptor = writer._file
    writer.close()
    writer.close()
    with pytest.raises(OSError):
        os.fstat(descriptor)


def test_after_it_was_written_anew_there_is_room_again(writer, monkeypatch):
    """Six of a kind, of which three stay; and only then are there six again."""
    monkeypatch.setattr(dictionary_writer, "MAX_OF_A_KIND", 3)
    monkeypatch.setattr(dictionary_writer, "_REWRITE_AT", 6)
    there = []
    for number in range(10):
        writer.connection(number, 0, "p", 0, number + 1)
        writer.flush()
        there.append([row["id"] for row in dictionary.rows(writer.path) if row["k"] == "conn"])
    assert [len(ids) for ids in there] == [1, 2, 3, 4, 5, 6, 4, 5, 6, 4]
    assert there[6] == [3, 4, 5, 6] and there[9] == [6, 7, 8, 9]


def test_what_is_known_is_bounded_and_the_oldest_forgotten(writer, monkeypatch):
    monkeypatch.setattr(dictionary_writer, "MAX_OF_A_KIND", 3)
    for number in range(5):
        writer.client(number, "c")
        writer.topic(number, "t")
        assert writer.marker("m", number) == number
    assert list(writer._clients) == list(writer._topics) == [2, 3, 4]
    assert writer.marker("m", 0) == 5, "it is a new one"
    waiting = len(writer._waiting)
    writer.client(4, "c")
    assert len(writer._waiting) == waiting
    writer.client(0, "c")
    assert len(writer._waiting) == waiting + 1


def test_a_write_in_part_gives_the_descriptor_back_and_none_is_given_back_twice(writer, monkeypatch):
    """0 is a descriptor where the tracer's input was closed; -1 is none."""
    closed, write = [], os.write
    assert writer._file == -1
    writer.client(7, "billing")
    writer.flush()
    descriptor = writer._file
    writer.client(8, "other")
    with monkeypatch.context() as patch:
        patch.setattr(dictionary_writer.os, "write", lambda file, data: write(file, data[:5]))
        with pytest.raises(OSError, match="written in part"):
            writer.flush()
    assert writer._file == -1
    with pytest.raises(OSError):
        os.fstat(descriptor)
    with monkeypatch.context() as patch:
        patch.setattr(dictionary_writer.os, "close", closed.append)
        patch.setattr(writer, "_file", 0)
        assert writer._beginning() == b"", "it is open"
        for _ in range(2):
            writer.close()
            assert closed == [0] and writer._file == -1


def test_it_is_written_anew_when_it_holds_twice_what_readers_keep():
    assert dictionary_writer._REWRITE_AT == 2 * dictionary.MAX_OF_A_KIND
