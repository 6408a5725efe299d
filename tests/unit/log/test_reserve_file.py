"""The reserve: when it is given up, when it is made again, and whose writes it stands for."""

import errno
import os

import pytest

from mpbroker.log import reserve_file


@pytest.fixture
def spent(tmp_path):
    """A directory whose start gave its reserve up."""
    assert reserve_file.make(str(tmp_path)) and reserve_file.is_whole(str(tmp_path))
    reserve_file.give_up(str(tmp_path))
    return str(tmp_path)


def test_it_has_blocks_and_gives_them_up(tmp_path):
    assert not reserve_file.is_whole(str(tmp_path)) and not reserve_file.was_given_up(str(tmp_path))
    assert reserve_file.make(str(tmp_path))
    assert os.stat(tmp_path / reserve_file.NAME).st_blocks * 512 >= reserve_file.RESERVE_BYTES
    assert reserve_file.is_whole(str(tmp_path)) and not reserve_file.was_given_up(str(tmp_path))
    reserve_file.give_up(str(tmp_path))
    assert reserve_file.was_given_up(str(tmp_path)) and not reserve_file.is_whole(str(tmp_path))
    assert reserve_file.make(str(tmp_path)) and os.listdir(tmp_path) == [reserve_file.NAME]


def test_who_writes_to_its_disk_waits_for_it(spent):
    assert reserve_file.is_spent_by(spent, spent)
    assert not reserve_file.is_spent_by("/proc", spent), "another disk"
    assert not reserve_file.is_spent_by(os.path.join(spent, "gone"), spent), "what is not there writes nothing"
    assert reserve_file.make(spent) and not reserve_file.is_spent_by(spent, spent)


MIB = 1 << 20  # the sizes that docs/operations.md names, not the module's own words for them


@pytest.mark.parametrize("free", [None, 16 * MIB - 1, 16 * MIB])
def test_it_is_made_again_when_twice_as_much_is_free(spent, monkeypatch, free):
    monkeypatch.setattr(reserve_file, "free_bytes", lambda _: free)
    assert reserve_file.make(spent) is (free == 16 * MIB)
    assert os.stat(os.path.join(spent, ".reserve")).st_size == (8 * MIB if free == 16 * MIB else 0)


@pytest.mark.parametrize("free", [None, 2 * MIB - 1, 2 * MIB])
def test_a_start_needs_it_when_little_is_free(tmp_path, monkeypatch, free):
    monkeypatch.setattr(reserve_file, "free_bytes", lambda _: free)
    assert not reserve_file.is_needed(str(tmp_path)), "there is none"
    with open(tmp_path / reserve_file.NAME, "wb") as file:
        file.truncate(reserve_file.RESERVE_BYTES)
    assert reserve_file.is_needed(str(tmp_path)) is (free == 2 * MIB - 1)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("step", ["allocate", "rename"])
def test_one_that_cannot_be_made_leaves_nothing_behind(spent, monkeypatch, step, number):
    """A full disk is what it is for; every other error is said."""

    def fail(*_):
        raise OSError(number, "no")

    monkeypatch.setattr(reserve_file, "free_bytes", lambda _: 16 * MIB)
    monkeypatch.setattr(reserve_file.disk, step, fail)
    if number == errno.EIO:
        with pytest.raises(OSError, match="no"):
            reserve_file.make(spent)
    else:
        assert reserve_file.make(spent) is False
    assert os.listdir(spent) == [".reserve"] and reserve_file.was_given_up(spent)


def test_it_is_our_users_alone_and_gone_where_it_was_never_made(tmp_path):
    assert reserve_file.make(str(tmp_path)) and (tmp_path / ".reserve").stat().st_mode & 0o777 == 0o600
    os.unlink(tmp_path / ".reserve")
    assert not reserve_file.was_given_up(str(tmp_path)) and not reserve_file.is_whole(str(tmp_path))
    reserve_file.give_up(str(tmp_path))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("size", "whole"), [(0, False), (8 * MIB - 1, False), (8 * MIB, True), (8 * MIB + 1, True)])
def test_it_is_whole_or_given_up(tmp_path, size, whole):
    (tmp_path / ".reserve").touch()
    os.truncate(tmp_path / ".reserve", size)
    assert reserve_file.is_whole(str(tmp_path)) is whole is not reserve_file.was_given_up(str(tmp_path))
