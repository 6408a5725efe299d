"""Listening sockets: real ports, advertised addresses, one sentence for what cannot be had."""

import socket
import struct
from types import SimpleNamespace

import pytest

from mpbroker.config.load_config import load_broker_config
from mpbroker.errors import ConfigError
from mpbroker.supervisor import sockets
from mpbroker.supervisor.sockets import Listening, open_listeners


def _config(*overrides):
    return load_broker_config(overrides=overrides, environ={}, cores=2)


def _open(*overrides):
    return open_listeners(_config(*overrides))


def _named(*names, port=0, advertised=""):
    given = [f"listeners={','.join(f'{name}://127.0.0.1:{port}' for name in names)}"]
    given += [f"advertised.listeners={advertised}"] if advertised else []
    return _config(*given, f"listener.security.protocol.map={','.join(f'{name}:PLAINTEXT' for name in names)}")


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


def test_a_port_in_use_is_one_sentence_and_nothing_stays_open(monkeypatch):
    opened, listen = [], sockets._listen
    monkeypatch.setattr(sockets, "_listen", lambda *of: opened.append(listen(*of)) or opened[-1])
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} is in use"):
            _open(
                f"listeners=A://127.0.0.1:0,B://127.0.0.1:{port}",
                "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT",
            )
    assert [one.fileno() for one in opened] == [-1]


def test_an_address_of_another_machine_is_refused():
    with pytest.raises(ConfigError, match="192.0.2.1 is no address of this machine"):
        _open("listeners=PLAINTEXT://192.0.2.1:0")


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 64, "b..c"])
def test_a_host_nobody_knows_is_refused(host):
    """Labels that are too long or empty too, which Python's own codec for names refuses with another error."""
    with pytest.raises(ConfigError, match="cannot listen on .*no such host"):
        _open(f"listeners=PLAINTEXT://{host}:0")


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


def _seen(listening):
    return [(one.name, one.removed) for one in listening.all]


def test_listeners_come_and_go_and_an_index_is_used_again_when_all_are_taken_and_nobody_is_left():
    listening = Listening(*open_listeners(_named("A", "B")))
    first = [opened.fileno() for opened in listening.sockets]
    assert listening.follow(_named("A", "B"), ()) == (False, [])
    assert listening.follow(_named("A", "C"), {0, 1}).changed
    assert _seen(listening) == [("A", False), ("B", True), ("C", False)], "an index of its own while there are some"
    assert (listening.sockets[0].fileno(), listening.sockets[1].fileno()) == (first[0], -1), "A as it was, B closed"
    assert [one.name for one in listening.present] == ["A", "C"] and listening.removed == [1]
    names = ["A", "C", *(f"N{number}" for number in range(12))]
    listening.follow(_named(*names), {0, 1, 2})
    assert len(listening.all) == 15
    refused = listening.follow(_named(*names, "LAST"), set(range(15)))
    assert "LAST" in str(refused.errors[0]) and not refused.changed
    assert not listening.follow(_named(*names, "LAST"), set(range(15))).errors, "said once"
    assert listening.follow(_named(*names, "LAST"), set(range(15)) - {1}).changed
    assert listening.all[1].name == "LAST" and listening.all[1].index == 1 and not listening.removed
    listening.close()
    assert {opened.fileno() for opened in listening.sockets} == {-1}


def test_one_that_is_there_keeps_its_address_and_is_told_as_the_settings_say():
    listening = Listening(*open_listeners(_named("A")))
    port = listening.all[0].port
    listening.follow(_named("A", port=1), {0})
    assert (listening.all[0].port, listening.all[0].advertised_port) == (port, port)
    assert listening.follow(_named("A", advertised="A://example.test:7"), {0}).changed
    assert (listening.all[0].port, listening.all[0].advertised_host) == (port, "example.test")
    assert listening.follow(_named("A"), {0}).changed and listening.all[0].advertised_port == port
    listening.close()


def test_what_cannot_be_opened_is_tried_again_and_keeps_nothing_else_from_being_opened():
    listening = Listening(*open_listeners(_named("A")))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        wanted = _config(
            f"listeners=A://127.0.0.1:0,B://127.0.0.1:{port},C://127.0.0.1:0",
            "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT,C:PLAINTEXT",
        )
        changed, errors = listening.follow(wanted, {0})
        assert changed and [one.name for one in listening.present] == ["A", "C"]
        assert f"port {port} is in use" in str(errors[0]) and listening.follow(wanted, {0}) == (False, [])
    assert listening.follow(wanted, {0}).changed and [one.name for one in listening.present] == ["A", "C", "B"]
    listening.close()


@pytest.mark.parametrize(
    ("bound", "url"), [(("127.0.0.1", 9), "http://127.0.0.1:9"), (("::1", 9, 0, 0), "http://[::1]:9"), (None, None)]
)
def test_where_the_admin_process_is_found(bound, url):
    listening = None if bound is None else SimpleNamespace(getsockname=lambda: bound)
    assert sockets.admin_url(listening) == url


def test_who_listens_everywhere_and_has_no_address_for_clients_is_warned():
    def point(name, host):
        return SimpleNamespace(listener_name=name, host=host)

    def bound(name, host):
        return SimpleNamespace(name=name, host=host, advertised_host="pod", advertised_port=9)

    told = []
    log = SimpleNamespace(warning=lambda event, **fields: told.append((event, fields["listener"])))
    config = SimpleNamespace(
        end_points=SimpleNamespace(advertised=[point("GIVEN", "h"), point("SOME", "0.0.0.0"), point("HERE", "h")])
    )
    listeners = (bound("GIVEN", ""), bound("SOME", "0.0.0.0"), bound("HERE", "h"), bound("NONE", "::"))
    sockets.warn_of_unset_address(config, listeners, log)
    assert told == [("advertised_listeners_not_set", "SOME"), ("advertised_listeners_not_set", "NONE")]


def test_of_a_name_with_addresses_of_both_kinds_the_ipv4_one_is_listened_on(monkeypatch):
    """In the order of the system otherwise."""
    asked, kind = [], (socket.SOCK_STREAM, 6, "")
    four, six = (socket.AF_INET, *kind, ("127.0.0.1", 7)), (socket.AF_INET6, *kind, ("::1", 7, 0, 0))
    again = (socket.AF_INET, *kind, ("127.0.0.2", 7))
    end_point = SimpleNamespace(host="both", port=7)
    for found, chosen in (([six, four, again], four), ([again, four], again), ([six], six), ([four, six], four)):
        monkeypatch.setattr(
            sockets.socket, "getaddrinfo", lambda *where, found=found, **how: asked.append((where, how)) or list(found)
        )
        assert sockets._resolve(end_point, "listeners") == (chosen[0], chosen[4])
    assert asked[0] == ((b"both", 7), {"type": socket.SOCK_STREAM, "flags": socket.AI_PASSIVE})
    end_point.host = ""
    assert sockets._resolve(end_point, "listeners") == (socket.AF_INET, ("0.0.0.0", 7)) and len(asked) == 4
    end_point.host = "größe"
    sockets._resolve(end_point, "listeners")
    assert asked[-1][0] == ("größe", 7)


class _Opened(list):
    """A socket that writes down what is done to it; `fails`: the call that raises, and with what."""

    fails = ("", None)

    def __getattr__(self, name):
        def call(*how):
            self.append((name, *how))
            if name == self.fails[0]:
                raise self.fails[1]

        return call


@pytest.fixture
def opened(monkeypatch):
    made = _Opened()
    monkeypatch.setattr(sockets.socket, "socket", lambda family, kind: made.append((family, kind)) or made)
    return made


@pytest.mark.parametrize("given", [-1, 0, 4096])
@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_how_a_socket_is_opened(opened, monkeypatch, family, given):
    """Its buffer before it is bound, for the window's scale is agreed on at connect; IPv6 alone, so that a listener of
    its own may have the same port of IPv4; while connections of the broker before still end."""
    monkeypatch.setattr(sockets, "_resolve", lambda end_point, key: (family, (key, end_point.port)))
    config = SimpleNamespace(socket_receive_buffer_bytes=given, socket_listen_backlog_size=17)
    assert sockets._listen(SimpleNamespace(port=7), config, "k") is opened
    six = [("setsockopt", socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)] if family == socket.AF_INET6 else []
    buffer = [("setsockopt", socket.SOL_SOCKET, socket.SO_RCVBUF, given)] if given != -1 else []
    assert opened == [
        (family, socket.SOCK_STREAM),
        ("setsockopt", socket.SOL_SOCKET, socket.SO_REUSEADDR, 1),
        *six,
        *buffer,
        ("bind", ("k", 7)),
        ("listen", 17),
        ("setblocking", False),
    ]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(13, "Permission denied"), "this user may not open port 7; ports from 1024 on need no rights"),
        (OSError(95, "Operation not supported"), "Operation not supported"),
        (OSError("what nobody numbered"), "what nobody numbered"),
    ],
)
def test_what_cannot_be_opened_is_closed_and_said(opened, monkeypatch, error, reason):
    opened.fails = ("listen", error)
    monkeypatch.setattr(sockets, "_resolve", lambda end_point, key: (socket.AF_INET, ()))
    config = SimpleNamespace(socket_receive_buffer_bytes=-1, socket_listen_backlog_size=17)
    with pytest.raises(ConfigError, match=f"cannot listen on A://h:7: {reason}$"):
        sockets._listen(SimpleNamespace(host="h", port=7, connection_string="A://h:7"), config)
    assert opened[-1] == ("close",)


def test_who_still_has_a_removed_listeners_socket_accepts_nothing_on_it():
    """The acceptor does, until it hears of it."""
    listening = Listening(*open_listeners(_named("A", "B")))
    with listening.sockets[1].dup() as acceptors:
        address = acceptors.getsockname()
        listening.follow(_named("A"), {0, 1})
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, timeout=5)
    listening.close()


def test_an_index_that_is_used_again_has_the_new_socket_and_one_without_a_place_is_closed(monkeypatch):
    monkeypatch.setattr(sockets, "MAX_LISTENERS", 2)
    listening, made, listen = Listening(*open_listeners(_named("A", "B"))), [], sockets._listen
    monkeypatch.setattr(sockets, "_listen", lambda *of: made.append(listen(*of)) or made[-1])
    assert len(listening.follow(_named("A", "C"), {0, 1}).errors) == 1
    assert [one.fileno() for one in made] == [-1]
    listening.follow(_named("A", "C"), {0})
    assert listening.sockets[1] is made[1] and listening.all[1].port == made[1].getsockname()[1]
    listening.close()


@pytest.mark.parametrize(("address", "opens"), [("127.0.0.1:0", True), ("", False)])
def test_the_admin_process_is_listened_for_where_it_is_wanted(address, opens):
    found = sockets.open_admin_listener(_config(f"mpbroker.admin.listener={address}"))
    assert (found is not None) is opens
    if found is not None:
        assert sockets.admin_url(found) == f"http://127.0.0.1:{found.getsockname()[1]}"
        found.close()


def test_an_admin_address_that_is_taken_names_its_setting():
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ConfigError) as raised:
        sockets.open_admin_listener(_config(f"mpbroker.admin.listener=127.0.0.1:{taken.getsockname()[1]}"))
    assert raised.value.key == "mpbroker.admin.listener"
