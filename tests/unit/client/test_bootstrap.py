"""Addresses as users write them, and waiting for a broker that is not there yet."""

import re
import socket
import threading
import time

import pytest

from mpbroker.client import bootstrap
from mpbroker.client.bootstrap import addresses, connect
from mpbroker.client.network_client import ConnectionLost
from mpbroker.errors import ConfigError, ProtocolError


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("localhost", [("localhost", 9092)]),
        ("a:1, b ,c:3", [("a", 1), ("b", 9092), ("c", 3)]),
        ("[::1]:5", [("::1", 5)]),
        ("[::1]", [("::1", 9092)]),
    ],
)
def test_addresses(text, found):
    assert addresses(text) == found


@pytest.mark.parametrize("text", ["", ",", ":1", "h:", "h:0", "h:65536", "h:x", "h:99999999999999", "::1"])
def test_what_is_no_address(text):
    with pytest.raises(ConfigError, match="--bootstrap-server="):
        addresses(text)


@pytest.fixture
def closed_port():
    """A port of this machine that refuses connections while the test runs."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def test_nobody_there_is_told_at_once_or_after_the_wait(closed_port):
    with pytest.raises(ConnectionLost) as caught:
        connect(f"127.0.0.1:{closed_port}")
    assert str(caught.value) == (
        f"no broker answers at 127.0.0.1:{closed_port}: Connection refused; `mpbroker start` starts a broker, "
        "--bootstrap-server HOST:PORT names another"
    )
    said = []
    began = time.monotonic()
    with pytest.raises(ConnectionLost) as caught:
        connect(f"127.0.0.1:{closed_port}", wait_s=1.4, say=said.append)
    took_s = time.monotonic() - began
    (waited_s,) = re.findall(r"\(waited (\d+) s\)", str(caught.value))
    assert took_s >= 1.4 and 1 <= int(waited_s) <= round(took_s)
    assert said == [f"waiting for a broker at 127.0.0.1:{closed_port}"]


@pytest.mark.parametrize(("error", "slept"), [(socket.EAI_NONAME, False), (socket.EAI_AGAIN, True)])
def test_a_name_that_nobody_knows_is_not_waited_for(monkeypatch, error, slept):
    def getaddrinfo(*_):
        raise socket.gaierror(error, "no such name")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    pauses = []
    monkeypatch.setattr(bootstrap.time, "sleep", pauses.append)
    monkeypatch.setattr(bootstrap.time, "monotonic", lambda: sum(pauses))
    with pytest.raises(ConnectionLost, match="no broker answers at no-such-host:9092: no such name"):
        connect("no-such-host", wait_s=1)
    assert bool(pauses) == slept


def test_all_addresses_are_named(closed_port):
    with pytest.raises(
        ConnectionLost, match=f"127.0.0.1:{closed_port}: .*; no broker answers at 127.0.0.2:{closed_port}"
    ):
        connect(f"127.0.0.1:{closed_port},127.0.0.2:{closed_port}")


def test_another_protocol_is_named_at_once():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            connected, _ = server.accept()
            connected.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            connected.close()

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            with pytest.raises(ProtocolError, match="does not speak Kafka's protocol"):
                connect(f"127.0.0.1:{server.getsockname()[1]}", wait_s=60)
        finally:
            thread.join()


def test_the_pauses_are_bounded(monkeypatch, closed_port):
    slept = []
    monkeypatch.setattr(bootstrap.time, "sleep", slept.append)
    monkeypatch.setattr(bootstrap.time, "monotonic", lambda: sum(slept))
    with pytest.raises(ConnectionLost):
        connect(f"127.0.0.1:{closed_port}", wait_s=5)
    assert sum(slept) == pytest.approx(5) and max(slept) == bootstrap.MAX_PAUSE_S
