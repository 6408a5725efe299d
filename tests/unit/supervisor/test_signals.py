"""What signals leave behind in the supervisor, and that a child inherits nothing of it."""

import os
import select
import signal

import pytest

from mpbroker.supervisor import signals


@pytest.fixture
def made(monkeypatch):
    """The handlers and the wakeup descriptor that were set, instead of setting them."""
    found = {}
    monkeypatch.setattr(signals.signal, "signal", lambda number, handler: found.update({number: handler}))
    monkeypatch.setattr(signals.signal, "set_wakeup_fd", lambda fd, **_: found.update(wakeup=fd))
    return found


def test_each_signal_leaves_its_flag(made):
    kept = signals.SupervisorSignals()
    assert (kept.stops, kept.reload, kept.dump) == (0, False, False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGINT):
        made[number](number, None)
    assert (kept.stops, kept.reload, kept.dump) == (3, False, False)
    made[signal.SIGHUP](signal.SIGHUP, None)
    assert (kept.stops, kept.reload, kept.dump) == (3, True, False)
    made[signal.SIGUSR1](signal.SIGUSR1, None)
    assert (kept.stops, kept.reload, kept.dump) == (3, True, True)
    assert made[signal.SIGPIPE] == signal.SIG_IGN
    os.write(made["wakeup"], b"x" * 1000)
    assert select.select([kept.fd], [], [], 0)[0]
    kept.drain()
    assert not select.select([kept.fd], [], [], 0)[0]
    os.close(kept.fd)
    os.close(made["wakeup"])


def test_a_child_has_the_defaults(made):
    signals.reset_for_child()
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR1)
    assert made == {"wakeup": -1, **dict.fromkeys(numbers, signal.SIG_DFL)}
