"""What a failed start takes away: all that it made in a directory that was empty or not there, and nothing else."""

import errno

import pytest

from mpbroker.log import data_dir
from mpbroker.metadata.keys import STORE_FILE
from mpbroker.supervisor.failed_start import MadeByStart

KNOWN = (
    ".lock",
    "meta.properties",
    "metadata.db",
    "metadata.db-wal",
    ".mpbroker-status.json.12.tmp",
    ".kafka_cleanshutdown",
)


def _start(path, names=KNOWN):
    path.mkdir(parents=True, exist_ok=True)
    for name in names:
        (path / name).write_text("x")
    (path / "traces").mkdir()
    (path / "traces" / "b0-1-r00-0.mpt").write_text("x")


def _names(path):
    return sorted(str(one.relative_to(path)) for one in path.rglob("*"))


@pytest.mark.parametrize("there", [False, True])
def test_all_that_was_made_goes(tmp_path, there):
    path = tmp_path / "a" / "b"
    if there:
        path.mkdir(parents=True)
    made = MadeByStart(str(path), str(path / "traces"))
    _start(path)
    made.undo()
    assert _names(tmp_path) == (["a", "a/b"] if there else [])


def test_a_start_that_came_to_no_traces_takes_the_rest_away(tmp_path):
    made = MadeByStart(str(tmp_path / "d"), str(tmp_path / "d" / "traces"))
    _start(tmp_path / "d")
    (tmp_path / "d" / "traces" / "b0-1-r00-0.mpt").unlink()
    (tmp_path / "d" / "traces").rmdir()
    made.undo()
    assert _names(tmp_path) == []


@pytest.mark.parametrize("name", ["meta.properties", "t-0", "mine.txt"])
def test_a_directory_that_held_something_stays_as_it_is(tmp_path, name):
    (tmp_path / name).write_text("x")
    made = MadeByStart(str(tmp_path), str(tmp_path / "traces"))
    _start(tmp_path, (*KNOWN, name))
    before = _names(tmp_path)
    made.undo()
    assert _names(tmp_path) == [each for each in before if each != ".lock"]


@pytest.mark.parametrize("name", ["t-0", "mine.txt"])
def test_what_a_start_does_not_make_keeps_everything(tmp_path, name):
    path = tmp_path / "d"
    made = MadeByStart(str(path), str(path / "traces"))
    _start(path, (*KNOWN, name))
    before = _names(tmp_path)
    made.undo()
    assert _names(tmp_path) == [each for each in before if each != "d/.lock"]


@pytest.mark.parametrize("there", [True, False])
def test_of_a_directory_that_held_something_only_a_lock_and_empty_traces_that_are_new_go(tmp_path, there):
    (tmp_path / "mine.txt").write_text("x")
    if there:
        (tmp_path / ".lock").write_text("1")
        (tmp_path / "traces").mkdir()
    before = _names(tmp_path)
    made = MadeByStart(str(tmp_path), str(tmp_path / "traces"))
    (tmp_path / ".lock").write_text("2")
    (tmp_path / "traces").mkdir(exist_ok=True)
    made.undo()
    assert _names(tmp_path) == before


def test_traces_that_were_there_stay(tmp_path):
    path, traces = tmp_path / "d", tmp_path / "traces"
    traces.mkdir()
    (traces / "old.mpt").write_text("x")
    made = MadeByStart(str(path), str(traces))
    path.mkdir()
    (path / ".lock").write_text("x")
    made.undo()
    assert _names(tmp_path) == ["traces", "traces/old.mpt"]


def test_without_the_lock_only_empty_directories_go(tmp_path):
    path = tmp_path / "a" / "b"
    made = MadeByStart(str(path), str(path / "traces"))
    path.mkdir(parents=True)
    (path / ".lock").write_text("another's")
    made.remove_empty()
    assert _names(tmp_path) == ["a", "a/b", "a/b/.lock"]
    (path / ".lock").unlink()
    made.remove_empty()
    assert _names(tmp_path) == []


def test_a_lock_file_that_was_taken_away_is_made_anew(tmp_path, monkeypatch):
    """Between the open and the lock, the holder fails to start and removes the file."""
    directory, real, opened = str(tmp_path), data_dir.fcntl.fcntl, []

    def take_away_first(descriptor, *words):
        if not opened:
            (tmp_path / ".lock").unlink()
        opened.append(descriptor)
        return real(descriptor, *words)

    monkeypatch.setattr(data_dir.fcntl, "fcntl", take_away_first)
    lock = data_dir.lock(directory)
    assert len(opened) == 2 and (tmp_path / ".lock").exists()
    monkeypatch.undo()
    assert data_dir.holder(directory) is not None
    lock.close()


def test_a_directory_that_could_not_be_looked_into_is_not_tidied(tmp_path, monkeypatch):
    """Descriptors were short for a moment: what lies there may be anybody's."""

    def refuse(_):
        raise OSError(errno.EMFILE, "Too many open files")

    (tmp_path / STORE_FILE).write_bytes(b"topics of years")
    with monkeypatch.context() as patched:
        patched.setattr("os.listdir", refuse)
        made = MadeByStart(str(tmp_path), str(tmp_path / "traces"))
    made.undo()
    assert (tmp_path / STORE_FILE).read_bytes() == b"topics of years"
