"""The parts of the C core: a part is a .c file with the header of the same name. No circle of parts, and the log
reaches the kernel through one file."""

import re

from tests.tidy.layers import NATIVE_ROOMS
from tests.tidy.source_tree import ROOT

NATIVE = ROOT / "native"
INCLUDE = re.compile(r'^#include "([\w/]+)\.h"', re.MULTILINE)
#: Calls on files and directories; `mpb_io_…` are the ways to them.
FILE_CALLS = re.compile(
    r"(?<![\w.>])(?:open|openat|creat|close|read|pread|preadv|write|pwrite|pwritev|lseek|f?truncate|"
    r"posix_fallocate|fallocate|f?stat|fstatat|statx|rename|renameat|unlink|unlinkat|link|mkdir|mkdirat|rmdir|"
    r"f?sync|fdatasync|sync_file_range|opendir|fdopendir|readdir|closedir|scandir|mmap|sendfile|fopen|syscall)\s*\("
)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\])*\"", re.DOTALL)


def _parts() -> dict[str, set[str]]:
    """Part, as room/name → parts whose headers its header or its .c file includes."""
    found: dict[str, set[str]] = {}
    for room in NATIVE_ROOMS:
        for path in sorted((NATIVE / room).glob("*.[ch]")):
            part = f"{room}/{path.stem}"
            found.setdefault(part, set()).update(set(INCLUDE.findall(path.read_text())) - {part})
    return found


def test_parts_form_no_circle():
    edges, done = _parts(), set()

    def visit(part: str, trail: list[str]) -> None:
        assert part not in trail, "circle: " + " -> ".join([*trail[trail.index(part) :], part])
        for used in sorted(edges.get(part, ())) if part not in done else ():
            visit(used, [*trail, part])
        done.add(part)

    assert len(edges) > 60
    for part in edges:
        visit(part, [])


def test_the_log_calls_the_kernel_in_one_file():
    calls = {
        path.name: FILE_CALLS.findall(COMMENT.sub("", path.read_text())) for path in (NATIVE / "log").glob("*.[ch]")
    }
    assert len(calls.pop("log_io.c")) > 10, "the pattern finds the calls"
    assert not {name: found for name, found in calls.items() if found}


def test_the_log_hands_no_write_to_anybody():
    """Append rule 16: whoever holds the lock writes itself."""
    starts = re.compile(r"\b(pthread_create|io_uring\w*|aio_\w+|lio_listio|fork|vfork|clone)\s*\(")
    found = {path.name: starts.findall(COMMENT.sub("", path.read_text())) for path in (NATIVE / "log").glob("*.[ch]")}
    assert not {name: calls for name, calls in found.items() if calls}
