"""`mpbroker adopt`: makes topics of the partition directories that lie in a data directory."""

import argparse
import os
from contextlib import ExitStack

from mpbroker.errors import ConfigError
from mpbroker.log import data_dir

DESCRIPTION = """\
Take in partition directories that belong to no topic: after metadata.db or meta.properties was
lost, directories restored from a backup or set aside as `-stray`, or a directory that Apache
Kafka wrote. Topics keep their ids and records; settings of their own have to be given again, and
until then nothing is deleted or compacted. Groups keep their offsets, and transactions go on. No
broker may run on the directory. What is in doubt stays as it is: folders that hold no log, say,
and topics of which more partitions are missing than are there."""
EXAMPLES = (
    ("mpbroker adopt /var/lib/mpbroker", "after its metadata was lost"),
    ("mpbroker adopt /disk1/data /disk2/data", "of a broker with several log.dirs: all of them, the first one first"),
    ("mpbroker adopt /tmp/kraft-combined-logs", "a directory of Apache Kafka, which must not run"),
)


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `adopt`."""
    parser.add_argument(
        "directory", metavar="D", nargs="+", help="the data directory; where log.dirs names several, all in that order"
    )
    parser.add_argument(
        "--node-id", type=int, metavar="N", help="node id for a directory without meta.properties (default 0)"
    )
    parser.add_argument(
        "--fill-missing",
        action="store_true",
        help="also topics of which most partitions are missing; missing ones begin empty, even if they had records",
    )
    for what in ("topics", "partitions"):
        parser.add_argument(
            f"--max-{what}", type=int, metavar="N", help=f"the broker's mpbroker.max.{what}, if it was raised"
        )


def run(arguments: argparse.Namespace) -> int:
    """Adopt and say what was taken in and what was left."""
    from mpbroker.controller import adoption

    paths = [os.path.abspath(path) for path in arguments.directory]
    for number, path in enumerate(paths):
        if not os.path.isdir(path):
            raise ConfigError("D", path, problem=f"there is no directory {path}")
        if any(os.path.samefile(path, other) for other in paths[:number]):
            raise ConfigError("D", path, problem=f"{path} is named twice")
    adoption.check(paths)
    topics, partitions = adoption.DEFAULT_ROOM
    room = (arguments.max_topics or topics, arguments.max_partitions or partitions)
    with ExitStack() as locks:
        for path in paths:
            locks.callback(data_dir.lock(path).close)
        done = adoption.adopt(paths[0], arguments.node_id, paths[1:], fill_missing=arguments.fill_missing, room=room)
    adoption.say(done, ", ".join(paths), print)
    return 0
