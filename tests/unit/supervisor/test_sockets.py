"""Listening sockets: real ports, advertised addresses, one sentence for what cannot be had."""

import socket
import struct

import pytest

from mpbroker.config.load_config import load_broker_config
from mpbroker.errors import ConfigError
from mpbroker.supervisor.sockets import open_listeners


def _open(*overrides):
    sockets, listeners = open_listeners(load_broker_config(overrides=overrides, environ={}, cores=2))
    return sockets, listeners


def test_port_0_becomes_the_bound_port_everywhere():
    sockets, (listener,) = _open("listeners=PLAINTEXT://127.0.0.1:0")
    with sockets[0]:
        assert listener.port == sockets[0].getsockname()[1] > 0
        assert (listener.advertised_host, listener.advertised_port) == ("127.0.0.1", listener.port)
        assert listener.url == f"PLAINTEXT://127.0.0.1:{listener.port}"
        with socket.create_connection(("127.0.0.1", listener.port)):
            pass


def test_the_control_listener_stands_last_and_is_marked():
    sockets, listeners = _open(
        "listeners=CTL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "control.plane.listener.name=ctl",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CTL:PLAINTEXT",
    )
    assert [(listener.name, listener.control, listener.index) for listener in listeners] == [
        ("PLAINTEXT", False, 0),
        ("CTL", True, 1),
    ]
    for opened in sockets:
        opened.close()


def test_advertised_addresses_are_kept():
    sockets, (listener,) = _open("listeners=PLAINTEXT://127.0.0.1:0", "advertised.listeners=PLAINTEXT://example.test:7")
    sockets[0].close()
    assert (listener.advertised_host, listener.advertised_port) == ("example.test", 7)


def test_a_port_in_use_is_one_sentence_and_nothing_stays_open():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} is in use"):
            _open(
                f"listeners=A://127.0.0.1:0,B://127.0.0.1:{port}",
                "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT",
            )


def test_an_address_of_another_machine_is_refused():
    with pytest.raises(ConfigError, match="192.0.2.1 is no address of this machine"):
        _open("listeners=PLAINTEXT://192.0.2.1:0")


def test_a_host_nobody_knows_is_refused():
    with pytest.raises(ConfigError, match="cannot listen on .*no such host"):
        _open("listeners=PLAINTEXT://no-such-host.invalid:0")


def _backlog(listening: socket.socket) -> int:
    """The kernel's TCP_INFO of a listening socket has its largest backlog in place of the seventh number."""
    return struct.unpack_from("I", listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), 28)[0]


@pytest.mark.parametrize(("overrides", "backlog"), [((), 50), (("socket.listen.backlog.size=7",), 7)])
def test_each_end_point_has_a_socket_with_the_backlog_of_the_settings(overrides, backlog):
    sockets, listeners = _open(
        "listeners=A://127.0.0.1:0,B://127.0.0.1:0",
        "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT",
        *overrides,
    )
    assert len(sockets) == len(listeners) == 2
    for opened in sockets:
        with opened:
            assert _backlog(opened) == backlog and not opened.getblocking()
