"""What `status` opens of a broker: nothing runs, it just starts or ends, it belongs to somebody else; and what it lets
go of afterwards."""

import os
from collections import Counter
from types import SimpleNamespace

import pytest

from mpbroker.errors import DataDirectoryInUse, NothingRuns
from mpbroker.shm.core_view import CoreError
from mpbroker.shm.owner import BelongsToAnother
from mpbroker.shm.page_view import PageError
from mpbroker.supervisor import status
from mpbroker.supervisor.status import NotReadable
from tests.unit.supervisor.test_status import row


class Outside:
    """What there is of a broker on /data; a test takes some of it away."""

    def __init__(self, monkeypatch):
        self.done, self.pid, self.page_error, self.core_error = [], 4711, None, None
        self.said = SimpleNamespace(page="/page", pid=4711, started_ns=5)
        self.page = SimpleNamespace(close=lambda: self.done.append("page closed"))
        self.core = SimpleNamespace(
            held_requests=lambda: Counter({3: 2}), topics=list, close=lambda: self.done.append("core closed")
        )
        monkeypatch.setattr(status.data_dir, "holder", lambda path: self.pid)
        monkeypatch.setattr(status, "read_status_file", lambda path: self.given(self.said))
        monkeypatch.setattr(status, "sweep_leftovers", lambda path: self.done.append(("swept", path)))
        monkeypatch.setattr(status, "PageView", lambda name: self.given(self.page, self.page_error))
        monkeypatch.setattr(status, "CoreView", lambda pid: self.given(self.core, self.core_error))

    @staticmethod
    def given(one, error=None):
        if error is not None:
            raise error
        if isinstance(one, Exception):
            raise one
        return one


@pytest.fixture
def outside(monkeypatch):
    return Outside(monkeypatch)


def test_what_is_opened_is_closed(outside):
    with status._opened("/data") as found:
        assert found == (outside.said, outside.page) and outside.done == []
    assert outside.done == ["page closed"]
    with pytest.raises(KeyError), status._opened("/data"):
        raise KeyError
    assert outside.done == ["page closed"] * 2


def test_where_nothing_runs_what_a_killed_one_left_is_swept(outside):
    outside.pid = None
    with pytest.raises(NothingRuns), status._opened("/data"):
        pass
    assert outside.done == [("swept", "/data")]


@pytest.mark.parametrize("missing", ["said", "page_error"])
def test_one_that_starts_or_ends_cannot_be_read(outside, missing):
    setattr(outside, missing, None if missing == "said" else PageError("half made"))
    words = "is just starting; try again" if missing == "said" else "is just starting or ending: half made"
    with pytest.raises(NotReadable, match=words), status._opened("/data"):
        pass
    assert outside.done == []


def test_another_users_is_told_to_be_theirs(outside):
    outside.said = PermissionError()
    with pytest.raises(BelongsToAnother, match="data directory /data"), status._opened("/data"):
        pass


@pytest.mark.parametrize("error", [None, CoreError("ends"), PermissionError()])
def test_a_core_that_cannot_be_read_says_nothing(outside, error):
    outside.core_error = error
    assert status._held_requests(4711) == (Counter({3: 2}) if error is None else Counter())
    assert status._topics(4711) == ([] if error is None else None)
    assert outside.done == (["core closed"] * 2 if error is None else [])


def test_the_size_of_each_topic(outside):
    outside.core.topics = lambda: [SimpleNamespace(name="t", partitions=3, log_bytes=77, offline=1)]
    assert status._topics(4711) == [{"name": "t", "partitions": 3, "bytes": 77, "offline_partitions": 1}]


def test_how_it_is_needs_no_more_than_the_page(outside, monkeypatch):
    monkeypatch.setattr(status, "_judge_twice", lambda said, page: [])
    monkeypatch.setattr(status, "_seconds_since", lambda moment_ns: moment_ns + 1)
    states = (status.ProcessState.RUNNING, status.ProcessState.DEAD, status.ProcessState.RUNNING)
    outside.page.processes = lambda: [row(state=state) for state in states]
    assert status.read_health("/data") == {
        "data_dir": os.path.realpath("/data"),
        "pid": 4711,
        "uptime_s": 6,
        "processes": 2,
        "health": {"state": status.health.state_of([]), "findings": []},
    }


def test_the_stacks_of_those_that_live(monkeypatch):
    rows = [
        {"role": "handler", "index": 1, "pid": 7, "wait": "none"},
        {"role": "handler", "index": 2, "pid": 0, "wait": "none"},
        {"role": "tracer", "index": 0, "pid": 9, "wait": "drain"},
    ]
    asked = []
    found = [SimpleNamespace(frames=("a", "b"), reason=""), SimpleNamespace(frames=(), reason="it is stopped")]
    monkeypatch.setattr(status.stacks, "ask", lambda pids: asked.extend(pids) or found)
    told = {"processes": rows, "data_dir": "/data", "pid": 1}
    assert status.read_stacks(told) == [
        {"role": "handler", "index": 1, "pid": 7, "doing": "working", "frames": ["a", "b"], "no_answer": None},
        {
            "role": "tracer",
            "index": 0,
            "pid": 9,
            "doing": "in its wait `drain`",
            "frames": [],
            "no_answer": "it is stopped",
        },
    ]
    assert asked == [7, 9]
    monkeypatch.setattr(status.stacks, "ask", lambda pids: (_ for _ in ()).throw(PermissionError))
    told["pid"] = os.getpid()
    with pytest.raises(BelongsToAnother, match="the broker on /data"):
        status.read_stacks(told)


@pytest.mark.parametrize(
    ("names", "is_there", "locks", "done"),
    [
        (["/mp-x"], True, "free", ["locked", "swept", "unlocked"]),
        (["/mp-x"], True, "held", ["locked"]),
        ([], True, "free", []),
        (["/mp-x"], False, "free", []),
    ],
)
def test_leftovers_are_swept_while_nobody_can_start_there(monkeypatch, names, is_there, locks, done):
    did = []

    def lock(path):
        did.append("locked")
        if locks == "held":
            raise DataDirectoryInUse(path, 1)
        return SimpleNamespace(close=lambda: did.append("unlocked"))

    monkeypatch.setattr(status.segment, "names_of", lambda path: names)
    monkeypatch.setattr(status.os.path, "isdir", lambda path: is_there)
    monkeypatch.setattr(status.data_dir, "lock", lock)
    monkeypatch.setattr(status.segment, "sweep", lambda path: did.append("swept"))
    status.sweep_leftovers("/data")
    assert did == done
