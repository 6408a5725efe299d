"""Retention: oldest closed segments first, by age, then by size; open ones never."""

import os
from pathlib import Path

from mpbroker.trace import retention, segment
from mpbroker.trace.retention import Candidate

CLOSED = [Candidate(Path(f"{age}.mpt"), 1000.0 - age, 100) for age in (90, 60, 30, 10)]


def _chosen(**limits):
    settings = {"active_bytes": 50, "now_s": 1000.0, "retention_bytes": -1, "retention_ms": -1, **limits}
    return [one.path.stem for one in retention.choose(CLOSED, **settings)]


def test_no_limit_deletes_nothing():
    assert _chosen() == []


def test_by_age():
    assert _chosen(retention_ms=30_000) == ["90", "60"]
    assert _chosen(retention_ms=0) == ["90", "60", "30", "10"], "0 is a limit"


def test_by_size_the_open_segments_count():
    assert _chosen(retention_bytes=450) == []
    assert _chosen(retention_bytes=449) == ["90"]
    assert _chosen(retention_bytes=0) == ["90", "60", "30", "10"]


def test_age_first_then_size():
    assert _chosen(retention_ms=70_000, retention_bytes=250) == ["90", "60"]


def test_files_go_but_never_an_open_one(tmp_path):
    for age, name in ((50, "b"), (90, "a"), (100, "open")):
        path = tmp_path / f"{name}.mpt"
        path.write_bytes(bytes(1000))
        os.utime(path, (10_000 - age, 10_000 - age))
    (tmp_path / "manifest.jsonl").write_bytes(bytes(5000))
    deleted = retention.apply(tmp_path, {tmp_path / "open.mpt": 1000}, 10_000, 2000, -1)
    assert [path.name for path in deleted] == ["a.mpt"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.mpt", "manifest.jsonl", "open.mpt"]


def test_a_boots_names_go_with_its_last_segment(tmp_path):
    for name in (
        "dict-b1-0000000a.jsonl",
        "dict-b1-0000000b.jsonl",
        "dict-b2-0000000a.jsonl",
        "dict-b1-0000000c.jsonl",
        "other.jsonl",
    ):
        (tmp_path / name).write_text("")
    (tmp_path / segment.file_name(1, 0xA, 0, 0)).write_bytes(b"")
    deleted = retention.delete_dictionaries(tmp_path, keep={(1, 0xC)})
    assert sorted(path.name for path in deleted) == ["dict-b1-0000000b.jsonl", "dict-b2-0000000a.jsonl"]
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".jsonl") == [
        "dict-b1-0000000a.jsonl",
        "dict-b1-0000000c.jsonl",
        "other.jsonl",
    ]


def test_files_that_somebody_else_took_away_meanwhile_are_gone_all_the_same(tmp_path, monkeypatch):
    gone = [tmp_path / segment.file_name(1, 0xA, 0, 0), tmp_path / "dict-b1-0000000b.jsonl"]
    monkeypatch.setattr(retention, "candidates", lambda directory, active: [Candidate(gone[0], 1.0, 100)])
    assert retention.apply(tmp_path, {}, 1000.0, 0, -1) == [gone[0]]
    monkeypatch.setattr(retention.segment, "find", lambda directory, start, *end: [gone[1]] if end else [])
    assert retention.delete_dictionaries(tmp_path, set()) == [gone[1]]
