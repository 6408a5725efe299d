"""`mpbroker cluster start|status|stop|kill|roll`: several brokers on this machine, for development and tests."""

from __future__ import annotations

import argparse
import json
import os

from mpbroker.cli.usage import UsageError, example_text
from mpbroker.errors import ConfigError

DESCRIPTION = """\
Run several brokers on this machine as one cluster: three replicas of each partition, and writes
with acks=all that survive the loss of any broker. Every broker is a program of its own, with its
data in D/broker-N and its log in D/broker-N.log; they listen on 127.0.0.1 alone.
`start` stays in the foreground until SIGTERM or Ctrl-C. Once every broker serves, stdout carries
one line, `mpbroker cluster ready controller=N bootstrap=HOST:PORT,…`. A broker that dies stays
dead until `start N`."""
EXAMPLES = (
    ("mpbroker cluster start", "three brokers on ports 9092, 9102 and 9112, their data in ./mpbroker-cluster"),
    ("mpbroker cluster start -n 3 --dir c --port 0 --override num.partitions=6", "on free ports, one setting changed"),
    (
        "mpbroker cluster kill 2 --dir c",
        "kill -9 of the whole of broker 2; `mpbroker cluster start 2 --dir c` brings it back",
    ),
    ("mpbroker cluster roll --dir c", "restart the brokers one by one while clients go on"),
    ("mpbroker cluster stop --dir c", "stop all of them"),
)
DEFAULT_DIRECTORY = "mpbroker-cluster"
VERBS = {
    "start": "run the cluster in the foreground, or start one broker of it again",
    "status": "show controller, brokers and how many partitions lack replicas",
    "stop": "stop all brokers",
    "kill": "kill -9 all processes of one broker",
    "roll": "restart one broker after the other, without a gap in service",
}


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command: a parser for each verb."""
    all_of_them = parser.add_subparsers(dest="verb", required=True, metavar="|".join(VERBS), title="subcommands")
    for name, text in VERBS.items():
        examples = tuple(example for example in EXAMPLES if example[0].startswith(f"mpbroker cluster {name}"))
        one = all_of_them.add_parser(
            name,
            help=text,
            description=f"{text[0].upper()}{text[1:]}.",
            epilog=example_text(examples) if examples else None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if name == "start":
            _define_start(one)
        elif name == "kill":
            one.add_argument("node", type=int, metavar="N", help="the broker's number")
        elif name == "status":
            one.add_argument("--json", action="store_true", help="print one JSON document")
        if name in ("stop", "roll", "start"):
            default = 60.0
            one.add_argument("--timeout", type=float, default=default, metavar="S", help="seconds to wait (default 60)")
        one.add_argument(
            "--dir",
            default=DEFAULT_DIRECTORY,
            metavar="D",
            help=f"the cluster's directory (default ./{DEFAULT_DIRECTORY})",
        )


def _define_start(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("node", type=int, nargs="?", metavar="N", help="only this broker of the cluster that runs")
    parser.add_argument("-n", "--brokers", type=int, metavar="COUNT", help="how many brokers (default 3)")
    parser.add_argument(
        "--port",
        type=int,
        metavar="P",
        help="port of the first broker, the next ones in steps of 10; 0: free ones (default 9092)",
    )
    parser.add_argument(
        "--store", metavar="STORE", help="where metadata is kept: sqlite, a file in D (default), or etcd://HOST:PORT,…"
    )
    parser.add_argument(
        "--override",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of all brokers, {node} in it being each one's number (may be repeated)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Runs the verb; returns the exit code."""
    directory = os.path.abspath(arguments.dir)
    match arguments.verb:
        case "start" if arguments.node is None:
            return _start(arguments, directory)
        case "status":
            return _status(arguments, directory)
    from mpbroker.cli import cluster_actions

    match arguments.verb:
        case "start":
            _refuse_cluster_arguments(arguments)
            return cluster_actions.start(directory, arguments.node, arguments.timeout)
        case "kill":
            return cluster_actions.kill(directory, arguments.node)
        case "stop":
            return cluster_actions.stop(directory, arguments.timeout)
    from mpbroker.cli.cluster_roll import roll

    return roll(directory, arguments.timeout)


def _start(arguments: argparse.Namespace, directory: str) -> int:
    from mpbroker.cli import cluster_foreground, cluster_plan

    if arguments.brokers is not None and not 1 <= arguments.brokers <= cluster_plan.MAX_BROKERS:
        raise ConfigError("-n", arguments.brokers, f"1 to {cluster_plan.MAX_BROKERS}")
    if arguments.port is not None and not 0 <= arguments.port <= 65535:
        raise ConfigError("--port", arguments.port, "0 to 65535")
    plan = cluster_plan.plan_for(directory, arguments.brokers, arguments.port, arguments.store, arguments.override)
    return cluster_foreground.run(plan)


def _refuse_cluster_arguments(arguments: argparse.Namespace) -> None:
    given = {"-n": arguments.brokers, "--port": arguments.port, "--store": arguments.store}
    for flag, value in given.items():
        if value is not None:
            raise UsageError(
                f"{flag} is for a whole cluster; `mpbroker cluster start {arguments.node}` starts one broker"
            )
    if arguments.override:
        raise UsageError("--override is for a whole cluster, when `mpbroker cluster start` begins it")


def _status(arguments: argparse.Namespace, directory: str) -> int:
    from mpbroker.cli import cluster_state
    from mpbroker.cli.cluster_plan import NoClusterHere, known_plan

    plan = known_plan(directory)
    with cluster_state.opened(plan) as store:
        found = cluster_state.as_document(plan, cluster_state.read_state(store, plan))
    if not any(broker["pid"] for broker in found["brokers"]):
        raise NoClusterHere(f"no broker of the cluster on {directory} runs")
    print(json.dumps(found) if arguments.json else _text(found))
    return 0


def _text(found: dict[str, object]) -> str:
    brokers = found["brokers"]
    assert isinstance(brokers, list)
    lines = [f"controller {found['controller']} (epoch {found['controller_epoch']})"]
    for broker in brokers:
        listeners = " ".join(f"{one['name']}://{one['host']}:{one['port']}" for one in broker["listeners"])
        pid = f" pid {broker['pid']} " if broker["pid"] else ""
        lines.append(f"broker {broker['node_id']}: {broker['state']}{pid}{listeners}")
    return "\n".join([*lines, f"{found['under_replicated']} partitions lack replicas"])
