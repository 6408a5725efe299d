"""Which brokers run here: by the pages in /dev/shm, of this user; of others it is told whose they are."""

import os
from types import SimpleNamespace

import pytest

from mpbroker.errors import BelongsToAnother, MpbrokerError
from mpbroker.supervisor import broker_list
from mpbroker.supervisor.broker_list import MAX_LISTED, RunningBroker

OWN = os.geteuid()


class World:
    """`pages`: name → (data directory, owner); `pids`: who runs on a directory; `said`: their status files."""

    def __init__(self, monkeypatch, tmp_path):
        self.pages, self.pids, self.said, self.closed = {}, {}, {}, []
        self.path = tmp_path
        monkeypatch.setattr(broker_list, "SHM_DIR", str(tmp_path))
        monkeypatch.setattr(broker_list, "PageView", self.page)
        monkeypatch.setattr(broker_list, "name_prefix", lambda path: f"/mpbroker-{path[1:]}-")
        monkeypatch.setattr(broker_list.data_dir, "holder", lambda path: self.pids.get(path))
        monkeypatch.setattr(broker_list, "read_status_file", self.said.get)
        monkeypatch.setattr(broker_list, "user_name", lambda uid: f"u{uid}")

    def page(self, name):
        if self.pages[name] is None:
            raise MpbrokerError("another version's")
        return SimpleNamespace(data_dir=self.pages[name], close=lambda: self.closed.append(name))

    def broker(self, name, pid=None, listeners=(), uid=None):
        page = f"mpbroker-{name}-page"
        (self.path / page).write_text("")
        self.pages[f"/{page}"] = f"/{name}"
        if pid is not None:
            self.pids[f"/{name}"] = pid
            self.said[f"/{name}"] = SimpleNamespace(listeners=listeners)


@pytest.fixture
def world(monkeypatch, tmp_path):
    return World(monkeypatch, tmp_path)


def test_those_that_run_are_listed_by_their_directories(world):
    listener = {"name": "A", "host": "h", "port": 9}
    world.broker("two", 22)
    world.broker("one", 11, (listener,))
    world.broker("killed")
    (world.path / "mpbroker-one-lane-0").write_text("")
    (world.path / "other-page").write_text("")
    assert broker_list.own_brokers() == [RunningBroker("/one", 11, ("A://h:9",)), RunningBroker("/two", 22, ())]
    assert len(world.closed) == 3 and broker_list.others() == ""


def test_a_page_that_is_not_what_it_says_is_none(world):
    world.broker("one", 11)
    world.broker("two", 22)
    world.pages["/mpbroker-two-page"] = "/one"  # a copy under another name
    world.broker("copy")
    world.pages["/mpbroker-copy-page"] = "/five"
    world.pids["/five"] = 55
    world.broker("three", 33)
    world.pages["/mpbroker-three-page"] = None
    world.broker("four", 44)
    world.said["/four"] = None
    assert [one.pid for one in broker_list.own_brokers()] == [44, 11]


def test_a_page_is_its_owners_wherever_a_link_of_its_name_leads(world):
    (world.path / "mpbroker-x-page").symlink_to(world.path / "nowhere")
    assert broker_list._pages() == [("/mpbroker-x-page", OWN)]


def test_of_other_users_it_is_told_how_many_they_have(world, monkeypatch):
    rows = [("/a", OWN), *[("/b", OWN + 2)] * 2, ("/c", OWN + 1)]
    monkeypatch.setattr(broker_list, "_pages", lambda: rows)
    assert broker_list.others() == f"; of others there are: 1 of u{OWN + 1}, 2 of u{OWN + 2}"
    rows[:] = [("/x", OWN + number) for number in range(1, MAX_LISTED + 5)]
    assert broker_list.others().count(" of u") == MAX_LISTED


def test_without_shared_memory_there_are_none(monkeypatch, tmp_path):
    monkeypatch.setattr(broker_list, "SHM_DIR", str(tmp_path / "no"))
    assert broker_list.own_brokers() == [] and broker_list.others() == ""


@pytest.mark.parametrize(("holder", "runs"), [(5, True), (None, False), (BelongsToAnother, False)])
def test_whether_one_runs_on_a_directory(monkeypatch, holder, runs):
    def look(_):
        if holder is BelongsToAnother:
            raise BelongsToAnother("/d", "u")
        return holder

    monkeypatch.setattr(broker_list.data_dir, "holder", look)
    assert broker_list.runs_on("/d") is runs
