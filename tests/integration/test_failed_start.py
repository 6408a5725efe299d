"""A start that cannot succeed says why with the remedy that fits, and leaves nothing behind that it made."""

import os
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from tests.harness.broker import Broker
from tests.harness.other_user import NOBODY, run_as
from tests.integration.test_data_directory import fill


def _start(path, *words, listener="PLAINTEXT://127.0.0.1:0"):
    command = [sys.executable, "-m", "mpbroker", "start", "--data-dir", str(path), "--listener", listener, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.fixture
def small_disk(tmp_path):
    """fill(blocks): a disk of 64 KiB, of whose 16 blocks so many are taken. Skips where no disk can be mounted."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")

    def fill(blocks):
        (disk / "fill").write_bytes(bytes(4096 * blocks))
        return disk

    yield fill
    subprocess.run(["umount", "-l", disk], check=True)


@pytest.mark.parametrize(
    "words",
    [
        ["--override", "mpbroker.trace.dir=/dev/null/traces"],
        ["--ready-file", "/dev/null/ready.json"],
        ["--override", "inter.broker.listener.name=NOWHERE"],
        [
            "--listener",
            "OTHER://192.0.2.1:1",
            "--override",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
        ],
    ],
)
def test_nothing_is_left(tmp_path, words):
    found = _start(tmp_path / "a" / "b", *words)
    assert found.returncode == 2 and "Traceback" not in found.stderr, found.stderr
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "b").mkdir()
    assert _start(tmp_path / "b", *words).returncode == 2
    assert list((tmp_path / "b").iterdir()) == []


def test_a_directory_with_records_is_left_as_it_was(tmp_path):
    with Broker(tmp_path):
        pass
    before = sorted(os.listdir(tmp_path / "data"))
    assert _start(tmp_path / "data", "--ready-file", "/dev/null/x").returncode == 2
    assert sorted(os.listdir(tmp_path / "data")) == before


@pytest.mark.parametrize("blocks", [16, 15, 14, 12, 8])
def test_a_full_disk_is_said_to_be_full(small_disk, blocks):
    disk = small_disk(blocks)
    found = _start(disk / "d")
    assert found.returncode == 2, found.stderr
    assert f"no space left on the disk of {disk}/d" in found.stderr and "free some" in found.stderr
    assert "put a copy" not in found.stderr and "Traceback" not in found.stderr
    assert os.listdir(disk) == ["fill"]


def test_a_newer_format_asks_for_the_newer_version(tmp_path):
    with Broker(tmp_path):
        pass
    meta = tmp_path / "data" / "meta.properties"
    text = meta.read_text()
    meta.write_text(text.replace("version=1", "version=9"))
    found = _start(tmp_path / "data")
    assert found.returncode == 2 and found.stderr.splitlines()[-1] == (
        f"mpbroker: {meta} was written by a newer version of mpbroker (version=9, this one knows 0 and 1): "
        "start that version"
    )
    meta.write_text(text)
    with closing(sqlite3.connect(tmp_path / "data" / "metadata.db")) as store:
        store.execute("PRAGMA user_version=9")
    found = _start(tmp_path / "data")
    assert found.returncode == 2 and "was written by a newer version of mpbroker (schema 9," in found.stderr
    assert "start that version" in found.stderr and "put a copy" not in found.stderr


@pytest.fixture
def in_the_open():
    """Everybody may look into it; not one of pytest's, which each other pytest that starts closes again."""
    with tempfile.TemporaryDirectory(prefix="mpbroker-", dir="/tmp") as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


@pytest.mark.parametrize("mode", [0o755, 0o700], ids=["may be looked into", "closed"])
def test_a_directory_of_another_user_names_both(in_the_open, mode):
    in_the_open.chmod(mode)
    found = run_as(NOBODY, "start", "--data-dir", str(in_the_open / "d"))
    assert found.returncode == 2, found.stderr
    sentence = found.stderr.splitlines()[-1]
    assert (
        f"{in_the_open} cannot be written by user nobody (uid {NOBODY}); it belongs to user root (uid 0), mode "
        in sentence
    )
    assert "start as that user" in sentence and list(in_the_open.iterdir()) == []


CLOSED = [
    "meta.properties",
    ".kafka_cleanshutdown",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "orders-0",
    "traces",
]
"""Found out by a process of the broker these would be a loop of deaths."""


def _refused_to_nobody(path):
    """What a start by another user is told, in a sentence; nothing was changed."""
    before = {each: each.lstat().st_mtime_ns for each in path.rglob("*")}
    found = run_as(NOBODY, "start", "--data-dir", str(path), "--listener", "PLAINTEXT://127.0.0.1:0")
    assert found.returncode == 2 and "Traceback" not in found.stderr, found.stderr
    assert {each: each.lstat().st_mtime_ns for each in path.rglob("*")} == before
    return found.stderr.splitlines()[-1]


def test_a_directory_with_records_of_another_user_names_both_and_is_not_called_damaged(in_the_open):
    """SQLite cannot open a store in a directory where it may make no file: that is no damage."""
    broker = Broker(in_the_open)
    with broker:
        fill(broker, "orders")
    nobody = f"cannot be written by user nobody (uid {NOBODY}); it belongs to user root (uid 0), mode"
    remedy = "start as that user, give the directory to this one (chown), or name another directory (log.dirs)"
    for mode in (0o755, 0o700):
        broker.data_dir.chmod(mode)
        sentence = _refused_to_nobody(broker.data_dir)
        assert sentence == f"mpbroker: {broker.data_dir} {nobody} {mode:04o}: {remedy}"
    broker.data_dir.chmod(0o755)
    os.chown(broker.data_dir, NOBODY, NOBODY)
    for name in (".lock", "metadata.db"):  # as `chown` without -R leaves it
        assert _refused_to_nobody(broker.data_dir) == f"mpbroker: {broker.data_dir / name} {nobody} 0644: {remedy}"
        os.chown(broker.data_dir / name, NOBODY, NOBODY)
    closed = [broker.data_dir / name for name in CLOSED]
    for path in closed:
        path.chmod(0o700)
    for path in closed:
        assert _refused_to_nobody(broker.data_dir).startswith(f"mpbroker: {path} {nobody} 0700: start as that user")
        os.chown(path, NOBODY, NOBODY)


def test_records_on_a_disk_that_is_read_only_are_not_called_damaged(tmp_path):
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", tmp_path], capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        broker = Broker(tmp_path)
        with broker:
            fill(broker, "orders")
        subprocess.run(["mount", "-o", "remount,ro", tmp_path], check=True)
        found = _start(broker.data_dir)
    finally:
        subprocess.run(["umount", "-l", tmp_path], check=True)
    assert found.returncode == 2 and found.stderr.splitlines()[-1] == (
        f"mpbroker: {broker.data_dir} is on a read-only file system: "
        "mount it for writing, or name another directory (log.dirs)"
    )


@pytest.mark.parametrize(("listener", "warns"), [("PLAINTEXT://:0", True), ("PLAINTEXT://127.0.0.1:0", False)])
def test_a_listener_on_every_interface_without_an_address_for_clients(tmp_path, listener, warns):
    with Broker(tmp_path, listeners=[listener]) as broker:
        assert broker.log().count("WARN supervisor advertised_listeners_not_set") == warns
        assert (f"clients_are_sent_to={os.uname().nodename}:{broker.port()}" in broker.log()) == warns


def test_no_warning_with_an_address_for_clients(tmp_path):
    overrides = {"advertised.listeners": "PLAINTEXT://broker.example:9092"}
    with Broker(tmp_path, listeners=["PLAINTEXT://:0"], overrides=overrides) as broker:
        assert "advertised_listeners_not_set" not in broker.log()
