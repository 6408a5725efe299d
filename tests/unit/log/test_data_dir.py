"""The data directory: lock, identity, whether it can be written."""

import base64
import errno
import fcntl
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from mpbroker.errors import ConfigError, DataDirectoryInUse
from mpbroker.log import data_dir
from mpbroker.log.data_dir import DataDirLock, MetaProperties, new_id
from tests.harness.descriptors import open_descriptors

HOLD = """
import sys
from pathlib import Path
from mpbroker.log import data_dir
lock = data_dir.lock(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""
FORK_AND_DIE = """
import os, sys
from mpbroker.log import data_dir
lock = data_dir.lock(sys.argv[1])
if os.fork() == 0:
    sys.stdin.read()
    os._exit(0)
os._exit(0)
"""


@pytest.fixture
def directory(tmp_path):
    return str(tmp_path)


def run(script, directory):
    return subprocess.Popen(
        [sys.executable, "-c", script, directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_a_second_lock_names_the_holder(directory):
    with run(HOLD, directory) as other:
        assert other.stdout.readline() == "held\n"
        assert data_dir.holder(directory) == other.pid
        with pytest.raises(DataDirectoryInUse) as caught:
            data_dir.lock(directory)
        assert str(caught.value) == f"data directory {directory} is in use by pid {other.pid}"
        assert caught.value.exit_code == 3
        other.kill()
    assert data_dir.holder(directory) is None
    data_dir.lock(directory).close()


def test_the_lock_lasts_until_the_last_forked_process_ends(directory):
    with run(FORK_AND_DIE, directory) as parent:
        assert parent.wait(20) == 0
        assert data_dir.holder(directory) == parent.pid
        parent.stdin.close()  # lets the child end
        parent.stdout.read()  # returns when the child's copy of the pipe is gone with it
    assert data_dir.holder(directory) is None


def test_closing_gives_the_lock_up_and_may_happen_twice(directory):
    lock = data_dir.lock(directory)
    assert data_dir.holder(directory) == os.getpid()
    lock.close()
    lock.close()
    assert data_dir.holder(directory) is None


def test_asking_for_the_holder_does_not_disturb(directory):
    assert data_dir.holder(directory) is None
    assert not os.path.exists(os.path.join(directory, ".lock"))
    lock = data_dir.lock(directory)
    for _ in range(3):
        assert data_dir.holder(directory) == os.getpid()
    lock.close()


def test_a_lock_file_without_a_number(directory):
    lock = data_dir.lock(directory)
    os.ftruncate(lock.descriptor, 0)
    with pytest.raises(DataDirectoryInUse, match="in use by pid unknown"):
        data_dir.lock(directory)
    lock.close()


def test_create_makes_missing_directories_and_leaves_nothing_behind(tmp_path):
    path = tmp_path / "a" / "b"
    data_dir.create(str(path))
    data_dir.create(str(path))
    assert list(path.iterdir()) == []


@pytest.mark.parametrize("path", ["/proc/mpbroker-data", "/dev/null/x"])
def test_a_directory_that_cannot_be_written(path):
    for use in (data_dir.create, data_dir.lock):
        with pytest.raises(ConfigError, match=f"{path} cannot be written: "):
            use(path)


def test_a_file_where_the_directory_should_be(tmp_path):
    (tmp_path / "f").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        data_dir.create(str(tmp_path / "f"))


def test_prepare_gives_a_fresh_directory_an_identity_and_keeps_it(directory):
    meta = data_dir.prepare(directory, 4)
    assert meta == data_dir.prepare(directory, 4) == data_dir.read_meta(directory)
    assert meta.node_id == 4
    assert data_dir.is_id(meta.cluster_id) and data_dir.is_id(meta.directory_id)
    assert meta.cluster_id != meta.directory_id


def test_what_meta_properties_says_is_kept_before_it_is_written_anew(tmp_path):
    path = str(tmp_path)
    data_dir.prepare(path, 1)
    for number in range(2):
        said = (tmp_path / data_dir.META_FILE).read_bytes()
        data_dir.keep_meta(path)
        assert (tmp_path / f"meta.properties.0.cut{'.1' * number}").read_bytes() == said
        data_dir.write_meta(path, data_dir.prepare(path, 1)._replace(directory_id=data_dir.new_id()))


def test_prepare_with_a_given_cluster_id(directory):
    chosen = "ZF7CwAAXRvaWnKtFCRe1Gg"
    assert data_dir.prepare(directory, 0, chosen).cluster_id == chosen
    assert data_dir.prepare(directory, 0, chosen).cluster_id == chosen
    with pytest.raises(ConfigError, match=f"belongs to cluster {chosen}, not to "):
        data_dir.prepare(directory, 0, "AAAAAAAAAAAAAAAAAAAAAA")


def test_prepare_refuses_the_directory_of_another_node(directory):
    data_dir.prepare(directory, 1)
    with pytest.raises(ConfigError, match="belongs to node 1, and node.id is 2"):
        data_dir.prepare(directory, 2)


def test_file_of_kafka_with_zookeeper_is_read(tmp_path):
    (tmp_path / "meta.properties").write_text("#\n#Mon Jan 01\nversion=0\nbroker.id=3\ncluster.id=abc\n")
    assert data_dir.read_meta(str(tmp_path)) == MetaProperties("abc", 3, "")


@pytest.mark.parametrize(
    ("content", "of_zookeeper"),
    [(None, False), ("", False), ("version=1\nbroker.id=3\n", False), ("version=0\n", True), ("version=00\n", False)],
)
def test_only_kafka_with_zookeeper_writes_version_0(tmp_path, content, of_zookeeper):
    if content is not None:
        (tmp_path / "meta.properties").write_text(content)
    assert data_dir.is_of_zookeeper(str(tmp_path)) is of_zookeeper


def test_whose_a_meta_file_is_that_cannot_be_read_is_not_guessed(tmp_path):
    (tmp_path / "meta.properties").write_bytes(b"version=0\xff")
    with pytest.raises(ConfigError, match="meta.properties cannot be read: "):
        data_dir.is_of_zookeeper(str(tmp_path))


def test_what_is_written_can_be_read(directory):
    meta = MetaProperties("c" * 22, 7, "d" * 22)
    data_dir.write_meta(directory, meta)
    assert data_dir.read_meta(directory) == meta
    assert os.listdir(directory) == ["meta.properties"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", ": version is missing; it must be 0 or 1; correct that line"),
        (b"node.id=0\ncluster.id=c\n", ": version is missing; it must be 0 or 1; correct that line"),
        (b"version=-1\nnode.id=0\ncluster.id=c\n", ": version=-1 must be 0 or 1; correct that line"),
        (b"version=1\n", ": node.id is missing; it must be the number of the node, 0 to 2147483647; correct"),
        (b"version=1\nbroker.id=0\ncluster.id=c\n", ": node.id is missing"),
        (b"version=0\nnode.id=0\ncluster.id=c\n", ": broker.id is missing"),
        (b"version=1\nnode.id=x\ncluster.id=c\n", ": node.id=x must be"),
        (b"version=1\nnode.id=-1\ncluster.id=c\n", ": node.id=-1 must be"),
        (b"version=1\nnode.id=2147483648\ncluster.id=c\n", ": node.id=2147483648 must be"),
        (b"version=1\nnode.id=0\n", ": cluster.id is missing; it must be the id of the cluster"),
    ],
)
def test_a_broken_identity_is_a_sentence_that_says_what_to_do(tmp_path, content, sentence):
    (tmp_path / "meta.properties").write_bytes(content)
    with pytest.raises(ConfigError) as raised:
        data_dir.prepare(str(tmp_path), 0)
    assert str(raised.value).startswith(f"{tmp_path}/meta.properties{sentence}")
    assert str(raised.value).endswith("; correct that line, or put a copy of the file back")
    assert (tmp_path / "meta.properties").read_bytes() == content, "no new identity"


def test_a_newer_identity_asks_for_the_newer_version(tmp_path):
    (tmp_path / "meta.properties").write_bytes(b"version=2\nnode.id=0\ncluster.id=c\n")
    with pytest.raises(ConfigError) as raised:
        data_dir.prepare(str(tmp_path), 0)
    assert str(raised.value) == (
        f"{tmp_path}/meta.properties was written by a newer version of mpbroker (version=2, this one knows 0 and 1): "
        "start that version"
    )


def test_an_identity_that_is_no_text_is_a_sentence(tmp_path):
    content = b"\xff\xfe"
    (tmp_path / "meta.properties").write_bytes(content)
    with pytest.raises(ConfigError, match=r"meta\.properties cannot be read: "):
        data_dir.prepare(str(tmp_path), 0)
    assert (tmp_path / "meta.properties").read_bytes() == content


def test_ids():
    assert data_dir.new_id(lambda count: bytes(count)) == "AAAAAAAAQACAAAAAAAAAAA"
    tries = iter([b"\xf8" + bytes(15), b"\x01" * 16])  # the first would begin with '-'
    assert data_dir.new_id(lambda count: next(tries)).startswith("AQEB")
    assert [
        data_dir.is_id(text) for text in ("ZF7CwAAXRvaWnKtFCRe1Gg", "short", "x" * 22 + "=", "!" * 22, "é" * 22)
    ] == [True, False, False, False, False]


def test_a_new_id_is_a_random_uuid():
    made = [base64.urlsafe_b64decode(new_id(lambda _, one=one: bytes(one)) + "==") for one in (range(16), [1] * 16)]
    assert made[0] == bytes([0, 1, 2, 3, 4, 5, 0x46, 7, 0x88, *range(9, 16)])
    assert made[1] == bytes([1] * 6 + [0x41, 1, 0x81] + [1] * 7)
    given = [b"\1" * 16, b"\xfb" * 16]
    assert new_id(lambda _: given.pop())[0] != "-" and not given, "one that begins with a dash is thrown away"


def test_what_is_left_of_an_identity_that_could_not_be_written_goes(tmp_path, monkeypatch):
    def fail(name, *_):
        Path(name + ".tmp").write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(data_dir, "replace_durably", fail)
    with pytest.raises(ConfigError, match="no space left"):
        data_dir.write_meta(str(tmp_path), MetaProperties(node_id=1, cluster_id="c", directory_id="d"))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("number", [0, 3])
def test_a_lock_says_of_which_directory_and_is_given_up_once(directory, monkeypatch, number):
    """The number may be somebody else's file by then."""
    closed = []
    monkeypatch.setattr(data_dir.disk, "close", closed.append)
    taken = DataDirLock(directory, number)
    assert taken.path == directory
    taken.close()
    taken.close()
    assert closed == [number]


def test_a_lock_file_that_is_taken_away_each_time_is_somebodys(directory, monkeypatch):
    tries = []
    monkeypatch.setattr(data_dir, "_try_lock", lambda path: tries.append(path))
    with pytest.raises(DataDirectoryInUse, match=f"data directory {directory} is in use"):
        data_dir.lock(directory)
    assert tries == [directory] * 100


def test_nothing_of_an_earlier_holder_stays_in_the_lock_file(directory):
    Path(directory, data_dir.LOCK_FILE).write_text("99999999999999\n")
    taken = data_dir.lock(directory)
    assert Path(directory, data_dir.LOCK_FILE).read_text() == f"{os.getpid()}\n"
    taken.close()
    assert taken.descriptor == -1


@pytest.mark.parametrize(
    ("content", "pid"), [(b"", 0), (b"17\n", 17), (b" 17 ", 17), (b"-17", 0), (b"x", 0), (b"1" * 33, int("1" * 32))]
)
def test_the_number_in_a_lock_file(directory, content, pid):
    path = Path(directory, "numbered")
    path.write_bytes(content)
    with data_dir.disk.opened(str(path)) as descriptor:
        assert data_dir._pid_in(descriptor) == pid


@pytest.mark.parametrize(("given", "mode"), [({}, 0o777), ({"mode": 0o750}, 0o750)])
def test_a_directory_is_made_for_whom_it_is_told_and_proven_with_a_file_of_our_own(tmp_path, monkeypatch, given, mode):
    done = []
    monkeypatch.setattr(data_dir.disk, "make_directories", lambda path, mode: done.append((path, mode)))
    monkeypatch.setattr(data_dir.disk, "open_file", lambda path, flags, mode: done.append((path, flags, mode)) or 9)
    monkeypatch.setattr(data_dir.disk.os, "close", done.append)
    monkeypatch.setattr(data_dir.disk, "unlink", done.append)
    data_dir.create("/d", **given)
    probe = f"/d/.writable-{os.getpid()}"
    assert done == [("/d", mode), (probe, os.O_CREAT | os.O_WRONLY, 0o600), 9, probe]


def refuse(number):
    def call(*_, **__):
        raise OSError(number, os.strerror(number))

    return call


@pytest.mark.parametrize(
    ("module", "name", "number", "raised"),
    [
        ("fcntl", "fcntl", errno.EAGAIN, DataDirectoryInUse),
        ("fcntl", "fcntl", errno.EACCES, DataDirectoryInUse),
        ("fcntl", "fcntl", errno.ENOLCK, ConfigError),
        ("disk", "status", errno.EIO, ConfigError),
        ("disk", "truncate", errno.EIO, ConfigError),
        ("disk", "write", errno.ENOSPC, ConfigError),
    ],
)
def test_a_lock_that_was_not_taken_leaves_no_descriptor(directory, monkeypatch, module, name, number, raised):
    before = open_descriptors()
    with monkeypatch.context() as patched:
        patched.setattr(getattr(data_dir, module), name, refuse(number))
        with pytest.raises(raised):
            data_dir.lock(directory)
    assert open_descriptors() <= before
    there = os.path.exists(os.path.join(directory, data_dir.LOCK_FILE))
    assert there is (name not in ("truncate", "write")), "an empty file tells nobody anything"


def test_a_lock_on_a_file_that_was_taken_away_keeps_nobody_out(directory, monkeypatch):
    before = open_descriptors()
    monkeypatch.setattr(data_dir, "_is_still", lambda name, descriptor: False)
    assert data_dir._try_lock(directory) is None and open_descriptors() <= before


def test_asking_for_the_holder_leaves_no_descriptor(directory):
    before = open_descriptors()
    assert data_dir.holder(directory) is None
    taken = data_dir.lock(directory)
    taken.close()
    assert data_dir.holder(directory) is None and open_descriptors() <= before


@pytest.mark.parametrize("byte", [0, 1, 10**9])
def test_the_lock_is_on_all_that_the_file_is_or_may_be(directory, byte):
    """Whoever holds a lock on any byte of it, a Kafka that has its first, is not disturbed."""
    path = os.path.join(directory, data_dir.LOCK_FILE)
    other = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.fcntl(other, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0))
    with pytest.raises(DataDirectoryInUse):
        data_dir.lock(directory)
    assert data_dir.holder(directory) == 0
    os.close(other)
    data_dir.lock(directory).close()


@pytest.mark.parametrize(
    ("number", "read"), [("0", 0), ("2147483647", 2147483647), ("2147483648", None), ("00000000001", None), ("٣", None)]
)
def test_the_number_of_a_node(tmp_path, number, read):
    (tmp_path / "meta.properties").write_text(f"version=1\nnode.id={number}\ncluster.id=c\n", "utf-8")
    if read is not None:
        assert data_dir.read_meta(str(tmp_path)) == MetaProperties("c", read, "")
        return
    with pytest.raises(ConfigError, match="must be the number of the node, 0 to 2147483647"):
        data_dir.read_meta(str(tmp_path))


def test_an_identity_that_is_not_there_cannot_be_kept(tmp_path):
    with pytest.raises(ConfigError, match="cannot be written"):
        data_dir.keep_meta(str(tmp_path))
    assert os.listdir(tmp_path) == []
