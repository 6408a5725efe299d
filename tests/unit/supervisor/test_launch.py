"""A worker that is forked while the supervisor dies."""

import ctypes
import json
import os
import signal
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from mpbroker.supervisor import launch as launch_module
from mpbroker.supervisor.launch import EXIT_CLEAN, EXIT_FAILURE, Launch, launch


@pytest.mark.parametrize(
    ("parent_death", "runs"), [(signal.SIGKILL, False), (signal.SIGTERM, True)], ids=["killed with it", "outlives it"]
)
def test_who_cleans_up_after_the_supervisor_begins_even_where_it_is_gone(tmp_path, monkeypatch, parent_death, runs):
    """The tracer: without it, names would stay in /dev/shm."""
    stacks = SimpleNamespace(of_children=lambda count: nullcontext([2] * count), write_to=lambda descriptor: None)
    monkeypatch.setattr("mpbroker.supervisor.launch.stacks", stacks)  # they are a whole process's
    context = SimpleNamespace(supervisor_gone=lambda: True, serves_control_plane=False, install_signals=lambda: None)
    made = Launch(context, "test", lambda _: (tmp_path / "ran").touch(), (), parent_death)
    [(pid, pidfd)] = launch([made])
    os.close(pidfd)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == (EXIT_CLEAN if runs else EXIT_FAILURE)
    assert (tmp_path / "ran").exists() is runs


@pytest.mark.parametrize("found", ["nothing", "no loader"])
def test_without_setproctitle_there_is_one_sentence(monkeypatch, found):
    spec = None if found == "nothing" else SimpleNamespace(loader=None)
    monkeypatch.setattr(launch_module, "find_spec", lambda _: SimpleNamespace(submodule_search_locations=[]))
    monkeypatch.setattr(launch_module.PathFinder, "find_spec", lambda *_: spec)
    with pytest.raises(ModuleNotFoundError, match="setproctitle"):
        launch_module._native_setproctitle()


def test_before_the_first_fork_the_heap_is_taken_out_of_sight(monkeypatch):
    done = []
    monkeypatch.setattr(
        launch_module, "gc", SimpleNamespace(freeze=lambda: done.append("freeze"), enable=lambda: done.append("enable"))
    )
    monkeypatch.setattr(launch_module.sys, "_clear_type_cache", lambda: done.append("cache"))
    monkeypatch.setattr(launch_module, "fill_free_memory", lambda: done.append("memory"))
    launch_module.freeze()
    assert done == ["freeze", "enable", "cache", "memory"]


def test_signals_are_as_they_were_after_a_fork(monkeypatch):
    masks = []

    def mask(how, signals):
        masks.append((how, signals))
        return {signal.SIGHUP}

    monkeypatch.setattr(launch_module.signal, "pthread_sigmask", mask)
    monkeypatch.setattr(launch_module.os, "fork", lambda: 77)
    monkeypatch.setattr(launch_module.os, "pidfd_open", lambda pid: pid + 1)
    assert launch_module.launch_broker(lambda: 0, "title", 2) == (77, 78)
    assert [how for how, _ in masks] == [signal.SIG_BLOCK, signal.SIG_SETMASK] and masks[1][1] == {signal.SIGHUP}


def _seen(file, parent, deaths):
    """What a worker finds itself to be, as its main."""
    wanted = ctypes.c_int()
    deaths.prctl(2, ctypes.byref(wanted))  # PR_GET_PDEATHSIG
    own = os.getpid()
    found = {
        "descriptors": sorted(
            n for n in map(int, os.listdir("/proc/self/fd")) if n and os.path.exists(f"/proc/self/fd/{n}")
        ),
        "death": wanted.value,
        "group": os.getpgid(0) == own,
        "session": os.getsid(0) == own,
        "out": os.path.sameopenfile(1, 2),
        "in": os.path.sameopenfile(0, parent),
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    }
    file.write_text(json.dumps(found))


@pytest.mark.parametrize("control", [False, True])
def test_a_worker_has_what_it_was_given_and_dies_with_the_supervisor(tmp_path, monkeypatch, control):
    given, other, own, told = (os.memfd_create(name) for name in ("given", "other", "own", "in"))
    spare = os.dup(0)
    os.dup2(told, 0)
    written = []
    stacks = SimpleNamespace(of_children=lambda count: nullcontext([own] * count), write_to=written.append)
    monkeypatch.setattr(launch_module, "stacks", stacks)
    context = SimpleNamespace(supervisor_gone=lambda: False, serves_control_plane=control, install_signals=lambda: None)
    libc, file = ctypes.CDLL(None), tmp_path / "seen"
    made = Launch(context, "test", lambda _: _seen(file, given, libc), (given,), signal.SIGTERM)
    os.dup2(told, given)
    try:
        [(pid, pidfd)] = launch([made])
        _, status = os.waitpid(pid, 0)
    finally:
        os.dup2(spare, 0)
        for number in (given, other, own, told, spare, pidfd):
            os.close(number)
    assert os.waitstatus_to_exitcode(status) == EXIT_CLEAN and written == [own]
    expected = {"death": signal.SIGTERM, "group": True, "session": control, "out": True, "in": True, "blocked": []}
    assert json.loads(file.read_text()) == {"descriptors": sorted([1, 2, given, own]), **expected}


def test_workers_without_a_place_for_each_ones_stack_are_not_forked(monkeypatch):
    stacks = SimpleNamespace(of_children=lambda count: nullcontext([2] * (count - 1)), write_to=lambda descriptor: None)
    monkeypatch.setattr(launch_module, "stacks", stacks)
    monkeypatch.setattr(launch_module.os, "fork", lambda: pytest.fail("forked"))
    made = Launch(SimpleNamespace(), "test", lambda _: None, (), signal.SIGTERM)
    with pytest.raises(ValueError, match="shorter"):
        launch([made, made])
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()
