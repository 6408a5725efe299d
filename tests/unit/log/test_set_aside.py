"""What recovery cannot use stays beside the log, every byte of it, under a name that nobody has."""

import errno
import os

import pytest

from mpbroker.log import disk
from mpbroker.log import set_aside as module
from mpbroker.log.set_aside import free_name, keep_tail, set_aside


def test_a_file_is_renamed_to_the_first_name_that_is_free(tmp_path):
    path, names = tmp_path / "0.index", []
    for number in range(4):
        path.write_bytes(bytes([number]))
        names.append(os.path.basename(set_aside(str(path))))
        assert not path.exists()
    assert names == ["0.index.cut", "0.index.cut.1", "0.index.cut.2", "0.index.cut.3"]
    assert [(tmp_path / name).read_bytes() for name in names] == [bytes([number]) for number in range(4)]


def test_where_all_names_are_taken_nothing_is_overwritten(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "MAX_NAMES", 3)
    for name in ("a", "a.1"):
        (tmp_path / name).touch()
    wanted = str(tmp_path / "a")
    assert free_name(wanted) == f"{wanted}.2"
    (tmp_path / "a.2").touch()
    with pytest.raises(FileExistsError, match="and 3 more names are taken"):
        free_name(wanted)


@pytest.mark.parametrize("piece", [1, 3, 4, 5, 100])
@pytest.mark.parametrize(("start", "end"), [(0, 10), (3, 10), (3, 9), (9, 10), (5, 5), (7, 30)])
def test_a_tail_is_copied_whole_however_long_it_is(monkeypatch, tmp_path, piece, start, end):
    monkeypatch.setattr(module, "COPY_BYTES", piece)
    synced: list[int] = []
    monkeypatch.setattr(disk, "sync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    path = tmp_path / "0.log"
    path.write_bytes(b"0123456789")
    with open(path, "rb") as file:
        name = keep_tail(file.fileno(), str(path), start, end)
        again = keep_tail(file.fileno(), str(path), start, end)
    assert (name, again) == (f"{path}.{start}.cut", f"{path}.{start}.cut.1")
    for each in (name, again):
        with open(each, "rb") as copy:
            assert copy.read() == b"0123456789"[start:end]
    assert synced == [len(b"0123456789"[start:end])] * 2, "it is on the disk before the file is cut"
    assert path.read_bytes() == b"0123456789"


def test_of_a_tail_that_cannot_be_copied_no_half_is_left(monkeypatch, tmp_path):
    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(disk, "sync", fail)
    path = tmp_path / "0.log"
    path.write_bytes(b"0123456789")
    with open(path, "rb") as file, pytest.raises(OSError, match="full"):
        keep_tail(file.fileno(), str(path), 3, 10)
    assert os.listdir(tmp_path) == ["0.log"]
