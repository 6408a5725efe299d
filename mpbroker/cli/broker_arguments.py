"""The argument that names a broker on this machine, its data directory, and what is done without it: the broker in
./mpbroker-data, else the one that this user runs. For the commands that look at a broker from outside."""

import argparse
import os

from mpbroker.config.table import SETTINGS
from mpbroker.errors import MpbrokerError, NoBrokerOfYours
from mpbroker.supervisor import broker_list

HELP = "the broker's data directory (default ./mpbroker-data if one runs there, else that of your running broker)"


class SeveralBrokers(MpbrokerError):
    """None was named, and several could be meant. The message lists them, each with the command line that names it."""

    exit_code = 2

    def __init__(self, brokers: list[broker_list.RunningBroker], command: str) -> None:
        lines = [f"  {command} --data-dir {one.data_dir}    ({' '.join(one.listeners)})" for one in brokers]
        super().__init__("\n".join([f"{len(brokers)} of your brokers run here; name the one you mean:", *lines]))


def define(parser: argparse.ArgumentParser) -> None:
    """Add `--data-dir D`."""
    parser.add_argument("--data-dir", metavar="D", help=HELP)
    parser.set_defaults(command=parser.prog)


def default_directory() -> str:
    """Where `start` keeps records when nothing says otherwise; absolute."""
    default: str = SETTINGS["log.dirs"].default or SETTINGS["log.dir"].default
    return os.path.abspath(default)


def directory(arguments: argparse.Namespace) -> str:
    """The data directory meant, absolute. SeveralBrokers, NoBrokerOfYours."""
    given: str | None = arguments.data_dir
    if given is not None:
        return os.path.abspath(given)
    default = default_directory()
    return default if broker_list.runs_on(default) else find(default, arguments.command)


def find(default: str, command: str) -> str:
    """The data directory of this user's one running broker."""
    brokers = broker_list.own_brokers()
    if len(brokers) > 1:
        raise SeveralBrokers(brokers[: broker_list.MAX_LISTED], command)
    if not brokers:
        raise NoBrokerOfYours(default, broker_list.others())
    return brokers[0].data_dir
