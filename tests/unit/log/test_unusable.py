"""Whether a disk counts as full: the bound itself, and a disk that nobody can ask."""

import errno
from types import SimpleNamespace

import pytest

from mpbroker.log import disk, unusable
from mpbroker.log.unusable import MIN_FREE_BYTES, free_bytes, is_full


@pytest.mark.parametrize(("free", "full"), [(0, True), (MIN_FREE_BYTES - 1, True), (MIN_FREE_BYTES, False)])
def test_a_disk_is_full_below_what_a_start_writes(monkeypatch, tmp_path, free, full):
    monkeypatch.setattr(disk, "disk_status", lambda _path: SimpleNamespace(f_bavail=free, f_frsize=1))
    assert is_full(str(tmp_path)) is full


def test_free_space_is_counted_in_blocks(monkeypatch, tmp_path):
    monkeypatch.setattr(disk, "disk_status", lambda _path: SimpleNamespace(f_bavail=3, f_frsize=4096))
    assert free_bytes(str(tmp_path)) == 12288


def test_a_disk_that_nobody_can_ask_is_not_full(monkeypatch, tmp_path):
    def broken(_path):
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(disk, "disk_status", broken)
    assert free_bytes(str(tmp_path)) is None and is_full(str(tmp_path)) is False


@pytest.mark.parametrize(("uid", "owner"), [(None, "another user"), (4711, "u4711")])
def test_whose_directory_it_is_stands_in_the_refusal(monkeypatch, tmp_path, uid, owner):
    monkeypatch.setattr(unusable, "owner_of", lambda path: uid)
    monkeypatch.setattr(unusable, "user_name", lambda number: f"u{number}")
    (tmp_path / "here").mkdir(mode=0o750)
    told = str(unusable._not_allowed(str(tmp_path / "here" / "no" / "such"), "log.dirs"))
    assert f"{tmp_path}/here cannot be written by u" in told and f"it belongs to {owner}, mode 0750: " in told
    assert "log.dirs" in told


@pytest.mark.parametrize(("free", "told"), [(None, ""), (5 * 1024 + 1023, " (5 KiB free)")])
def test_how_much_is_left_of_a_full_disk_is_told_where_it_is_known(monkeypatch, free, told):
    monkeypatch.setattr(unusable, "free_bytes", lambda path: free)
    words = f"no space left on the disk of /d{told}: free some, or name a directory on another disk (log.dirs)"
    assert words in str(unusable.no_space("/d"))
    assert words in str(unusable.unusable("/d", OSError(errno.ENOSPC, "full")))


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EROFS, "/d is on a read-only file system: mount it for writing, or name another directory (key)"),
        (errno.EIO, "/d cannot be written: words (key)"),
    ],
)
def test_what_is_wrong_with_a_directory(number, words):
    assert words in str(unusable.unusable("/d", OSError(number, "words"), "key"))


def test_a_directory_that_is_not_there_yet_has_the_disk_of_the_nearest_above_it(monkeypatch):
    asked = []

    def status(path):
        asked.append(path)
        if path != "/data":
            raise FileNotFoundError(errno.ENOENT, "no")
        return SimpleNamespace(f_bavail=3, f_frsize=4096)

    monkeypatch.setattr(disk, "disk_status", status)
    assert free_bytes("/data/a/b") == 12288 and asked == ["/data/a/b", "/data/a", "/data"]
    assert free_bytes("/other/a") is None and asked[3:] == ["/other/a", "/other", "/"]
    assert free_bytes("here/a") is None and asked[6:] == ["here/a", "here"]


def test_what_this_user_may_not_look_into_is_passed_over(monkeypatch, tmp_path):
    real = disk.exists

    def exists(path):
        if path.startswith(f"{tmp_path}/closed/"):
            raise PermissionError(errno.EACCES, "no")
        return real(path)

    (tmp_path / "closed").mkdir()
    monkeypatch.setattr(disk, "exists", exists)
    told = str(unusable.unusable(f"{tmp_path}/closed/a/b", PermissionError(errno.EACCES, "no")))
    assert f"{tmp_path}/closed cannot be written by " in told
    assert told == str(unusable.unusable(f"{tmp_path}/closed/a/b", OSError(errno.EPERM, "no")))
