"""Markers at the edges: the longest text, the latest moment, the youngest file; and what the spool gives back."""

import errno
import json
import os
import stat
from types import SimpleNamespace

import pytest

from mpbroker.trace import mark_spool
from mpbroker.trace.mark_spool import CERTAIN_NS, MAX_AT_ONCE, MAX_DUMP_AFTER_MS, MarkRefused, MarkSpool
from tests.harness.descriptors import open_descriptors

NOW_NS = 7_000_000_000


@pytest.fixture
def complaints():
    return []


@pytest.fixture
def spool(tmp_path, complaints):
    return MarkSpool(tmp_path, complaints.append)


def leave(tmp_path, name="5.mark", **fields):
    path = tmp_path / "marks" / name
    path.write_text(json.dumps(fields))
    path.chmod(0o600)
    return path


def test_a_text_has_one_to_two_hundred_characters(tmp_path, spool):
    for text in ("x", "x" * 200, "  " + "y" * 200 + "\n"):
        mark_spool.put(tmp_path, text, 5)
        (mark,) = spool.take()
        assert mark.text == text.strip()
        spool.done(mark)
    with pytest.raises(MarkRefused, match="this one has 201") as raised:
        mark_spool.put(tmp_path, "x" * 201, 5)
    assert raised.value.exit_code == 2, "the command was given wrongly"


@pytest.mark.parametrize("after_ms", [None, 0, 1, MAX_DUMP_AFTER_MS])
def test_what_lies_in_the_spool_says_when_what_and_for_how_long(tmp_path, spool, after_ms):
    path = mark_spool.put(tmp_path, "x", 5, after_ms)
    assert path.parent == tmp_path / "marks" and path.name.startswith(f"{5:020d}-{os.getpid()}-")
    said = {"t0_ns": 5, "text": "x"} | ({} if after_ms is None else {"dump_after_ms": after_ms})
    assert path.suffix == ".mark" and json.loads(path.read_text()) == said
    assert [(one.path, one.dump_after_ms) for one in spool.take()] == [(path, after_ms)]


@pytest.mark.parametrize(
    ("fields", "good"),
    [
        ({"t0_ns": 1}, True),
        ({"t0_ns": 0}, False),
        ({"t0_ns": NOW_NS + 1_000_000_000}, True),
        ({"t0_ns": NOW_NS + 1_000_000_001}, False),
        ({"text": "x" * 200}, True),
        ({"text": "x" * 201}, False),
        ({"dump_after_ms": None}, True),
        ({"dump_after_ms": 0}, True),
        ({"dump_after_ms": -1}, False),
        ({"dump_after_ms": 3_600_000}, True),
        ({"dump_after_ms": 3_600_001}, False),
        ({"dump_after_ms": True}, False),
        ({"dump_after_ms": "1"}, False),
    ],
)
def test_a_file_is_believed_as_far_as_it_can_be_true(tmp_path, spool, complaints, monkeypatch, fields, good):
    """A second in the future: another process read the clock on another core."""
    monkeypatch.setattr(mark_spool.time, "monotonic_ns", lambda: NOW_NS)
    path = leave(tmp_path, **{"t0_ns": 5, "text": "x"} | fields)
    assert len(spool.take()) == good and path.exists() is good and len(complaints) == (not good)


def test_so_many_are_taken_at_once_and_no_more(tmp_path, spool):
    for number in range(MAX_AT_ONCE + 1):
        mark_spool.put(tmp_path, "x", number + 1)
    assert [mark.t0_ns for mark in spool.take()] == list(range(1, 65))


@pytest.mark.parametrize(("age_s", "stays"), [(59.9, True), (60.0, False)])
def test_a_file_is_being_written_for_a_minute_at_most(tmp_path, spool, complaints, monkeypatch, age_s, stays):
    path = tmp_path / "marks" / "5.new"
    path.write_text("{")
    os.utime(path, (1000, 1000))
    monkeypatch.setattr(mark_spool.time, "time", lambda: 1000 + age_s)
    assert spool.take() == [] and path.exists() is stays and len(complaints) == (not stays)


def test_a_file_that_goes_while_it_is_looked_at_is_no_complaint(tmp_path, spool, complaints):
    assert mark_spool._is_young(tmp_path / "marks" / "5.new") is True
    assert spool._read(tmp_path / "marks" / "5.new") is None and spool._read(tmp_path / "marks" / "5.mark") is None
    assert complaints == []


@pytest.mark.parametrize(
    ("number", "refused"),
    [(errno.ELOOP, True), (errno.ENXIO, True), (errno.EACCES, True), (errno.EISDIR, True), (errno.EIO, False)],
)
def test_a_disk_that_fails_now_may_read_it_the_next_time(tmp_path, spool, complaints, monkeypatch, number, refused):
    path = leave(tmp_path, t0_ns=5, text="x")

    def fail(*_how):
        raise OSError(number, "no")

    with monkeypatch.context() as patch:
        patch.setattr(mark_spool.os, "open", fail)
        assert spool.take() == []
    assert path.exists() is not refused and len(complaints) == refused


@pytest.mark.parametrize(
    ("mode", "uid", "good"),
    [
        (stat.S_IFREG | 0o600, 7, True),
        (stat.S_IFREG | 0o700, 7, True),
        (stat.S_IFREG | 0o600, 0, True),
        (stat.S_IFREG | 0o600, 8, False),
        (stat.S_IFREG | 0o601, 7, False),
        (stat.S_IFREG | 0o610, 7, False),
        (stat.S_IFIFO | 0o600, 7, False),
    ],
)
def test_only_who_the_tracer_is_and_root_may_have_written_it(tmp_path, spool, monkeypatch, mode, uid, good):
    path = leave(tmp_path, t0_ns=5, text="x")
    with monkeypatch.context() as patch:
        patch.setattr(mark_spool.os, "fstat", lambda file: SimpleNamespace(st_mode=mode, st_uid=uid))
        patch.setattr(mark_spool.os, "geteuid", lambda: 7)
        taken = spool.take()
    assert bool(taken) is good and path.exists() is good


def test_descriptors_are_given_back(tmp_path, spool):
    leave(tmp_path, t0_ns=5, text="x"), leave(tmp_path, "6.mark", t0_ns=0, text="x")
    before = open_descriptors()
    mark_spool.put(tmp_path, "x")
    assert len(spool.take()) == 2 and mark_spool.is_watched(tmp_path)
    assert open_descriptors() <= before


def test_where_there_is_no_directory_nobody_watches(tmp_path):
    assert not mark_spool.is_watched(tmp_path)
    (tmp_path / "marks").write_text("a file")
    assert not mark_spool.is_watched(tmp_path)


@pytest.mark.parametrize(("age_ns", "reads"), [(CERTAIN_NS, 2), (CERTAIN_NS + 1, 1)])
def test_a_directory_that_has_just_changed_may_change_again_and_show_the_same_time(
    tmp_path, spool, monkeypatch, age_ns, reads
):
    """Three seconds: the coarsest file systems count by two."""
    assert CERTAIN_NS == 3_000_000_000
    looks, scandir, changed_ns = [], os.scandir, os.stat(tmp_path / "marks").st_mtime_ns
    monkeypatch.setattr(mark_spool.time, "time_ns", lambda: changed_ns + age_ns)
    monkeypatch.setattr(os, "scandir", lambda path: looks.append(path) or scandir(path))
    assert spool.take() == spool.take() == [] and len(looks) == reads


def test_it_complains_once_until_it_has_taken_a_good_one(tmp_path, spool, complaints):
    for number in range(2):
        leave(tmp_path, f"{number}.mark", t0_ns=0, text="x")
        spool.take()
    assert complaints == ["0.mark: its time is not one of this machine"]
    spool.done(mark_spool.Mark(mark_spool.put(tmp_path, "good"), "good", 5))
    leave(tmp_path, "again", t0_ns=5, text="x")
    spool.take()
    assert complaints[1:] == ["again: no marker has such a name"]


def test_the_directory_is_this_users_whoever_makes_it(tmp_path):
    """`mark` does before a tracer has begun; and a mark that somebody took away was recorded all the same."""
    path = mark_spool.put(tmp_path, "x")
    assert path.parent.stat().st_mode & 0o777 == 0o700 and path.stat().st_mode & 0o777 == 0o600
    spool = MarkSpool(tmp_path, pytest.fail)
    (mark,) = spool.take()
    path.unlink()
    spool.done(mark)
    assert spool.take() == []
