"""A file of offsets by partition: what is read of it, and in which order it is put in its place, durably or not."""

import pytest

from mpbroker.log import checkpoint_file, disk
from mpbroker.log.checkpoint_file import parse_checkpoint, replace_durably, replace_whole


@pytest.fixture
def called(monkeypatch):
    seen = []
    monkeypatch.setattr(disk, "write_file", lambda path, content, sync_it: seen.append(("write", path, sync_it)))
    monkeypatch.setattr(disk, "rename", lambda old, new: seen.append(("rename", old, new)))
    monkeypatch.setattr(disk, "sync_directory", lambda path: seen.append(("sync", path)))
    return seen


@pytest.mark.parametrize(("path", "directory"), [("/data/file", "/data"), ("file", ".")])
def test_its_directory_is_synced_behind_the_rename(called, path, directory):
    """Before that, a power loss may bring the old file back; the content is synced first."""
    replace_durably(path, b"x")
    assert called == [("write", f"{path}.tmp", True), ("rename", f"{path}.tmp", path), ("sync", directory)]


def test_what_need_not_survive_a_power_loss_is_not_synced(called):
    replace_whole("/data/file", b"x")
    assert called == [("write", "/data/file.tmp", False), ("rename", "/data/file.tmp", "/data/file")]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("0\n2\nt 0 5\nu 11 7\n", {("t", 0): 5, ("u", 11): 7}),
        ("0\n0\n", {}),
        ("1\n0\n", None),
        ("0\n2\nt 0 5\n", None),
        ("0\n0\nt 0 5\n", None),
        ("0\n1\nt 0\n", None),
        ("", None),
    ],
)
def test_what_is_read(tmp_path, content, found):
    path = tmp_path / "checkpoint"
    path.write_text(content)
    if found is None:
        with pytest.raises(ValueError):
            parse_checkpoint(str(path))
    else:
        assert parse_checkpoint(str(path)) == found
    assert checkpoint_file.read_checkpoint(str(path)) == (found or {})
    with pytest.raises(FileNotFoundError):
        parse_checkpoint(str(tmp_path / "none"))
    assert checkpoint_file.read_checkpoint(str(tmp_path / "none")) == {}


def test_it_may_have_sixty_four_mebibytes(monkeypatch):
    asked = []
    monkeypatch.setattr(disk, "read_whole", lambda path, most: asked.append((path, most)) or b"0\n0\n")
    assert parse_checkpoint("/data/file") == {} and asked == [("/data/file", 64 << 20)]
