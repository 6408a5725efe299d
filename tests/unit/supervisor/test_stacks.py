"""A process that registered is asked for its stack: it answers each time anew, whichever memfd it had meanwhile."""

import contextlib
import faulthandler
import os
import resource
import signal
import time
from types import SimpleNamespace

import pytest

from mpbroker.supervisor import stacks
from tests.harness import waiting_child
from tests.harness.descriptors import open_descriptors


@contextlib.contextmanager
def process(main):
    """A fork of this process that runs `main` and waits; (pid, what the errors it dies of go to)."""
    errors = os.memfd_create("errors")

    def begin():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.dup2(errors, 2)
        faulthandler.disable()
        main()

    try:
        with waiting_child.waiting_child(begin) as (pid, _):
            yield pid, errors
    finally:
        os.close(errors)


def ask(monkeypatch, pid):
    """What the process answers. Between two looks it is waited for until it runs no more: one that has lost its
    processor has written half."""
    deadline, state = time.monotonic() + 60, stacks.state_of

    def sleep(_seconds):
        os.sched_yield()
        while state(pid) == "R":
            assert time.monotonic() < deadline, f"process {pid} runs on"
            os.sched_yield()
        assert time.monotonic() < deadline, f"process {pid} says nothing"

    monkeypatch.setattr(stacks, "time", SimpleNamespace(sleep=sleep, monotonic=lambda: 0.0))
    [found] = stacks.ask([pid])
    return found


def test_each_answer_is_whole_and_has_nothing_of_the_one_before(monkeypatch):
    before = open_descriptors()
    with process(stacks.register) as (pid, _):
        first, second = ask(monkeypatch, pid), ask(monkeypatch, pid)
    assert first.frames[1:] == second.frames[1:], "it may have gone on a line meanwhile"
    assert first[::2] == second[::2] == (pid, "")
    where = f'File "{waiting_child.__file__}", line ', " in waiting_child"
    assert first.frames[0].startswith(where[0]) and first.frames[0].endswith(where[1])
    assert sum(frame.endswith(where[1]) for frame in second.frames) == 1
    assert open_descriptors() <= before, "whoever asked keeps nothing open"


def test_after_forks_a_process_writes_to_its_own_again(monkeypatch):
    """The children's are closed: two of that name, and nobody knew which one the answer comes to."""

    def main():
        stacks.register()
        with stacks.of_children(2) as descriptors:
            assert len(set(descriptors)) == 2
            for each in descriptors:
                stacks.write_to(each)

    with process(main) as (pid, _):
        found = ask(monkeypatch, pid)
    assert found.frames and not found.reason


@pytest.mark.parametrize("by_others", [False, True])
def test_who_dies_of_a_fault_says_where_to_whom_it_said_before(by_others):
    """To stderr, unless somebody has already arranged for another place."""
    elsewhere = os.memfd_create("elsewhere")

    def main():
        if by_others:
            faulthandler.enable(file=elsewhere)
        stacks.register()

    try:
        with process(main) as (pid, errors):
            os.kill(pid, signal.SIGSEGV)
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            texts = [os.pread(errors, 1 << 16, 0), os.pread(elsewhere, 1 << 16, 0)]
    finally:
        os.close(elsewhere)
    assert texts.pop(by_others).startswith(b"Fatal Python error: Segmentation fault") and texts == [b""]


@pytest.mark.parametrize("state", ["", "Z", "T", "t", "S"])
@pytest.mark.parametrize("path", [None, "/memfd"])
@pytest.mark.parametrize("catches", [False, True])
def test_only_who_can_answer_is_asked(monkeypatch, state, path, catches):
    """The signal would end a process that has no handler yet, and whoever is stopped finds it when it goes on."""
    done = []
    monkeypatch.setattr(stacks, "state_of", lambda pid: state)
    monkeypatch.setattr(stacks, "_memfd_of", lambda pid: path)
    monkeypatch.setattr(stacks, "_catches", lambda pid: catches)
    monkeypatch.setattr(stacks.os, "pidfd_open", lambda pid: 40)
    monkeypatch.setattr(stacks.os, "open", lambda path, flags: 41)
    monkeypatch.setattr(stacks.os, "ftruncate", lambda *how: done.append(how))
    monkeypatch.setattr(stacks.signal, "pidfd_send_signal", lambda *how: done.append(how))
    monkeypatch.setattr(stacks.os, "close", lambda descriptor: done.append(descriptor))
    with contextlib.ExitStack() as opened:
        found = stacks._signal(7, opened)
    monkeypatch.undo()
    if state == "S" and path and catches:
        assert found == (41, "") and done == [(41, 0), (40, stacks.SIGNAL), 41, 40]
        return
    starting = "it has just been started and cannot answer yet; ask again"
    assert found == (-1, {"T": stacks._STOPPED, "t": stacks._STOPPED, "S": starting}.get(state, "it has ended"))
    assert done == []


@pytest.mark.parametrize("error", [FileNotFoundError, ProcessLookupError])
def test_who_ends_while_it_is_asked_has_ended(monkeypatch, error):
    def gone(pid):
        raise error

    monkeypatch.setattr(stacks, "state_of", lambda pid: "S")
    monkeypatch.setattr(stacks, "_memfd_of", gone)
    assert stacks._signal(7, contextlib.ExitStack()) == (-1, "it has ended")


def test_all_are_asked_before_any_is_waited_for_and_all_of_them_together_so_long(monkeypatch):
    done = []
    monkeypatch.setattr(stacks, "_signal", lambda pid, opened: (done.append(pid), (pid + 50, "why"))[1])
    monkeypatch.setattr(stacks, "_collect", lambda *how: done.append(how) or how[0])
    monkeypatch.setattr(stacks, "time", SimpleNamespace(monotonic=lambda: 100.0))
    assert stacks.ask([1, 2], 3.5) == [1, 2]
    assert done == [1, 2, (1, 51, "why", 103.5), (2, 52, "why", 103.5)]


@pytest.mark.parametrize(
    ("found", "path", "pauses"), [([["a"]], "a", 0), ([["a", "b"], [], ["b"]], "b", 2), ([[], ["a", "b"]], None, 10)]
)
def test_while_parent_and_child_have_the_same_it_is_looked_again(monkeypatch, found, path, pauses):
    slept = []
    monkeypatch.setattr(stacks.memfd, "find_all", lambda *_: found.pop(0) if len(found) > 1 else found[0])
    monkeypatch.setattr(stacks, "time", SimpleNamespace(sleep=slept.append))
    assert stacks._memfd_of(7) == path
    assert slept == [stacks._PAUSE_S] * (stacks._LOOKS if path is None else pauses)


def test_an_answer_of_one_byte_may_grow(monkeypatch):
    answer, slept = os.memfd_create("answer"), []
    os.write(answer, b"F")

    def sleep(seconds):
        slept.append(seconds)
        if len(slept) == 2:
            os.write(answer, b"ile a.py")

    monkeypatch.setattr(stacks, "time", SimpleNamespace(sleep=sleep, monotonic=lambda: 1.0))
    assert stacks._collect(7, answer, "", 9.0).frames == ("File a.py",)
    os.close(answer)


def test_the_frames_of_the_parent_that_forked_a_process_are_not_its_own():
    fork = 'File "/x/supervisor/launch.py", line 164 in _child'
    others = ['File "/x/supervisor/launch.py", line 80 in launch', 'File "/x/b.py", line 3 in _child']
    assert stacks.frames_of("\n".join([*others, fork, "File c.py, line 1 in main"])) == tuple(others)


@pytest.mark.parametrize("said", ["7 (a) b) S 1 2", "7 (a) S 5"])
def test_the_state_of_a_process_stands_behind_its_name_which_may_hold_anything(monkeypatch, tmp_path, said):
    (tmp_path / "stat").write_text(said)
    monkeypatch.setattr(stacks, "open", lambda path: (tmp_path / path.split("/")[3]).open(), raising=False)
    assert stacks.state_of(7) == "S"


@pytest.mark.parametrize(("said", "where"), [("do_wait", "in do_wait"), ("", "in an unknown place")])
def test_where_a_process_waits_in_the_kernel(monkeypatch, tmp_path, said, where):
    (tmp_path / "wchan").write_text(said)
    monkeypatch.setattr(stacks, "open", lambda path: (tmp_path / path.split("/")[3]).open(), raising=False)
    assert stacks._kernel_wait(7) == where


def test_of_a_process_that_is_gone_nothing_is_known():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    assert (stacks.state_of(pid), stacks._kernel_wait(pid)) == ("", "in an unknown place")
