"""Commands that a thread takes off the table for the process's main thread."""

import select
from types import SimpleNamespace

import pytest

from mpbroker.controller import command_inbox
from mpbroker.controller.command_inbox import WAIT_MS, CommandInbox, Taken


@pytest.fixture
def world(monkeypatch):
    made = SimpleNamespace(done=[], claims=[], rung=[])
    monkeypatch.setattr(command_inbox, "time", SimpleNamespace(monotonic_ns=lambda: 70))
    channel = SimpleNamespace(
        recover=lambda: made.done.append("recover"),
        claim=lambda wait_ms: made.done.append(wait_ms) or made.claims.pop(0),
    )
    made.inbox = CommandInbox(channel, lambda: not made.claims)
    return made


def test_what_came_is_taken_in_its_order_and_once(world):
    world.claims = [(1, 5, b"a"), None, (2, 6, b"b")]
    world.inbox._run()
    assert world.done == [WAIT_MS] * 3
    assert world.inbox.take() == [Taken(1, 5, b"a", 70), Taken(2, 6, b"b", 70)] and world.inbox.take() == []


def test_the_main_thread_is_rung_after_each_wait_even_for_nothing(world, monkeypatch):
    """It looks after other things, too."""
    rung = []
    monkeypatch.setattr(command_inbox.os, "eventfd_write", lambda fd, count: rung.append((fd, count)))
    world.claims = [None, (1, 5, b"a")]
    world.inbox._run()
    assert rung == [(world.inbox.fileno(), 1)] * 2


def test_what_a_predecessor_held_comes_first(world, monkeypatch):
    class Thread:
        """Begins at once."""

        def __init__(self, target, name, daemon):
            assert daemon, "it ends with the process"
            self.start = target

    monkeypatch.setattr(command_inbox, "threading", SimpleNamespace(Thread=Thread))
    world.claims = [(1, 5, b"a")]
    world.inbox.start()
    assert world.done == ["recover", WAIT_MS]


def test_what_was_taken_rings_no_more(world):
    """Else the main thread would not wait any more; and it may look without having been rung."""
    ready = lambda: select.select([world.inbox.fileno()], [], [], 0)[0] != []  # noqa: E731
    world.claims = [(1, 5, b"a"), None]
    assert not ready() and world.inbox.take() == []
    world.inbox._run()
    assert ready() and len(world.inbox.take()) == 1 and not ready()
