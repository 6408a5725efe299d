"""What a broker asks of the disk, in the order in which it asks: a preloaded library writes every call down.

    calls = DiskCalls(build(directory), tmp_path)
    with calls.broker(tmp_path) as broker:
        ...
    calls.all()      # [Call("create", "t-0/….log"), Call("sync", "."), ...]

Native code, SQLite and Python alike go through it. Calls of different processes stand in the order in which they ended.
With `data=True` what was written is recorded too, for `tests/harness/disk_replay.py`.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.harness.broker import Broker

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#define REAL(type, name) ((type)dlsym(RTLD_NEXT, name))
/* A line for a call, and for tests that replay it (CALLS_DATA) what was written where; for a sync, how long the record
 * was when it began: only what stands before is covered by it. */
static void note_data(const char *what, const char *first, const char *second, long long at, const struct iovec *data,
                      int pieces, long long size)
{
    const char *part = getenv("CALLS_OF"), *to = getenv("CALLS_TO");
    if (part == NULL || to == NULL || strncmp(first, part, strlen(part)) != 0)
        return;
    int before = errno, has_data = getenv("CALLS_DATA") != NULL;
    /* Opened for each line: workers close every descriptor that they do not know. */
    int out = (int)syscall(SYS_openat, AT_FDCWD, to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    char line[2 * PATH_MAX + 96];
    struct iovec all[33] = {{line, 0}};
    int count = 1;
    long long left = data != NULL && has_data ? size : 0;
    for (int i = 0; i < pieces && count < 33 && left > 0; i++) {
        all[count] = data[i];
        if ((long long)all[count].iov_len > left)
            all[count].iov_len = (size_t)left;
        left -= (long long)all[count++].iov_len;
    }
    if (left > 0)
        abort();
    all[0].iov_len = (size_t)snprintf(line, sizeof line, "%s\t%s\t%s", what, first, second);
    if (has_data)
        all[0].iov_len += (size_t)sprintf(line + all[0].iov_len, "\t%lld\t%lld", at, data != NULL ? size : 0);
    line[all[0].iov_len++] = '\n';
    if (syscall(SYS_writev, out, all, count) < 0)
        abort();
    syscall(SYS_close, out);
    errno = before;
}
static void note(const char *what, const char *first, const char *second)
{
    note_data(what, first, second, 0, NULL, 0, 0);
}
static long long recorded(void)
{
    struct stat found;
    const char *to = getenv("CALLS_TO");
    int before = errno;
    long long size = to != NULL && stat(to, &found) == 0 ? found.st_size : 0;
    errno = before;
    return size;
}
static void path_of(int fd, const char *name, char *path)
{
    path[0] = 0;
    size_t length = 0;
    if (name == NULL || (name[0] != '/' && fd != AT_FDCWD)) {
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        int before = errno;
        ssize_t got = readlink(link, path, PATH_MAX - 1);
        errno = before;
        length = got < 0 ? 0 : (size_t)got;
        path[length] = 0;
    }
    if (name != NULL)
        snprintf(path + length, PATH_MAX - length, length ? "/%s" : "%s", name);
}
static void note_at(const char *what, int fd, const char *name)
{
    char path[PATH_MAX];
    path_of(fd, name, path);
    note(what, path, "");
}
static void note_on(const char *what, int fd, long long at, const struct iovec *data, int pieces, long long size)
{
    char path[PATH_MAX];
    path_of(fd, NULL, path);
    note_data(what, path, "", at, data, pieces, size);
}
#define SYNC(name)                                                                    \
    int name(int fd)                                                                  \
    {                                                                                 \
        long long covers = recorded();                                                \
        int done = REAL(int (*)(int), #name)(fd);                                     \
        if (done == 0)                                                                \
            note_on(#name, fd, covers, NULL, 0, 0);                                   \
        return done;                                                                  \
    }
SYNC(fsync)
SYNC(fdatasync)
#define CUT(name)                                                                     \
    int name(int fd, off_t to)                                                        \
    {                                                                                 \
        int done = REAL(int (*)(int, off_t), #name)(fd, to);                          \
        if (done == 0)                                                                \
            note_on(#name, fd, to, NULL, 0, 0);                                       \
        return done;                                                                  \
    }
CUT(ftruncate)
CUT(ftruncate64)
#define WRITE(name, parameters, arguments, where, pieces, count)                      \
    ssize_t name parameters                                                           \
    {                                                                                 \
        ssize_t done = REAL(ssize_t (*) parameters, #name) arguments;                 \
        if (done >= 0)                                                                \
            note_on(#name, fd, where, pieces, count, done);                           \
        return done;                                                                  \
    }
#define ONE &(struct iovec){(void *)data, n}
#define HERE lseek(fd, 0, SEEK_CUR) - done
WRITE(write, (int fd, const void *data, size_t n), (fd, data, n), HERE, ONE, 1)
WRITE(pwrite, (int fd, const void *data, size_t n, off_t at), (fd, data, n, at), at, ONE, 1)
WRITE(pwrite64, (int fd, const void *data, size_t n, off_t at), (fd, data, n, at), at, ONE, 1)
WRITE(writev, (int fd, const struct iovec *v, int n), (fd, v, n), HERE, v, n)
WRITE(pwritev, (int fd, const struct iovec *v, int n, off_t at), (fd, v, n, at), at, v, n)
WRITE(pwritev64, (int fd, const struct iovec *v, int n, off_t at), (fd, v, n, at), at, v, n)
#define OPEN(name, at, parameters)                                                    \
    int name parameters                                                               \
    {                                                                                 \
        va_list rest;                                                                 \
        va_start(rest, flags);                                                        \
        int mode = flags & O_CREAT ? va_arg(rest, int) : 0;                           \
        va_end(rest);                                                                 \
        struct stat found;                                                            \
        int fresh = (flags & O_CREAT) && fstatat(at, path, &found, 0) != 0;           \
        int fd = (int)syscall(SYS_openat, at, path, flags, mode);                     \
        if (fd >= 0 && fresh)                                                         \
            note_at("create", fd, NULL);                                              \
        else if (fd >= 0 && (flags & O_TRUNC) && getenv("CALLS_DATA") != NULL)        \
            note_at("ftruncate", fd, NULL);                                           \
        return fd;                                                                    \
    }
OPEN(open, AT_FDCWD, (const char *path, int flags, ...))
OPEN(open64, AT_FDCWD, (const char *path, int flags, ...))
OPEN(openat, in, (int in, const char *path, int flags, ...))
OPEN(openat64, in, (int in, const char *path, int flags, ...))
static int renamed(int done, int from_in, const char *from, int to_in, const char *to)
{
    char first[PATH_MAX], second[PATH_MAX];
    path_of(from_in, from, first);
    path_of(to_in, to, second);
    if (done == 0)
        note("rename", first, second);
    return done;
}
int rename(const char *from, const char *to)
{
    return renamed(REAL(int (*)(const char *, const char *), "rename")(from, to), AT_FDCWD, from, AT_FDCWD, to);
}
int renameat(int a, const char *from, int b, const char *to)
{
    return renamed(REAL(int (*)(int, const char *, int, const char *), "renameat")(a, from, b, to), a, from, b, to);
}
int unlink(const char *path)
{
    int done = REAL(int (*)(const char *), "unlink")(path);
    if (done == 0)
        note("unlink", path, "");
    return done;
}
int unlinkat(int in, const char *path, int flags)
{
    int done = REAL(int (*)(int, const char *, int), "unlinkat")(in, path, flags);
    if (done == 0)
        note_at("unlink", in, path);
    return done;
}
int rmdir(const char *path)
{
    int done = REAL(int (*)(const char *), "rmdir")(path);
    if (done == 0)
        note("rmdir", path, "");
    return done;
}
int mkdir(const char *path, mode_t mode)
{
    int done = REAL(int (*)(const char *, mode_t), "mkdir")(path, mode);
    if (done == 0)
        note("mkdir", path, "");
    return done;
}
"""
KINDS = {
    "fdatasync": "sync",
    "fsync": "sync",
    "ftruncate": "cut",
    "ftruncate64": "cut",
    "pwrite": "write",
    "pwrite64": "write",
    "writev": "write",
    "pwritev": "write",
    "pwritev64": "write",
}


class Call(NamedTuple):
    """sync, cut, write, create, rename, unlink or mkdir; paths are relative to the data directory ("." itself)."""

    kind: str
    path: str
    to: str = ""


class DiskCalls:
    """The library, and what brokers started with `env` have asked for since the last `clear`."""

    def __init__(self, library: Path, broker_directory: Path, *, data: bool = False) -> None:
        self._data_dir = str(broker_directory / "data")
        self.record = broker_directory / "disk_calls"
        self.env = {"LD_PRELOAD": str(library), "CALLS_OF": self._data_dir, "CALLS_TO": str(self.record)}
        self.env |= {"CALLS_DATA": "1"} if data else {}

    def broker(self, directory: Path, **overrides: object) -> Broker:
        """A broker whose calls are recorded."""
        return Broker(directory, overrides=overrides, env=self.env)

    def clear(self) -> None:
        """Forget what was so far."""
        self.record.unlink(missing_ok=True)

    def all(self) -> list[Call]:
        """Every call, in order."""
        lines = [line.split("\t") for line in self.record.read_text().splitlines()]
        return [Call(KINDS.get(what, what), self._short(path), self._short(to)) for what, path, to in lines]

    def _short(self, path: str) -> str:
        return path.removeprefix(self._data_dir).lstrip("/") or "." if path else ""


def build(directory: Path) -> Path:
    """Compile the library; the test is skipped without a compiler."""
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")
    source, library = directory / "calls.c", directory / "calls.so"
    source.write_text(SOURCE)
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-w", str(source), "-o", str(library), "-ldl"], check=True)
    return library


def place(calls: list[Call], kind: str, path: str, begin: int = 0) -> int:
    """Where the first such call at `begin` or behind it stands. AssertionError: there is none."""
    for number, call in enumerate(calls[begin:], begin):
        if call.kind == kind and path in (call.path, call.to):
            return number
    raise AssertionError(f"no {kind} of {path} behind call {begin}: {calls[begin : begin + 60]}")


def last(calls: list[Call], kind: str, path: str) -> int:
    """Where the last such call stands. AssertionError: there is none."""
    found = [number for number, call in enumerate(calls) if call.kind == kind and path in (call.path, call.to)]
    assert found, f"no {kind} of {path}: {calls[-60:]}"
    return found[-1]
