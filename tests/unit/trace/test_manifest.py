"""The manifest: one line per closed segment, torn lines ignored, rebuildable."""

import os

import pytest

from mpbroker.trace import manifest
from tests.harness.descriptors import open_descriptors
from tests.harness.same_file import rewrite
from tests.unit.trace.traces import full_request, write_segment


def _two_segments(directory):
    infos = [write_segment(directory, [full_request(first), full_request(first + 1)]) for first in (0, 2)]
    for info in infos:
        manifest.append(directory, info)
    return infos


def test_rows_say_what_a_reader_needs(tmp_path):
    infos = _two_segments(tmp_path)
    rows = manifest.read(tmp_path)
    assert [row.file for row in rows] == [info.path.name for info in infos]
    row = rows[1]
    assert (row.broker, row.boot, row.ring, row.first_seq, row.records) == (4, "abcdef0123456789", 2, 2, 2)
    assert (row.finished, row.dropped, row.sampled_out, row.apis, row.max_total_ns) == (5, 2, 1, {"0": 2}, 6400)
    assert row.epoch_min_ns == row.epoch_max_ns == 1_700_000_000_000_005_000


def test_a_line_torn_at_any_byte_loses_only_itself(tmp_path):
    _two_segments(tmp_path)
    path = tmp_path / manifest.FILE
    whole = path.read_bytes()
    first_line = whole.index(b"\n") + 1
    for size in range(first_line, len(whole) - 1):
        rewrite(path, whole[:size])
        assert len(manifest.read(tmp_path)) == 1
    info = write_segment(tmp_path, [full_request(9)])
    manifest.append(tmp_path, info)
    assert [row.first_seq for row in manifest.read(tmp_path)] == [0, 9]


def test_rebuilt_from_headers_it_is_the_same(tmp_path):
    _two_segments(tmp_path)
    write_segment(tmp_path, [full_request(4)], close=False)  # open: not in the manifest
    before = manifest.read(tmp_path)
    (tmp_path / manifest.FILE).unlink()
    assert manifest.read(tmp_path) == []
    assert manifest.rebuild(tmp_path) == before == manifest.read(tmp_path)


def test_deleted_files_disappear(tmp_path):
    infos = _two_segments(tmp_path)
    infos[0].path.unlink()
    assert [row.first_seq for row in manifest.read(tmp_path)] == [2]
    manifest.forget(tmp_path, {infos[0].path.name})
    assert (tmp_path / manifest.FILE).read_bytes().count(b"\n") == 1
    assert infos[1].path.name.encode() in (tmp_path / manifest.FILE).read_bytes()


def test_a_manifest_that_is_written_anew_is_this_users(tmp_path):
    infos = _two_segments(tmp_path)
    path = tmp_path / manifest.FILE
    path.chmod(0o644)
    manifest.forget(tmp_path, {infos[1].path.name})
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in tmp_path.iterdir() if one.suffix == ".new"] == []


def test_damaged_segments_are_named_and_left_out(tmp_path):
    _two_segments(tmp_path)
    (tmp_path / "broken.mpt").write_bytes(b"nonsense")
    complaints = []
    assert len(manifest.segments(tmp_path, complaints=complaints)) == 2
    assert len(complaints) == 1 and "broken.mpt" in complaints[0]


@pytest.mark.parametrize("torn", [b"", b"x", b'{"file":"b4'])
def test_a_line_that_is_added_is_on_the_disk_and_this_users(tmp_path, monkeypatch, torn):
    path, synced = tmp_path / manifest.FILE, []
    if torn:
        path.write_bytes(torn)
    info, before = write_segment(tmp_path, [full_request(0)]), open_descriptors()
    monkeypatch.setattr(manifest.os, "fsync", lambda file: synced.append((os.fstat(file).st_size, path.read_bytes())))
    manifest.append(tmp_path, info)
    whole = path.read_bytes()
    assert synced == [(len(whole), whole)] and open_descriptors() <= before
    assert whole.startswith(torn + b"\n" if torn else b"{") and [row.file for row in manifest.read(tmp_path)] == [
        info.path.name
    ]
    assert torn or path.stat().st_mode & 0o777 == 0o600


def test_what_takes_the_manifests_place_is_on_the_disk(tmp_path, monkeypatch):
    """Whole, before it does: a machine that stops then has the old one or the new one."""
    infos, synced = _two_segments(tmp_path), []
    path, new = tmp_path / manifest.FILE, tmp_path / (manifest.FILE + ".new")
    first, second = path.read_bytes().splitlines(keepends=True)
    monkeypatch.setattr(manifest.os, "fsync", lambda file: synced.append((new.read_bytes(), path.read_bytes())))
    manifest.forget(tmp_path, {infos[0].path.name})
    assert synced == [(second, first + second)] and path.read_bytes() == second and not new.exists()
