"""Whose a directory is: what holds records, and what a further log directory is refused for."""

import errno
import os
from types import SimpleNamespace

import pytest

from mpbroker.errors import ConfigError
from mpbroker.log import data_dir, unusable
from mpbroker.metadata import store_peek
from mpbroker.metadata.store_peek import STORE_FILE
from mpbroker.supervisor import data_dir_check, further_directories
from mpbroker.supervisor.data_dir_check import CLUSTER_METADATA_TOPIC, first_with_records
from mpbroker.supervisor.further_directories import Foreign

LOG = f"{0:020d}.log"


def partition(path, name, content=b"x"):
    (path / name).mkdir()
    (path / name / LOG).write_bytes(content)


def test_the_first_partition_with_records_is_named(tmp_path):
    assert first_with_records(str(tmp_path)) == ""
    partition(tmp_path, f"{CLUSTER_METADATA_TOPIC}-0")
    partition(tmp_path, "a-0", b"")
    (tmp_path / "no partition").mkdir()
    (tmp_path / "b-1").write_text("a file")
    assert first_with_records(str(tmp_path)) == ""
    partition(tmp_path, "z-0")
    partition(tmp_path, "c-3")
    assert first_with_records(str(tmp_path)) == "c-3"
    (tmp_path / "c-2").symlink_to(tmp_path / "z-0")
    assert first_with_records(str(tmp_path)) == "c-2", "a broker serves what a link leads to"
    (tmp_path / "c-1").symlink_to("nowhere")
    assert first_with_records(str(tmp_path)) == "c-2"


def test_a_partition_that_cannot_be_looked_at_may_hold_records(tmp_path, monkeypatch):
    def no_right(path, name):
        raise PermissionError(errno.EACCES, "no", path)

    partition(tmp_path, "a-0", b"")
    monkeypatch.setattr(data_dir_check.partition_directory, "log_bytes", no_right)
    assert first_with_records(str(tmp_path)) == "a-0"


def test_a_further_directory_is_nobody_elses(tmp_path):
    further_directories.check(str(tmp_path / "not there"))
    further_directories.check(str(tmp_path))
    partition(tmp_path, "t-0")
    with pytest.raises(Foreign, match="holds t-0 but no meta.properties"):
        further_directories.check(str(tmp_path))
    data_dir.write_meta(
        str(tmp_path), data_dir.MetaProperties(node_id=1, cluster_id="c", directory_id=data_dir.new_id())
    )
    further_directories.check(str(tmp_path))
    (tmp_path / STORE_FILE).write_text("")
    with pytest.raises(Foreign, match="metadata store"):
        further_directories.check(str(tmp_path))


@pytest.mark.parametrize(
    ("clusters", "meta", "refused"),
    [
        (["c"], "c", None),
        (["c", "d"], "d", None),
        (["d", "b"], "c", "holds topics of cluster b, d, but its meta.properties says c"),
        (["c"], None, "holds topics of cluster c"),
        ([], "c", "names no topic"),
    ],
)
def test_a_store_goes_with_the_identity_beside_it(tmp_path, monkeypatch, clusters, meta, refused):
    monkeypatch.setattr(store_peek, "peek", lambda path: SimpleNamespace(clusters=set(clusters)))
    if meta is not None:
        data_dir.write_meta(
            str(tmp_path), data_dir.MetaProperties(node_id=1, cluster_id=meta, directory_id=data_dir.new_id())
        )
    if refused is None:
        data_dir_check._check_store((str(tmp_path),), "t-0")
        return
    with pytest.raises(ConfigError, match=refused):
        data_dir_check._check_store((str(tmp_path),), "t-0")


def test_kafkas_directory_is_refused_and_ours_with_that_topic_is_not(tmp_path):
    (tmp_path / f"{CLUSTER_METADATA_TOPIC}-0").mkdir()
    with pytest.raises(ConfigError, match="is a data directory of Apache Kafka"):
        data_dir_check.check(str(tmp_path))
    data_dir.write_meta(
        str(tmp_path), data_dir.MetaProperties(node_id=1, cluster_id="c", directory_id=data_dir.new_id())
    )
    (tmp_path / STORE_FILE).write_text("")
    data_dir_check.check(str(tmp_path))


@pytest.mark.parametrize("cluster", [None, "", "/shared.db"])
@pytest.mark.parametrize("records", [b"", b"x"])
@pytest.mark.parametrize(("version", "key"), [(0, "broker.id"), (1, "node.id")])
def test_the_version_of_kafka_with_zookeeper_is_ours_only_with_a_store(
    tmp_path, monkeypatch, version, key, records, cluster
):
    """A start would take its empty partitions for leftovers of ours. Once adopted, the file stays as it was."""
    monkeypatch.setattr(store_peek, "peek", lambda path: SimpleNamespace(clusters={"c"}))
    meta = tmp_path / data_dir.META_FILE
    meta.write_text(f"version={version}\n{key}=1\ncluster.id=c\n")
    partition(tmp_path, "t-0", records)
    refused = (
        f"is a data directory of Apache Kafka with ZooKeeper: `mpbroker adopt {tmp_path}` takes" if not version else ""
    )
    if cluster is None and (records or version):
        refused = f"holds t-0 but no {STORE_FILE}"
    if refused:
        with pytest.raises(ConfigError) as raised:
            data_dir_check.check(str(tmp_path), cluster)
        assert str(raised.value).startswith(f"{tmp_path} {refused}")
        assert str(raised.value).endswith("Nothing was changed")
    else:
        data_dir_check.check(str(tmp_path), cluster)
    (tmp_path / STORE_FILE).touch()
    data_dir_check.check(str(tmp_path), str(tmp_path / STORE_FILE) if cluster else None)


def test_an_empty_directory_that_kafka_formatted_is_refused(tmp_path):
    data_dir.write_meta(str(tmp_path), data_dir.MetaProperties("c", 1, data_dir.new_id()))
    data_dir_check.check(str(tmp_path))
    (tmp_path / "bootstrap.checkpoint").write_bytes(b"x")
    with pytest.raises(ConfigError, match="is a data directory of Apache Kafka"):
        data_dir_check.check(str(tmp_path))
    (tmp_path / STORE_FILE).touch()
    data_dir_check.check(str(tmp_path))


@pytest.mark.parametrize("has_meta", [True, False])
def test_empty_partitions_without_a_store_are_somebodys(tmp_path, has_meta):
    """Of a Kafka whose metadata lies in another directory, say: a start would remove them."""
    if has_meta:
        data_dir.write_meta(str(tmp_path), data_dir.MetaProperties("c", 1, data_dir.new_id()))
    (tmp_path / "backup-2026").mkdir()
    data_dir_check.check(str(tmp_path))
    partition(tmp_path, "t-0", b"")
    missing = STORE_FILE if has_meta else data_dir.META_FILE
    with pytest.raises(ConfigError, match=f"holds t-0 but no {missing}"):
        data_dir_check.check(str(tmp_path))


def identity(path):
    data_dir.write_meta(str(path), data_dir.MetaProperties("c", 1, data_dir.new_id()))


@pytest.mark.parametrize("there", [True, False])
def test_records_in_another_log_directory_need_the_store_in_the_first(tmp_path, monkeypatch, there):
    """Else a broker begins a new store, in which none of the topics is."""
    first, second, third = (tmp_path / name for name in "abc")
    for path in (second, third):
        path.mkdir()
        identity(path)
    further = (str(second), str(third), "/dev/null/x")
    if there:
        first.mkdir()
    data_dir_check.check(str(first), None, further)
    partition(third, "t-3")
    data_dir_check.check(str(first), "/shared.db", further)
    with pytest.raises(ConfigError) as raised:
        data_dir_check.check(str(first), None, further)
    assert str(raised.value).startswith(f"{first} {'holds no ' + STORE_FILE if there else 'is not there'}")
    assert f"{third}/t-3 holds records" in str(raised.value)
    assert f"`mpbroker adopt {' '.join((str(first), *further))}`" in str(raised.value)
    if there:
        identity(first)
        (first / STORE_FILE).touch()
        monkeypatch.setattr(store_peek, "peek", lambda path: SimpleNamespace(clusters=set()))
        with pytest.raises(ConfigError, match="names no topic, and there are records"):
            data_dir_check.check(str(first), None, further)
        monkeypatch.setattr(store_peek, "peek", lambda path: SimpleNamespace(clusters={"c"}))
        data_dir_check.check(str(first), None, further)


@pytest.mark.parametrize("what", ["no identity", "own store", "metadata"])
def test_what_a_further_directory_is_refused_for_is_said_of_it(tmp_path, what):
    first, second = tmp_path / "a", tmp_path / "b"
    for path in (first, second):
        path.mkdir()
    if what != "no identity":
        identity(second)
    if what == "own store":
        (second / STORE_FILE).touch()
    if what == "metadata":
        (second / f"{CLUSTER_METADATA_TOPIC}-0").mkdir()
    partition(second, "t-0")
    data_dir_check.check(str(first), None, (str(second),))
    with pytest.raises(Foreign):
        further_directories.check(str(second))


STORE, META, RECORDS = "store", "meta", "records"
OWN, OTHER, ELSEWHERE = "own", "other", ""


@pytest.mark.parametrize("cluster", [None, OWN, OTHER, ELSEWHERE])
@pytest.mark.parametrize(
    "there",
    [(), (META,), (STORE,), (RECORDS,), (STORE, META), (RECORDS, META), (STORE, RECORDS), (STORE, META, RECORDS)],
)
def test_a_broker_starts_only_where_records_have_their_topics_and_an_owner(tmp_path, monkeypatch, there, cluster):
    """Records or a store without an identity are nobody's. Of a broker by itself, records need the store that names
    their topics; in a cluster the names come from the cluster's store, and another store here is of other topics."""
    peeked = []
    monkeypatch.setattr(store_peek, "peek", lambda path: peeked.append(path) or SimpleNamespace(clusters={"c"}))
    if STORE in there:
        (tmp_path / STORE_FILE).write_text("")
    if META in there:
        data_dir.write_meta(
            str(tmp_path), data_dir.MetaProperties(node_id=1, cluster_id="c", directory_id=data_dir.new_id())
        )
    if RECORDS in there:
        partition(tmp_path, "t-0")
    refused = None
    if META not in there and there:
        refused = f"holds {'t-0' if RECORDS in there else STORE_FILE} but no meta.properties: put a copy of meta.prop"
    elif cluster is None and RECORDS in there and STORE not in there:
        refused = f"holds t-0 but no {STORE_FILE}, which names the topics: put a copy of {STORE_FILE} (and"
    elif cluster in (OTHER, ELSEWHERE) and RECORDS in there and STORE in there:
        refused = f"holds t-0 and a {STORE_FILE} of a broker by itself: start it without mpbroker.cluster.store"
    (tmp_path / "link").symlink_to(tmp_path)
    stores = {OWN: str(tmp_path / "link" / STORE_FILE), OTHER: str(tmp_path / "shared.db"), ELSEWHERE: "", None: None}
    if refused is None:
        data_dir_check.check(str(tmp_path), stores[cluster])
        asked = cluster is None and RECORDS in there
        assert peeked == ([str(tmp_path / STORE_FILE)] if asked else []), "whose records they are"
        return
    with pytest.raises(ConfigError) as raised:
        data_dir_check.check(str(tmp_path), stores[cluster])
    assert str(raised.value).startswith(f"{tmp_path} {refused}") and str(raised.value).endswith("Nothing was changed")
    assert peeked == []


def test_a_directory_that_is_not_there_is_for_the_start_to_make(tmp_path):
    data_dir_check.check(str(tmp_path / "new"))
    data_dir_check.check(str(tmp_path / "new"), "")


def test_a_store_that_cannot_be_read_is_said_to_be_damaged(tmp_path, monkeypatch):
    def peek(path):
        raise store_peek.UnreadableStore("file is not a database")

    monkeypatch.setattr(store_peek, "peek", peek)
    with pytest.raises(ConfigError, match=r"has a damaged store \(file is not a database\): put a copy"):
        data_dir_check._check_store((str(tmp_path),), "t-0")


DENIED = "cannot be written by user alice; it belongs to user bob, mode 07"
READ_ONLY = "is on a read-only file system: mount it for writing"


@pytest.mark.parametrize(
    ("where", "right", "flags", "said"),
    [
        ("", os.R_OK, 0, DENIED),
        ("", os.W_OK, 0, DENIED),
        ("", os.X_OK, 0, DENIED),
        (".lock", os.R_OK, 0, DENIED),
        (".lock", os.W_OK, 0, DENIED),
        (STORE_FILE, os.R_OK, 0, DENIED),
        (STORE_FILE, os.W_OK, 0, DENIED),
        ("", os.W_OK, os.ST_RDONLY, READ_ONLY),
        (".lock", os.X_OK, 0, None),
        (STORE_FILE, os.X_OK, 0, None),
        ("another", os.W_OK, 0, None),
        (data_dir.META_FILE, os.R_OK, 0, DENIED),
        ("meta.properties", os.W_OK, 0, None),
        ("replication-offset-checkpoint", os.R_OK, 0, DENIED),
        ("t-0", os.W_OK, 0, DENIED),
        ("t-0", os.X_OK, 0, DENIED),
        ("folder", os.W_OK, 0, None),
        ("file-1", os.X_OK, 0, None),
        ("file-1", os.R_OK | os.W_OK, 0, None),
    ],
)
def test_where_this_user_may_not_write_nothing_is_called_damaged(tmp_path, monkeypatch, where, right, flags, said):
    """One right is missing at one place. Root, as which tests run, has them all."""
    for name in (".lock", STORE_FILE, "another", "replication-offset-checkpoint", "file-1"):
        (tmp_path / name).touch(0o700)
    (tmp_path / "folder").mkdir()
    tmp_path.chmod(0o700)
    partition(tmp_path, "t-0")
    data_dir.write_meta(str(tmp_path), data_dir.MetaProperties(node_id=1, cluster_id="c", directory_id="d"))
    (tmp_path / data_dir.META_FILE).chmod(0o700)
    (tmp_path / "t-0").chmod(0o700)
    place, peeked = str(tmp_path / where) if where else str(tmp_path), []

    def access(path, asked, *, effective_ids):
        assert effective_ids, "a broker with capabilities may do what its user may not"
        return not (path == place and asked & right)

    monkeypatch.setattr(os, "access", access)
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=flags | os.ST_NOSUID))
    monkeypatch.setattr(unusable, "owner_of", lambda path: 2)
    monkeypatch.setattr(unusable, "user_name", lambda uid: "user bob" if uid == 2 else "user alice")
    monkeypatch.setattr(store_peek, "peek", lambda path: peeked.append(path) or SimpleNamespace(clusters={"c"}))
    if said is None:
        data_dir_check.check(str(tmp_path))
        return
    with pytest.raises(ConfigError) as raised:
        data_dir_check.check(str(tmp_path))
    assert str(raised.value).startswith(f"{place} {said}") and "(log.dirs)" in str(raised.value)
    assert peeked == []


def test_a_lock_file_that_another_start_takes_away_meanwhile_is_no_refusal(tmp_path, monkeypatch):
    """It is gone by the time that somebody asks whether it may be written; so is a store that was never made."""
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, *how, **more: real(path, *how) and not path.endswith(".lock"))
    data_dir_check.check(str(tmp_path))
