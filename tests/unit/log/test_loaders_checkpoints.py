"""What the checkpoint files say to the loader: which of them counts, and what is as good as nothing."""

import os

import pytest

from mpbroker.log import log_loader
from mpbroker.log.checkpoint_file import HIGH_WATERMARK, LOG_START, RECOVERY_POINT, write_checkpoint
from mpbroker.log.log_loader import Checkpointed, LogLoader
from tests.unit.log.log_world import Events

WHO = ("t", 0)
pytestmark = pytest.mark.usefixtures("no_waiting_for_the_disk")


@pytest.mark.parametrize(("high_watermark", "recovery_point"), [(7, 9), (9, 7), (9, None), (None, 9), (9, -1)])
def test_how_far_a_partition_is_known_to_have_come(world, high_watermark, recovery_point):
    """Its directory may be empty, or gone: then this is what it lacks."""
    for name, offset in ((HIGH_WATERMARK, high_watermark), (RECOVERY_POINT, recovery_point)):
        if offset is not None:
            write_checkpoint(str(world.path / name), {WHO: offset, ("t", 1): 90})
    loader = LogLoader(world.log, str(world.path), world.events, world.clock)
    assert loader.written_up_to("t", 0) == 9 and loader.written_up_to("u", 0) == 0


@pytest.mark.parametrize("missing", [(), ("partition.metadata",), ("leader-epoch-checkpoint",)])
@pytest.mark.parametrize(("made_ns", "offset"), [(-1, 12), (0, 0), (1, 0)])
def test_a_directory_younger_than_the_file_is_another_one(tmp_path, missing, made_ns, offset):
    """Both files are made with the directory; the older one that is there says when."""
    write_checkpoint(str(tmp_path / LOG_START), {WHO: 12})
    written_ns = os.stat(tmp_path / LOG_START).st_mtime_ns
    (tmp_path / "t-0").mkdir()
    names = [name for name in ("partition.metadata", "leader-epoch-checkpoint") if name not in missing]
    for later, name in enumerate(names):
        (tmp_path / "t-0" / name).touch()
        os.utime(tmp_path / "t-0" / name, ns=(0, written_ns + made_ns + later * 1000))
    events = Events()
    found = Checkpointed(str(tmp_path), LOG_START, events)
    assert found.offset(WHO, str(tmp_path / "t-0")) == offset and found.written(WHO) == 12
    assert found.offset(("t", 1), str(tmp_path / "t-0")) == 0 and events.lines == []
    for name in names:
        os.unlink(tmp_path / "t-0" / name)
    assert found.offset(WHO, str(tmp_path / "t-0")) == 0, "nobody knows when that was made"


def test_a_file_that_cannot_be_understood_says_nothing_and_what_that_means(tmp_path):
    for name, instead in log_loader._WITHOUT.items():
        (tmp_path / name).write_text("junk")
        events = Events()
        found = Checkpointed(str(tmp_path), name, events)
        assert found.written(WHO) == 0
        [line] = events.named("checkpoint_not_understood")
        assert (line["file"], line["instead"]) == (str(tmp_path / name), instead)
    assert Checkpointed(str(tmp_path / "nowhere"), LOG_START, Events()).written(WHO) == 0


def test_a_file_that_goes_while_it_is_read_is_not_believed_of_any_directory(tmp_path, monkeypatch):
    """Nobody knows any more when it was written."""
    write_checkpoint(str(tmp_path / LOG_START), {WHO: 12})
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / "partition.metadata").touch()
    status = log_loader.disk.status

    def gone(path):
        raise FileNotFoundError

    monkeypatch.setattr(log_loader.disk, "status", gone)
    found = Checkpointed(str(tmp_path), LOG_START, Events())
    monkeypatch.setattr(log_loader.disk, "status", status)
    assert (found.offset(WHO, str(tmp_path / "t-0")), found.written(WHO)) == (0, 12)
