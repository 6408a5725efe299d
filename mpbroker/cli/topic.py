"""`mpbroker topic create|list|describe|delete`: topics through the protocol, on any broker."""

from __future__ import annotations

import json
import sys

from mpbroker.client.network_client import connect
from mpbroker.client.topic_admin import create_topic, delete_topic, describe_topic, list_topics, topic_configs
from mpbroker.errors import ConfigError

DESCRIPTION = "Create, list, describe and delete topics, through the protocol, on any broker."
EXAMPLES = (
    (
        "mpbroker topic create orders --partitions 4 --config retention.ms=60000",
        "four partitions, records kept for a minute",
    ),
    ("mpbroker topic list", "names of all topics"),
    ("mpbroker topic describe orders --json", "partitions and changed settings, for a program"),
)
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
DYNAMIC_TOPIC_CONFIG = 1


def define(parser) -> None:
    """The arguments of this command."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="create|list|describe|delete")
    for verb, text in (
        ("create", "create a topic"),
        ("list", "list all topics"),
        ("describe", "show partitions and changed settings"),
        ("delete", "delete a topic"),
    ):
        one = verbs.add_parser(verb, help=text, description=text)
        if verb != "list":
            one.add_argument("name")
        if verb == "create":
            one.add_argument("--partitions", type=int, default=-1, help="default: the broker's num.partitions")
            one.add_argument("--config", action="append", default=[], metavar="K=V", help="a topic setting")
        one.add_argument("--bootstrap", default=DEFAULT_BOOTSTRAP, metavar="H:P", help="default: %(default)s")
        one.add_argument("--json", action="store_true", help="print JSON")


def run(args) -> int:
    """Runs the command; returns the exit code."""
    with connect(args.bootstrap) as client:
        return _VERBS[args.verb](client, args)


def _create(client, args) -> int:
    configs = {}
    for pair in args.config:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise ConfigError("--config", pair, "KEY=VALUE")
        configs[key] = value
    create_topic(client, args.name, args.partitions, configs)
    topic = describe_topic(client, args.name)
    _print(args, _as_dict(topic), f"created {topic.name} with {len(topic.partitions)} partition(s)")
    return 0


def _list(client, args) -> int:
    topics = list_topics(client)
    _print(args, [_as_dict(topic) for topic in topics], "\n".join(topic.name for topic in topics))
    return 0


def _describe(client, args) -> int:
    topic = describe_topic(client, args.name)
    configs = {
        key: row["value"]
        for key, row in topic_configs(client, args.name).items()
        if row["source"] == DYNAMIC_TOPIC_CONFIG
    }
    lines = [f"{topic.name}: {len(topic.partitions)} partition(s)"]
    lines += [f"  setting {key}={value}" for key, value in sorted(configs.items())]
    lines += [
        f"  partition {p['id']}: leader {p['leader']}, replicas {p['replicas']}, in sync {p['isr']}"
        for p in topic.partitions
    ]
    _print(args, {**_as_dict(topic), "configs": configs}, "\n".join(lines))
    return 0


def _delete(client, args) -> int:
    delete_topic(client, args.name)
    _print(args, {"name": args.name, "deleted": True}, f"deleted {args.name}")
    return 0


def _as_dict(topic) -> dict:
    return {"name": topic.name, "internal": topic.internal, "partitions": topic.partitions}


def _print(args, value, text: str) -> None:
    sys.stdout.write((json.dumps(value) if args.json else text) + "\n" if args.json or text else "")


_VERBS = {"create": _create, "list": _list, "describe": _describe, "delete": _delete}
