"""`mpbroker txn list|describe|abort`: transactions through the protocol, on any broker."""

from __future__ import annotations

import argparse

from mpbroker.cli.moments import moment_text
from mpbroker.cli.usage import UsageError
from mpbroker.cli.verbs import Verb, define_verbs, print_as, run_verb
from mpbroker.client.group_admin import ask_coordinator, ask_every_broker, when_ready
from mpbroker.client.network_client import NetworkClient
from mpbroker.client.transaction_admin import (
    ONGOING,
    STATES,
    TRANSACTION,
    abort_at,
    abort_transaction,
    describe_transaction,
    list_transactions,
)

DESCRIPTION = "List, describe and abort transactions, through the protocol, on any broker."
EXAMPLES = (
    ("mpbroker txn list", "all transactional ids and their states"),
    ("mpbroker txn describe payments", "its producer, since when, which partitions"),
    ("mpbroker txn abort payments", "end a transaction whose producer is gone; it is fenced if it is not"),
)


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command: a parser for each verb."""
    define_verbs(parser, VERBS)


def run(arguments: argparse.Namespace) -> int:
    """Runs the verb; returns the exit code."""
    return run_verb(arguments, VERBS)


def _define_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--state",
        action="append",
        default=[],
        type=_state,
        metavar="STATE",
        help=f"only those in this state, in any case: {', '.join(STATES)} (may be repeated; default: all)",
    )


def _state(text: str) -> str:
    """As a broker wants it, which knows one case; Kafka's tools take any."""
    for state in STATES:
        if state.lower() == text.strip().lower():
            return state
    raise argparse.ArgumentTypeError(f"no state {text!r}; there are {', '.join(STATES)}")


def _list(client: NetworkClient, arguments: argparse.Namespace) -> None:
    found = when_ready(lambda: sorted(ask_every_broker(client, lambda one: list_transactions(one, arguments.state))))
    text = "\n".join(f"{one.transactional_id}  {one.state}  producer {one.producer_id}" for one in found)
    print_as(arguments, [one._asdict() for one in found], text)


def _name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("transactional_id", metavar="ID")


def _name_or_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("transactional_id", metavar="ID", nargs="?")
    place = parser.add_argument_group("instead of ID, a transaction that no coordinator knows any more")
    place.add_argument("--topic", metavar="TOPIC")
    place.add_argument("--partition", type=int, metavar="N")
    place.add_argument("--start-offset", type=int, metavar="OFFSET", help="the offset that it begins at")


def _describe(client: NetworkClient, arguments: argparse.Namespace) -> None:
    name = arguments.transactional_id
    found = ask_coordinator(client, name, lambda one: describe_transaction(one, name), TRANSACTION)
    shown = found._asdict()
    shown["partitions"] = [{"topic": topic, "partition": number} for topic, number in found.partitions]
    lines = [
        f"{found.transactional_id}  {found.state}",
        f"  producer {found.producer_id}, epoch {found.producer_epoch}, timeout {found.timeout_ms} ms",
    ]
    if found.state == ONGOING:
        lines.append(f"  since {moment_text(found.started_ms)}")
    lines += [f"  {topic}-{number}" for topic, number in found.partitions]
    print_as(arguments, shown, "\n".join(lines))


def _abort(client: NetworkClient, arguments: argparse.Namespace) -> None:
    name = arguments.transactional_id
    place = (arguments.topic, arguments.partition, arguments.start_offset)
    if (place.count(None) != 0) if name is None else (place.count(None) != len(place)):
        raise UsageError("name an ID, or --topic, --partition and --start-offset")
    if name is None:
        _abort_at(client, arguments)
        return
    found = ask_coordinator(client, name, lambda one: describe_transaction(one, name), TRANSACTION)
    if found.state == ONGOING:
        ask_coordinator(client, name, lambda one: abort_transaction(one, found), TRANSACTION)
    is_aborted = found.state == ONGOING
    text = f"aborted the transaction of {name}; its producer is fenced" if is_aborted else f"{name} has no transaction"
    print_as(arguments, {"transactional_id": name, "aborted": is_aborted}, text)


def _abort_at(client: NetworkClient, arguments: argparse.Namespace) -> None:
    topic, partition, offset = arguments.topic, arguments.partition, arguments.start_offset
    producer_id = when_ready(lambda: abort_at(client, topic, partition, offset))
    where = f"{topic}-{partition} from offset {offset} on"
    text = f"no transaction is open in {where}"
    if producer_id is not None:
        text = f"aborted the transaction of producer {producer_id} in {where}"
    shown = {"topic": topic, "partition": partition, "producer_id": producer_id, "aborted": producer_id is not None}
    print_as(arguments, shown, text)


VERBS = {
    "list": Verb(
        "list all transactional ids",
        (("mpbroker txn list --state Ongoing", "those with a transaction that is not decided"),),
        _define_list,
        _list,
    ),
    "describe": Verb(
        "show a transactional id's producer, its transaction, and the partitions in it",
        (("mpbroker txn describe payments --json", "for a program"),),
        _name,
        _describe,
    ),
    "abort": Verb(
        "abort the ongoing transaction of an id, and fence its producer",
        (
            ("mpbroker txn abort payments", "at once, without asking"),
            (
                "mpbroker txn abort --topic t --partition 1 --start-offset 30",
                "one that was adopted: nobody else ends it",
            ),
        ),
        _name_or_place,
        _abort,
    ),
}
