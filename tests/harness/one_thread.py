"""Tests in a process of one thread. Where pytest-xdist shares the work, a thread of its own reads its messages, and an
error in that thread ends the whole process some seconds later: what memory is refused in, nothing else may run in.
"""

import functools
import os
import signal
import traceback
from collections.abc import Callable
from typing import Any

import pytest

_PASSED, _SKIPPED = "passed", "skipped: "


def one_thread(test: Callable[..., None]) -> Callable[..., None]:
    """Runs the test in a forked child, which has the thread that forks alone. What it changes is gone with it."""

    @functools.wraps(test)
    def forked(**arguments: Any) -> None:
        told, status = _in_a_child(lambda: test(**arguments))
        if told.startswith(_SKIPPED):
            pytest.skip(told.removeprefix(_SKIPPED))
        if (told, status) != (_PASSED, 0):
            ended = f"the test's process ended with {os.waitstatus_to_exitcode(status)}"
            pytest.fail(told.removeprefix(_PASSED) or ended, pytrace=False)

    return forked


def has_one_thread() -> bool:
    """Whether nothing else runs in this process, whoever started it."""
    return len(os.listdir("/proc/self/task")) == 1


def _in_a_child(work: Callable[[], None]) -> tuple[str, int]:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writing, _told_of(work).encode(errors="backslashreplace"))
        finally:
            os._exit(0)
    os.close(writing)
    try:
        with open(reading, encoding="utf-8") as pipe:
            told = pipe.read()
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(child, 0)
    return told, status


def _told_of(work: Callable[[], None]) -> str:
    try:
        work()
    except pytest.skip.Exception as skipped:
        return f"{_SKIPPED}{skipped}"
    except BaseException:
        return traceback.format_exc()
    return _PASSED
