"""Endpoints and the listener settings together; each meaning of error has its case."""

import pytest

from mpbroker.config.listeners import (
    EndPoint,
    ListenerSettings,
    SecurityProtocol,
    advertise,
    build_listeners,
    left_out,
    parse_end_point,
    parse_protocol_map,
)
from mpbroker.errors import ConfigError

IDENTITY = "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
THREE = "CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT"
THREE_LISTENERS = "CONTROLLER://h:9091,INTERNAL://h:9092,EXTERNAL://h:9093"
PLAINTEXT = SecurityProtocol.PLAINTEXT


def build(listeners, protocol_map=IDENTITY, advertised=None, control=None, inter_broker=None, protocol=None):
    return build_listeners(ListenerSettings(listeners, advertised, protocol_map, control, inter_broker, protocol))


def names(end_points):
    return [end_point.listener_name for end_point in end_points]


def refused(*arguments, **more):
    with pytest.raises(ConfigError) as caught:
        build(*arguments, **more)
    return caught.value


@pytest.mark.parametrize(
    ("text", "host", "port", "name", "printed"),
    [
        ("PLAINTEXT://:9092", "", 9092, "PLAINTEXT", "PLAINTEXT://:9092"),
        ("plaintext://localhost:0", "localhost", 0, "PLAINTEXT", "PLAINTEXT://localhost:0"),
        ("PLAINTEXT://[::1]:9092", "::1", 9092, "PLAINTEXT", "PLAINTEXT://[::1]:9092"),
        ("PLAINTEXT://[fe80::1%eth0]:1", "fe80::1%eth0", 1, "PLAINTEXT", "PLAINTEXT://[fe80::1%eth0]:1"),
        ("my-net.a_b://10.0.0.1:65535", "10.0.0.1", 65535, "MY-NET.A_B", "MY-NET.A_B://10.0.0.1:65535"),
    ],
)
def test_end_point(text, host, port, name, printed):
    end_point = parse_end_point("listeners", text, {"PLAINTEXT": PLAINTEXT, "MY-NET.A_B": PLAINTEXT})
    assert end_point == EndPoint(host, port, name, PLAINTEXT)
    assert end_point.connection_string == printed


@pytest.mark.parametrize("other", [{"host": "i"}, {"port": 2}, {"name": "B"}, {"protocol": SecurityProtocol.SSL}])
def test_end_points_are_equal_when_all_four_parts_are(other):
    parts = {"host": "h", "port": 1, "name": "A", "protocol": PLAINTEXT}
    assert EndPoint(*parts.values()) == EndPoint(*parts.values())
    assert EndPoint(*parts.values()) != EndPoint(*(parts | other).values())


@pytest.mark.parametrize(
    "text",
    [
        "localhost:9092",
        "PLAINTEXT://localhost",
        "PLAINTEXT://localhost:x",
        "://h:1",
        "PLAINTEXT://h:65536",
        "PLAINTEXT://h:-1",
        "PLAINTEXT://::1:9092",
        "PL AIN://h:1",
        "PLAINTEXT://h:1/x",
        "PLAINTEXT://[h:1",
    ],
)
def test_what_is_no_end_point(text):
    assert "NAME://HOST:PORT" in str(refused(text))


def test_no_listener_at_all():
    assert refused(" , ").key == "listeners"


def test_more_listeners_than_acceptors():
    names_ = [f"L{i}" for i in range(16)]
    error = refused(
        ",".join(f"{n}://h:{i + 1}" for i, n in enumerate(names_)), ",".join(f"{n}:PLAINTEXT" for n in names_)
    )
    assert "1 to 15 listeners" in str(error)
    fifteen = names_[:15]
    built = build(
        ",".join(f"{n}://h:{i + 1}" for i, n in enumerate(fifteen)), ",".join(f"{n}:PLAINTEXT" for n in fifteen)
    )
    assert names(built.data) == fifteen


def test_protocol_map_is_read_in_any_case():
    assert parse_protocol_map("internal:plaintext, External : SSL") == {
        "INTERNAL": PLAINTEXT,
        "EXTERNAL": SecurityProtocol.SSL,
    }
    assert [int(protocol) for protocol in SecurityProtocol] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("INTERNAL", "NAME:PROTOCOL"),
        ("A:B:C", "NAME:PROTOCOL"),
        ("A:TLS", "TLS is no protocol; the protocols are PLAINTEXT, SSL"),
        ("A:SSL,a:SSL", "names the listener A twice"),
    ],
)
def test_wrong_protocol_maps(text, why):
    error = refused("A://h:1", text)
    assert (error.key, why in str(error)) == ("listener.security.protocol.map", True)


def test_three_listeners_make_one_control_and_two_data():
    built = build(THREE_LISTENERS, THREE, control="CONTROLLER", inter_broker="INTERNAL")
    assert names(built.data) == ["INTERNAL", "EXTERNAL"]
    assert built.control == EndPoint("h", 9091, "CONTROLLER", PLAINTEXT)
    assert names(built.all) == ["INTERNAL", "EXTERNAL", "CONTROLLER"]
    assert built.inter_broker == "INTERNAL"
    assert names(built.advertised) == ["CONTROLLER", "INTERNAL", "EXTERNAL"]


def test_control_plane_in_small_letters_is_kept_out_of_the_data_plane():
    built = build(THREE_LISTENERS, THREE, control="controller", inter_broker="internal")
    assert names(built.data) == ["INTERNAL", "EXTERNAL"]
    assert names([built.control]) == ["CONTROLLER"]


def test_no_control_plane_by_default():
    built = build("PLAINTEXT://:9092")
    assert built.control is None
    assert names(built.all) == ["PLAINTEXT"]
    assert built.inter_broker == "PLAINTEXT"


def test_a_listener_without_a_protocol():
    error = refused("INTERNAL://h:1")
    assert "INTERNAL has no security protocol; add INTERNAL:PLAINTEXT to listener.security.protocol.map" in str(error)


def test_a_name_twice():
    assert "needs a name of its own" in str(refused("PLAINTEXT://h:1,plaintext://h:2"))


@pytest.mark.parametrize(
    "hosts",
    [
        ("h", "i"),
        ("127.0.0.1", "127.0.0.2"),
        ("127.0.0.1", "localhost"),
        ("[::1]", "h"),
        ("", "[::1]"),
        ("127.0.0.1", "[::1]", "10.0.0.1"),
        ("127.0.0.1", ""),
        ("[::1]", "[::2]"),
    ],
)
def test_a_port_twice(hosts):
    names = ("CONTROLLER", "INTERNAL", "EXTERNAL")[: len(hosts)]
    listeners = ",".join(f"{name}://{host}:9" for name, host in zip(names, hosts, strict=True))
    assert "needs a port of its own" in str(refused(listeners, THREE))


def test_a_port_twice_is_right_for_an_ipv4_and_an_ipv6_address_and_for_port_0():
    assert len(build("INTERNAL://127.0.0.1:9,EXTERNAL://[::1]:9", THREE).data) == 2
    assert len(build("INTERNAL://h:0,EXTERNAL://h:0", THREE).data) == 2


def test_advertised_listeners():
    built = build("INTERNAL://:1,EXTERNAL://:2", THREE, advertised="external://broker:2")
    assert built.advertised == (EndPoint("broker", 2, "EXTERNAL", PLAINTEXT),)
    assert len(build("INTERNAL://:1,EXTERNAL://:2", THREE, advertised="INTERNAL://b:7,EXTERNAL://c:7").advertised) == 2


@pytest.mark.parametrize(
    ("listeners", "advertised", "why"),
    [
        ("PLAINTEXT://:1", "PLAINTEXT://0.0.0.0:1", "not 0.0.0.0"),
        ("PLAINTEXT://0.0.0.0:1", None, "not 0.0.0.0"),
        ("PLAINTEXT://:1", "SSL://h:1", "`listeners` has no SSL, only PLAINTEXT"),
        ("PLAINTEXT://:1", "PLAINTEXT:1", "NAME://HOST:PORT"),
        ("PLAINTEXT://:1", "PLAINTEXT://a:1,PLAINTEXT://b:2", "a name of its own"),
    ],
)
def test_wrong_advertised_listeners(listeners, advertised, why):
    error = refused(listeners, advertised=advertised)
    assert (error.key, why in str(error)) == ("advertised.listeners", True)


def test_port_0_and_an_empty_host_are_filled_in_when_told_to_clients():
    end_point = EndPoint("", 0, "PLAINTEXT", PLAINTEXT)
    assert advertise(end_point, 4711, "box").connection_string == "PLAINTEXT://box:4711"
    assert advertise(EndPoint("h", 1, "PLAINTEXT", PLAINTEXT), 4711, "box").connection_string == "PLAINTEXT://h:1"


@pytest.mark.parametrize(
    ("more", "key", "why"),
    [
        ({"control": "X"}, "control.plane.listener.name", "listener.security.protocol.map has no X"),
        ({"control": "SPARE"}, "control.plane.listener.name", "advertised.listeners has no SPARE"),
        (
            {"control": "INTERNAL", "inter_broker": "INTERNAL"},
            "control.plane.listener.name",
            "needs a listener of its own",
        ),
        ({"inter_broker": "X"}, "inter.broker.listener.name", "listener.security.protocol.map has no X"),
        ({"inter_broker": "SPARE"}, "inter.broker.listener.name", "advertised.listeners has no SPARE"),
        ({"protocol": "SSL"}, "security.inter.broker.protocol", "listener.security.protocol.map has no SSL"),
        (
            {"inter_broker": "INTERNAL", "protocol": "PLAINTEXT"},
            "inter.broker.listener.name",
            "the same setting; give only one",
        ),
    ],
)
def test_names_that_point_nowhere(more, key, why):
    error = refused(THREE_LISTENERS, THREE + ",SPARE:PLAINTEXT", **more)
    assert (error.key, why in str(error)) == (key, True)


def test_a_control_plane_needs_a_data_listener():
    assert refused("CONTROLLER://h:1", THREE, control="CONTROLLER").key == "control.plane.listener.name"
    error = refused(THREE_LISTENERS, THREE, advertised="CONTROLLER://h:1", control="CONTROLLER")
    assert error.key == "advertised.listeners"


def test_brokers_use_the_first_data_listener_when_nothing_says_otherwise():
    assert build(THREE_LISTENERS, THREE, control="CONTROLLER").inter_broker == "INTERNAL"


def test_a_control_plane_needs_no_more_than_one_other_listener():
    built = build("CONTROLLER://h:1,INTERNAL://h:2", THREE, control="CONTROLLER")
    assert (names(built.data), built.control.port, built.inter_broker) == (["INTERNAL"], 1, "INTERNAL")


def with_controllers(listeners, advertised, controllers, control=None):
    return ListenerSettings(listeners, advertised, THREE, control, None, None, controllers)


IGNORED = "controller.listener.names is ignored: mpbroker needs no KRaft controller"
LEFT_OUT = "controller.listener.names: {} is left out of the listeners; mpbroker needs no KRaft controller"
NONE_LEFT = "; none is left, so the broker listens on PLAINTEXT://127.0.0.1:9092"


@pytest.mark.parametrize(
    ("given", "listeners", "advertised", "told"),
    [
        (("INTERNAL://h:1", "INTERNAL://i:1", None), "INTERNAL://h:1", "INTERNAL://i:1", []),
        (("INTERNAL://h:1", "INTERNAL://i:1", " , "), "INTERNAL://h:1", "INTERNAL://i:1", []),
        (("INTERNAL://h:1", "INTERNAL://i:1", "CONTROLLER"), "INTERNAL://h:1", "INTERNAL://i:1", [IGNORED]),
        (
            ("internal://h:1, controller://h:2", "CONTROLLER://i:2,INTERNAL://i:1", "Controller"),
            "internal://h:1",
            "INTERNAL://i:1",
            [LEFT_OUT.format("controller://h:2")],
        ),
        (
            ("INTERNAL://h:1,CONTROLLER://h:2,EXTERNAL://h:3", None, "EXTERNAL, CONTROLLER"),
            "INTERNAL://h:1",
            None,
            [LEFT_OUT.format("CONTROLLER://h:2, EXTERNAL://h:3")],
        ),
        (
            ("CONTROLLER://h:2", "CONTROLLER://i:2", "CONTROLLER"),
            "PLAINTEXT://127.0.0.1:9092",
            None,
            [LEFT_OUT.format("CONTROLLER://h:2") + NONE_LEFT],
        ),
        (
            ("INTERNAL://h:1,CONTROLLER://h:2", None, "CONTROLLER", "controller"),
            "INTERNAL://h:1,CONTROLLER://h:2",
            None,
            [],
        ),
    ],
    ids=["none", "no name", "none of them", "both texts", "two", "all", "our control plane"],
)
def test_listeners_of_kraft_controllers_are_left_out(given, listeners, advertised, told):
    settings = with_controllers(*given)
    left = settings.without_controllers()
    assert (left.listeners, left.advertised) == (listeners, advertised)
    assert left == settings._replace(listeners=listeners, advertised=advertised)
    assert left_out(settings) == told


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_encrypted_listeners_are_not_supported_yet(protocol):
    error = refused(f"PLAINTEXT://h:1,{protocol}://h:2")
    assert error.value == f"{protocol}://h:2"
    assert f"{protocol} is not supported yet" in str(error)
