"""The only file that forks. A worker is a fork of the supervisor that never returns into it; a broker of
`mpbroker cluster start` is a fork of its foreground, and a supervisor itself.

Order in the child: parent-death signal, then the check that the parent still lives (it may have died before), then the
supervisor's descriptors are closed, signals reset, the title set, and the role's main runs until it returns.
"""

import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import NamedTuple

from mpbroker.errors import ConfigError
from mpbroker.shm.parent_death import set_parent_death_signal
from mpbroker.shm.process_context import ProcessContext
from mpbroker.shm.shared_pages import fill_free_memory
from mpbroker.supervisor import process_limits, signals, stacks

EXIT_CLEAN = 0
EXIT_FAILURE = 1


def _native_setproctitle() -> Callable[[str], None]:
    """The extension module of the setproctitle distribution, without its package: that imports `logging` for nothing, a
    tenth of the whole start."""
    package = find_spec("setproctitle")
    spec = package and PathFinder.find_spec("setproctitle._setproctitle", package.submodule_search_locations)
    if not spec or not spec.loader:
        raise ModuleNotFoundError("setproctitle")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    module.getproctitle()  # it moves the environment once, at its first call: here, and not in every worker
    function: Callable[[str], None] = module.setproctitle
    return function


setproctitle = _native_setproctitle()
_ALL_SIGNALS = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}


def freeze() -> None:
    """Once before the first fork: take every object out of the collector's sight, so that workers share its pages.

    Without a collection first: it would cost a quarter of the start and find next to nothing. The interpreter's cache
    of looked-up attributes holds names from all over the heap, and each worker would let others of them go: a copied
    page each, 1.3 MiB in all.
    """
    gc.freeze()
    gc.enable()
    sys._clear_type_cache()
    fill_free_memory()


class Launch(NamedTuple):
    """A worker to fork. `keep`: the descriptors it needs beside stdin, stdout and stderr."""

    context: ProcessContext
    title: str
    main: Callable[[ProcessContext], None]
    keep: tuple[int, ...]
    parent_death: signal.Signals


def launch(wanted: Sequence[Launch], oom_score: int = 0) -> list[tuple[int, int]]:
    """Fork workers; (pid, pidfd) of each. `oom_score`: by how much theirs lie above the supervisor's.

    All that can be prepared is done before the first fork and all that can wait after the last: a page that this
    process writes between two forks is no longer shared by the children.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ALL_SIGNALS)  # no handler of ours may run in a child
    pids: list[int] = []
    try:
        with stacks.of_children(len(wanted)) as descriptors:
            pairs = zip(wanted, descriptors, strict=True)
            for one, own, keep in [(one, own, sorted({0, 1, 2, own, *one.keep})) for one, own in pairs]:
                stacks.write_to(own)
                pid = os.fork()
                if pid == 0:
                    _child(one, keep)
                pids.append(pid)
    except BaseException:  # no process left to fork: those that nobody will know end at once
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    for pid in pids:
        process_limits.step_forward(pid, oom_score)
    return [(pid, os.pidfd_open(pid)) for pid in pids]


def launch_broker(main: Callable[[], int], title: str, log_fd: int) -> tuple[int, int]:
    """Fork a broker: `main` is its supervisor and returns its exit code; stderr is `log_fd`. (pid, pidfd).

    It has what a program executed from here would have: no descriptor of ours, signals as they are by default, a
    process group of its own, so that Ctrl-C reaches the foreground alone. The kernel sends it SIGTERM should we die.
    """
    parent = os.getpid()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ALL_SIGNALS)  # no handler of ours may run in a child
    try:
        pid = os.fork()
        if pid == 0:
            _broker(main, title, log_fd, parent, {int(each) for each in before})
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid, os.pidfd_open(pid)


def _broker(main: Callable[[], int], title: str, log_fd: int, parent: int, mask: set[int]) -> None:
    """Never returns: frames above this one keep the foreground's objects, whose descriptors are closed here, alive."""
    code = EXIT_FAILURE
    try:
        set_parent_death_signal(signal.SIGTERM)
        if os.getppid() != parent:  # it died before it could be noticed
            return
        os.setpgid(0, 0)
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor, opened in enumerate((nothing, nothing, log_fd)):
            os.dup2(opened, descriptor)
        _close_others([0, 1, 2])
        signals.reset_for_child()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        setproctitle(title)
        code = main()
    except BaseException:  # the process ends here, whatever it was; importing `traceback` would cost each start
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


def _leave_group(context: ProcessContext) -> None:
    """Ctrl-C and signals to a whole group are for the supervisor, which stops us in order.

    The control plane's processes leave the session, too: Linux shares processor time between sessions first
    (autogroup), and in one session with busy data workers they would pay for what those have used up.
    """
    if context.serves_control_plane:
        os.setsid()
    else:
        os.setpgid(0, 0)


def _child(launched: Launch, keep: list[int]) -> None:
    """Never returns."""
    code = EXIT_FAILURE
    context = launched.context
    try:
        set_parent_death_signal(launched.parent_death)
        if context.supervisor_gone() and launched.parent_death == signal.SIGKILL:
            return  # as the kernel would have done; who outlives it, to clean up, does so now, too
        _close_others(keep)
        _leave_group(context)
        os.dup2(2, 1)  # stdout is the supervisor's: one line, for scripts
        signals.reset_for_child()
        context.install_signals()
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        setproctitle(launched.title)
        launched.main(context)
        code = EXIT_CLEAN
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else EXIT_FAILURE
    except ConfigError as error:  # what it was given cannot be used: a sentence for whoever gave it
        context.log.error("cannot_work", reason=str(error))
        code = error.exit_code
    except BaseException as error:  # the process ends here, whatever it was
        context.log.exception("worker_failed", error)
    finally:
        os._exit(code)


def _close_others(keep: list[int]) -> None:
    """Close every descriptor but these."""
    for low, high in zip(keep, [*keep[1:], 1 << 20], strict=True):
        os.closerange(low + 1, high)
