"""The argument that names a broker on this machine: its data directory. For the commands that look at it from
outside."""

import argparse
import os

from mpbroker.config.table import SETTINGS


def define(parser: argparse.ArgumentParser) -> None:
    """Add `--data-dir D`."""
    parser.add_argument("--data-dir", metavar="D", help="the broker's data directory (default ./mpbroker-data)")


def directory(arguments: argparse.Namespace) -> str:
    """The data directory meant, absolute."""
    return os.path.abspath(arguments.data_dir or SETTINGS["log.dirs"].default or SETTINGS["log.dir"].default)
