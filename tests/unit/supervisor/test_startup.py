"""What comes before the first fork: whose the log directories are."""

import errno
import re
from types import SimpleNamespace

import pytest

from mpbroker import _native
from mpbroker.config.load_config import load_broker_config
from mpbroker.errors import ConfigError, DataDirectoryInUse
from mpbroker.log import disk
from mpbroker.log.data_dir import META_FILE, MetaProperties, read_meta, write_meta
from mpbroker.log.unusable import NoSpace
from mpbroker.supervisor import startup
from mpbroker.supervisor.further_directories import LogDirectory
from mpbroker.supervisor.startup import claim_data_dir


def claimed(*paths):
    """The directories of a start on these that came so far that clients were let in."""
    overrides = [f"log.dirs={','.join(map(str, paths))}", "mpbroker.trace.enabled=false"]
    with claim_data_dir(load_broker_config(overrides=overrides, environ={}, cores=2)) as claim:
        claim.served = True
        return [(each.path, each.id, each.problem) for each in claim.directories]


def test_a_first_directory_without_an_id_gets_one_once_there_are_others_and_keeps_what_its_file_said(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    claimed(first)
    name = first / META_FILE
    name.write_text("".join(line for line in name.open() if not line.startswith("directory.id")))
    said = name.read_text()
    claimed(first)
    assert name.read_text() == said, "alone it needs none"
    ids = [one for _, one, _ in claimed(first, second)]
    assert ids == [read_meta(str(path)).directory_id for path in (first, second)] and len(set(ids) - {""}) == 2
    assert (first / f"{META_FILE}.0.cut").read_text() == said
    assert [one for _, one, _ in claimed(first, second)] == ids


def test_the_locks_are_given_back(tmp_path):
    for _ in range(2):
        claimed(tmp_path / "first", tmp_path / "second")


@pytest.mark.parametrize("of", ["node", "cluster"])
def test_what_does_not_go_together_is_refused_before_the_lock_is_taken(tmp_path, of):
    """Also what is written in the lock file stays: whose it was last."""
    first, second = tmp_path / "first", tmp_path / "second"
    claimed(first, second)
    for path in (first, second):
        (path / ".lock").write_text("4711\n")
    cluster = read_meta(str(first)).cluster_id
    if of == "node":
        write_meta(str(first), MetaProperties(cluster, 7, "d"))
    else:
        write_meta(str(second), MetaProperties("another", 0, "d"))
    with pytest.raises(ConfigError, match=f"belongs to {of}"):
        claimed(first, second)
    assert [(path / ".lock").read_text() for path in (first, second)] == ["4711\n"] * 2


class World:
    """Stands for the modules that a start goes through; `done` is their order, `fails` what raises."""

    def __init__(self, monkeypatch, path, *overrides, holder=None, needed=False):
        self.done, self.fails = [], {}
        self.config = load_broker_config(
            overrides=[f"log.dirs={path}/first,{path}/second", f"mpbroker.trace.dir={path}/t", *overrides],
            environ={},
            cores=2,
        )
        self.first = f"{path}/first"
        note, lock = self.note, SimpleNamespace(descriptor=7, close=lambda: self.done.append("lock closed"))
        meta = SimpleNamespace(cluster_id="c", directory_id="d")
        monkeypatch.setattr(startup.reserve_file, "is_needed", lambda where: needed)
        monkeypatch.setattr(startup.reserve_file, "give_up", lambda where: note("give up", where))
        monkeypatch.setattr(startup.data_dir, "holder", lambda where: holder)
        monkeypatch.setattr(startup.data_dir, "create", lambda *how: note("create", *how))
        monkeypatch.setattr(startup.data_dir_check, "check", lambda *how: note("check", *how))
        monkeypatch.setattr(startup.data_dir_check, "check_trace_dir", lambda *how: note("check traces", *how))
        monkeypatch.setattr(startup, "_lock", lambda where: note("lock", where) or lock)
        monkeypatch.setattr(startup, "_identity", lambda config: note("identity") or meta)
        made = SimpleNamespace(undo=lambda: note("undo"), remove_empty=lambda: note("remove empty"))
        monkeypatch.setattr(startup, "MadeByStart", lambda *how: note("before", *how) or made)
        further = SimpleNamespace(
            check=lambda *how: note("check others", *how),
            take=lambda *how: note("take", *how) or (LogDirectory("/second", "e"),),
            lock_fds=(8, 9),
            close=lambda served: note("further closed", served),
        )
        monkeypatch.setattr(startup, "FurtherDirectories", lambda paths: note("others", *paths) or further)

    def note(self, what, *how):
        self.done.append((what, *how) if how else what)
        if what in self.fails:
            raise self.fails[what]

    def start(self, served):
        with startup.claim_data_dir(self.config) as claim:
            self.note("begun")
            claim.served = served
            return claim


@pytest.mark.parametrize("traced", [True, False])
@pytest.mark.parametrize("served", [True, False])
def test_a_start_checks_then_makes_then_locks(monkeypatch, tmp_path, traced, served):
    """Only what is locked is written to; what was made goes again, before the lock does, unless clients were let in."""
    world = World(monkeypatch, tmp_path, f"mpbroker.trace.enabled={str(traced).lower()}")
    claim, first = world.start(served), world.first
    traces = [("create", f"{tmp_path}/t", "mpbroker.trace.dir", 0o700)] if traced else []
    assert world.done == [
        ("before", first, f"{tmp_path}/t"),
        ("others", f"{tmp_path}/second"),
        ("check", first, None, world.config.data_dirs[1:]),
        ("check others", world.config.node_id, None),
        *([("check traces", f"{tmp_path}/t")] if traced else []),
        ("create", first),
        ("lock", first),
        *traces,
        "identity",
        ("take", world.config.node_id, "c", "d"),
        "begun",
        ("further closed", served),
        *([] if served else ["undo"]),
        "lock closed",
    ]
    assert (claim.cluster_id, claim.lock_fds) == ("c", (7, 8, 9))
    assert claim.directories == (LogDirectory(first, "d"), LogDirectory("/second", "e"))


def test_a_start_that_nobody_said_was_served_is_undone(monkeypatch, tmp_path):
    world = World(monkeypatch, tmp_path)
    with startup.claim_data_dir(world.config) as claim:
        assert claim.served is False
    assert world.done[-3:] == [("further closed", False), "undo", "lock closed"]


@pytest.mark.parametrize("fails", ["check", "create", "lock", "identity", "take", "begun"])
def test_a_start_that_fails_takes_away_what_it_made(monkeypatch, tmp_path, fails):
    """Without the lock only directories that are empty: another broker may be writing into the others."""
    world = World(monkeypatch, tmp_path, "mpbroker.trace.enabled=false")
    world.fails[fails] = ConfigError("log.dirs", "x", problem="cannot be used")
    with pytest.raises(ConfigError, match="cannot be used"):
        world.start(served=False)
    locked = fails in ("identity", "take", "begun")
    assert world.done[-3 if locked else -2 :] == [
        ("further closed", False),
        *(["undo", "lock closed"] if locked else ["remove empty"]),
    ]


@pytest.mark.parametrize("served", [False, True])
def test_what_a_broker_that_served_ends_with_is_left(monkeypatch, tmp_path, served):
    world = World(monkeypatch, tmp_path)
    with pytest.raises(KeyError), startup.claim_data_dir(world.config) as claim:
        claim.served = served
        raise KeyError
    assert ("undo" in world.done) is not served and world.done[-1] == "lock closed"


@pytest.mark.parametrize(("number", "error"), [(errno.ENOSPC, NoSpace), (errno.EDQUOT, NoSpace), (errno.EIO, OSError)])
def test_a_full_disk_is_said_in_a_sentence_and_other_errors_as_they_are(monkeypatch, tmp_path, number, error):
    world = World(monkeypatch, tmp_path)
    world.fails["create"] = OSError(number, "said by the disk")
    with pytest.raises(error) as raised:
        world.start(served=True)
    assert type(raised.value) is error and (world.first in str(raised.value)) is (error is NoSpace)


@pytest.mark.parametrize(
    "call", [_native.IO_MAKE_DIR, _native.IO_OPEN, _native.IO_UNLINK], ids=["dir", "open", "unlink"]
)
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EIO])
@pytest.mark.parametrize("whose", ["records", "traces"])
def test_a_full_disk_of_the_traces_forbids_no_start(monkeypatch, tmp_path, whose, number, call):
    """As its tracer makes the directory later. A full disk of the records does, and so does a trace directory that
    cannot be used for another reason."""
    places = {"records": str(tmp_path / "first"), "traces": str(tmp_path / "other" / "traces")}
    config = load_broker_config(
        overrides=[f"log.dirs={places['records']}", f"mpbroker.trace.dir={places['traces']}"], environ={}, cores=2
    )
    real = disk._ask

    def ask(kind, what):
        if kind == call and str(what).startswith(places[whose]):
            raise OSError(number, "refused", what)
        real(kind, what)

    monkeypatch.setattr(disk, "_ask", ask)
    if whose == "traces" and number in (errno.ENOSPC, errno.EDQUOT):
        with claim_data_dir(config) as claim:
            claim.served = True
        assert read_meta(places["records"]).cluster_id == claim.cluster_id
        return
    with pytest.raises(ConfigError) as raised, claim_data_dir(config):
        pytest.fail("it has begun")
    assert ("mpbroker.trace.dir" in str(raised.value)) is (whose == "traces")
    assert (type(raised.value) is NoSpace) is (number in (errno.ENOSPC, errno.EDQUOT))


@pytest.mark.parametrize(("needed", "holder", "given"), [(True, None, True), (True, 5, False), (False, None, False)])
def test_the_reserve_is_given_up_before_a_store_is_read(monkeypatch, tmp_path, needed, holder, given):
    """SQLite makes a file beside it. A broker that runs there needs its reserve itself."""
    world = World(monkeypatch, tmp_path, needed=needed, holder=holder)
    world.start(served=True)
    assert (world.done[2] == ("give up", world.first)) is given
    assert world.done[2 + given] == ("check", world.first, None, world.config.data_dirs[1:])


@pytest.mark.parametrize(
    ("store", "checked"), [("sqlite:/x/shared.db", "/x/shared.db"), ("etcd://127.0.0.1:2379", ""), ("", None)]
)
def test_of_a_cluster_the_place_of_its_store_is_told_to_the_check(monkeypatch, tmp_path, store, checked):
    world = World(monkeypatch, tmp_path, f"mpbroker.cluster.store={store}")
    world.start(served=True)
    assert ("check", world.first, checked, world.config.data_dirs[1:]) in world.done


def in_cluster(tmp_path, **there):
    place = SimpleNamespace(sqlite_path="/x/shared.db")
    usual = {"data_dir": str(tmp_path), "data_dirs": (str(tmp_path),), "node_id": 3, "cluster_store": place}
    return SimpleNamespace(**usual | there)


def test_a_directory_that_is_not_formatted_is_not_given_the_id_of_a_new_cluster(tmp_path):
    with pytest.raises(ConfigError, match=f"{re.escape(str(tmp_path))} is not formatted: a broker of a cluster needs"):
        startup._identity(in_cluster(tmp_path))
    assert list(tmp_path.iterdir()) == []
    assert startup._identity(in_cluster(tmp_path, cluster_store=None)).node_id == 3


@pytest.mark.parametrize(("there", "gets_one"), [({"cluster_store": None}, False), ({}, True)])
def test_in_a_cluster_a_directory_has_an_id(tmp_path, there, gets_one):
    write_meta(str(tmp_path), MetaProperties(node_id=3, cluster_id="c", directory_id=""))
    meta = startup._identity(in_cluster(tmp_path, **there))
    assert bool(meta.directory_id) is gets_one and read_meta(str(tmp_path)) == meta
    assert (tmp_path / f"{META_FILE}.0.cut").exists() is gets_one, "what it said before is kept"
    assert startup._identity(in_cluster(tmp_path, **there)) == meta


@pytest.fixture
def waiting(monkeypatch):
    """`tries` locks are refused by a broker with `pid`; a clock that only sleeps move."""
    world = SimpleNamespace(tries=0, pid=7, now_s=100.0, alive=(), pauses=[])

    def lock(path):
        if len(world.pauses) < world.tries:
            raise DataDirectoryInUse(path, world.pid)
        return f"lock of {path}"

    def sleep(seconds):
        world.pauses.append(seconds)
        world.now_s += 1.0

    monkeypatch.setattr(startup, "time", SimpleNamespace(sleep=sleep, monotonic=lambda: world.now_s))
    monkeypatch.setattr(startup.data_dir, "lock", lock)
    monkeypatch.setattr(startup.os.path, "exists", lambda path: path in world.alive)
    return world


@pytest.mark.parametrize("tries", [0, 1, 4])
def test_workers_of_a_killed_broker_that_still_end_are_waited_for(waiting, tries):
    """Up to three seconds: at the third it is tried once more."""
    waiting.tries = tries
    assert startup._lock("/d") == "lock of /d" and len(waiting.pauses) == tries
    assert all(0 < pause < 0.1 for pause in waiting.pauses)


@pytest.mark.parametrize(
    ("pid", "alive", "pauses"), [(7, (), 4), (7, ("/proc/7",), 0), (0, (), 0), (7, ("/proc/8",), 4)]
)
def test_who_lives_or_is_not_known_is_not_waited_for(waiting, pid, alive, pauses):
    waiting.tries, waiting.pid, waiting.alive = 99, pid, alive
    with pytest.raises(DataDirectoryInUse):
        startup._lock("/d")
    assert len(waiting.pauses) == pauses
