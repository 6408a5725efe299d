"""Listeners: endpoints, their security protocols, the control plane, advertised addresses (KIP-103, KIP-291). Pure.

Listener names are compared in capitals on both sides, so that a control plane named in small letters is still kept out
of the data plane.
"""

import re
from enum import IntEnum
from typing import NamedTuple

from mpbroker.errors import ConfigError

MAX_LISTENERS = 15  # acceptor slots in the process table

_END_POINT = re.compile(r"([A-Za-z0-9._-]+)://(?:\[([0-9A-Za-z:.%-]+)\]|([0-9A-Za-z._%-]*)):(\d{1,5})\Z")
_MAP_ENTRY = re.compile(r"([A-Za-z0-9._-]+)\s*:\s*([A-Za-z0-9_]+)\Z")
_IPV4 = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}\Z")


class SecurityProtocol(IntEnum):
    """Kafka's four protocols with their numbers on the wire."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3


class EndPoint(NamedTuple):
    """One listener's address. An empty host means every interface; port 0 means any free port."""

    host: str
    port: int
    listener_name: str
    security_protocol: SecurityProtocol

    @property
    def address(self) -> str:
        """HOST:PORT, an IPv6 address in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def connection_string(self) -> str:
        """NAME://HOST:PORT, as `listeners` has it."""
        return f"{self.listener_name}://{self.address}"


class Listeners(NamedTuple):
    """All that the listener settings say together, checked."""

    data: tuple[EndPoint, ...]
    control: EndPoint | None
    advertised: tuple[EndPoint, ...]
    inter_broker: str  # listener name

    @property
    def all(self) -> tuple[EndPoint, ...]:
        """Data listeners first, in their order, then the control plane's."""
        return (*self.data, self.control) if self.control else self.data


class ListenerSettings(NamedTuple):
    """The texts the listeners are built from; None where a setting is not set."""

    listeners: str
    advertised: str | None
    protocol_map: str
    control_plane: str | None
    inter_broker: str | None
    inter_broker_protocol: str | None


def build_listeners(given: ListenerSettings) -> Listeners:
    """Parse and check all of them. ConfigError names the setting that is wrong."""
    protocols = parse_protocol_map(given.protocol_map)
    listeners = parse_end_points("listeners", given.listeners, protocols)
    _check_distinct_ports(listeners, given.listeners)
    _check_served(listeners)
    advertised = _advertised(given.advertised, listeners, protocols)
    control_name = _control_name(given.control_plane, protocols, listeners, advertised)
    inter_broker = _inter_broker_name(given, protocols, advertised, control_name)
    if control_name == inter_broker:
        raise ConfigError(
            "control.plane.listener.name",
            control_name,
            "a listener other than the one brokers use among each other (inter.broker.listener.name)",
        )
    data = tuple(end_point for end_point in listeners if end_point.listener_name != control_name)
    control = next((end_point for end_point in listeners if end_point.listener_name == control_name), None)
    return Listeners(data, control, advertised, inter_broker)


def parse_protocol_map(text: str) -> dict[str, SecurityProtocol]:
    """`NAME:PROTOCOL,…` as a dict with names in capitals."""
    key, protocols = "listener.security.protocol.map", {}
    for item in _items(text):
        match = _MAP_ENTRY.match(item)
        if match is None:
            raise ConfigError(key, text, "NAME:PROTOCOL, separated by commas")
        name, protocol = match[1].upper(), match[2].upper()
        if protocol not in SecurityProtocol.__members__:
            raise ConfigError(key, item, f"for listener {name} one of {', '.join(SecurityProtocol.__members__)}")
        if name in protocols:
            raise ConfigError(key, text, f"each listener name once ({name} stands there twice)")
        protocols[name] = SecurityProtocol[protocol]
    return protocols


def parse_end_points(key: str, text: str, protocols: dict[str, SecurityProtocol]) -> tuple[EndPoint, ...]:
    """`NAME://HOST:PORT,…` with distinct names that all have a protocol."""
    end_points = tuple(parse_end_point(key, item, protocols) for item in _items(text))
    if not 0 < len(end_points) <= MAX_LISTENERS:
        raise ConfigError(key, text, f"1 to {MAX_LISTENERS} listeners, NAME://HOST:PORT, separated by commas")
    names = [end_point.listener_name for end_point in end_points]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(key, text, f"a different name for every listener ({name} stands there twice)")
    return end_points


def parse_end_point(key: str, text: str, protocols: dict[str, SecurityProtocol]) -> EndPoint:
    """One `NAME://HOST:PORT`; the name in capitals, an IPv6 host without its brackets."""
    match = _END_POINT.match(text)
    if match is None or int(match[4]) > 65535:
        raise ConfigError(
            key,
            text,
            "NAME://HOST:PORT (name: letters, digits, '-', '_', '.'; port 0 to 65535; an IPv6 address in brackets)",
        )
    name = match[1].upper()
    if name not in protocols:
        raise ConfigError(
            key,
            text,
            f"a listener with a security protocol; listener.security.protocol.map has none for "
            f"{name} (add {name}:PLAINTEXT to it)",
        )
    return EndPoint(match[2] or match[3] or "", int(match[4]), name, protocols[name])


def _items(text: str) -> list[str]:
    return [item for part in text.split(",") if (item := part.strip())]


def _check_distinct_ports(end_points: tuple[EndPoint, ...], text: str) -> None:
    """One port twice only for an IPv4 and an IPv6 address (names excluded); port 0 as often as wanted."""
    by_port: dict[int, list[str]] = {}
    for end_point in end_points:
        if end_point.port:
            by_port.setdefault(end_point.port, []).append(end_point.host)
    for port, hosts in by_port.items():
        is_pair = len(hosts) == 2 and {_family(host) for host in hosts} == {4, 6}
        if len(hosts) > 1 and not is_pair:
            raise ConfigError(
                "listeners",
                text,
                f"a different port for every listener ({port} stands there "
                f"{len(hosts)} times; only an IPv4 and an IPv6 address may share one)",
            )


def _family(host: str) -> int:
    """4 or 6 for an address, 0 for a name or nothing."""
    if ":" in host:
        return 6
    return 4 if _IPV4.match(host) else 0


def _check_served(end_points: tuple[EndPoint, ...]) -> None:
    for end_point in end_points:
        if end_point.security_protocol is not SecurityProtocol.PLAINTEXT:
            raise ConfigError(
                "listeners",
                end_point.connection_string,
                f"a PLAINTEXT listener; {end_point.security_protocol.name} is not supported yet",
            )


def _advertised(
    text: str | None, listeners: tuple[EndPoint, ...], protocols: dict[str, SecurityProtocol]
) -> tuple[EndPoint, ...]:
    """advertised.listeners, or the listeners themselves."""
    key = "advertised.listeners"
    end_points = parse_end_points(key, text, protocols) if text else listeners
    names = [end_point.listener_name for end_point in listeners]
    for end_point in end_points:
        if end_point.host == "0.0.0.0":
            raise ConfigError(
                key, end_point.connection_string, "an address clients can connect to; 0.0.0.0 is none, name the host"
            )
        if end_point.listener_name not in names:
            raise ConfigError(key, end_point.connection_string, f"only names that `listeners` has: {', '.join(names)}")
    return end_points


def _control_name(
    given: str | None,
    protocols: dict[str, SecurityProtocol],
    listeners: tuple[EndPoint, ...],
    advertised: tuple[EndPoint, ...],
) -> str | None:
    """The control plane's listener name in capitals; it needs a protocol, an address and another listener beside it."""
    if not given:
        return None
    key, name = "control.plane.listener.name", given.upper()
    _check_name(key, name, protocols, advertised)
    if len(listeners) < 2:
        raise ConfigError(key, given, "a listener beside at least one other that carries data")
    return name


def _inter_broker_name(
    given: ListenerSettings,
    protocols: dict[str, SecurityProtocol],
    advertised: tuple[EndPoint, ...],
    control_name: str | None,
) -> str:
    key = "inter.broker.listener.name"
    if given.inter_broker and given.inter_broker_protocol:
        raise ConfigError(key, given.inter_broker, "only one of it and security.inter.broker.protocol")
    if given.inter_broker or given.inter_broker_protocol:
        name = (given.inter_broker or given.inter_broker_protocol or "").upper()
        _check_name(key if given.inter_broker else "security.inter.broker.protocol", name, protocols, advertised)
        return name
    names = [end_point.listener_name for end_point in advertised if end_point.listener_name != control_name]
    if not names:
        raise ConfigError("advertised.listeners", given.advertised, "at least one listener that carries data")
    return "PLAINTEXT" if "PLAINTEXT" in names else names[0]


def _check_name(key: str, name: str, protocols: dict[str, SecurityProtocol], advertised: tuple[EndPoint, ...]) -> None:
    if name not in protocols:
        raise ConfigError(key, name, f"a listener that listener.security.protocol.map has: {', '.join(protocols)}")
    names = [end_point.listener_name for end_point in advertised]
    if name not in names:
        raise ConfigError(key, name, f"a listener that advertised.listeners has: {', '.join(names)}")


def advertise(advertised: EndPoint, bound_port: int, host_name: str) -> EndPoint:
    """The address to tell clients: the bound port where 0 was given, this host's name where the host is empty."""
    return advertised._replace(host=advertised.host or host_name, port=advertised.port or bound_port)
