"""`mpbroker txn list|describe|abort`: transactions through the protocol, on any broker."""

from __future__ import annotations

import argparse

from mpbroker.cli.moments import moment_text
from mpbroker.cli.verbs import Verb, define_verbs, print_as, run_verb
from mpbroker.client.group_admin import ask_coordinator, ask_every_broker, when_ready
from mpbroker.client.network_client import NetworkClient
from mpbroker.client.transaction_admin import (
    ONGOING,
    STATES,
    TRANSACTION,
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
    found = ask_coordinator(client, name, lambda one: describe_transaction(one, name), TRANSACTION)
    if found.state == ONGOING:
        ask_coordinator(client, name, lambda one: abort_transaction(one, found), TRANSACTION)
    is_aborted = found.state == ONGOING
    text = f"aborted the transaction of {name}; its producer is fenced" if is_aborted else f"{name} has no transaction"
    print_as(arguments, {"transactional_id": name, "aborted": is_aborted}, text)


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
        (("mpbroker txn abort payments", "at once, without asking"),),
        _name,
        _abort,
    ),
}
