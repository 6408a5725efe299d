"""A disk whose every sync takes its time: a preloaded library sleeps before each fsync of some files."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int slow(int fd)
{
    char link[64], path[PATH_MAX + 1];
    const char *part = getenv("SLOW_PART"), *ms = getenv("SLOW_MS");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX);
    if (length <= 0 || ms == NULL || part == NULL)
        return 0;
    path[length] = 0;
    if (strstr(path, part) == NULL)
        return 0;
    usleep((useconds_t)atoi(ms) * 1000);
    return getenv("SLOW_ONLY") != NULL;
}
int fsync(int fd) { return slow(fd) ? 0 : ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd); }
int fdatasync(int fd) { return slow(fd) ? 0 : ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd); }
"""


def build(directory: Path) -> Path:
    """Compile the library; the test is skipped without a compiler."""
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")
    source, library = directory / "slow.c", directory / "slow.so"
    source.write_text(SOURCE)
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", str(source), "-o", str(library), "-ldl"], check=True)
    return library


def slow_env(library: Path, part: str, sync_ms: int, only: bool = False) -> dict[str, str]:
    """Environment of a broker whose syncs of paths that contain `part` take so long; `only`: that, and no sync, so that
    they all take as long."""
    env = {"LD_PRELOAD": str(library), "SLOW_PART": part, "SLOW_MS": str(sync_ms)}
    return env | {"SLOW_ONLY": "1"} if only else env
