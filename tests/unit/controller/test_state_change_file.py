"""The file of state changes: written by the flush, put aside when it is full, none where none is wanted."""

import os

import pytest

from mpbroker.controller.state_change_file import NAME, OLD_SUFFIX, StateChangeFile


def test_lines_are_written_by_the_flush(tmp_path):
    kept = StateChangeFile(str(tmp_path), 10_000)
    kept.flush()
    assert os.listdir(tmp_path) == []
    kept.add("INFO", "leader_elected", {"partition": "t-0", "why": "two words"})
    assert os.listdir(tmp_path) == []
    kept.flush()
    kept.add("WARN", "isr_shrank", {})
    kept.flush()
    kept.flush()
    first, second = (tmp_path / NAME).read_text().splitlines()
    assert first.split()[1:4] == ["INFO", "leader_elected", "partition=t-0"] and first.split()[0].endswith("Z")
    assert second.split()[1:] == ["WARN", "isr_shrank"]
    kept.close()
    kept.close()


def test_without_room_for_it_there_is_no_file(tmp_path):
    kept = StateChangeFile(str(tmp_path), 0)
    kept.add("INFO", "leader_elected", {})
    kept.flush()
    assert os.listdir(tmp_path) == []
    kept.most_bytes = 1
    kept.add("INFO", "leader_elected", {})
    kept.flush()
    assert os.listdir(tmp_path) == [NAME + OLD_SUFFIX]


def test_one_that_is_full_is_put_aside(tmp_path):
    line = len("2026-01-01T00:00:00.000Z INFO x\n")
    kept = StateChangeFile(str(tmp_path), 2 * line)
    for number in range(3):
        kept.add("INFO", "abc"[number], {})
        kept.flush()
    assert [(tmp_path / (NAME + suffix)).read_text()[-2] for suffix in (OLD_SUFFIX, "")] == ["b", "c"]
    kept.close()
    again = StateChangeFile(str(tmp_path), 2 * line)
    again.add("INFO", "d", {})
    again.flush()
    assert (tmp_path / (NAME + OLD_SUFFIX)).read_text().count("\n") == 2, "what was there counts"
    assert not (tmp_path / NAME).exists()


def test_it_keeps_its_descriptor_and_a_directory_that_is_gone_is_no_failure(tmp_path):
    kept = StateChangeFile(str(tmp_path / "no"), 1000)
    kept.add("INFO", "x", {})
    kept.flush()
    kept = StateChangeFile(str(tmp_path), 10**6)
    descriptors = set()
    for _ in range(3):
        kept.add("INFO", "x", {})
        kept.flush()
        descriptors.add(kept._fd)
    assert len(descriptors) == 1 and kept._fd >= 0
    kept.close()
    with pytest.raises(OSError):
        os.fstat(descriptors.pop())


def test_a_process_whose_stdin_is_closed_keeps_descriptor_0(tmp_path, monkeypatch):
    opened, closed = [], []
    monkeypatch.setattr(os, "open", lambda *given: opened.append(given[0]) or 0)
    monkeypatch.setattr(os, "fstat", lambda fd: os.stat(tmp_path))
    monkeypatch.setattr(os, "write", lambda fd, data: len(data))
    monkeypatch.setattr(os, "close", closed.append)
    kept = StateChangeFile(str(tmp_path), 10**6)
    kept.close()
    for _ in range(2):
        kept.add("INFO", "x", {})
        kept.flush()
    assert opened == [kept.path] and closed == []
    kept.close()
    kept.close()
    assert closed == [0]


def test_others_may_read_the_file_and_nobody_run_it(tmp_path):
    before = os.umask(0)
    try:
        kept = StateChangeFile(str(tmp_path), 10_000)
        kept.add("INFO", "leader_elected", {})
        kept.flush()
        kept.close()
    finally:
        os.umask(before)
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o644
