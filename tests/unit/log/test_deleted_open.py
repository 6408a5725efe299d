"""Files that were deleted and are still open somewhere: looked for while there is something to find, and no longer."""

import pytest

from mpbroker.log import deleted_open
from mpbroker.log.deleted_open import LOOK_EVERY_MS, DeletedOpen


@pytest.fixture
def looked(monkeypatch):
    """What each look finds, last first, and which directories were looked for."""
    found, looks = [], []

    def look(_pids, prefix):
        looks.append(prefix)
        return found.pop()

    monkeypatch.setattr(deleted_open.disk, "deleted_and_open", look)
    return found, looks


def test_it_looks_until_nothing_is_held_any_more(world, looked, monkeypatch):
    found, looks = looked
    keeper, gauges = world.keeper(), []
    monkeypatch.setattr(keeper, "set_gauge", lambda name, value: gauges.append((name, value)), raising=False)
    job = DeletedOpen(keeper)
    found += [0, 1, 5]
    for _ in range(5):
        job.do_work()
        job.do_work()
        world.clock.advance(LOOK_EVERY_MS)
    assert gauges == [("deleted_bytes_open", held) for held in (5, 1, 0)] and job.remaining_ms() == LOOK_EVERY_MS
    assert looks == [f"{world.path}/"] * 3
    found.append(0)
    job.removed()
    assert job.remaining_ms() == 0
    job.do_work()
    assert len(looks) == 4 and not found
