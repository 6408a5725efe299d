"""`mpbroker config get|set|unset topic:T|broker:N|broker:default KEY[=VALUE]`: settings of a running
broker, through the protocol."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import NamedTuple

from mpbroker.cli import client_arguments
from mpbroker.cli.usage import UsageError, example_text
from mpbroker.cli.verbs import run_at_broker
from mpbroker.client.config_admin import BROKER, TOPIC, Resource, change_configs, read_configs
from mpbroker.client.network_client import NetworkClient
from mpbroker.errors import ConfigError, MpbrokerError

DESCRIPTION = "Show and change settings of topics and brokers while they run, through the protocol, on any broker."
EXAMPLES = (
    ("mpbroker config get topic:orders retention.ms", "one setting; without a KEY all of them"),
    ("mpbroker config set topic:orders retention.ms=60000", "records are kept for a minute from now on"),
    ("mpbroker config unset topic:orders retention.ms", "the broker's default again"),
    (
        "mpbroker config set broker:0 log.retention.ms=60000",
        "the default of topics on this broker; kept over a restart",
    ),
    ("mpbroker config set broker:default max.connections=5000", "for every broker that has no value of its own"),
    ("mpbroker config get broker:0 --json", "for a program, with the source of each value"),
)
CLUSTER_DEFAULT = "default"
KINDS = {"topic": TOPIC, "broker": BROKER}


class NoSuchSetting(MpbrokerError):
    """The resource has no setting of this name."""


class Verb(NamedTuple):
    """One subcommand; `keys`: how many arguments, and their name."""

    text: str
    examples: tuple[tuple[str, str], ...]
    keys: tuple[str, str]
    run: Callable[[NetworkClient, argparse.Namespace], None]


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command: a parser for each verb."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="|".join(VERBS), title="subcommands")
    for name, verb in VERBS.items():
        one = verbs.add_parser(
            name,
            help=verb.text,
            description=f"{verb.text[0].upper()}{verb.text[1:]}.",
            epilog=example_text(verb.examples),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        one.add_argument("resource", metavar="topic:T|broker:N|broker:default", type=_resource, help="whose settings")
        many, metavar = verb.keys
        one.add_argument("keys", nargs=many, metavar=metavar)
        client_arguments.define(one)
        one.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Runs the verb; returns the exit code."""
    verb = VERBS[arguments.verb]
    if arguments.verb == "set":
        arguments.changes = _pairs(arguments.keys)
    elif any("=" in key for key in arguments.keys):
        raise UsageError(f"`config {arguments.verb}` takes KEY, without a value; `config set` sets one")
    run_at_broker(arguments, verb.run)
    return 0


def _resource(text: str) -> Resource:
    kind, colon, name = text.partition(":")
    if kind not in KINDS or not colon or not name:
        raise ConfigError("RESOURCE", text, "topic:NAME, broker:ID or broker:default")
    return Resource(KINDS[kind], "" if (kind, name) == ("broker", CLUSTER_DEFAULT) else name)


def _pairs(keys: list[str]) -> dict[str, str]:
    pairs = [client_arguments.pair("config set")(key) for key in keys]
    if len(dict(pairs)) < len(pairs):
        raise UsageError("a setting is given twice")
    return dict(pairs)


def _get(client: NetworkClient, arguments: argparse.Namespace) -> None:
    found = read_configs(client, arguments.resource, arguments.keys or None)
    missing = [key for key in arguments.keys if key not in found]
    if missing:
        raise NoSuchSetting(f"{arguments.resource.name or CLUSTER_DEFAULT} has no setting {', '.join(missing)}")
    if arguments.json:
        _say(json.dumps(found))
    else:
        _say("\n".join(f"{key}={'' if row['value'] is None else row['value']}" for key, row in sorted(found.items())))


def _set(client: NetworkClient, arguments: argparse.Namespace) -> None:
    change_configs(client, arguments.resource, arguments.changes)
    _show(client, arguments, list(arguments.changes))


def _unset(client: NetworkClient, arguments: argparse.Namespace) -> None:
    change_configs(client, arguments.resource, dict.fromkeys(arguments.keys))
    _show(client, arguments, arguments.keys)


def _show(client: NetworkClient, arguments: argparse.Namespace, names: list[str]) -> None:
    """What holds now of the settings that were changed."""
    found = read_configs(client, arguments.resource, names)
    lines = [f"{name}={row['value']}" for name, row in sorted(found.items())]
    _say(json.dumps(found) if arguments.json else "\n".join(lines))


def _say(text: str) -> None:
    sys.stdout.write(text + "\n" if text else "")


VERBS = {
    "get": Verb(
        "show settings with the values in force",
        (("mpbroker config get topic:orders", "all settings of a topic, KEY=VALUE a line"),),
        ("*", "KEY"),
        _get,
    ),
    "set": Verb(
        "change settings; all of them or, with an error, none",
        (("mpbroker config set topic:orders retention.ms=60000 max.message.bytes=2000000", "two at once"),),
        ("+", "KEY=VALUE"),
        _set,
    ),
    "unset": Verb(
        "give settings their default again",
        (("mpbroker config unset topic:orders retention.ms", "what the broker's own setting says"),),
        ("+", "KEY"),
        _unset,
    ),
}
