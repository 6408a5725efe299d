"""`mpbroker group list|describe|reset|delete`: consumer groups through the protocol, on any broker."""

from __future__ import annotations

import argparse

from mpbroker.cli import client_arguments, group_reset, group_text, moments
from mpbroker.cli.verbs import Verb, define_verbs, print_as, run_verb
from mpbroker.client.group_admin import ask_coordinator, ask_every_broker, delete_group, list_groups, when_ready
from mpbroker.client.network_client import NetworkClient
from mpbroker.errors import ConfigError, ErrorCode, KafkaError

DESCRIPTION = "List, describe, reset and delete consumer groups, through the protocol, on any broker."
EXAMPLES = (
    ("mpbroker group list", "names of all groups"),
    ("mpbroker group describe readers", "its members, how far it has read, how far it lags behind"),
    ("mpbroker group reset readers --to-earliest", "what reading everything again would change"),
    ("mpbroker group reset --help", "each of them has more, with examples"),
)
MAX_OFFSET, MAX_PARTITION = (1 << 63) - 1, (1 << 31) - 1


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command: a parser for each verb."""
    define_verbs(parser, VERBS)


def run(arguments: argparse.Namespace) -> int:
    """Runs the verb; returns the exit code."""
    return run_verb(arguments, VERBS)


def _list(client: NetworkClient, arguments: argparse.Namespace) -> None:
    groups = when_ready(lambda: sorted(ask_every_broker(client, list_groups)))
    print_as(arguments, [group._asdict() for group in groups], "\n".join(group.name for group in groups))


def _name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group", metavar="GROUP")


def _describe(client: NetworkClient, arguments: argparse.Namespace) -> None:
    found = ask_coordinator(client, arguments.group, lambda one: group_text.look_at(client, one, arguments.group))
    print_as(arguments, found, group_text.as_text(found))


def _define_reset(parser: argparse.ArgumentParser) -> None:
    _name(parser)
    parser.add_argument(
        "--topic",
        type=_topic,
        action="append",
        default=[],
        metavar="TOPIC[:P,P…]",
        help="a topic, or some of its partitions (may be repeated; default: all that the group has committed)",
    )
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--to-earliest", action="store_true", help="to the first record there is")
    target.add_argument("--to-latest", action="store_true", help="past the last record")
    target.add_argument(
        "--to-offset", type=client_arguments.whole("--to-offset", 0), metavar="N", help="to an offset, or the nearest"
    )
    target.add_argument(
        "--shift-by",
        type=client_arguments.whole("--shift-by", -MAX_OFFSET),
        metavar="N",
        help="by N records on, or back if N is negative",
    )
    target.add_argument(
        "--to-datetime",
        type=lambda text: moments.epoch_ms("--to-datetime", text),
        metavar="TIME",
        help="to the first record from a time on: milliseconds since 1970, or 2026-11-21T17:00:00 (UTC)",
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--dry-run", action="store_true", help="only show what would change (the default)")
    how.add_argument("--execute", action="store_true", help="change it")


def _topic(text: str) -> tuple[str, list[int]]:
    """For argparse: a topic and partitions of it, none for all; ConfigError."""
    topic, colon, numbers = text.partition(":")
    if not topic or (colon and not numbers):
        raise ConfigError("--topic", text, "TOPIC or TOPIC:P,P…, as orders:0,1")
    read = client_arguments.whole("--topic", 0, MAX_PARTITION)
    return topic, [read(number) for number in numbers.split(",")] if colon else []


def _reset(client: NetworkClient, arguments: argparse.Namespace) -> None:
    group = arguments.group
    moves = ask_coordinator(client, group, lambda one: group_reset.plan(client, one, arguments))
    if arguments.execute:
        ask_coordinator(client, group, lambda one: group_reset.execute(one, group, moves))
    told = group_reset.as_dict(group, moves, arguments.execute)
    print_as(arguments, told, group_reset.as_text(group, moves, arguments.execute))


def _define_delete(parser: argparse.ArgumentParser) -> None:
    _name(parser)
    parser.add_argument("--if-exists", action="store_true", help="no error if there is no such group")


def _delete(client: NetworkClient, arguments: argparse.Namespace) -> None:
    group, done = arguments.group, True
    try:
        ask_coordinator(client, group, lambda one: delete_group(one, group))
    except KafkaError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND or not arguments.if_exists:
            raise
        done = False
    text = f"deleted {group}" if done else f"there is no group {group}"
    print_as(arguments, {"name": group, "deleted": done}, text)


VERBS = {
    "list": Verb(
        "list all consumer groups",
        (("mpbroker group list", "their names, one a line"), ("mpbroker group list --json", "with their states")),
        lambda parser: None,
        _list,
    ),
    "describe": Verb(
        "show a group's members, and how far it has read in each partition",
        (
            ("mpbroker group describe readers", "for people"),
            ("mpbroker group describe readers --json", "for a program"),
        ),
        _name,
        _describe,
    ),
    "reset": Verb(
        "set the offsets of a group without members; without --execute only show what would change",
        (
            ("mpbroker group reset readers --to-earliest", "what would change"),
            ("mpbroker group reset readers --to-earliest --execute", "read everything again"),
            ("mpbroker group reset readers --topic orders:0,1 --shift-by -10 --execute", "the last ten again"),
        ),
        _define_reset,
        _reset,
    ),
    "delete": Verb(
        "delete a group without members, and its offsets",
        (("mpbroker group delete readers", "at once, without asking"),),
        _define_delete,
        _delete,
    ),
}
