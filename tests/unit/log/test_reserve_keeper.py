"""The reserve is made when there is room, and appends that a full disk forbade are let in again with it."""

import os

from mpbroker.log import reserve_file, reserve_keeper
from mpbroker.log.reserve_keeper import LOOK_EVERY_MS, ReserveKeeper
from mpbroker.shm.troubles import Trouble


def test_a_start_without_a_reserve_makes_one_and_looks_once_a_second(world, monkeypatch):
    keeper = ReserveKeeper(world.keeper())
    free = [reserve_file.MIN_FREE_BYTES - 1]
    monkeypatch.setattr(reserve_file, "free_bytes", lambda _: free[0])
    keeper.do_work()
    assert not reserve_file.is_whole(str(world.path)) and keeper.remaining_ms() == LOOK_EVERY_MS == 1000
    free[0] = reserve_file.MIN_FREE_BYTES
    world.clock.advance(LOOK_EVERY_MS - 1)
    keeper.do_work()
    assert not reserve_file.is_whole(str(world.path)) and keeper.remaining_ms() == 1
    world.clock.advance(1)
    keeper.do_work()
    assert reserve_file.is_whole(str(world.path)) and world.events.lines == []


def test_appends_come_back_with_the_reserve(world, monkeypatch):
    told = []
    keeper = ReserveKeeper(world.keeper(trouble=lambda *trouble: told.append(trouble)))
    free = [0]
    monkeypatch.setattr(reserve_file, "free_bytes", lambda _: free[0])
    world.log.refuse_appends(0, True)
    for _ in range(3):
        keeper.do_work()
        world.clock.advance(LOOK_EVERY_MS)
    assert told == [(Trouble.APPENDS_REFUSED, True)] and not world.log.takes_appends(0), "said once"
    [line] = world.events.named("appends_refused")
    assert line["directory"] == str(world.path) and line["remedy"].startswith("free 16 MiB on the disk")
    free[0] = reserve_file.MIN_FREE_BYTES
    keeper.do_work()
    assert told[1:] == [(Trouble.APPENDS_REFUSED, False)] and world.log.takes_appends(0)
    assert len(world.events.named("appends_accepted_again")) == 1
    world.log.refuse_appends(0, True)
    world.clock.advance(LOOK_EVERY_MS)
    keeper.do_work()
    assert told[2:] == [(Trouble.APPENDS_REFUSED, True), (Trouble.APPENDS_REFUSED, False)], "there is a reserve"


def test_a_reserve_that_cannot_be_made_is_said_once_until_it_could(world, monkeypatch):
    keeper = ReserveKeeper(world.keeper())
    real, broken = reserve_file.make, [True]

    def make(directory):
        if broken[0]:
            raise OSError(5, "Input/output error")
        return real(directory)

    monkeypatch.setattr(reserve_file, "make", make)
    said = []
    for is_broken in (True, True, True, False, True, True):
        broken[0] = is_broken
        keeper.do_work()
        world.clock.advance(LOOK_EVERY_MS)
        if not is_broken:
            os.unlink(world.path / reserve_file.NAME)
        said.append(len(world.events.named("reserve_not_made")))
    assert said == [1, 1, 1, 1, 2, 2]


def test_without_a_reserve_appends_stay_refused(world, monkeypatch):
    def fail(directory):
        raise OSError(5, "Input/output error")

    keeper = ReserveKeeper(world.keeper())
    monkeypatch.setattr(reserve_file, "make", fail)
    world.log.refuse_appends(0, True)
    keeper.do_work()
    assert not world.log.takes_appends(0) and world.events.named("appends_accepted_again") == []


class Log:
    """A log directory without room, and what was asked of it."""

    def __init__(self):
        self.asked, self.takes = [], False

    def takes_appends(self, log_dir):
        return self.takes

    def refuse_appends(self, *words):
        self.asked.append(words)
        self.takes = not words[1]


def test_groups_write_into_what_the_reserve_left_until_it_is_nearly_spent(world, monkeypatch):
    log, free = Log(), [0, 0]
    keeper = ReserveKeeper(world.keeper(log=log))
    monkeypatch.setattr(reserve_file, "free_bytes", lambda _: free[0])
    monkeypatch.setattr(reserve_keeper, "free_bytes", lambda _: free[1])

    def look(left):
        free[1] = left
        keeper.do_work()
        world.clock.advance(LOOK_EVERY_MS)
        return log.asked[-1]

    assert look(reserve_file.MIN_LEFT_BYTES) == (0, True, False)
    assert look(reserve_file.MIN_LEFT_BYTES - 1) == (0, True, True) == look(0)
    [line] = world.events.named("group_appends_refused")
    assert line["free_bytes"] == reserve_file.MIN_LEFT_BYTES - 1 and line["remedy"] == "free 16 MiB on the disk"
    assert look(reserve_file.MIN_LEFT_BYTES) == (0, True, False) == look(None)
    look(0)
    assert len(world.events.named("group_appends_refused")) == 2
    free[0] = reserve_file.MIN_FREE_BYTES
    assert look(0) == (0, False)
    count = len(log.asked)
    keeper.do_work()
    assert len(log.asked) == count, "only while appends are refused"
