"""The admin process's loop where descriptors have run out: it waits, says so once, and serves when there are some."""

import errno
import os
import socket
import time
from types import SimpleNamespace

import pytest

from mpbroker.admin import admin


class ShortSocket(socket.socket):
    """A listening socket that cannot take a connection while `short`."""

    short = False

    def accept(self):
        if self.short:
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


class World:
    def __init__(self):
        self.listening = ShortSocket()
        self.listening.bind(("127.0.0.1", 0))
        self.listening.listen()
        self.lines, self.wakeup = [], os.pipe()
        log = SimpleNamespace(tick=lambda: None, warning=lambda event, *_, **fields: self.lines.append((event, fields)))
        log.exception = log.warning
        context = SimpleNamespace(
            wakeup_fd=self.wakeup[0],
            process_row=SimpleNamespace(set_wait=lambda _: None),
            drain_wakeups=lambda: None,
            take_reload=lambda: None,
            log=log,
        )
        self.admin = admin.Admin(context, self.listening)

    def turns_in(self, seconds):
        count, end = 0, time.monotonic() + seconds
        while time.monotonic() < end:
            self.admin.turn()
            count += 1
        return count


@pytest.fixture
def world(monkeypatch):
    monkeypatch.setattr("mpbroker.admin.http_server.Pages", lambda _: SimpleNamespace(get=None, tick=lambda: None))
    made = World()
    yield made
    made.listening.close()
    for end in made.wakeup:
        os.close(end)


def _answered(client):
    return b" 500 " in client.recv(1000)  # no page in this world, but an answer


def test_without_descriptors_it_sleeps_and_then_serves(world):
    with socket.create_connection(world.listening.getsockname(), timeout=5) as client:
        client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        world.listening.short = True
        assert world.turns_in(0.5) < 20, "a turn for each pause, not one after the other"
        assert [(event, fields["error"].errno) for event, fields in world.lines] == [("accept_failed", errno.EMFILE)]
        world.listening.short = False
        world.turns_in(0.4)
        assert _answered(client)
    with socket.create_connection(world.listening.getsockname(), timeout=5):
        world.listening.short = True
        world.turns_in(0.15)
        assert [event for event, _ in world.lines].count("accept_failed") == 2, "a new shortage is said again"


def test_without_descriptors_for_the_server_itself_it_waits_too(world, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EMFILE, "Too many open files")

    with socket.create_connection(world.listening.getsockname(), timeout=5) as client:
        client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        with monkeypatch.context() as patched:
            patched.setattr("mpbroker.admin.http_server.AdminServer.__init__", refuse)
            assert world.turns_in(0.3) < 12
        world.turns_in(0.4)
        assert _answered(client)
