"""Listening sockets: made by the supervisor before it forks, and kept open over every death and reset of workers.

Listeners come and go while the broker runs (KIP-226). Each has an index, which its processors and requests
carry. The index of one that was removed is used again when none of its processors is left and the acceptor has let go
of it, so that whatever is still under way means the listener it came from.
"""

import contextlib
import errno
import os
import socket
from collections.abc import Collection
from typing import Any, NamedTuple

from mpbroker.config import admin_listener
from mpbroker.config.broker_config import BrokerConfig
from mpbroker.config.listeners import MAX_LISTENERS, EndPoint, SecurityProtocol, advertise
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


class Followed(NamedTuple):
    """What came of the listeners that a configuration wants: whether any came, went or is to be told otherwise; errors
    that were not there before."""

    changed: bool
    errors: list[ConfigError]


class Listening:
    """The listeners by index, and their sockets. `all` holds removed ones too, until their index is used again."""

    def __init__(self, sockets: list[socket.socket], listeners: tuple[BoundListener, ...]) -> None:
        self.sockets = sockets
        self.all = listeners
        self._said: set[str] = set()

    @property
    def present(self) -> tuple[BoundListener, ...]:
        """Those that are listened on."""
        return tuple(one for one in self.all if not one.removed)

    @property
    def removed(self) -> list[int]:
        """Indexes of those that were."""
        return [one.index for one in self.all if one.removed]

    def follow(self, config: BrokerConfig, busy: Collection[int]) -> Followed:
        """Open and close what the configuration wants; to be called again while something could not be opened. One that
        is there under its name stays at its address, as in Kafka, and is only told to clients otherwise. `busy`:
        indexes that somebody still uses."""
        before, failed = self.all, []
        wanted = {end_point.listener_name: end_point for end_point in config.end_points.all}
        for listener in self.present:
            if listener.name not in wanted:
                self._remove(listener)
        there = {listener.name: listener for listener in self.present}
        for name, end_point in wanted.items():
            try:
                opened = self.sockets[there[name].index] if name in there else _listen(end_point, config)
            except ConfigError as error:
                failed.append(error)
                continue
            index = there[name].index if name in there else self._free_index(busy)
            if index is None:
                opened.close()
                problem = f"{_cannot(end_point)}: all {MAX_LISTENERS} places are taken, some by what was removed"
                failed.append(ConfigError("listeners", end_point.connection_string, problem=problem))
                continue
            self._set(index, end_point, opened, config)
        news = [error for error in failed if str(error) not in self._said]
        self._said = {str(error) for error in failed}
        return Followed(self.all != before, news)

    def _set(self, index: int, end_point: EndPoint, opened: socket.socket, config: BrokerConfig) -> None:
        """A listener under an index: a new one, or the one that is there, with what clients are told of it now."""
        is_new = index == len(self.all)
        if not is_new and not self.all[index].removed:
            end_point = end_point._replace(host=self.all[index].host, port=self.all[index].port)
        given = config.end_points.advertised if config.given_text("advertised.listeners") else ()
        told = next((one for one in given if one.listener_name == end_point.listener_name), end_point)
        bound = _bound(index, end_point, opened, told, config)
        if is_new:
            self.all, self.sockets = (*self.all, bound), [*self.sockets, opened]
            return
        self.all = tuple(bound if one.index == index else one for one in self.all)
        self.sockets[index] = opened

    def _free_index(self, busy: Collection[int]) -> int | None:
        if len(self.all) < MAX_LISTENERS:
            return len(self.all)
        return next((index for index in self.removed if index not in busy), None)

    def _remove(self, listener: BoundListener) -> None:
        opened = self.sockets[listener.index]
        with contextlib.suppress(OSError):  # the acceptor has it, too, and may be slow to hear of this
            opened.shutdown(socket.SHUT_RDWR)
        opened.close()
        gone = listener._replace(removed=True)
        self.all = tuple(gone if one.index == listener.index else one for one in self.all)

    def close(self) -> None:
        """Listen no more."""
        for opened in self.sockets:
            opened.close()


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
    # Of a text getaddrinfo makes bytes by a codec whose tables take 2 ms of the start, and which has errors of its own.
    host = end_point.host.encode() if end_point.host.isascii() else end_point.host
    try:
        found = socket.getaddrinfo(host, end_point.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
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
