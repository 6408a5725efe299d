"""Host names of other brokers become addresses without making a process wait: a thread asks the system.

For the loops of the agent, the elected controller and the fetchers. Addresses need no look-up and start no thread; what
was found is good for 30 s, as long as the JVM keeps it, and goes on being used while it is looked up again.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

GOOD_S: Final = 30.0
BAD_S: Final = 1.0
"""A name that was not found is looked up again after so long."""
MOST_NAMES: Final = 64
"""More than that many hosts are not remembered: a cluster has 15 brokers at most."""


class Address(NamedTuple):
    """What a socket is made of and connected to."""

    family: int
    sockaddr: tuple[str | int, ...]


class NameUnknown(OSError):
    """The system does not know the name; says why."""


class _Found(NamedTuple):
    """`host` None: the look-up failed, `problem` says how."""

    host: str | None
    problem: str
    until_s: float


class AddressLookup:
    """`resolve(name)` returns an address as text; it may take its time, and raise OSError."""

    def __init__(self, resolve: Callable[[str], str] | None = None) -> None:
        self._resolve = resolve or _ask_the_system
        self._found: dict[str, _Found] = {}
        self._under_way: set[str] = set()

    def find(self, host: str, port: int) -> Address | None:
        """None: not known yet, ask again. NameUnknown."""
        numeric = _numeric(host)
        if numeric is not None:
            return _address(numeric, port)
        found = self._found.get(host)
        if found is None or time.monotonic() >= found.until_s:
            self._begin(host)
        if found is None:
            return None
        if found.host is None:
            raise NameUnknown(found.problem)
        return _address(found.host, port)

    def _begin(self, host: str) -> None:
        if host in self._under_way:
            return
        if len(self._found) >= MOST_NAMES:
            self._found.clear()
        self._under_way.add(host)
        threading.Thread(target=self._look_up, args=(host,), name="look-up", daemon=True).start()

    def _look_up(self, host: str) -> None:
        try:
            self._found[host] = _Found(self._resolve(host), "", time.monotonic() + GOOD_S)
        except (OSError, UnicodeError) as error:
            self._found[host] = _Found(None, f"{host}: {error}", time.monotonic() + BAD_S)
        finally:
            self._under_way.discard(host)


def _ask_the_system(host: str) -> str:
    return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])


def _numeric(host: str) -> str | None:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            return socket.inet_ntop(family, socket.inet_pton(family, host))
        except (OSError, ValueError):
            continue
    return None


def _address(host: str, port: int) -> Address:
    if ":" in host:
        return Address(socket.AF_INET6, (host, port))
    return Address(socket.AF_INET, (host, port))


LOOKUP: Final = AddressLookup()
"""Of this process."""
