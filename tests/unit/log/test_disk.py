"""Every way to the kernel asks the hook first, with the kind of call it is: what is refused has not begun."""

import errno
import os

import pytest

from mpbroker import _native
from mpbroker.log import disk

CALLS = {
    "open_file": ("file", _native.IO_OPEN),
    "read_at": ("descriptor", _native.IO_READ, 1, 0),
    "write": ("descriptor", _native.IO_WRITE, b"x"),
    "write_at": ("descriptor", _native.IO_WRITE, b"x", 0),
    "truncate": ("file", _native.IO_TRUNCATE, 0),
    "allocate": ("descriptor", _native.IO_WRITE, 100),
    "set_modified": ("file", _native.IO_STATUS, 7),
    "sync": ("descriptor", _native.IO_SYNC),
    "sync_directory": ("directory", _native.IO_OPEN),
    "rename": ("file", _native.IO_RENAME, "/nowhere/else"),
    "unlink": ("file", _native.IO_UNLINK),
    "remove_directory": ("directory", _native.IO_UNLINK),
    "make_directories": ("new", _native.IO_MAKE_DIR),
    "names": ("directory", _native.IO_LIST),
    "directories": ("directory", _native.IO_LIST),
    "files": ("directory", _native.IO_LIST),
    "status": ("file", _native.IO_STATUS),
    "disk_status": ("directory", _native.IO_STATUS),
    "size": ("file", _native.IO_STATUS),
    "exists": ("file", _native.IO_STATUS),
    "is_directory": ("directory", _native.IO_STATUS),
    "is_file": ("file", _native.IO_STATUS),
    "is_link": ("file", _native.IO_STATUS),
    "real_path": ("file", _native.IO_STATUS),
    "read_whole": ("file", _native.IO_OPEN, 10),
    "read_text": ("file", _native.IO_OPEN, 10),
}
#: What asks for nothing by itself.
OTHERS = {"condemns", "passes", "patiently", "close", "opened", "write_file", "deleted_and_open"}


@pytest.fixture
def where(tmp_path):
    """A file of three bytes, its descriptor, an empty directory, and a name that nothing has."""
    (tmp_path / "file").write_bytes(b"abc")
    (tmp_path / "directory").mkdir()
    descriptor = os.open(tmp_path / "file", os.O_RDWR)
    yield {name: str(tmp_path / name) for name in ("file", "directory", "new")} | {"descriptor": descriptor}
    os.close(descriptor)


def state(where):
    """What a call might have changed."""
    found = os.stat(where["file"])
    return found.st_size, found.st_mtime_ns, found.st_blocks, sorted(os.listdir(os.path.dirname(where["file"])))


@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_is_refused_has_done_nothing(where, monkeypatch, name):
    what, kind, *more = CALLS[name]
    asked, before = [], state(where)

    def refuse(call):
        asked.append(call)
        return errno.EIO

    monkeypatch.setattr(disk, "io_refused", refuse)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)) as raised:
        getattr(disk, name)(where[what], *more)
    assert asked == [kind] and raised.value.errno == errno.EIO
    assert state(where) == before


def test_what_is_no_file_is_told_apart_and_keeps_nobody_waiting(tmp_path):
    (tmp_path / "file").write_bytes(b"abc")
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name, to in (("to-file", "file"), ("to-directory", "directory"), ("lost", "nowhere"), ("round", "round")):
        (tmp_path / name).symlink_to(to)
    files, others = disk.files(str(tmp_path))
    assert sorted(files) == ["file", "to-file"]
    assert sorted(others) == ["directory", "lost", "pipe", "round", "to-directory"]
    assert [disk.is_file(str(tmp_path / name)) for name in (*files, *others, "new")] == [True] * 2 + [False] * 6
    assert disk.directories(str(tmp_path)) == ["directory"]
    assert disk.directories(str(tmp_path), links=True) == ["directory", "to-directory"]
    with pytest.raises(OSError, match="Illegal seek"):
        disk.read_whole(str(tmp_path / "pipe"), 10)


def test_every_call_is_in_the_table():
    """A new one is added here, and asks."""
    own = {
        name for name, one in vars(disk).items() if callable(one) and getattr(one, "__module__", "") == disk.__name__
    }
    assert {name for name in own if not name.startswith("_")} == CALLS.keys() | OTHERS


@pytest.mark.parametrize("sync_it", [False, True])
def test_a_file_is_written_and_then_synced(where, monkeypatch, sync_it):
    asked = []
    monkeypatch.setattr(disk, "io_refused", lambda call: asked.append(call) or 0)
    disk.write_file(where["new"], b"content", sync_it=sync_it, mode=0o600)
    assert asked == [_native.IO_OPEN, _native.IO_WRITE] + [_native.IO_SYNC] * sync_it
    assert disk.read_text(where["new"], 100) == "content" and disk.size(where["new"]) == 7
    assert os.stat(where["new"]).st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("error", "tries"), [(errno.EMFILE, 12), (errno.EINTR, 12), (errno.EIO, 1)])
def test_what_passes_is_tried_again_and_not_for_ever(monkeypatch, error, tries):
    waits, done = [], []
    monkeypatch.setattr(disk.time, "sleep", waits.append)

    def fail():
        done.append(1)
        raise OSError(error, "no")

    with pytest.raises(OSError, match="no"):
        disk.patiently(fail)
    assert len(done) == tries and len(waits) == tries - 1
    assert waits == [0.001 * 2**number for number in range(tries - 1)]
    left = [OSError(errno.EMFILE, "no")] * 3
    assert disk.patiently(lambda: left.pop() and (_ for _ in ()).throw(OSError(errno.EMFILE, "x")) if left else 5) == 5


def test_what_is_not_there_is_no_error_and_an_error_is_no_no(where):
    assert not disk.exists(where["new"]) and not disk.is_directory(where["new"])
    assert not disk.exists(f"{where['file']}/below") and not disk.is_directory(where["file"])
    os.symlink("/nowhere", where["new"])
    assert disk.exists(where["new"]), "a link that leads nowhere is something"
    assert disk.directories(os.path.dirname(where["file"])) == ["directory"]
    with pytest.raises(OSError, match="name too long"):
        disk.exists("x" * 5000)


def test_deleted_files_that_somebody_has_open_are_counted_once(tmp_path):
    """By what they hold on the disk; of one directory alone, and not those that have another name still."""
    directory = tmp_path / "data"
    directory.mkdir()
    descriptors = []
    for name, size in (("gone", 5000), ("linked", 70_000), ("there", 900_000)):
        (directory / name).write_bytes(bytes(range(256)) * (size // 256))
        descriptors += [os.open(directory / name, os.O_RDONLY) for _ in range(2)]
    (tmp_path / "elsewhere").write_bytes(b"x" * 5000)
    descriptors.append(os.open(tmp_path / "elsewhere", os.O_RDONLY))
    os.link(directory / "linked", directory / "other")
    for path in (directory / "gone", directory / "linked", tmp_path / "elsewhere"):
        path.unlink()
    try:
        held = os.fstat(descriptors[0]).st_blocks * 512
        assert disk.deleted_and_open([os.getpid(), 2**22 + 1], f"{directory}/") == held > 0
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


@pytest.mark.parametrize("most", [1, 3, 100])
def test_what_the_kernel_takes_in_part_is_written_on(tmp_path, monkeypatch, most):
    pwrite = os.pwrite
    monkeypatch.setattr(disk.os, "pwrite", lambda fd, content, at: pwrite(fd, bytes(content)[:most], at))
    with disk.opened(str(tmp_path / "file"), os.O_CREAT | os.O_RDWR) as descriptor:
        disk.write_at(descriptor, b"0123456789", 5)
    assert (tmp_path / "file").read_bytes() == bytes(5) + b"0123456789"


@pytest.mark.parametrize("most", [1, 3, 100])
@pytest.mark.parametrize("content", [b"", b"x", b"0123456789"])
def test_all_of_a_content_is_written_where_the_descriptor_stands(tmp_path, monkeypatch, content, most):
    write = os.write
    monkeypatch.setattr(disk.os, "write", lambda fd, piece: write(fd, bytes(piece)[:most]))
    disk.write_file(str(tmp_path / "file"), b"something longer before", sync_it=False)
    disk.write_file(str(tmp_path / "file"), content, sync_it=False)
    assert (tmp_path / "file").read_bytes() == content


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 4000])
@pytest.mark.parametrize("most", [None, 1, 4])
def test_a_file_is_read_up_to_a_length(tmp_path, monkeypatch, size, most):
    """However little the kernel gives at once."""
    content = bytes(number % 251 for number in range(size))
    (tmp_path / "file").write_bytes(content)
    pread = os.pread
    monkeypatch.setattr(disk.os, "pread", lambda fd, length, at: pread(fd, min(length, most or length), at))
    for max_bytes in (0, 1, 10, size):
        assert disk.read_whole(str(tmp_path / "file"), max_bytes) == content[:max_bytes]


def test_lines_of_a_text_end_with_a_line_feed_whoever_wrote_it(tmp_path):
    (tmp_path / "file").write_bytes(b"a\r\nb\rc\nd")
    assert disk.read_text(str(tmp_path / "file"), 100) == "a\nb\nc\nd"


def test_a_descriptor_is_given_back_whatever_happens_and_no_child_has_it(where):
    before = set(os.listdir("/proc/self/fd"))
    with disk.opened(where["file"]) as descriptor:
        assert not os.get_inheritable(descriptor) and os.read(descriptor, 9) == b"abc"
    with pytest.raises(ZeroDivisionError), disk.opened(where["file"]):
        _ = 1 // 0
    disk.sync_directory(where["directory"])
    disk.close(disk.open_file(where["file"]))
    assert set(os.listdir("/proc/self/fd")) == before


def test_what_a_call_is_named_after_it_does(where):
    path, descriptor = where["file"], where["descriptor"]
    assert (disk.size(path), disk.status(descriptor).st_size) == (3, 3)
    disk.allocate(descriptor, 10)
    assert disk.size(path) == 10
    disk.truncate(path, 5)
    assert disk.size(path) == 5
    disk.truncate(descriptor, 2)
    assert disk.read_at(descriptor, 9, 1) == b"b"
    disk.set_modified(path, 7_000_000_001)
    assert disk.status(path).st_mtime_ns == disk.status(path).st_atime_ns == 7_000_000_001
    disk.rename(path, where["new"])
    assert disk.exists(where["new"]) and not disk.exists(path)
    assert sorted(disk.names(os.path.dirname(path))) == ["directory", "new"]
    os.symlink(where["new"], path)
    assert disk.real_path(path) == os.path.realpath(where["new"])
    disk.unlink(path)
    disk.make_directories(f"{path}/a/b")
    disk.make_directories(f"{path}/a/b")
    assert disk.is_directory(f"{path}/a/b")
    disk.remove_directory(f"{path}/a/b")
    assert disk.directories(path) == ["a"] and not disk.exists(f"{path}/a/b")
    assert disk.disk_status(path).f_frsize > 0


def test_a_sync_is_of_what_was_opened(where, monkeypatch):
    synced = []
    monkeypatch.setattr(disk.os, "fsync", lambda descriptor: synced.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    disk.sync(where["descriptor"])
    disk.sync_directory(where["directory"])
    assert synced == [os.path.realpath(where[name]) for name in ("file", "directory")]


@pytest.mark.parametrize(
    ("number", "condemned", "passing"),
    [
        (errno.EIO, True, False), (errno.EROFS, True, False), (errno.ENOSPC, False, False),
        (errno.ENOENT, False, False), (errno.EMFILE, False, True), (errno.EINTR, False, True),
        (errno.EISDIR, False, False), (errno.ENOTEMPTY, False, False), (errno.ENOTDIR, False, False),
        (errno.EEXIST, False, False), (errno.ELOOP, False, False), (None, True, False),
    ],
)  # fmt: skip
def test_what_an_error_means(number, condemned, passing):
    """One without a number is taken for the worst."""
    error = OSError() if number is None else OSError(number, "no")
    assert (disk.condemns(error), disk.passes(error)) == (condemned, passing)
