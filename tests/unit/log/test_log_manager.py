"""What the log manager says of directories and asks of them, and options of the coordinator's appends."""

from types import SimpleNamespace

import pytest

from mpbroker.log import log_manager as module
from mpbroker.log.log_manager import LogManager


@pytest.fixture
def manager():
    names = ("find", "read", "read_into", "append", "flush", "log_dir_online")
    log = SimpleNamespace(**dict.fromkeys(names))
    made = LogManager(log, None, False, data_dirs=["/a", "/b", "/c"])
    made.log = SimpleNamespace(log_dir_online=lambda number: number != 2)
    return made


@pytest.mark.parametrize("told", [False, True])
def test_a_sync_is_made_by_what_was_given_for_it(told):
    asked = []

    def sync(who):
        return lambda ordinal: asked.append((who, ordinal)) or (0, 9)

    log = SimpleNamespace(find=None, read_into=None, flush=sync("log"))
    made = LogManager(log, None, False, sync=sync("told") if told else None)
    assert made._synced(7, None, 0) is None and asked == [("told" if told else "log", 7)]


def test_file_systems_as_they_are_now(manager, monkeypatch):
    space = {"/a": SimpleNamespace(f_blocks=10, f_frsize=4096, f_bavail=3), "/b": None}
    monkeypatch.setattr(module, "disk_status", space.__getitem__)
    assert manager.directories() == [("/a", True, 40960, 12288), ("/b", True, -1, -1), ("/c", False, -1, -1)]


@pytest.mark.parametrize("lies_in", [0, 1])
def test_a_copys_directory_is_made_where_it_shall_lie_and_nowhere_else(manager, monkeypatch, lies_in):
    made, retired = [], []
    monkeypatch.setattr(module, "prepare", lambda *words: made.append(words))
    monkeypatch.setattr(module, "future_name", lambda name, topic_id: f"{name}.future")
    monkeypatch.setattr(module, "retire_future", lambda *words: retired.append(words))
    manager.log.ask_move = lambda ordinal, topic_id, log_dir: 0
    manager.log.move_of = lambda ordinal: None if lies_in == 1 else (1, 1, 0, 0)
    state = SimpleNamespace(log_dir=lies_in, dir="t-0")
    assert manager.ask_move(5, state, b"T", 1) == 0
    assert made == ([] if lies_in == 1 else [("/b", "t-0.future", b"T")])
    assert [path for path, *_ in retired] == (["/a", "/b"] if lies_in == 1 else ["/a"]), "offline ones are left alone"


def test_the_coordinators_own_appends_are_no_clients(manager, monkeypatch):
    monkeypatch.setattr(module, "log_options", lambda *words, **named: (words, named))
    words, named = manager.coordinator_options_of(SimpleNamespace(settings="settings"))
    assert words[0] == "settings" and named == {"from_client": False}


@pytest.mark.parametrize(("end", "start", "lacks"), [(40, 0, 60), (40, 70, 30), (100, 0, 0), (101, 0, 0), (0, 100, 0)])
def test_how_far_a_copy_is_behind(manager, end, start, lacks):
    manager.log.move_of = lambda ordinal: (2, 9, end, 4096)
    state = SimpleNamespace(leo=100, log_start=start)
    assert manager.future(5, state) == (2, 4096, lacks)
    manager.data_dirs = ["/a"]
    assert manager.future(5, state) is None
    manager.data_dirs = ["/a", "/b"]
    assert manager.future(5, state) == (2, 4096, lacks)
    manager.log.move_of = lambda ordinal: None
    assert manager.future(5, state) is None
