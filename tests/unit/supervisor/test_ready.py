"""The probe asks like a client and believes only a whole, right answer."""

import io
import json
import os
import re
import select
import socket
import struct

import pytest

from mpbroker.errors import ConfigError
from mpbroker.shm.process_context import BoundListener
from mpbroker.supervisor.ready import (
    REQUEST,
    ReadyProbe,
    clear_ready_file,
    listener_document,
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


def _readable(probe):
    """Once something has come, or the end."""
    assert select.select([probe.socket], [], [], 10)[0]
    return probe.readable()


def test_an_answer_in_two_pieces_counts_once_whole(server):
    probe, connection = _ask(server)
    assert not probe.readable()
    connection.send(ANSWER[:9])
    assert not _readable(probe)
    connection.send(ANSWER[9:])
    assert _readable(probe) and probe.answered and probe.socket is None
    connection.close()


def test_the_question_is_one_that_every_version_of_kafka_answers():
    """ApiVersions, version 0, in a header without a client id; its answer names the same correlation id."""
    assert struct.pack(">ihhih", 10, 18, 0, 0x6D706272, -1) == REQUEST


def test_a_probe_that_has_not_begun_has_no_answer_and_no_socket(server):
    probe = ReadyProbe(_listener(server))
    assert (probe.answered, probe.socket) == (False, None)
    probe.close()
    probe.start()
    assert probe.socket.getblocking() is False, "it waits in the loop of the supervisor"
    opened = probe.socket
    probe.close()
    assert probe.socket is None and opened.fileno() == -1


@pytest.mark.parametrize(
    ("host", "asked"),
    [
        ("", b"127.0.0.1"),
        ("0.0.0.0", b"127.0.0.1"),
        ("::", b"::1"),
        ("a.test", b"a.test"),
        ("b\xfc.test", "b\xfc.test"),
    ],
)
def test_a_listener_on_every_address_is_asked_at_its_machines_own(monkeypatch, server, host, asked):
    """A name in ASCII is handed over as bytes: no codec with its tables is loaded for it."""
    seen, connect = [], socket.create_connection

    def record(address, timeout):
        seen.append(address)
        return connect(server.getsockname(), timeout)

    monkeypatch.setattr(socket, "create_connection", record)
    probe = ReadyProbe(_listener(server)._replace(host=host, port=4711))
    probe.start()
    probe.close()
    assert seen == [(asked, 4711)]


SHORTEST = struct.pack(">iih", 6, 0x6D706272, 0)


@pytest.mark.parametrize(
    ("received", "answered"),
    [
        (SHORTEST, True),
        (SHORTEST[:9], False),
        (struct.pack(">iih", 7, 0x6D706272, 0), False),
        (ANSWER[:-1], False),
        (ANSWER, True),
        (ANSWER + b"more", True),
        (struct.pack(">iih", 6, 0x6D706272, 1), False),
        (struct.pack(">iih", 6, 0x6D706272, -1), False),
        (struct.pack(">iih", 6, 0x6D706273, 0), False),
        (struct.pack(">iih", 7, 0x6D706272, 1), False),
    ],
)
def test_an_answer_is_whole_and_to_this_question_and_without_an_error(server, received, answered):
    probe, connection = _ask(server)
    connection.send(received)
    assert _readable(probe) is answered
    assert probe.answered is answered and (probe.socket is None) is answered
    probe.close()
    connection.close()


def test_a_probe_that_begins_again_has_forgotten_what_came_before(server):
    probe, connection = _ask(server)
    connection.send(ANSWER[:12])
    assert not _readable(probe)
    connection.close()
    assert _readable(probe) and not probe.answered
    probe.start()
    again, _ = server.accept()
    again.send(ANSWER[12:])
    assert not _readable(probe) and not probe.answered
    probe.close()
    again.close()


@pytest.mark.parametrize("bytes_sent", [b"", ANSWER[:8], ANSWER.replace(b"\x6d\x70\x62\x72", bytes(4))])
def test_anything_else_and_a_close_is_no_answer(server, bytes_sent):
    probe, connection = _ask(server)
    connection.send(bytes_sent)
    connection.close()
    while not _readable(probe):
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
    assert path.read_text().endswith("}\n")
    assert json.loads(path.read_text()) == {
        "node_id": 3,
        "pid": 77,
        "data_dir": "/data",
        "listeners": [{"name": "PLAINTEXT", "protocol": "PLAINTEXT", "host": "127.0.0.1", "port": listener.port}],
        "admin": "http://127.0.0.1:9644",
    }
    assert [entry.name for entry in tmp_path.iterdir()] == ["ready.json"]
    assert listener_document(listener._replace(host=""))["host"] == "0.0.0.0"


def test_what_an_earlier_broker_said_is_taken_away_before_a_start(tmp_path):
    """Also a link to nowhere, under which the new one would appear elsewhere."""
    path = tmp_path / "ready.json"
    clear_ready_file(str(path))
    path.write_text("old")
    clear_ready_file(str(path))
    assert list(tmp_path.iterdir()) == []
    path.symlink_to(tmp_path / "nowhere")
    clear_ready_file(str(path))
    assert list(tmp_path.iterdir()) == []


def test_a_ready_file_that_could_not_be_written_is_refused_before_the_start(tmp_path):
    path = str(tmp_path / "missing" / "ready.json")
    with pytest.raises(
        ConfigError, match=f"--ready-file {re.escape(path)} cannot be written: No such file or directory"
    ):
        clear_ready_file(path)


def test_a_line_that_nobody_takes_is_an_error_and_the_output_goes_nowhere_from_then_on(monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as output:  # buffered: it must not wait for the end of the process to be seen to fail
        monkeypatch.setattr("sys.stdout", output)
        with pytest.raises(BrokenPipeError):
            write_ready_line("mpbroker ready")
        print("more", flush=True)
        monkeypatch.undo()
        assert os.readlink(f"/proc/self/fd/{writer}") == os.devnull
