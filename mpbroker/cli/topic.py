"""`mpbroker topic create|list|describe|alter|add-partitions|delete`: topics through the protocol, on any broker."""

from __future__ import annotations

import argparse

from mpbroker.cli import client_arguments, topic_text
from mpbroker.cli.usage import UsageError
from mpbroker.cli.verbs import Verb, define_verbs, print_as, run_verb
from mpbroker.client.config_admin import TOPIC, Resource, change_configs
from mpbroker.client.network_client import NetworkClient
from mpbroker.client.topic_admin import (
    await_leaders,
    create_topic,
    delete_topic,
    describe_topic,
    grow_topic,
    list_topics,
)
from mpbroker.errors import ErrorCode, KafkaError

DESCRIPTION = "Create, list, describe, alter and delete topics, through the protocol, on any broker."
EXAMPLES = (
    ("mpbroker topic create orders --partitions 4", "a topic of four partitions"),
    ("mpbroker topic list", "names of all topics"),
    ("mpbroker topic describe orders", "its partitions, how far they reach, its own settings"),
    ("mpbroker topic create --help", "each of them has more, with examples"),
)
MAX_PARTITIONS, MAX_REPLICAS = (1 << 31) - 1, (1 << 15) - 1


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command: a parser for each verb."""
    define_verbs(parser, VERBS)


def run(arguments: argparse.Namespace) -> int:
    """Runs the verb; returns the exit code."""
    if arguments.verb == "alter":
        _check_alter(arguments)
    return run_verb(arguments, VERBS)


def _name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="TOPIC")


def _define_create(parser: argparse.ArgumentParser) -> None:
    _name(parser)
    parser.add_argument(
        "-p",
        "--partitions",
        type=client_arguments.whole("--partitions", 1, MAX_PARTITIONS),
        default=-1,
        metavar="N",
        help="default: the broker's num.partitions",
    )
    parser.add_argument(
        "-r",
        "--replication-factor",
        type=client_arguments.whole("--replication-factor", 1, MAX_REPLICAS),
        default=-1,
        metavar="N",
        help="how many brokers keep a copy; at most as many as there are (default: the broker's)",
    )
    parser.add_argument(
        "-c",
        "--config",
        type=client_arguments.pair("--config"),
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of this topic, as retention.ms=60000 (may be repeated)",
    )
    parser.add_argument("--if-not-exists", action="store_true", help="no error if the topic already exists")


def _create(client: NetworkClient, arguments: argparse.Namespace) -> None:
    made = True
    try:
        create_topic(client, arguments.name, arguments.partitions, dict(arguments.config), arguments.replication_factor)
    except KafkaError as error:
        if error.code != ErrorCode.TOPIC_ALREADY_EXISTS or not arguments.if_not_exists:
            raise
        made = False
    topic = await_leaders(client, arguments.name)
    what = f"created {topic.name} with" if made else f"{topic.name} already exists, with"
    print_as(arguments, topic_text.as_dict(topic), f"{what} {topic_text.partitions(len(topic.partitions))}")


def _list(client: NetworkClient, arguments: argparse.Namespace) -> None:
    topics = list_topics(client)
    print_as(arguments, [topic_text.as_dict(topic) for topic in topics], "\n".join(topic.name for topic in topics))


def _describe(client: NetworkClient, arguments: argparse.Namespace) -> None:
    found = topic_text.look_at(client, arguments.name)
    print_as(arguments, found, topic_text.as_text(found))


def _define_alter(parser: argparse.ArgumentParser) -> None:
    _name(parser)
    parser.add_argument(
        "-p",
        "--partitions",
        type=client_arguments.whole("--partitions", 1, MAX_PARTITIONS),
        metavar="N",
        help="how many partitions it is to have in all; more than now",
    )
    parser.add_argument(
        "-c",
        "--config",
        type=client_arguments.pair("--config"),
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting to change, as retention.ms=60000 (may be repeated); `mpbroker config unset` undoes it",
    )


def _check_alter(arguments: argparse.Namespace) -> None:
    if arguments.partitions is None and not arguments.config:
        raise UsageError("nothing to alter: give --partitions N or --config KEY=VALUE")


def _alter(client: NetworkClient, arguments: argparse.Namespace) -> None:
    if arguments.config:
        change_configs(client, Resource(TOPIC, arguments.name), dict(arguments.config))
    if arguments.partitions is not None:
        _grow(client, arguments, arguments.partitions)
        return
    found = topic_text.look_at(client, arguments.name)
    own = ", ".join(f"{key}={value}" for key, value in found["configs"].items())
    print_as(arguments, found, f"{arguments.name} has {own}")


def _define_add(parser: argparse.ArgumentParser) -> None:
    _name(parser)
    parser.add_argument(
        "more",
        type=client_arguments.whole("N", 1, MAX_PARTITIONS),
        metavar="N",
        help="how many partitions to add to those there are",
    )


def _add(client: NetworkClient, arguments: argparse.Namespace) -> None:
    present = len(describe_topic(client, arguments.name).partitions)
    _grow(client, arguments, min(present + arguments.more, MAX_PARTITIONS))


def _grow(client: NetworkClient, arguments: argparse.Namespace, count: int) -> None:
    grow_topic(client, arguments.name, count)
    topic = await_leaders(client, arguments.name)
    text = f"{topic.name} has {topic_text.partitions(len(topic.partitions))}"
    print_as(arguments, topic_text.as_dict(topic), text)


def _define_delete(parser: argparse.ArgumentParser) -> None:
    _name(parser)
    parser.add_argument("--if-exists", action="store_true", help="no error if there is no such topic")


def _delete(client: NetworkClient, arguments: argparse.Namespace) -> None:
    done = True
    try:
        delete_topic(client, arguments.name)
    except KafkaError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or not arguments.if_exists:
            raise
        done = False
    text = f"deleted {arguments.name}" if done else f"there is no topic {arguments.name}"
    print_as(arguments, {"name": arguments.name, "deleted": done}, text)


VERBS = {
    "create": Verb(
        "create a topic",
        (
            ("mpbroker topic create orders", "with the broker's num.partitions"),
            (
                "mpbroker topic create orders --partitions 4 --config retention.ms=60000",
                "four partitions, records kept for a minute",
            ),
            ("mpbroker topic create orders --if-not-exists", "for a script that may run twice"),
        ),
        _define_create,
        _create,
    ),
    "list": Verb(
        "list all topics",
        (("mpbroker topic list", "their names, one a line"), ("mpbroker topic list --json", "with their partitions")),
        lambda parser: None,
        _list,
    ),
    "describe": Verb(
        "show a topic's partitions, how far they reach, and its own settings",
        (("mpbroker topic describe orders", "for people"), ("mpbroker topic describe orders --json", "for a program")),
        _name,
        _describe,
    ),
    "alter": Verb(
        "change settings of a topic, or raise its number of partitions",
        (
            ("mpbroker topic alter orders --config retention.ms=60000", "records are kept for a minute from now on"),
            ("mpbroker topic alter orders --partitions 8", "eight in all; keys may move to other partitions"),
        ),
        _define_alter,
        _alter,
    ),
    "add-partitions": Verb(
        "add partitions to a topic",
        (("mpbroker topic add-partitions orders 2", "two more than now; keys may move to other partitions"),),
        _define_add,
        _add,
    ),
    "delete": Verb(
        "delete a topic and its records",
        (("mpbroker topic delete orders", "at once, without asking"),),
        _define_delete,
        _delete,
    ),
}
