"""A worker that is forked while the supervisor dies."""

import ctypes
import json
import os
import signal
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from mpbroker.errors import ConfigError
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
    spares = [os.dup(number) for number in (0, 1)]
    for number in (0, 1):
        os.dup2(told, number)
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
        for number, spare in enumerate(spares):
            os.dup2(spare, number)
        for number in (given, other, own, told, *spares, pidfd):
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


class _Told:
    """What a worker logs, for its parent to read."""

    def __init__(self, file):
        self._file = file

    def error(self, event, reason):
        self._file.write_text(f"error {event} {reason}")

    def exception(self, event, error):
        self._file.write_text(f"exception {event} {error!r}")


def _end_of(monkeypatch, main, **given):
    """The exit status of a worker that runs `main`."""
    monkeypatch.setattr(
        launch_module, "stacks", SimpleNamespace(of_children=lambda n: nullcontext([2] * n), write_to=lambda _: None)
    )
    usual = {"supervisor_gone": lambda: False, "serves_control_plane": False, "install_signals": lambda: None}
    [(pid, pidfd)] = launch([Launch(SimpleNamespace(**usual | given), "mpb: the title", main, (), signal.SIGKILL)])
    os.close(pidfd)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _raising(error):
    def main(_context):
        raise error

    return main


WRONG = ConfigError("log.dirs", "x", problem="log.dirs x cannot be used")


@pytest.mark.parametrize(
    ("main", "status", "told"),
    [
        (lambda _: None, 0, ""),
        (_raising(SystemExit(0)), 0, ""),
        (_raising(SystemExit(7)), 7, ""),
        (_raising(SystemExit("a sentence")), 1, ""),
        (_raising(WRONG), WRONG.exit_code, f"error cannot_work {WRONG}"),
        (_raising(ValueError("why")), 1, "exception worker_failed ValueError('why')"),
        (_raising(KeyboardInterrupt()), 1, "exception worker_failed KeyboardInterrupt()"),
    ],
)
def test_how_a_worker_ends_is_its_exit_status(tmp_path, monkeypatch, main, status, told):
    """What it was given cannot be used: a sentence; everything nobody thought of: with where it came from."""
    (tmp_path / "told").write_text("")
    assert _end_of(monkeypatch, main, log=_Told(tmp_path / "told")) == status
    assert (tmp_path / "told").read_text() == told and WRONG.exit_code not in (0, 1)


def test_a_worker_has_its_title_and_no_handler_of_the_supervisors_but_its_own(tmp_path, monkeypatch):
    seen = tmp_path / "seen"

    def main(_context):
        handlers = [signal.getsignal(each).name for each in (signal.SIGHUP, signal.SIGUSR1, signal.SIGCHLD)]
        with open("/proc/self/cmdline") as title:
            seen.write_text(json.dumps([title.read().rstrip("\0 "), *handlers]))

    before = signal.signal(signal.SIGHUP, lambda *_: None), signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        assert _end_of(monkeypatch, main, install_signals=lambda: signal.signal(signal.SIGUSR1, signal.SIG_IGN)) == 0
    finally:
        signal.signal(signal.SIGHUP, before[0]), signal.signal(signal.SIGUSR1, before[1])
    assert json.loads(seen.read_text()) == ["mpb: the title", "SIG_DFL", "SIG_IGN", "SIG_DFL"]


@pytest.fixture
def forks(monkeypatch):
    """No process: forks that answer 71, 72, ..., until `left` of them are used up."""
    done = SimpleNamespace(left=9, killed=[], raised=[], pid=70)

    def fork():
        if not done.left:
            raise BlockingIOError("no process left")
        done.left, done.pid = done.left - 1, done.pid + 1
        return done.pid

    stacks = SimpleNamespace(of_children=lambda n: nullcontext([2] * n), write_to=lambda _: None)
    monkeypatch.setattr(launch_module, "stacks", stacks)
    monkeypatch.setattr(launch_module.os, "fork", fork)
    monkeypatch.setattr(launch_module.os, "pidfd_open", lambda pid: pid + 100)
    monkeypatch.setattr(launch_module.os, "kill", lambda *how: done.killed.append(how))
    monkeypatch.setattr(launch_module.process_limits, "step_forward", lambda *how: done.raised.append(how))
    return done


@pytest.mark.parametrize(("given", "score"), [((), 0), ((500,), 500)])
def test_workers_come_before_their_supervisor_when_memory_runs_out(forks, given, score):
    made = Launch(SimpleNamespace(), "test", lambda _: None, (), signal.SIGTERM)
    assert launch([made, made], *given) == [(71, 171), (72, 172)]
    assert forks.raised == [(71, score), (72, score)] and forks.killed == []


def test_workers_whose_pids_nobody_will_know_end_at_once(forks):
    """The third cannot be forked: the caller gets no pid of the others."""
    forks.left = 2
    made = Launch(SimpleNamespace(), "test", lambda _: None, (), signal.SIGTERM)
    with pytest.raises(BlockingIOError):
        launch([made, made, made])
    assert forks.killed == [(71, signal.SIGKILL), (72, signal.SIGKILL)] and forks.raised == []
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()


def test_the_title_is_set_by_the_extension_alone(monkeypatch):
    """Without its package, which imports `logging`; the environment moves at the first call, which is here."""
    called, places = [], ["/site/setproctitle"]
    module = SimpleNamespace(getproctitle=lambda: called.append("get"), setproctitle="the function")
    spec = SimpleNamespace(loader=SimpleNamespace(exec_module=lambda it: called.append(it is module)))
    found = {"setproctitle": SimpleNamespace(submodule_search_locations=places, loader=None)}
    monkeypatch.setattr(launch_module, "find_spec", found.get)
    finder = SimpleNamespace(find_spec=lambda name, where: spec if (name, where) == (NATIVE, places) else None)
    monkeypatch.setattr(launch_module, "PathFinder", finder)
    monkeypatch.setattr(launch_module, "module_from_spec", lambda it: module if it is spec else None)
    assert launch_module._native_setproctitle() == "the function" and called == [True, "get"]
    found.clear()
    with pytest.raises(ModuleNotFoundError, match="setproctitle"):
        launch_module._native_setproctitle()


NATIVE = "setproctitle._setproctitle"


@pytest.fixture
def log():
    descriptor = os.memfd_create("log")
    yield descriptor
    os.close(descriptor)


def _broker(main, log):
    """The exit code of a broker that runs `main`. Its stderr is buffered, as a process has it, and not the tests'."""
    with pytest.MonkeyPatch.context() as patch, open(2, "w", closefd=False) as stderr:
        patch.setattr("sys.stderr", stderr)
        pid, pidfd = launch_module.launch_broker(main, "mpb: a broker", log)
    os.close(pidfd)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_broker_of_the_foreground_is_as_if_it_had_been_executed(log):
    libc, file, masks, ours = ctypes.CDLL(None), os.memfd_create("other"), {signal.SIGHUP}, os.getpid()

    def main():
        wanted = ctypes.c_int()
        libc.prctl(2, ctypes.byref(wanted))  # PR_GET_PDEATHSIG
        with open("/proc/self/cmdline") as title:
            found = {"title": title.read().rstrip("\0 "), "death": wanted.value, "parent": os.getppid() == ours}
        found["descriptors"] = sorted(n for n in range(200) if os.path.exists(f"/proc/self/fd/{n}"))
        found["places"] = [os.readlink(f"/proc/self/fd/{n}") for n in (0, 1, 2)]
        found["group"] = os.getpgid(0) == os.getpid()
        found["blocked"] = sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        found["int"] = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        found["usr1"] = signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL
        launch_module.sys.stderr.write(json.dumps(found))
        return 7

    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    was = signal.pthread_sigmask(signal.SIG_BLOCK, masks)
    try:
        assert _broker(main, log) == 7
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, was)
        signal.signal(signal.SIGUSR1, before)
        os.close(file)
    assert json.loads(os.pread(log, 1 << 16, 0)) == {
        "title": "mpb: a broker", "death": signal.SIGTERM, "parent": True, "descriptors": [0, 1, 2],
        "places": [os.devnull, os.devnull, "/memfd:log (deleted)"], "group": True, "blocked": [signal.SIGHUP],
        "int": True, "usr1": True,
    }  # fmt: skip


def test_a_broker_that_fails_says_so_in_its_log(log):
    def main():
        raise ValueError("nobody thought of this")

    assert _broker(main, log) == 1
    assert os.pread(log, 1 << 16, 0).endswith(b"ValueError: nobody thought of this\n")


def test_a_broker_whose_foreground_died_while_it_was_forked_does_not_begin(log, monkeypatch):
    monkeypatch.setattr(launch_module.os, "getppid", lambda: -1)
    assert _broker(lambda: 7, log) == 1
