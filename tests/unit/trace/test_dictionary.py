"""Reading dictionaries: rows of every kind, bounds, and files that a crash or somebody else has damaged."""

import json

import pytest

from mpbroker.trace import dictionary
from tests.harness.same_file import rewrite

BOOT = 0xABCDEF0123456789
ROWS = (
    {"k": "boot", "broker": 4, "boot": f"{BOOT:016x}"},
    {"k": "client", "hash": 7, "name": "billing"},
    {"k": "topic", "hash": 9, "name": "orders"},
    {"k": "conn", "proc": 1, "id": 65539, "peer": "127.0.0.1:4711", "listener": 0, "t0_ns": 1000},
    {"k": "software", "id": 65539, "name": "librdkafka", "version": "2.3.0"},
    {"k": "marker", "n": 0, "text": "load step 3", "t0_ns": 2000},
)


def write(directory, rows, tail=b""):
    path = directory / dictionary.file_name(4, BOOT)
    path.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows) + tail)
    return path


def test_every_kind_of_row(tmp_path):
    names = dictionary.read([write(tmp_path, ROWS)])
    assert names.client(4, BOOT, 7) == "billing"
    assert names.topic(4, BOOT, 9) == "orders"
    one = names.connection(4, BOOT, 65539)
    assert one == dictionary.Connection(65539, 1, "127.0.0.1:4711", 0, 1000, "librdkafka", "2.3.0")
    assert names.of(4, BOOT).markers == {0: dictionary.Marker(0, "load step 3", 2000)}


def test_what_is_not_known_has_no_name(tmp_path):
    names = dictionary.read([write(tmp_path, ROWS), tmp_path / "dict-b4-00000001.jsonl", tmp_path / "other.jsonl"])
    assert names.client(4, BOOT, 8) is None and names.client(4, 5, 7) is None and names.client(5, BOOT, 7) is None
    assert names.topic(4, 1, 9) is None and names.connection(4, BOOT, 65540) is None


def test_a_later_row_wins(tmp_path):
    again = {"k": "conn", "proc": 1, "id": 65539, "peer": "127.0.0.1:4712", "listener": 1, "t0_ns": 3000}
    names = dictionary.read([write(tmp_path, (*ROWS, again))])
    assert names.connection(4, BOOT, 65539) == dictionary.Connection(65539, 1, "127.0.0.1:4712", 1, 3000)


def test_a_file_cut_anywhere_gives_every_whole_line(tmp_path):
    path = write(tmp_path, ROWS)
    data = path.read_bytes()
    for length in range(len(data) + 1):
        rewrite(path, data[:length])
        assert len(list(dictionary.rows(path))) == data[:length].count(b"\n")
        dictionary.read([path])


@pytest.mark.parametrize(
    "junk",
    [
        b"\0\xff\n",
        b"[1]\n",
        b"{}\n",
        b'{"k":"client"}\n',
        b'{"k":"client","hash":"x","name":1}\n',
        b'{"k":"conn","proc":-1,"id":0,"peer":"","listener":0,"t0_ns":0}\n',
        b'{"k":["x"]}\n',
        b'{"k":"of-a-later-version"}\n',
        b"x" * 20_000 + b"\n",
        b"[" * 8000 + b"\n",
        b'{"k":"software","id":5,"name":"n","version":"v"}\n',
    ],
)
def test_junk_costs_its_own_line_only(tmp_path, junk):
    path = write(tmp_path, ROWS[:2])
    path.write_bytes(path.read_bytes() + junk + json.dumps(ROWS[2]).encode() + b"\n")
    names = dictionary.read([path])
    assert names.client(4, BOOT, 7) == "billing" and names.topic(4, BOOT, 9) == "orders"


def test_the_newest_of_a_kind_are_kept_and_names_are_cut(tmp_path):
    many = [{"k": "client", "hash": number, "name": "n" * 300} for number in range(dictionary.MAX_OF_A_KIND + 10)]
    clients = dictionary.read([write(tmp_path, many)]).of(4, BOOT).clients
    assert len(clients) == dictionary.MAX_OF_A_KIND and min(clients) == 10
    assert {len(name) for name in clients.values()} == {dictionary.MAX_NAME_CHARS}


def test_find_looks_downwards_and_beside_a_segment(tmp_path):
    below = tmp_path / "one" / "two"
    below.mkdir(parents=True)
    path = write(below, ROWS)
    assert dictionary.find(tmp_path) == [path] == dictionary.find(below / "b4-23456789-r00-0.mpt")
    assert dictionary.find(tmp_path / "one" / "x.mpt") == []
    assert (
        dictionary.boot_of(path) == (4, BOOT & 0xFFFFFFFF) and dictionary.boot_of(tmp_path / "manifest.jsonl") is None
    )


@pytest.mark.parametrize(
    ("number", "is_one"),
    [(0, True), (2**64 - 1, True), *((wrong, False) for wrong in (2**64, -1, True, 1.0, "1", None))],
)
def test_a_number_is_one_that_a_record_can_have(number, is_one):
    names = dictionary.BootNames()
    for row in (
        {"k": "client", "hash": number, "name": "a"},
        {"k": "topic", "hash": number, "name": "b"},
        {"k": "conn", "id": number, "proc": 1, "peer": "p", "listener": 2, "t0_ns": 3},
        {"k": "conn", "id": 1, "proc": number, "peer": "p", "listener": 2, "t0_ns": 3},
        {"k": "conn", "id": 2, "proc": 1, "peer": "p", "listener": number, "t0_ns": 3},
        {"k": "conn", "id": 3, "proc": 1, "peer": "p", "listener": 2, "t0_ns": number},
        {"k": "marker", "n": number, "text": "c", "t0_ns": 4},
        {"k": "marker", "n": 7, "text": "c", "t0_ns": number},
        {"k": "lost", "n": number},
    ):
        if is_one:
            names.add(row)
        else:
            with pytest.raises(ValueError, match="is no number of a record"):
                names.add(row)
    assert (names.clients, names.topics) == (({number: "a"}, {number: "b"}) if is_one else ({}, {}))
    assert len(names.connections) == len({number, 1, 2, 3}) * is_one
    assert len(names.markers) == len({number, 7}) * is_one and names.lost_notices == (number if is_one else 0)


def test_the_most_that_was_lost_is_what_was_lost():
    """Each row has the sum so far; a tracer that died may have written a row twice."""
    names = dictionary.BootNames()
    for number in (3, 9, 4):
        names.add({"k": "lost", "n": number})
    assert names.lost_notices == 9


@pytest.mark.parametrize(("size", "is_one"), [(8192, True), (8193, False)])
def test_a_line_has_so_many_bytes_at_most_and_the_next_one_is_read_all_the_same(tmp_path, size, is_one):
    long, next_one = json.dumps(ROWS[1]).encode().ljust(size - 1) + b"\n", json.dumps(ROWS[2]).encode() + b"\n"
    path = write(tmp_path, ROWS[:1], long + next_one + next_one)
    assert [row["k"] for row in dictionary.rows(path)] == ["boot", *["client"] * is_one, "topic", "topic"]


def test_what_becomes_known_again_is_the_newest(monkeypatch):
    monkeypatch.setattr(dictionary, "MAX_OF_A_KIND", 2)
    names = dictionary.BootNames()
    for number in (1, 2, 1, 3):
        names.add({"k": "topic", "hash": number, "name": str(number)})
    assert names.topics == {1: "1", 3: "3"}
    for number in (1, 2, 3):
        names.add({"k": "marker", "n": number, "text": "t", "t0_ns": 5})
    assert sorted(names.markers) == [2, 3]


def test_each_boot_asked_for_has_names_of_its_own():
    names = dictionary.Dictionary()
    assert names.of(4, BOOT) is names.of(4, BOOT & 0xFFFFFFFF) is not names.of(5, BOOT)
    assert [boot for boot, _ in names.boots()] == [(4, 0x23456789), (5, 0x23456789)]
    assert dictionary.file_name(4, BOOT) == "dict-b4-23456789.jsonl"
    assert (dictionary.MAX_OF_A_KIND, dictionary.MAX_NAME_CHARS) == (16_384, 256), "docs/trace-format.md"
