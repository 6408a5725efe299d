"""`mpbroker txn list|describe|abort`: transactions through the protocol, on any broker."""

from __future__ import annotations

import argparse

from mpbroker.cli.moments import moment_text
from mpbroker.cli.verbs import Verb, define_verbs, print_as, run_verb
from mpbroker.client.group_admin import at_coordinator, brokers_of
from mpbroker.client.network_client import NetworkClient
from mpbroker.client.transaction_admin import (
    ONGOING,
    TRANSACTION,
    TransactionListing,
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
        metavar="STATE",
        help="only those that are Ongoing, say (may be repeated; default: all)",
    )


def _list(client: NetworkClient, arguments: argparse.Namespace) -> None:
    found = _of_all(client, arguments.state)
    text = "\n".join(f"{one.transactional_id}  {one.state}  producer {one.producer_id}" for one in found)
    print_as(arguments, [one._asdict() for one in found], text)


def _of_all(client: NetworkClient, states: list[str]) -> list[TransactionListing]:
    """Those of every broker."""
    brokers = brokers_of(client)
    if len(brokers) <= 1:
        return list_transactions(client, states)
    found: list[TransactionListing] = []
    for broker in brokers:
        with NetworkClient(broker.host, broker.port, client.client_id, client.timeout_ms) as one:
            found += list_transactions(one, states)
    return sorted(found)


def _name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("transactional_id", metavar="ID")


def _describe(client: NetworkClient, arguments: argparse.Namespace) -> None:
    with at_coordinator(client, arguments.transactional_id, TRANSACTION) as coordinator:
        found = describe_transaction(coordinator, arguments.transactional_id)
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
    with at_coordinator(client, name, TRANSACTION) as coordinator:
        found = describe_transaction(coordinator, name)
        if found.state == ONGOING:
            abort_transaction(coordinator, found)
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
