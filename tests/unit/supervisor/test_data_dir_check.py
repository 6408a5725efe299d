"""Whose a directory is: what holds records, and what a further log directory is refused for."""

from types import SimpleNamespace

import pytest

from mpbroker.errors import ConfigError
from mpbroker.log import data_dir
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
    assert first_with_records(str(tmp_path)) == "c-3", "a link is nobody's"


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
        data_dir_check._check_store(str(tmp_path), "t-0")
        return
    with pytest.raises(ConfigError, match=refused):
        data_dir_check._check_store(str(tmp_path), "t-0")


def test_kafkas_directory_is_refused_and_ours_with_that_topic_is_not(tmp_path):
    (tmp_path / f"{CLUSTER_METADATA_TOPIC}-0").mkdir()
    with pytest.raises(ConfigError, match="is a data directory of Apache Kafka"):
        data_dir_check.check(str(tmp_path))
    data_dir.write_meta(
        str(tmp_path), data_dir.MetaProperties(node_id=1, cluster_id="c", directory_id=data_dir.new_id())
    )
    (tmp_path / STORE_FILE).write_text("")
    data_dir_check.check(str(tmp_path))
