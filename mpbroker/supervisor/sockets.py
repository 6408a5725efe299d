"""Listening sockets: made by the supervisor before it forks, and kept open over every death and reset of workers."""

import errno
import os
import socket
from typing import Any

from mpbroker.config import admin_listener
from mpbroker.config.broker_config import BrokerConfig
from mpbroker.config.listeners import EndPoint, SecurityProtocol, advertise
from mpbroker.errors import ConfigError
from mpbroker.metrics.event_log import EventLog
from mpbroker.shm.process_context import BoundListener

_WILDCARDS = ("", "0.0.0.0", "::")


def open_listeners(config: Any) -> tuple[list[socket.socket], tuple[BoundListener, ...]]:
    """Bind and listen on every listener. ConfigError, in one sentence, for an address that cannot be had."""
    sockets: list[socket.socket] = []
    try:
        for end_point in config.end_points.all:
            sockets.append(_listen(end_point, config))
    except ConfigError:
        for opened in sockets:
            opened.close()
        raise
    advertised = {end_point.listener_name: end_point for end_point in config.end_points.advertised}
    bound = tuple(
        _bound(index, end_point, opened, advertised.get(end_point.listener_name, end_point), config)
        for index, (end_point, opened) in enumerate(zip(config.end_points.all, sockets, strict=True))
    )
    return sockets, bound


def open_admin_listener(config: BrokerConfig) -> socket.socket | None:
    """Bind and listen for the admin process; None when it is turned off. ConfigError as above."""
    address = config.admin_address
    if address is None:
        return None
    return _listen(
        EndPoint(address.host, address.port, "admin", SecurityProtocol.PLAINTEXT), config, admin_listener.KEY
    )


def admin_url(listening: socket.socket | None) -> str | None:
    """`http://HOST:PORT` as bound; None when there is no admin process."""
    if listening is None:
        return None
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def warn_of_unset_address(config: BrokerConfig, listeners: tuple[BoundListener, ...], log: EventLog) -> None:
    """A WARN for each listener on every interface whose address for clients nobody gave: they are sent to the host's
    name, which in a container is known to nobody."""
    given = {end_point.listener_name for end_point in config.end_points.advertised if end_point.host not in _WILDCARDS}
    for listener in listeners:
        if listener.host in _WILDCARDS and listener.name not in given:
            log.warning(
                "advertised_listeners_not_set",
                listener=listener.name,
                clients_are_sent_to=f"{listener.advertised_host}:{listener.advertised_port}",
                remedy="set advertised.listeners (KAFKA_ADVERTISED_LISTENERS) to an address that clients can reach",
            )


def _listen(end_point: EndPoint, config: Any, key: str = "listeners") -> socket.socket:
    family, address = _resolve(end_point, key)
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if config.socket_receive_buffer_bytes != -1:  # before bind: the window scale is agreed on at connect
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, config.socket_receive_buffer_bytes)
        opened.bind(address)
        opened.listen(config.socket_listen_backlog_size)
        opened.setblocking(False)
    except OSError as error:
        opened.close()
        raise _refusal(end_point, error, key) from None
    return opened


def _resolve(end_point: EndPoint, key: str) -> tuple[socket.AddressFamily, Any]:
    if not end_point.host:
        return socket.AF_INET, ("0.0.0.0", end_point.port)
    try:
        found = socket.getaddrinfo(end_point.host, end_point.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ConfigError(
            key, end_point.connection_string, problem=f"{_cannot(end_point)}: no such host ({error.strerror})"
        ) from None
    found.sort(key=lambda entry: entry[0] != socket.AF_INET)  # of a name with both, the IPv4 address
    return found[0][0], found[0][4]


def _refusal(end_point: EndPoint, error: OSError, key: str) -> ConfigError:
    if error.errno == errno.EADDRINUSE:
        reason = f"port {end_point.port} is in use by another program (port 0 picks a free one)"
    elif error.errno == errno.EACCES:
        reason = f"this user may not open port {end_point.port}; ports from 1024 on need no rights"
    elif error.errno == errno.EADDRNOTAVAIL:
        reason = f"{end_point.host} is no address of this machine (an empty host listens on all)"
    else:
        reason = error.strerror or str(error)
    return ConfigError(key, end_point.connection_string, problem=f"{_cannot(end_point)}: {reason}")


def _cannot(end_point: EndPoint) -> str:
    return f"cannot listen on {end_point.connection_string}"


def _bound(index: int, end_point: EndPoint, opened: socket.socket, advertised: EndPoint, config: Any) -> BoundListener:
    port = opened.getsockname()[1]
    told = advertise(advertised, port, os.uname().nodename)
    control = config.end_points.control
    return BoundListener(
        index,
        end_point.listener_name,
        end_point.security_protocol.name,
        end_point.host,
        port,
        told.host,
        told.port,
        control is not None and control.listener_name == end_point.listener_name,
    )
