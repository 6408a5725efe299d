"""Whatever call to the disk was the last before a power cut, promises are kept. A sample; `make filestates` has all."""

import tempfile
from pathlib import Path

import pytest

from tests.filestates import power_cut
from tests.filestates.power_cut import Cut, broken, record_synced, record_unsynced, run
from tests.filestates.started import started_here
from tests.harness.disk_replay import FORGOTTEN, Disk, calls

pytestmark = pytest.mark.slow

SAMPLE, SEED = 150, 1
TIMES = 3


@pytest.fixture
def directory():
    with tempfile.TemporaryDirectory(prefix="power-cut-", dir=power_cut.SHARED_MEMORY) as made:
        yield Path(made)


def test_promises_are_kept_whatever_call_was_the_last(directory):
    tried, wrong = run(directory, SAMPLE, SEED)
    assert not wrong, "\n".join(wrong)
    assert tried == SAMPLE * len(power_cut.RECORDINGS)


def test_the_replay_of_all_calls_is_what_is_on_disk(directory):
    """A call that is made and not yet noted when its process is killed is missing in the record, which happens on a
    busy machine. Whatever else differs does so each time."""
    differing = []
    for number in range(TIMES):
        replayed, there = _replayed_and_there(record_unsynced(directory / f"session{number}"))
        if replayed == there:
            return
        differing.append(sorted(name for name in {*replayed, *there} if replayed.get(name) != there.get(name)))
    raise AssertionError(f"other than on disk, each time: {differing}")


def _replayed_and_there(session):
    """Name → content (None: a directory), by the record and by the disk."""
    data, disk = session.directory / "data", Disk()
    for position, call in calls(session.record, str(data)):
        disk.apply(position, call)
    there = {
        str(path.relative_to(data)): path.read_bytes() if path.is_file() else None
        for path in data.rglob("*")
        if not path.name.startswith(FORGOTTEN) and "traces" not in path.parts
    }
    return {name: file.data if file else None for name, file in disk.left("everything").items()}, there


@pytest.mark.parametrize("unsynced", [".log", "metadata.db-wal"])
def test_a_broker_that_forgets_a_sync_would_be_found(directory, unsynced, monkeypatch):
    """The same recording without the syncs of some files breaks promises."""
    session = record_synced(directory / "session")
    monkeypatch.setattr(
        power_cut,
        "calls",
        lambda record, data_dir: (
            (position, call)
            for position, call in calls(record, data_dir)
            if call.kind != "sync" or not call.path.endswith(unsynced)
        ),
    )
    cuts = [cut for cut in session.cuts() if cut.case == "nothing"]
    assert any(broken(cut, directory / f"cut{number}", session.begun_ns) for number, cut in enumerate(cuts[::2]))


def test_a_directory_of_a_power_cut_is_started_as_any_other(directory):
    """What `broken` relies on: nothing promised, nothing there, a start all the same."""
    assert broken(Cut(0, "nothing", {}, frozenset(), frozenset()), directory / "data", 0) == []
    with started_here(directory / "data", clean_stop=False) as running:
        assert running.partitions() == {}
