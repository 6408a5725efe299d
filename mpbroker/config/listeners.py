"""Listeners: endpoints, their security protocols, the control plane, advertised addresses (KIP-103, KIP-291). Pure.

Listener names are compared in capitals on both sides, so that a control plane named in small letters is still kept out
of the data plane.
"""

import re
from enum import IntEnum
from typing import NamedTuple

from mpbroker.errors import ConfigError, raise_all

MAX_LISTENERS = 15  # each has its part of the acceptor's turn, which the control plane's waits for
DEFAULT_LISTENERS = "PLAINTEXT://127.0.0.1:9092"
LISTENER_SETTINGS = frozenset({"listeners", "advertised.listeners", "listener.security.protocol.map"})
"""Those that change while the broker runs (KIP-226)."""

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
    kraft_controllers: str | None = None

    def without_controllers(self) -> "ListenerSettings":
        """The same without the listeners of KRaft controllers; where nothing is left, the default holds."""
        names = _controller_names(self)
        if not names:
            return self
        listeners = ",".join(item for item in _items(self.listeners) if _name_of(item) not in names)
        advertised = ",".join(item for item in _items(self.advertised or "") if _name_of(item) not in names)
        return self._replace(listeners=listeners or DEFAULT_LISTENERS, advertised=advertised or None)


def build_listeners(given: ListenerSettings) -> Listeners:
    """Parse and check all of them. ConfigError names each listener that is wrong."""
    given = given.without_controllers()
    protocols = parse_protocol_map(given.protocol_map)
    listeners, advertised = _both(given, protocols)
    control_name = _control_name(given.control_plane, protocols, listeners, advertised)
    inter_broker = _inter_broker_name(given, protocols, advertised, control_name)
    if control_name == inter_broker:
        raise ConfigError(
            "control.plane.listener.name",
            control_name,
            problem=f"control.plane.listener.name and inter.broker.listener.name are both {control_name}; "
            "the control plane needs a listener of its own",
        )
    data = tuple(end_point for end_point in listeners if end_point.listener_name != control_name)
    control = next((end_point for end_point in listeners if end_point.listener_name == control_name), None)
    return Listeners(data, control, advertised, inter_broker)


def _both(
    given: ListenerSettings, protocols: dict[str, SecurityProtocol]
) -> tuple[tuple[EndPoint, ...], tuple[EndPoint, ...]]:
    """Listeners and advertised listeners; what is wrong with either is said together."""
    errors: list[ConfigError] = []
    listeners: tuple[EndPoint, ...] = ()
    try:
        listeners = parse_end_points("listeners", given.listeners, protocols)
        _check_distinct_ports(listeners, given.listeners)
        _check_served(listeners)
    except ConfigError as error:
        errors.append(error)
    advertised = listeners
    try:
        if given.advertised:
            advertised = parse_end_points("advertised.listeners", given.advertised, protocols)
        _check_advertised(advertised, listeners)
    except ConfigError as error:
        errors.append(error)
    raise_all(errors)
    return listeners, advertised


def parse_protocol_map(text: str) -> dict[str, SecurityProtocol]:
    """`NAME:PROTOCOL,…` as a dict with names in capitals."""
    key, protocols = "listener.security.protocol.map", {}
    for item in _items(text):
        match = _MAP_ENTRY.match(item)
        if match is None:
            raise ConfigError(key, text, "NAME:PROTOCOL, separated by commas")
        name, protocol = match[1].upper(), match[2].upper()
        if protocol not in SecurityProtocol.__members__:
            known = ", ".join(SecurityProtocol.__members__)
            raise ConfigError(key, item, problem=f"{key}: {protocol} is no protocol; the protocols are {known}")
        if name in protocols:
            raise ConfigError(key, text, problem=f"{key} names the listener {name} twice")
        protocols[name] = SecurityProtocol[protocol]
    return protocols


def parse_end_points(key: str, text: str, protocols: dict[str, SecurityProtocol]) -> tuple[EndPoint, ...]:
    """`NAME://HOST:PORT,…` with distinct names that all have a protocol."""
    items, end_points, errors = _items(text), [], []
    if not 0 < len(items) <= MAX_LISTENERS:
        raise ConfigError(key, text, f"1 to {MAX_LISTENERS} listeners, NAME://HOST:PORT, separated by commas")
    for item in items:
        try:
            end_points.append(parse_end_point(key, item, protocols))
        except ConfigError as error:
            errors.append(error)
    raise_all(errors)
    names = [end_point.listener_name for end_point in end_points]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(key, text, problem=f"{key} names {name} twice; every listener needs a name of its own")
    return tuple(end_points)


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
            problem=f"{key}={text}: {name} has no security protocol; "
            f"add {name}:PLAINTEXT to listener.security.protocol.map",
        )
    return EndPoint(match[2] or match[3] or "", int(match[4]), name, protocols[name])


def left_out(given: ListenerSettings) -> list[str]:
    """One sentence on the listeners of KRaft controllers, when `controller.listener.names` is given."""
    names = _controller_names(given)
    if not names:
        return []
    key, found = "controller.listener.names", [item for item in _items(given.listeners) if _name_of(item) in names]
    if not found:
        return [f"{key} is ignored: mpbroker needs no KRaft controller"]
    sentence = f"{key}: {', '.join(found)} is left out of the listeners; mpbroker needs no KRaft controller"
    if len(found) == len(_items(given.listeners)):
        sentence += f"; none is left, so the broker listens on {DEFAULT_LISTENERS}"
    return [sentence]


def _controller_names(given: ListenerSettings) -> set[str]:
    """Names in capitals, without the one that is to be our control plane."""
    names = {item.upper() for item in _items(given.kraft_controllers or "")}
    return names - {(given.control_plane or "").upper()}


def _name_of(item: str) -> str:
    return item.partition("://")[0].upper()


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
                problem=f"listeners names port {port} {len(hosts)} times; every listener needs a port of its own "
                "(only an IPv4 and an IPv6 address may share one)",
            )


def _family(host: str) -> int:
    """4 or 6 for an address, 0 for a name or nothing."""
    if ":" in host:
        return 6
    return 4 if _IPV4.match(host) else 0


def _check_served(end_points: tuple[EndPoint, ...]) -> None:
    raise_all(
        [
            ConfigError(
                "listeners", shown, problem=f"listeners={shown}: {protocol.name} is not supported yet; use PLAINTEXT"
            )
            for shown, protocol in ((each.connection_string, each.security_protocol) for each in end_points)
            if protocol is not SecurityProtocol.PLAINTEXT
        ]
    )


def _check_advertised(advertised: tuple[EndPoint, ...], listeners: tuple[EndPoint, ...]) -> None:
    """`listeners` is empty where it could not be read: then nothing is said about names."""
    key, errors = "advertised.listeners", []
    names = [end_point.listener_name for end_point in listeners]
    for end_point in advertised:
        shown = end_point.connection_string
        if end_point.host == "0.0.0.0":
            problem = (
                "advertised.listeners must name a host that clients can connect to, not 0.0.0.0; without it, "
                "`listeners` is advertised"
            )
            errors.append(ConfigError(key, shown, problem=problem))
        if names and end_point.listener_name not in names:
            problem = f"{key}={shown}: `listeners` has no {end_point.listener_name}, only {', '.join(names)}"
            errors.append(ConfigError(key, shown, problem=problem))
    raise_all(errors)


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
        problem = f"{key}={given}: the only listener cannot be the control plane's; add one for data to `listeners`"
        raise ConfigError(key, given, problem=problem)
    return name


def _inter_broker_name(
    given: ListenerSettings,
    protocols: dict[str, SecurityProtocol],
    advertised: tuple[EndPoint, ...],
    control_name: str | None,
) -> str:
    key = "inter.broker.listener.name"
    if given.inter_broker and given.inter_broker_protocol:
        problem = f"{key} and security.inter.broker.protocol are the same setting; give only one"
        raise ConfigError(key, given.inter_broker, problem=problem)
    if given.inter_broker or given.inter_broker_protocol:
        name = (given.inter_broker or given.inter_broker_protocol or "").upper()
        _check_name(key if given.inter_broker else "security.inter.broker.protocol", name, protocols, advertised)
        return name
    names = [end_point.listener_name for end_point in advertised if end_point.listener_name != control_name]
    if not names:
        problem = "advertised.listeners names the control plane only; add a listener for data"
        raise ConfigError("advertised.listeners", given.advertised, problem=problem)
    return "PLAINTEXT" if "PLAINTEXT" in names else names[0]


def _check_name(key: str, name: str, protocols: dict[str, SecurityProtocol], advertised: tuple[EndPoint, ...]) -> None:
    if name not in protocols:
        problem = f"{key}={name}: listener.security.protocol.map has no {name}, only {', '.join(protocols)}"
        raise ConfigError(key, name, problem=problem)
    names = [end_point.listener_name for end_point in advertised]
    if name not in names:
        problem = f"{key}={name}: advertised.listeners has no {name}, only {', '.join(names)}"
        raise ConfigError(key, name, problem=problem)


def advertise(advertised: EndPoint, bound_port: int, host_name: str) -> EndPoint:
    """The address to tell clients: the bound port where 0 was given, this host's name where the host is empty."""
    return advertised._replace(host=advertised.host or host_name, port=advertised.port or bound_port)
