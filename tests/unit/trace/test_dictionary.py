"""Reading dictionaries: rows of every kind, bounds, and files that a crash or somebody else has damaged."""

import json

import pytest

from mpbroker.trace import dictionary

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
        path.write_bytes(data[:length])
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
