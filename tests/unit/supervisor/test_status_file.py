"""What a running broker says of itself in its data directory: all of it is read again, and what is not ours is none."""

import json
import os

import pytest

from mpbroker.supervisor import status_file
from mpbroker.supervisor.status_file import (
    STATUS_FILE,
    StatusFile,
    read_status_file,
    remove_status_file,
    write_status_file,
)

SAID = StatusFile(
    pid=11,
    version="1.2",
    node_id=3,
    cluster_id="c",
    boot_id=2**60,
    started_ms=5,
    started_ns=6,
    page="/p",
    names=("a", "b"),
    listeners=({"name": "A", "host": "h", "port": 9},),
    trace_dir="/t",
    admin="http://h:1",
    dump_dir="/dump",
)


def said_with(**changes):
    return {**SAID._asdict(), **changes}


@pytest.mark.parametrize("said", [SAID, SAID._replace(admin=None, dump_dir="", names=(), listeners=())])
def test_what_is_said_is_read(tmp_path, said):
    assert read_status_file(str(tmp_path)) is None
    write_status_file(str(tmp_path), said)
    assert read_status_file(str(tmp_path)) == said
    assert os.listdir(tmp_path) == [STATUS_FILE]
    for _ in range(2):
        remove_status_file(str(tmp_path))
        assert read_status_file(str(tmp_path)) is None


def test_an_older_broker_said_less(tmp_path):
    less = said_with()
    del less["admin"], less["dump_dir"]
    (tmp_path / STATUS_FILE).write_text(json.dumps(less))
    assert read_status_file(str(tmp_path)) == SAID._replace(admin=None, dump_dir="")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b"5",
        b"\xff",
        json.dumps(said_with(pid="x")).encode(),
        json.dumps(said_with(names=5)).encode(),
    ],
)
def test_what_is_not_ours_is_none(tmp_path, content):
    (tmp_path / STATUS_FILE).write_bytes(content)
    assert read_status_file(str(tmp_path)) is None


@pytest.mark.parametrize(("length", "read"), [(65536, True), (65537, False)])
def test_no_more_of_it_is_read_than_a_broker_writes(tmp_path, length, read):
    text = json.dumps(said_with())
    (tmp_path / STATUS_FILE).write_text(text[:-1].ljust(length - 1) + "}")
    assert (read_status_file(str(tmp_path)) is not None) is read


def test_one_that_this_user_may_not_read_is_said(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(status_file, "open", refuse, raising=False)
    with pytest.raises(PermissionError):
        read_status_file(str(tmp_path))
