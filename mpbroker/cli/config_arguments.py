"""The arguments that give a broker its configuration, shared by the commands that need one.

`plain` reads an ordinary command line of `start` without argparse, which with what it imports is a twentieth of the
whole start; whatever else is written there, argparse reads, and says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from mpbroker.config import admin_listener
from mpbroker.config.broker_config import BrokerConfig
from mpbroker.config.load_config import load_broker_config
from mpbroker.errors import ConfigError

if TYPE_CHECKING:
    import argparse

_ONCE: Final = {
    "--data-dir": ("D", "where records are kept (log.dirs; default ./mpbroker-data)"),
    "--admin": (
        "HOST:PORT",
        "where /metrics and /healthz are served (mpbroker.admin.listener; port 0: any free port; default: one on "
        "127.0.0.1; '' for none)",
    ),
}
_REPEATED: Final = {
    "--listener": (
        "NAME://HOST:PORT",
        "where to listen (listeners; may be repeated; port 0: any free port; default PLAINTEXT://127.0.0.1:9092)",
    ),
    "--override": ("KEY=VALUE", "set one setting; wins over everything else (may be repeated)"),
}


def define(parser: argparse.ArgumentParser) -> None:
    """Add `[server.properties] [--data-dir D] [--listener L]… [--override k=v]…`."""
    parser.add_argument(
        "properties",
        nargs="?",
        metavar="server.properties",
        help="settings in Java's .properties syntax, with Kafka's names (docs/configuration.md)",
    )
    for flag, (metavar, meaning) in _ONCE.items():
        parser.add_argument(flag, metavar=metavar, help=meaning)
    for flag, (metavar, meaning) in _REPEATED.items():
        parser.add_argument(flag, action="append", default=[], metavar=metavar, help=meaning)


def plain(words: Sequence[str], further: Collection[str]) -> SimpleNamespace | None:
    """What argparse would make of a command line in which every flag is spelled out and has its value, and at most one
    word is a file; None for any other. `further`: flags of the command itself, each given once."""
    once, repeated = {*_ONCE, *further}, set(_REPEATED)
    values: dict[str, Any] = {"properties": None} | dict.fromkeys(map(_name, once)) | {_name(f): [] for f in repeated}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        flag, has_value, value = word.partition("=")
        if not word.startswith("-") and word and values["properties"] is None:
            values["properties"] = word
            continue
        if flag not in once | repeated or not (has_value or (rest and not rest[0].startswith("-"))):
            return None
        value = value if has_value else rest.pop(0)
        if flag in repeated:
            values[_name(flag)].append(value)
        else:
            values[_name(flag)] = value
    return SimpleNamespace(**values)


def _name(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


def build(arguments: argparse.Namespace | SimpleNamespace) -> BrokerConfig:
    """The configuration these arguments, their file and the environment give; ConfigError when it is wrong."""
    overrides = []
    _refuse_two_places(arguments)
    if arguments.data_dir is not None:
        overrides.append(f"log.dirs={arguments.data_dir}")
    if arguments.listener:
        overrides.append(f"listeners={','.join(arguments.listener)}")
    if arguments.admin is not None:
        overrides.append(f"{admin_listener.KEY}={arguments.admin}")
    return load_broker_config(arguments.properties, overrides=[*overrides, *arguments.override])


def _refuse_two_places(arguments: argparse.Namespace | SimpleNamespace) -> None:
    """`status --data-dir D` must find the broker that `start --data-dir D` began."""
    for pair in arguments.override:
        key, _, value = pair.partition("=")
        if arguments.data_dir is not None and key.strip() in ("log.dir", "log.dirs") and value != arguments.data_dir:
            problem = f"{key.strip()} and --data-dir are the same setting; give only one"
            raise ConfigError("--override", pair, problem=problem)
