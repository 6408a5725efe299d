"""Partition directories: Kafka's names and files, renaming out of the way, removal after the delay."""

import errno
import os
import shutil

import pytest

from mpbroker.log import deletion, disk, partition_directory
from mpbroker.log.partition_directory import FoundDirectory

ID = bytes(range(16))
ID_TEXT = "AAECAwQFBgcICQoLDA0ODw"
OTHER = bytes(range(1, 17))


def test_a_prepared_directory_has_kafkas_files(tmp_path, monkeypatch):
    """Without waiting for the disk: after a power cut the metadata store is what counts, and they are made again."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: pytest.fail("synced"))
    partition_directory.prepare(str(tmp_path), "orders-0", ID)
    partition_directory.prepare(str(tmp_path), "orders-0", ID)
    assert (tmp_path / "orders-0/partition.metadata").read_text() == "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert (tmp_path / "orders-0/leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"
    assert sorted(os.listdir(tmp_path / "orders-0")) == ["leader-epoch-checkpoint", "partition.metadata"]
    assert partition_directory.read_topic_id(str(tmp_path / "orders-0")) == ID


@pytest.mark.parametrize("gone_at", ["make_directories", "exists", "write_file", "rename"])
def test_a_directory_that_another_process_takes_away_meanwhile_is_made_again(tmp_path, monkeypatch, gone_at):
    """Between any two steps; `os.makedirs` says that it exists where it is gone a moment later."""
    real, left = getattr(disk, gone_at), [1]

    def taken_away(*given, **named):
        if left:
            left.pop()
            shutil.rmtree(tmp_path / "t-0-future", ignore_errors=True)
            if gone_at == "make_directories":
                raise FileExistsError(errno.EEXIST, "File exists")
        return real(*given, **named)

    monkeypatch.setattr(disk, gone_at, taken_away)
    partition_directory.prepare(str(tmp_path), "t-0-future", ID)
    assert not left and partition_directory.read_topic_id(str(tmp_path / "t-0-future")) == ID
    assert sorted(os.listdir(tmp_path / "t-0-future")) == ["leader-epoch-checkpoint", "partition.metadata"]


def test_a_file_in_its_place_is_an_error(tmp_path):
    (tmp_path / "t-0").touch()
    with pytest.raises(FileExistsError):
        partition_directory.prepare(str(tmp_path), "t-0", ID)
    assert (tmp_path / "t-0").is_file()


@pytest.mark.parametrize(
    "text",
    ["", "version: 0", "topic_id: x", "topic_id: AAEC", "topic_id: \xe9", "topic_id: !!!!", f"topic_id: {ID_TEXT}!"],
)
def test_unreadable_metadata_is_none(tmp_path, text):
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0/partition.metadata").write_text(text, encoding="utf-8")
    assert partition_directory.read_topic_id(str(tmp_path / "t-0")) is None


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("orders-0", ("orders", 0)),
        ("a-b-12", ("a-b", 12)),
        ("orders", None),
        ("orders-01", None),
        ("-1", None),
        ("orders-x", None),
        ("orders-0.00-delete", None),
        ("traces", None),
    ],
)
def test_names_of_partitions(name, parsed):
    assert partition_directory.parse_name(name) == parsed


def test_only_partition_directories_are_found(tmp_path):
    for name in ("b-1", "a-0", "a-0.00-stray", "traces"):
        (tmp_path / name).mkdir()
    (tmp_path / "file-0").write_text("")
    partition_directory.prepare(str(tmp_path), "a-0", ID)
    assert list(partition_directory.find_all(str(tmp_path))) == [
        FoundDirectory("a-0", "a", 0, ID),
        FoundDirectory("b-1", "b", 1, None),
    ]


def test_log_bytes_tell_an_empty_log_from_none(tmp_path):
    partition_directory.prepare(str(tmp_path), "a-0", ID)
    assert partition_directory.log_bytes(str(tmp_path), "a-0") is None
    assert partition_directory.log_bytes(str(tmp_path), "b-0") is None
    (tmp_path / "a-0/00000000000000000000.log").write_bytes(b"")
    assert partition_directory.log_bytes(str(tmp_path), "a-0") == 0
    (tmp_path / "a-0/00000000000000000009.log").write_bytes(b"12345")
    assert partition_directory.log_bytes(str(tmp_path), "a-0") == 5


def test_what_is_no_file_hides_no_log_and_is_none(tmp_path):
    """A link to nowhere once made a log count as missing, and an empty one was made in its place."""
    partition_directory.prepare(str(tmp_path), "a-0", ID)
    (tmp_path / "a-0/latest.log").symlink_to("/nowhere")
    (tmp_path / "a-0/notes.log").write_text("somebody's")
    assert partition_directory.log_bytes(str(tmp_path), "a-0") is None
    (tmp_path / f"a-0/{0:020d}.log").write_bytes(b"12345")
    (tmp_path / f"a-0/{7:020d}.log").symlink_to("/nowhere")
    assert partition_directory.log_bytes(str(tmp_path), "a-0") == 5
    (tmp_path / f"a-0/{0:020d}.log").unlink()
    assert partition_directory.log_bytes(str(tmp_path), "a-0") == 0, "nothing is made under a name that is taken"
    (tmp_path / "b-0").touch()
    assert partition_directory.log_bytes(str(tmp_path), "b-0") == 0


def test_a_retired_name_carries_the_id_and_fits_a_file_name():
    assert partition_directory.retired_name("orders-0", ID, "-delete") == f"orders-0.{ID.hex()}-delete"
    longest = partition_directory.retired_name("t" * 249 + "-12345", ID, "-stray")
    assert len(longest) == 255
    assert longest.endswith(f"t-12345.{ID.hex()}-stray")


def test_retiring_twice_and_over_an_older_one(tmp_path):
    partition_directory.prepare(str(tmp_path), "a-0", ID)
    assert partition_directory.retire(str(tmp_path), "a-0", ID, "-delete") == f"a-0.{ID.hex()}-delete"
    assert partition_directory.retire(str(tmp_path), "a-0", ID, "-delete") is None
    partition_directory.prepare(str(tmp_path), "a-0", ID)
    second = partition_directory.retire(str(tmp_path), "a-0", ID, "-delete")
    assert second != f"a-0.{ID.hex()}-delete"
    assert sorted(os.listdir(tmp_path)) == sorted([f"a-0.{ID.hex()}-delete", second])


def test_deleted_directories_go_after_the_delay(tmp_path):
    for topic in ("a-0", "b-0", "c-0"):
        partition_directory.prepare(str(tmp_path), topic, ID)
    gone = [partition_directory.retire(str(tmp_path), name, ID, "-delete") for name in ("a-0", "b-0")]
    changed_ms = max(os.stat(tmp_path / name).st_ctime_ns for name in gone) // 1_000_000
    assert deletion.remove_deleted(str(tmp_path), now_ms=changed_ms + 59_000, delay_ms=60_000) == []
    assert deletion.remove_deleted(str(tmp_path), now_ms=changed_ms + 60_000, delay_ms=60_000, most=1) == gone[:1]
    assert deletion.remove_deleted(str(tmp_path), now_ms=changed_ms + 60_000, delay_ms=60_000) == gone[1:]
    assert os.listdir(tmp_path) == ["c-0"]


@pytest.mark.parametrize(
    "name", ["backup-delete", "a-0-delete", f"a-0.{ID.hex()[1:]}-delete", f"a-0.{ID.hex()}-delete.old"]
)
def test_a_directory_that_only_ends_so_is_somebodys(tmp_path, name):
    (tmp_path / name).mkdir()
    (tmp_path / name / f"{0:020d}.log").write_bytes(b"x")
    assert deletion.remove_deleted(str(tmp_path), now_ms=1 << 45, delay_ms=0) == []
    assert os.listdir(tmp_path / name) == [f"{0:020d}.log"]


def test_one_that_cannot_go_keeps_no_other(tmp_path, monkeypatch):
    """It is told when nothing else is left to do."""
    for name in ("a-0", "b-0", "c-0"):
        partition_directory.prepare(str(tmp_path), name, ID)
    gone = [partition_directory.retire(str(tmp_path), name, ID, "-delete") for name in ("a-0", "b-0", "c-0")]
    remove = deletion.remove_partition

    def fail(path):
        if path.endswith(gone[0]):
            raise OSError(errno.EIO, "no", path)
        return remove(path)

    monkeypatch.setattr(deletion, "remove_partition", fail)
    assert deletion.remove_deleted(str(tmp_path), now_ms=1 << 45, delay_ms=0) == gone[1:]
    with pytest.raises(OSError, match="no"):
        deletion.remove_deleted(str(tmp_path), now_ms=1 << 45, delay_ms=0)


def test_one_with_somebodys_folder_stays_and_keeps_no_other(tmp_path):
    for name in ("a-0", "b-0", "c-0"):
        partition_directory.prepare(str(tmp_path), name, ID)
    gone = [partition_directory.retire(str(tmp_path), name, ID, "-delete") for name in ("a-0", "b-0", "c-0")]
    (tmp_path / gone[0] / "mine").mkdir()
    told = []
    for removed in (gone[1:], []):
        assert removed == deletion.remove_deleted(
            str(tmp_path), now_ms=1 << 45, delay_ms=0, foreign=lambda *what: told.append(what)
        )
        assert told.pop() == (gone[0], "mine") and not told
    assert os.listdir(tmp_path / gone[0]) == ["mine"]


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("00000000000000000007.log", True), ("00000000000000000007.txnindex.deleted", True),
        ("00000000000000000007.snapshot.tmp", True), ("00000000000000000007.log.compacted", True),
        ("00000000000000000007-00000000000000000009.swap", True), ("00000000000000000007.index.cleaned", True),
        ("00000000000000000007.log.12.cut.3", True), ("partition.metadata.cut", True),
        ("leader-epoch-checkpoint.tmp", True), ("moved-here", True),
        ("00000000000000000007.log.bak", False), ("7.log", False), ("partition-metadata", False), ("cut", False),
        ("00000000000000000007", False), ("notes.txt", False), ("old.00000000000000000007.log", False),
    ],
)  # fmt: skip
def test_which_names_a_partitions_files_have(name, ours):
    assert deletion.is_ours(name) is ours


def test_somebodys_folder_in_one_keeps_it(tmp_path):
    path, told = tmp_path / f"a-0.{'0' * 32}-delete", []
    (path / "mine").mkdir(parents=True)
    (path / "00000000000000000000.log").touch()
    os.mkfifo(path / "pipe")
    for _ in range(2):
        gone = deletion.remove_deleted(str(tmp_path), now_ms=2**60, delay_ms=0, foreign=lambda *one: told.append(one))
        assert gone == [] and sorted(os.listdir(path)) == ["mine", "pipe"]
    assert told == [(path.name, "mine")] * 2
    (path / "mine").rmdir()
    (path / "pipe").unlink()
    assert deletion.remove_deleted(str(tmp_path), now_ms=2**60, delay_ms=0) == [path.name]


def test_copies_are_found_by_their_whole_names(tmp_path):
    whole = partition_directory.future_name("orders-3", ID)
    names = [
        whole, f"orders-3.{ID.hex()[:-2]}-future", f"orders-3.{ID.hex()}00-future", "orders-3.xyz-future",
        f"orders.{ID.hex()}-future", f"orders-3.{ID.hex()}-delete", "orders-3",
    ]  # fmt: skip
    for name in names:
        (tmp_path / name).mkdir()
    assert list(partition_directory.find_futures(str(tmp_path))) == [FoundDirectory(whole, "orders", 3, ID)]


@pytest.mark.parametrize(
    ("owner", "is_ours"), [(ID, True), (None, True), (OTHER, False)], ids=["ours", "nobody's", "another's"]
)
def test_a_directory_is_completed_unless_it_belongs_to_another_topic(tmp_path, owner, is_ours):
    path = tmp_path / "t-0"
    partition_directory.complete(str(path), ID)
    assert not path.exists(), "one that is not there is not made"
    path.mkdir()
    if owner is not None:
        (path / "partition.metadata").write_text(f"version: 0\ntopic_id: {partition_directory.id_text(owner)}")
    partition_directory.complete(str(path), ID)
    assert partition_directory.read_topic_id(str(path)) == (ID if is_ours else owner)
    assert (path / "leader-epoch-checkpoint").exists() is is_ours


def _which(path):
    status = path.lstat()
    return status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns  # not when it was read last


@pytest.mark.parametrize("kind", ["a link to nowhere", "a directory", "a pipe"])
def test_metadata_that_is_no_file_says_nothing_and_stays(tmp_path, kind):
    place = tmp_path / "t-0/partition.metadata"
    place.parent.mkdir()
    make = {"a link to nowhere": lambda: place.symlink_to("/nowhere"), "a directory": place.mkdir}
    make.get(kind, lambda: os.mkfifo(place))()
    before = _which(place)
    assert partition_directory.read_topic_id(str(place.parent)) is None
    assert list(partition_directory.find_all(str(tmp_path))) == [FoundDirectory("t-0", "t", 0, None)]
    assert not partition_directory.is_unused(str(tmp_path), "t-0")
    for make_whole in (
        partition_directory.complete,
        lambda _path, topic: partition_directory.prepare(tmp_path, "t-0", topic),
    ):
        with pytest.raises(OSError, match="is no file; move it away"):
            make_whole(str(place.parent), ID)
    assert os.listdir(place.parent) == ["partition.metadata"] and _which(place) == before


def test_what_cannot_be_read_is_set_aside_and_epochs_stay(tmp_path):
    path = tmp_path / "t-0"
    path.mkdir()
    (path / "partition.metadata").write_text("junk")
    (path / "leader-epoch-checkpoint").write_text("0\n1\n7 5\n")
    partition_directory.complete(str(path), ID)
    assert (path / "partition.metadata.cut").read_text() == "junk"
    assert (path / "leader-epoch-checkpoint").read_text() == "0\n1\n7 5\n"
    assert partition_directory.read_topic_id(str(path)) == ID


@pytest.mark.parametrize(
    ("name", "content", "unused"),
    [
        ("partition.metadata", b"x", False),
        ("00000000000000000007.log", b"", False),
        ("x.tmp", b"", False),
        ("leader-epoch-checkpoint", b"x", True),
        ("00000000000000000000.log", b"", True),
        ("00000000000000000000.index", b"", True),
        ("00000000000000000000.timeindex", b"", True),
        ("00000000000000000000.txnindex", b"", True),
        ("partition.metadata.tmp", b"", True),
        ("00000000000000000000.log", b"x", False),
        ("00000000000000000000.timeindex", b"x", False),
        ("00000000000000000007.snapshot", b"", False),
        ("partition.metadata.cut", b"x", False),
    ],
)
def test_what_only_the_making_of_a_partition_left_is_of_no_use(tmp_path, name, content, unused):
    partition_directory.prepare(str(tmp_path), "t-0", ID)
    assert partition_directory.is_unused(str(tmp_path), "t-0")
    (tmp_path / "link-0").symlink_to("t-0")
    assert not partition_directory.is_unused(str(tmp_path), "link-0")
    (tmp_path / "t-0" / name).write_bytes(content)
    assert partition_directory.is_unused(str(tmp_path), "t-0") is unused


def test_a_copy_and_what_becomes_of_it(tmp_path, no_umask):
    name = partition_directory.future_name("t-0", ID)
    assert name == f"t-0.{ID.hex()}-future" and partition_directory.left_name("t-0", ID) == f"t-0.{ID.hex()}-delete"
    assert partition_directory.made_at(str(tmp_path), name) == 0.0
    partition_directory.prepare(str(tmp_path), name, ID)
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o755
    os.utime(tmp_path / name / "partition.metadata", (5, 7))
    assert partition_directory.made_at(str(tmp_path), name) == 7.0
    assert not partition_directory.was_moved_here(str(tmp_path / name))
    (tmp_path / name / "moved-here").touch()
    assert partition_directory.was_moved_here(str(tmp_path / name))
    for _ in range(2):
        partition_directory.retire_future(str(tmp_path), "t-0", ID)
    [left] = os.listdir(tmp_path)
    assert left.startswith("t-0.") and left.endswith("-delete") and ID.hex() not in left


@pytest.mark.parametrize(("number", "tries"), [(errno.ENOTEMPTY, 2), (errno.EEXIST, 2), (errno.EACCES, 1)])
def test_a_name_that_is_taken_is_not_taken_twice(tmp_path, monkeypatch, number, tries):
    tried = []

    def fail(old, new):
        tried.append((os.path.basename(old), os.path.basename(new)))
        raise OSError(number, "no")

    monkeypatch.setattr(partition_directory.disk, "rename", fail)
    with pytest.raises(OSError) as told:
        partition_directory.retire(str(tmp_path), "t-0", ID, "-stray")
    assert len(tried) == tries and tried[0] == ("t-0", f"t-0.{ID.hex()}-stray") and len({*tried}) == tries
    assert told.value.errno == (number if tries == 1 else errno.EEXIST)


def test_a_directory_that_goes_again_and_again_is_an_error_in_the_end(tmp_path, monkeypatch):
    tried = []

    def gone(*given, **named):
        tried.append(given)
        raise FileNotFoundError(errno.ENOENT, "gone")

    monkeypatch.setattr(partition_directory.disk, "write_file", gone)
    with pytest.raises(FileNotFoundError):
        partition_directory.prepare(str(tmp_path), "t-0", ID)
    assert len(tried) == 1 + partition_directory.TRIES_WHILE_IT_GOES
