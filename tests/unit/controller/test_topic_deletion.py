"""A deletion whose directories cannot be renamed now waits: the store forgets it only when nothing is left."""

import pytest

from mpbroker.metadata.commands import CreateTopics, DeleteTopics, NewTopic
from tests.harness.controller_world import World


@pytest.mark.parametrize("fails", ["retire", "sync"])
def test_a_disk_that_does_not_rename_is_asked_again(tmp_path, fails):
    """Else the directories would come back with the next start, and nobody would know whose they are."""
    world = World(tmp_path)
    world.run(CreateTopics([NewTopic("t", 2)]))
    deletions, free = world.controller._deletions, world.controller._rows.free
    whole = getattr(deletions._logs, fails)

    def broken(*_):
        raise OSError(5, "Input/output error")

    setattr(deletions._logs, fails, broken)
    assert world.codes(DeleteTopics(["t"])) == {"t": 0} and world.topics() == {}
    assert list(deletions.pending) == ["t"] and len(world.controller._store.load_deletions()) == 1
    assert world.controller._rows.free == free, "its rows are not given to others"
    [line] = world.lines.named("topic_deletion_waits")
    assert line["topic"] == "t" and "Input/output error" in line["detail"]
    setattr(deletions._logs, fails, whole)
    world.controller.tidy()
    assert deletions.pending == {} and world.controller._store.load_deletions() == []
    assert world.controller._rows.free == free + 2
    world.check()
