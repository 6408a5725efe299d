"""Log directories beside the first one: taken with their locks, left out when they fail, refused when they are
somebody else's."""

import os
import re
from pathlib import Path

import pytest

from mpbroker.errors import ConfigError, DataDirectoryInUse
from mpbroker.log import data_dir
from mpbroker.log.data_dir import META_FILE, MetaProperties
from mpbroker.metadata.keys import STORE_FILE
from mpbroker.supervisor import further_directories
from mpbroker.supervisor.further_directories import Foreign, FurtherDirectories, LogDirectory


@pytest.fixture
def paths(tmp_path):
    return tuple(str(tmp_path / name) for name in "bcd")


def locked(path):
    return data_dir.holder(path) is not None


@pytest.mark.parametrize("served", [True, False])
def test_each_is_made_locked_and_known_and_goes_with_a_start_that_failed(paths, served):
    further = FurtherDirectories(paths[:2])
    first, second = further.take(4, "cluster", "another-id")
    assert (first.path, first.problem, second.path, second.problem) == (paths[0], "", paths[1], "")
    for one in (first, second):
        assert data_dir.read_meta(one.path) == MetaProperties("cluster", 4, one.id) and locked(one.path)
    assert len({first.id, second.id, ""}) == 3 and len(set(further.lock_fds)) == 2
    further.close(served)
    for path in paths[:2]:
        assert os.path.isdir(path) is served and not locked(path)


def test_what_was_there_before_stays_when_a_start_failed(paths):
    FurtherDirectories(paths).take(4, "cluster", "x")
    before = [data_dir.read_meta(path) for path in paths]
    again = FurtherDirectories(paths)
    with pytest.raises(DataDirectoryInUse):
        again.take(4, "cluster", "x")
    assert again.lock_fds == ()
    again.close(False)
    assert [data_dir.read_meta(path) for path in paths] == before


def test_those_that_fail_are_offline_and_the_others_are_taken(paths):
    broken = ("/dev/null/x", "/dev/null/y")
    further = FurtherDirectories((broken[0], paths[0], broken[1]))
    first, sound, last = further.take(4, "cluster", "")
    assert (first.id, last.id, sound.problem) == ("", "", "") and sound.id and len(further.lock_fds) == 1
    for one, path in zip((first, last), broken, strict=True):
        assert one.path == path and f"{path} cannot be written: " in one.problem
    further.close(True)


def test_one_that_cannot_be_looked_into_is_offline(paths, monkeypatch):
    def refuse(_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(further_directories, "check", refuse)
    [found] = FurtherDirectories(paths[:1]).take(4, "cluster", "x")
    assert found == LogDirectory(paths[0], "", "[Errno 5] Input/output error") and not os.path.exists(paths[0])


@pytest.mark.parametrize("of_first", [True, False])
def test_a_copy_of_another_one_is_refused(paths, of_first):
    for path in paths[:2]:
        os.mkdir(path)
        data_dir.write_meta(
            path, MetaProperties("cluster", 4, "the-same" if not of_first or path == paths[1] else "own")
        )
    further = FurtherDirectories(paths[:2])
    with pytest.raises(Foreign) as raised:
        further.take(4, "cluster", "the-same" if of_first else "other")
    other = "the first directory" if of_first else paths[0]
    assert str(raised.value) == (
        f"{paths[1]} has the directory.id of {other}: one of them is a copy: correct {META_FILE} of the one that is "
        "new. Nothing was changed"
    )
    further.close(False)
    assert not any(locked(path) for path in paths[:2])


@pytest.mark.parametrize(
    ("first", "metas", "says"),
    [
        (("cluster", "own"), [("cluster", 4, "a"), ("cluster", 4, "own")], "{1} has the directory.id of the first"),
        (("cluster", "own"), [("cluster", 4, "a"), None, ("cluster", 4, "a")], "{2} has the directory.id of {0}"),
        (("cluster", ""), [("cluster", 4, "a"), ("other", 4, "b")], "{1} belongs to cluster other, not to cluster"),
        (("cluster", "own"), [("cluster", 4, "a"), ("cluster", 5, "b")], "{1} belongs to node 5, and node.id is 4"),
        (None, [("any", 5, "b")], "{0} belongs to node 5, and node.id is 4"),
        (("cluster", ""), [("cluster", 4, ""), ("cluster", 4, ""), None], ""),
        (None, [("any", 4, "a"), ("other", 4, "b")], ""),
    ],
)
def test_before_anything_is_touched_it_is_known_that_all_go_together(paths, first, metas, says):
    for path, meta in zip(paths, metas, strict=False):
        os.mkdir(path)
        if meta:
            data_dir.write_meta(path, MetaProperties(*meta))
    before = {path: os.listdir(path) for path in paths if os.path.isdir(path)}
    known = first and MetaProperties(first[0], 4, first[1])
    if says:
        with pytest.raises(ConfigError, match=re.escape(says.format(*paths))):
            FurtherDirectories(paths).check(4, known)
    else:
        FurtherDirectories(paths).check(4, known)
    assert {path: os.listdir(path) for path in paths if os.path.isdir(path)} == before


def test_one_that_cannot_be_looked_into_is_not_asked_for_its_identity(paths, monkeypatch):
    def refuse(path):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(further_directories, "check", refuse)
    monkeypatch.setattr(further_directories.data_dir, "identity", lambda *_: pytest.fail("asked"))
    FurtherDirectories(paths).check(4, None)


def test_of_one_that_another_broker_has_nothing_is_taken_away(paths):
    """Made by that one meanwhile: its lock is not ours."""
    further = FurtherDirectories(paths[:1])
    os.mkdir(paths[0])
    theirs = data_dir.lock(paths[0])
    with pytest.raises(DataDirectoryInUse):
        further.take(4, "cluster", "x")
    further.close(False)
    assert os.listdir(paths[0]) == [".lock"]
    theirs.close()


@pytest.mark.parametrize(("name", "says"), [(STORE_FILE, "has a metadata store"), ("t-0", "but no meta.properties")])
def test_somebody_elses_is_refused_before_anything_in_it_is_touched(paths, name, says):
    os.mkdir(paths[1])
    inside = os.path.join(paths[1], name)
    if name == STORE_FILE:
        Path(inside).write_bytes(b"topics of years")
    else:
        os.mkdir(inside)
        Path(inside, f"{0:020d}.log").write_bytes(bytes(100))
    further = FurtherDirectories(paths)
    with pytest.raises(Foreign, match=says) as raised:
        further.take(4, "cluster", "x")
    assert raised.value.key == "log.dirs" and str(raised.value).endswith(". Nothing was changed")
    assert os.listdir(paths[1]) == [name] and not os.path.exists(paths[2])
    further.close(False)
    assert not os.path.exists(paths[0])


KAFKAS_META = "version={0}\n{1}.id=4\ncluster.id=cluster\n"


@pytest.mark.parametrize("kind", ["kraft", "zookeeper"])
def test_one_of_kafka_is_refused_before_anything_in_it_is_touched(paths, kind):
    """Also of the same cluster and node: its empty partitions would be taken for leftovers of ours."""
    os.mkdir(paths[0])
    meta = KAFKAS_META.format(1, "node") if kind == "kraft" else KAFKAS_META.format(0, "broker")
    Path(paths[0], META_FILE).write_text(meta)
    os.mkdir(os.path.join(paths[0], "__cluster_metadata-0" if kind == "kraft" else "t-0"))
    before = sorted(os.listdir(paths[0]))
    with pytest.raises(Foreign, match=f"{paths[0]} is a data directory of Apache Kafka: .* Nothing was changed"):
        FurtherDirectories(paths[:1]).take(4, "cluster", "x")
    assert sorted(os.listdir(paths[0])) == before


def test_empty_partitions_of_nobody_are_refused(paths):
    os.makedirs(os.path.join(paths[0], "t-0"))
    Path(paths[0], "t-0", f"{0:020d}.log").touch()
    with pytest.raises(Foreign, match="holds t-0 but no meta.properties"):
        FurtherDirectories(paths[:1]).take(4, "cluster", "x")


@pytest.mark.parametrize("text", ["", "version=7\n"])
def test_one_whose_identity_cannot_be_read_is_refused(paths, text):
    os.mkdir(paths[0])
    Path(paths[0], META_FILE).write_text(text)
    with pytest.raises(ConfigError, match="version"):
        FurtherDirectories(paths[:1]).take(4, "cluster", "x")


@pytest.mark.parametrize(
    ("needed", "holder", "given_up"), [(True, None, True), (False, None, False), (True, 7, False), (True, 0, False)]
)
def test_a_reserve_is_given_up_by_a_start_that_needs_it_where_nobody_runs(paths, monkeypatch, needed, holder, given_up):
    done = []
    monkeypatch.setattr(further_directories.reserve_file, "is_needed", lambda path: needed)
    monkeypatch.setattr(further_directories.reserve_file, "give_up", done.append)
    monkeypatch.setattr(further_directories.data_dir, "holder", lambda path: holder)
    further = FurtherDirectories(paths[:1])
    further.take(4, "cluster", "x")
    assert done == [paths[0]] * given_up
    further.close(True)


def test_an_empty_directory_and_one_with_its_own_records_are_taken(paths):
    for path in paths[:2]:
        os.mkdir(path)
    data_dir.write_meta(paths[1], MetaProperties("cluster", 4, "own"))
    os.mkdir(os.path.join(paths[1], "t-0"))
    Path(paths[1], "t-0", f"{0:020d}.log").write_bytes(bytes(100))
    further = FurtherDirectories(paths[:2])
    first, second = further.take(4, "cluster", "x")
    assert (first.problem, second.id, second.problem) == ("", "own", "")
    further.close(True)
