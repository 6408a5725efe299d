"""The probe asks like a client and believes only a whole, right answer."""

import io
import json
import os
import socket
import struct

import pytest

from mpbroker.shm.process_context import BoundListener
from mpbroker.supervisor.ready import (
    REQUEST,
    ReadyProbe,
    ready_document,
    ready_line,
    write_atomically,
    write_ready_line,
)

ANSWER = struct.pack(">iih", 4 + 2 + 4 + 6, 0x6D706272, 0) + struct.pack(">ihhh", 1, 18, 0, 3)


@pytest.fixture
def server():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def _listener(server):
    port = server.getsockname()[1]
    return BoundListener(0, "PLAINTEXT", "PLAINTEXT", "127.0.0.1", port, "127.0.0.1", port, False)


def _ask(server):
    probe = ReadyProbe(_listener(server))
    probe.start()
    connection, _ = server.accept()
    assert connection.recv(1000) == REQUEST
    return probe, connection


def test_an_answer_in_two_pieces_counts_once_whole(server):
    probe, connection = _ask(server)
    assert not probe.readable()
    connection.send(ANSWER[:9])
    assert not probe.readable()
    connection.send(ANSWER[9:])
    assert probe.readable() and probe.answered and probe.socket is None
    connection.close()


@pytest.mark.parametrize("bytes_sent", [b"", ANSWER[:8], ANSWER.replace(b"\x6d\x70\x62\x72", bytes(4))])
def test_anything_else_and_a_close_is_no_answer(server, bytes_sent):
    probe, connection = _ask(server)
    connection.send(bytes_sent)
    connection.close()
    while not probe.readable():
        pass
    assert not probe.answered


def test_the_line_is_one_write(monkeypatch):
    """What a client of the same terminal says meanwhile comes before it or after it."""
    reader, writer = os.pipe2(os.O_DIRECT)
    with open(writer, "wb", buffering=0) as raw, io.TextIOWrapper(raw, write_through=True) as unbuffered:
        monkeypatch.setattr("sys.stdout", unbuffered)
        write_ready_line("mpbroker ready node=1")
        monkeypatch.undo()
    assert (os.read(reader, 4096), os.read(reader, 4096)) == (b"mpbroker ready node=1\n", b"")
    os.close(reader)


def test_the_line_and_the_document(server, tmp_path):
    listener = _listener(server)
    line = ready_line(3, 77, "/data", (listener,))
    assert line == f"mpbroker ready node=3 pid=77 data=/data PLAINTEXT://127.0.0.1:{listener.port}"
    path = tmp_path / "ready.json"
    write_atomically(str(path), ready_document(3, 77, "/data", (listener,), "http://127.0.0.1:9644"))
    assert json.loads(path.read_text()) == {
        "node_id": 3,
        "pid": 77,
        "data_dir": "/data",
        "listeners": [{"name": "PLAINTEXT", "protocol": "PLAINTEXT", "host": "127.0.0.1", "port": listener.port}],
        "admin": "http://127.0.0.1:9644",
    }
    assert [entry.name for entry in tmp_path.iterdir()] == ["ready.json"]
