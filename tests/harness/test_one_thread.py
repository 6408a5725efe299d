"""What a test in a process of its own tells, and that it is alone there."""

import os
import signal
import threading

import psutil
import pytest

from tests.harness.no_memory import refuse_each
from tests.harness.one_thread import has_one_thread, one_thread


@pytest.fixture
def another():
    """A thread that does nothing."""
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    yield
    over.set()
    thread.join()


def test_no_other_thread_is_there(another):
    seen = []

    @one_thread
    def test(first):
        seen.append(first)
        assert has_one_thread() and seen == [1] and test.__name__ == "test"

    assert not has_one_thread()
    test(first=1)
    assert seen == [], "its own copy"


def test_what_becomes_of_it_is_told():
    before = {child.pid for child in psutil.Process().children()}

    def fails():
        raise AssertionError("one and one")

    def skips():
        pytest.skip("not here")

    with pytest.raises(pytest.fail.Exception, match=r"line \d+, in fails[\s\S]*AssertionError: one and one"):
        one_thread(fails)()
    with pytest.raises(pytest.skip.Exception, match="^not here$"):
        one_thread(skips)()
    for end in (signal.SIGKILL, signal.SIGTERM):
        with pytest.raises(pytest.fail.Exception, match=f"ended with {-end}$"):
            one_thread(lambda end=end: os.kill(os.getpid(), end))()
    with pytest.raises(pytest.fail.Exception, match="ended with 0$"):
        one_thread(lambda: os._exit(0))()
    with pytest.raises(pytest.fail.Exception, match="no text"):
        one_thread(lambda: pytest.fail("no text: \udcff"))()
    assert {child.pid for child in psutil.Process().children()} <= before, "each was waited for"


def test_memory_is_refused_to_nobody_else(another):
    with pytest.raises(AssertionError, match="another thread"):
        refuse_each(dict)
