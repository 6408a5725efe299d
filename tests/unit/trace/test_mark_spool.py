"""Markers reach the tracer from their owner only, whole or not at all; junk goes away with one complaint."""

import contextlib
import fcntl
import json
import os
import time
from types import SimpleNamespace

import pytest

from mpbroker.trace import mark_spool
from mpbroker.trace.mark_spool import MarkRefused, MarkSpool


@pytest.fixture
def complaints():
    return []


@pytest.fixture
def spool(tmp_path, complaints):
    return MarkSpool(tmp_path, complaints.append)


def files(directory):
    return sorted(os.listdir(directory / "marks"))


def test_marks_are_taken_in_order_and_stay_until_done(tmp_path, spool, complaints):
    for t0_ns in (20, 10):
        mark_spool.put(tmp_path, f"  at\n {t0_ns} ", t0_ns)
    first, second = spool.take()
    assert (first.text, first.t0_ns, second.t0_ns) == ("at 10", 10, 20)
    assert spool.take() == [first, second]  # a tracer that died in between finds them again
    spool.done(first)
    assert spool.take() == [second]
    assert (tmp_path / "marks").stat().st_mode & 0o777 == 0o700 and second.path.stat().st_mode & 0o777 == 0o600
    assert not complaints


def test_two_marks_of_one_moment_are_two(tmp_path, spool):
    for text in ("a", "b"):
        mark_spool.put(tmp_path, text, 5)
    assert sorted(mark.text for mark in spool.take()) == ["a", "b"]


def test_now_is_the_default(tmp_path, spool):
    before = time.monotonic_ns()
    mark_spool.put(tmp_path, "x")
    assert before <= spool.take()[0].t0_ns <= time.monotonic_ns()


@pytest.mark.parametrize("text", ["", " \n", "x" * 201])
def test_texts_that_are_none(tmp_path, spool, text):
    with pytest.raises(MarkRefused, match="1 to 200 characters"):
        mark_spool.put(tmp_path, text)
    assert files(tmp_path) == []


def good(**changes):
    return json.dumps({"t0_ns": 5, "text": "x", **changes}).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"7",
        b"[" * 4000,
        good(text=""),
        good(text="x" * 201),
        good(text=7),
        good(t0_ns=0),
        good(t0_ns="1"),
        good(t0_ns=True),
        good(t0_ns=2**63),
        b'{"text":"x"}',
        b"\xff" * 9000,
    ],
)
def test_junk_is_removed_with_one_complaint(tmp_path, spool, complaints, content):
    for number in range(3):
        path = tmp_path / "marks" / f"{number}.mark"
        path.write_bytes(content)
        path.chmod(0o600)
    assert spool.take() == [] and files(tmp_path) == [] and len(complaints) == 1
    mark_spool.put(tmp_path, "good")
    spool.done(spool.take()[0])
    (tmp_path / "marks" / "again").write_bytes(b"")
    assert spool.take() == [] and len(complaints) == 2


def test_what_others_could_have_written_is_refused(tmp_path, spool, complaints):
    mark_spool.put(tmp_path, "x", 5).chmod(0o666)
    target = tmp_path / "elsewhere"
    target.write_bytes(good())
    target.chmod(0o600)
    (tmp_path / "marks" / "6.mark").symlink_to(target)
    os.mkfifo(tmp_path / "marks" / "7.mark", 0o600)
    (tmp_path / "marks" / "8.mark").mkdir()
    assert spool.take() == [] and len(complaints) == 1
    assert files(tmp_path) == ["8.mark"] and target.exists()


def test_a_file_being_written_is_left_alone(tmp_path, spool, complaints):
    young = tmp_path / "marks" / "5.new"
    young.write_bytes(b"{")
    assert spool.take() == [] and young.exists() and not complaints
    os.utime(young, (1, 1))
    assert spool.take() == [] and not young.exists()


def test_a_flood_is_taken_in_portions(tmp_path, spool):
    for number in range(1, 201):
        mark_spool.put(tmp_path, "x", number)
    taken = []
    while marks := spool.take():
        assert len(marks) <= mark_spool.MAX_AT_ONCE
        taken += [mark.t0_ns for mark in marks]
        for mark in marks:
            spool.done(mark)
    assert sorted(taken) == list(range(1, 201))


def test_one_look_opens_so_many_files_and_no_more(spool, monkeypatch):
    """Whoever fills the directory with what is none takes no more of the tracer's time."""
    opened, names = [], [SimpleNamespace(name=f"{number}.mark") for number in range(1500)]
    monkeypatch.setattr(spool, "_read", opened.append)
    monkeypatch.setattr(os, "scandir", lambda path: contextlib.nullcontext(iter(names)))
    assert spool.take() == [] and len(opened) == 1024


def test_whether_a_tracer_watches(tmp_path, spool):
    assert mark_spool.is_watched(tmp_path)
    os.close(spool._lock)
    assert not mark_spool.is_watched(tmp_path) and not mark_spool.is_watched(tmp_path / "none")


def test_somebody_who_looks_while_the_tracer_begins(tmp_path, complaints):
    (tmp_path / "marks").mkdir(mode=0o700)
    looking = os.open(tmp_path / "marks", os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_EX)
    spool = MarkSpool(tmp_path, complaints.append)
    os.close(looking)
    assert not mark_spool.is_watched(tmp_path)
    assert spool.take() == [] and mark_spool.is_watched(tmp_path)


def read_how_often(monkeypatch, spool, times):
    """How many of so many looks read the directory."""
    looks, scandir = [], os.scandir
    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", lambda path: looks.append(path) or scandir(path))
        assert [spool.take() for _ in range(times)] == [[]] * times
    return len(looks)


def test_an_empty_directory_is_read_again_once_it_has_changed(tmp_path, spool, monkeypatch):
    marks = tmp_path / "marks"
    os.utime(marks, (1, 1))
    assert read_how_often(monkeypatch, spool, 3) == 1
    mark_spool.put(tmp_path, "x", 5)
    (mark,) = spool.take()
    os.utime(marks, (1, 1))
    assert spool.take() == [mark]  # it was not empty when it looked like that
    spool.done(mark)
    assert read_how_often(monkeypatch, spool, 3) == 3  # it may have changed since, in the same moment of its clock
    os.utime(marks, (2, 2))
    assert read_how_often(monkeypatch, spool, 3) == 1
    marks.rename(tmp_path / "away")
    mark_spool.put(tmp_path, "y", 6)
    os.utime(marks, (2, 2))
    assert [one.text for one in spool.take()] == ["y"]  # another directory with the same time
