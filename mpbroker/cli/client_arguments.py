"""The arguments that name a broker to talk to as a client, and the connection they give; bounds for argparse.

For topic, produce and consume; runs in the command's process.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

from mpbroker.client.bootstrap import connect
from mpbroker.client.network_client import NetworkClient
from mpbroker.errors import ConfigError

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
VARIABLE = "MPBROKER_BOOTSTRAP"
WAIT_S, MAX_WAIT_S = 10.0, 600.0


def define(parser: argparse.ArgumentParser) -> None:
    """Add `--bootstrap-server HOST:PORT,…` with its aliases, and `--wait-s S`."""
    parser.add_argument(
        "-b",
        "--bootstrap-server",
        "--bootstrap",
        dest="bootstrap",
        metavar="HOST:PORT",
        help="the broker; several, separated by commas, are tried in turn "
        f"(default: ${VARIABLE}, else {DEFAULT_BOOTSTRAP})",
    )
    parser.add_argument(
        "--wait-s",
        type=number("--wait-s", 0, MAX_WAIT_S),
        default=WAIT_S,
        metavar="S",
        help=f"how long to wait for a broker that is starting (default: {WAIT_S:g} seconds)",
    )


def open_client(arguments: argparse.Namespace) -> NetworkClient:
    """A connection to the broker meant; waits for one that is starting, and says so after a second."""
    bootstrap = arguments.bootstrap or os.environ.get(VARIABLE) or DEFAULT_BOOTSTRAP
    return connect(bootstrap, wait_s=arguments.wait_s, say=lambda text: say(f"mpbroker: {text}"))


def say(text: str) -> None:
    """One line on stderr, now."""
    print(text, file=sys.stderr, flush=True)


def number(flag: str, least: float, most: float) -> Callable[[str], float]:
    """For argparse: a number within bounds; ConfigError says which."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise ConfigError(flag, text, f"{least:g} to {most:g}")
        return value

    return read


def whole(flag: str, least: int, most: int = (1 << 63) - 1) -> Callable[[str], int]:
    """For argparse: a whole number within bounds; ConfigError says which."""

    def read(text: str) -> int:
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) < 20) or not least <= int(text) <= most:
            bound = f"{least} or more" if most == (1 << 63) - 1 else f"{least} to {most}"
            raise ConfigError(flag, text, bound)
        return int(text)

    return read


def pair(flag: str) -> Callable[[str], tuple[str, str]]:
    """For argparse: KEY=VALUE."""

    def read(text: str) -> tuple[str, str]:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise ConfigError(flag, text, "KEY=VALUE")
        return key, value

    return read
