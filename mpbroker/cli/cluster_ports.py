"""Ports for `mpbroker cluster start --port 0`. Runs in the command's process.

A broker keeps its ports when it starts again, so they are chosen before it runs, and from outside the range that the
kernel gives to whoever asks for any port: there, a program with port 0 or the near end of somebody's connection could
take one in between."""

from __future__ import annotations

import random
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"
RANGE_FILE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
LOWEST, HIGHEST = 10_000, 65_535


def free_ports(count: int, given_away: tuple[int, int] | None = None) -> list[int]:
    """Ports that nobody listens on now, all different. `given_away`: the kernel's range, read from it if None."""
    first, last = given_away or kernel_range()
    kept = [*range(LOWEST, min(first, HIGHEST + 1)), *range(max(last + 1, LOWEST), HIGHEST + 1)]
    random.shuffle(kept)
    found = _free(kept, count)
    return found if len(found) == count else _any(count)


def kernel_range() -> tuple[int, int]:
    """The ports that the kernel gives away, both ends included; none below 1024 where it does not say."""
    try:
        first, last = (int(word) for word in RANGE_FILE.read_text().split())
    except (OSError, ValueError):
        return 1024, HIGHEST
    return first, last


def _free(ports: Sequence[int], count: int) -> list[int]:
    found: list[int] = []
    for port in ports:
        if len(found) == count:
            break
        with socket.socket() as one:
            try:
                one.bind((HOST, port))
            except OSError:
                continue
            found.append(port)
    return found


def _any(count: int) -> list[int]:
    """Where the kernel gives away all there are: held together until each is known, so that they differ."""
    sockets = [socket.create_server((HOST, 0)) for _ in range(count)]
    try:
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
