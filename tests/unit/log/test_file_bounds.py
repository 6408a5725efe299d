"""Bounds that hold between files: how much of one of ours is read into memory, who may read what we make, what the core
of the broker takes at once."""

import os
from types import SimpleNamespace

import pytest

from mpbroker.log import (
    clean_shutdown,
    data_dir,
    disk,
    leader_epochs,
    log_retention,
    partition_directory,
    producer_snapshot,
    replica_move,
    segment_recovery,
    txn_index_file,
)
from mpbroker.log.checkpoint_file import parse_checkpoint
from mpbroker.log.replica_move import ReplicaMove
from tests.harness.c_headers import defined

KIB, MIB = 1 << 10, 1 << 20


class Asked(Exception):
    """How much was asked for."""


@pytest.mark.parametrize(
    ("read", "most"),
    [
        (lambda: clean_shutdown.take_marker("/d"), 64 * MIB),
        (lambda: parse_checkpoint("/d/file"), 64 * MIB),
        (lambda: leader_epochs.read_epochs("/d"), MIB),
        (lambda: partition_directory.read_topic_id("/d"), 4 * KIB),
        (lambda: producer_snapshot.read_snapshot("/d/file"), 256 * MIB),
        (lambda: txn_index_file.read_aborted("/d/file"), 256 * MIB),
        (lambda: data_dir.read_meta("/d"), 64 * KIB),
    ],
    ids=["marker", "checkpoint", "epochs", "topic id", "snapshot", "aborted transactions", "meta.properties"],
)
def test_a_file_that_has_grown_without_end_is_not_read_to_its_end(monkeypatch, read, most):
    """Far more than a broker of the largest size writes there, and no more memory than a start has."""

    def asked(path, most, *_encoding):
        raise Asked(most)

    monkeypatch.setattr(disk, "read_whole", asked)
    monkeypatch.setattr(disk, "read_text", asked)
    with pytest.raises(Asked) as told:
        read()
    assert told.value.args == (most,)


def test_others_may_read_what_we_make_and_not_write(tmp_path, no_umask):
    """Where the umask allows it: tools of other users read logs and checkpoints."""
    flags = os.O_CREAT | os.O_WRONLY
    os.close(disk.open_file(str(tmp_path / "one"), flags))
    with disk.opened(str(tmp_path / "two"), flags):
        pass
    disk.write_file(str(tmp_path / "three"), b"x", sync_it=False)
    disk.make_directories(str(tmp_path / "a/b"))
    disk.make_directories(str(tmp_path / "c"), 0o750)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"one": 0o644, "two": 0o644, "three": 0o644, "a": 0o777, "c": 0o750}
    data_dir.create(str(tmp_path / "data"))
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o777


def test_what_the_core_does_in_one_call():
    assert defined("log/retain.h", "MPB_RETAIN_MAX_REMOVED") == log_retention.MAX_A_CALL
    assert defined("log/move.h", "MPB_MOVE_TAIL_BYTES") == 2 * replica_move.NEAR_BYTES, "half of it may come meanwhile"
    assert defined("log/move.h", "MPB_MOVE_MOST_TAIL_BYTES") == 2 * replica_move.MOST_NEAR_BYTES


def test_a_log_that_grows_too_fast_is_allowed_twice_as_much_each_time_up_to_a_bound():
    move, allowed = ReplicaMove.__new__(ReplicaMove), []
    move._near = replica_move.NEAR_BYTES
    for _ in range(8):
        allowed.append(move._near)
        move._allow_more()
    assert allowed == [128 * KIB << turn for turn in range(7)] + [8 * MIB]


def test_rows_and_files_say_none_with_minus_one_and_the_first_directory_is_0():
    assert (data_dir.FIRST, leader_epochs.UNDEFINED, segment_recovery.NO_TIMESTAMP) == (0, -1, -1)
    assert (log_retention.NO_LIMIT, clean_shutdown.NO_BROKER_EPOCH) == (-1, -1), "as Kafka's settings and file have it"


@pytest.mark.parametrize("unknown", [(), ("t-0",), tuple(f"a-topic-with-a-name-{number}-0" for number in range(500))])
def test_a_marker_of_a_clean_stop_is_read_whole(tmp_path, unknown):
    clean_shutdown.write_marker(str(tmp_path), unknown=unknown)
    text = (tmp_path / ".kafka_cleanshutdown").read_text()
    assert text.startswith('{"version": 0, "brokerEpoch": -1') and ("unknown" in text) is bool(unknown)
    found = clean_shutdown.take_marker(str(tmp_path))
    assert found == (True, frozenset(unknown), {}) and not os.listdir(tmp_path)
    assert not any(found.of(name) for name in unknown) and found.of("other-0")
    assert clean_shutdown.take_marker(str(tmp_path)) == (False, frozenset(), {})


def test_a_batch_is_walked_by_its_headers(tmp_path):
    """Of a file that begins as no batch of version 2, nobody claims an offset."""
    recovery = segment_recovery.SegmentRecovery(str(tmp_path), 4096, lambda _: None, lambda _: None)
    path = tmp_path / f"{7:020d}.log"
    for content, first in (
        (b"", None),
        (bytes(16), None),
        (segment_recovery.BATCH_BEGIN.pack(9, 100, 0, 2), 9),
        (segment_recovery.BATCH_BEGIN.pack(9, 100, 0, 1), None),
        (segment_recovery.BATCH_BEGIN.pack(9, 100, 0, 3), None),
    ):
        path.write_bytes(content)
        assert recovery.first_offset(7) == first


def test_an_index_of_a_move_is_read_as_a_segments_can_be(monkeypatch):
    asked = []
    move = ReplicaMove.__new__(ReplicaMove)
    move._source = "/d"
    content = bytes.fromhex("00000001 00000064 00000003 000000c8 000000")
    monkeypatch.setattr(replica_move, "disk", SimpleNamespace(read_whole=lambda *words: asked.append(words) or content))
    assert move._positions(10) == [(100, 11), (200, 13)], "whole entries: (position, offset)"
    assert asked == [(f"/d/{10:020d}.index", 64 * MIB)]
