"""The argument that names a broker on this machine, its data directory, and what is done without it: the broker in
./mpbroker-data, else the one that this user runs. For the commands that look at a broker from outside; those that read
copied traces show the same argument where only the standard library is, so the rest is imported when it is asked."""

import argparse
import os
from typing import TYPE_CHECKING

from mpbroker.errors import MpbrokerError, NoBrokerOfYours

if TYPE_CHECKING:
    from mpbroker.supervisor.broker_list import RunningBroker

HELP = "the broker's data directory (default ./mpbroker-data if one runs there, else that of your running broker)"


class SeveralBrokers(MpbrokerError):
    """None was named, and several could be meant. The message lists them, each with the command line that names it."""

    exit_code = 2

    def __init__(self, brokers: "list[RunningBroker]", command: str) -> None:
        lines = [f"  {command} --data-dir {one.data_dir}    ({' '.join(one.listeners)})" for one in brokers]
        super().__init__("\n".join([f"{len(brokers)} of your brokers run here; name the one you mean:", *lines]))


def define(parser: argparse.ArgumentParser, place: argparse._ActionsContainer | None = None) -> None:
    """Add `--data-dir D`; to `place`, if it goes with other arguments there."""
    (place or parser).add_argument("--data-dir", metavar="D", help=HELP)
    parser.set_defaults(command=parser.prog)


def default_directory() -> str:
    """Where `start` keeps records when nothing says otherwise; absolute."""
    from mpbroker.config.table import SETTINGS

    default: str = SETTINGS["log.dirs"].default or SETTINGS["log.dir"].default
    return os.path.abspath(default)


def directory(arguments: argparse.Namespace) -> str:
    """The data directory meant, absolute. SeveralBrokers, NoBrokerOfYours."""
    from mpbroker.supervisor import broker_list

    given: str | None = arguments.data_dir
    if given is not None:
        return os.path.abspath(given)
    default = default_directory()
    return default if broker_list.runs_on(default) else find(default, arguments.command)


def find(default: str, command: str) -> str:
    """The data directory of this user's one running broker."""
    from mpbroker.supervisor import broker_list

    brokers = broker_list.own_brokers()
    if len(brokers) > 1:
        raise SeveralBrokers(brokers[: broker_list.MAX_LISTED], command)
    if not brokers:
        raise NoBrokerOfYours(default, broker_list.others())
    return brokers[0].data_dir
