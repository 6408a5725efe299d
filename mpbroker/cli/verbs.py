"""Subcommands (*verbs*) of commands that talk to a broker as clients: `mpbroker topic create`, `group list` and so on.

Runs in the command's process.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from mpbroker.cli import client_arguments
from mpbroker.cli.usage import example_text
from mpbroker.client.bootstrap import connect_to_controller
from mpbroker.client.network_client import NetworkClient
from mpbroker.errors import ErrorCode, KafkaError


class Verb(NamedTuple):
    """One subcommand."""

    text: str
    examples: tuple[tuple[str, str], ...]
    define: Callable[[argparse.ArgumentParser], None]
    run: Callable[[NetworkClient, argparse.Namespace], None]


def define_verbs(parser: argparse.ArgumentParser, verbs: Mapping[str, Verb]) -> None:
    """A parser for each, with the arguments that name a broker, and `--json`."""
    all_of_them = parser.add_subparsers(dest="verb", required=True, metavar="|".join(verbs), title="subcommands")
    for name, verb in verbs.items():
        one = all_of_them.add_parser(
            name,
            help=verb.text,
            description=f"{verb.text[0].upper()}{verb.text[1:]}.",
            epilog=example_text(verb.examples),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        verb.define(one)
        client_arguments.define(one)
        one.add_argument("--json", action="store_true", help="print JSON")


def run_verb(arguments: argparse.Namespace, verbs: Mapping[str, Verb]) -> int:
    """Runs the one that was asked for; returns the exit code."""
    run_at_broker(arguments, verbs[arguments.verb].run)
    return 0


def run_at_broker(arguments: argparse.Namespace, run: Callable[[NetworkClient, argparse.Namespace], None]) -> None:
    """Run it at the broker that the arguments name, or at the controller, if that broker says that only the controller
    does such a thing: nothing has been done, or printed, when it refuses."""
    with client_arguments.open_client(arguments) as client:
        try:
            run(client, arguments)
        except KafkaError as error:
            if error.code != ErrorCode.NOT_CONTROLLER:
                raise
            with connect_to_controller(client) as controller:
                run(controller, arguments)


def print_as(arguments: argparse.Namespace, value: Any, text: str) -> None:
    """One line: the value as JSON where that is asked for, else the text, if there is any."""
    sys.stdout.write((json.dumps(value) if arguments.json else text) + "\n" if arguments.json or text else "")
