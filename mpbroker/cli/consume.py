"""`mpbroker consume TOPIC`: print records, from the start, the end, an offset or a time, until the end or for ever."""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import sys

from mpbroker.cli import client_arguments, record_output, start_offsets
from mpbroker.cli.record_output import Printer
from mpbroker.cli.usage import UsageError
from mpbroker.client.consumer import LATEST, Consumer, offsets_for
from mpbroker.client.partition_leaders import PartitionLeaders
from mpbroker.client.topic_admin import ensure_partitions
from mpbroker.errors import ConfigError

DESCRIPTION = """\
Print the records of a topic. Ends with --count or --until-end; else it goes on until Ctrl-C."""
EXAMPLES = (
    ("mpbroker consume orders --from earliest --count 10", "the first ten values"),
    ("mpbroker consume orders -o -10 -e", "the last ten of each partition"),
    ("mpbroker consume orders -o earliest -e -K :", "keys and values, as `produce -K :` reads them"),
    (r"mpbroker consume orders -f '%p %o %k: %s\n'", "partition, offset, key and value of what comes from now on"),
    ("mpbroker consume orders --partition 0 --from 4711 --format json", "from an offset on, with everything"),
    ("mpbroker consume orders --from 2026-11-21T17:00:00", "from a time on (UTC unless it says otherwise)"),
)
MAX_WAIT_MS = 500


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    parser.add_argument("topic", metavar="TOPIC")
    _define_what(parser)
    _define_how(parser)
    client_arguments.define(parser)


def _define_what(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("which records")
    group.add_argument(
        "-p",
        "--partition",
        type=client_arguments.whole("--partition", 0),
        action="append",
        metavar="N",
        help="read this partition only (may be repeated; default: all)",
    )
    group.add_argument(
        "-o",
        "--from",
        dest="start",
        type=start_offsets.check,
        metavar="WHERE",
        help="earliest (the default with -e), latest (the default otherwise), an offset, -N for the last N of each "
        "partition, @MS or a date and time",
    )
    group.add_argument(
        "-c",
        "--count",
        type=client_arguments.whole("--count", 0),
        metavar="N",
        help="end after N records",
    )
    group.add_argument(
        "-e",
        "--until-end",
        action="store_true",
        help="end at the end of each partition, as it was when the command began",
    )


def _define_how(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how they are shown (default: values, one a line)")
    group.add_argument(
        "-f", "--format", metavar="FORMAT", help=f"json, or text: {record_output.FIELDS_HELP}, \\n newline"
    )
    group.add_argument("-J", "--json", dest="format", action="store_const", const="json", help="as --format json")
    group.add_argument("-K", "--key-separator", metavar="SEP", help="the key and SEP before each value")
    group.add_argument("--header-separator", metavar="SEP", help="NAME=VALUE,NAME=VALUE and SEP before that")
    group.add_argument("--null", default="", metavar="TEXT", help="how null is shown (default: as nothing)")
    group.add_argument("-Z", dest="null", action="store_const", const="NULL", help="as --null NULL")


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; returns the exit code."""
    write = _printer(arguments)
    with client_arguments.open_client(arguments) as client, PartitionLeaders(client) as leaders:
        there = ensure_partitions(client, arguments.topic, create=False)
        wanted = sorted(set(range(there) if arguments.partition is None else arguments.partition))
        if wanted and wanted[-1] >= there:
            raise ConfigError("--partition", wanted[-1], f"0 to {there - 1}")
        start = arguments.start or ("earliest" if arguments.until_end else "latest")
        positions = start_offsets.start_offsets(leaders, arguments.topic, wanted, start)
        ends = offsets_for(leaders, arguments.topic, wanted, LATEST) if arguments.until_end else {}
        consumer = Consumer(leaders, arguments.topic, positions)
        try:
            _print_records(consumer, write, ends, arguments.count)
        finally:
            sys.stdout.buffer.flush()
    return 0


def _printer(arguments: argparse.Namespace) -> Printer:
    null = os.fsencode(arguments.null)
    if arguments.format is None:
        return record_output.plain(arguments.key_separator, arguments.header_separator, null)
    if arguments.key_separator is not None or arguments.header_separator is not None:
        raise UsageError("--key-separator and --header-separator do not go with --format, which says it all")
    if arguments.format == "json":
        return record_output.as_json(arguments.topic)
    return record_output.by_format(arguments.format, arguments.topic, null)


def _print_records(consumer: Consumer, write: Printer, ends: dict[int, int], count: int | None) -> None:
    """Until `count` records are printed, or every partition of `ends` has been read up to there."""
    out, reader, printed = sys.stdout.buffer, _reader(), 0
    while printed != count:
        _leave_finished(consumer, ends)
        if not consumer.positions:
            return
        if reader.poll(0):
            raise BrokenPipeError  # `| head` has what it wanted: do not wait for a record to find out
        for partition, record in consumer.poll(MAX_WAIT_MS):
            if record.offset >= ends.get(partition, record.offset + 1):
                continue  # came after the command began
            out.write(write(partition, record))
            printed += 1
            if printed == count:
                break
        out.flush()


def _leave_finished(consumer: Consumer, ends: dict[int, int]) -> None:
    for partition, end in ends.items():
        if consumer.positions.get(partition, -1) >= end:
            del consumer.positions[partition]


def _reader() -> select.poll:
    """Says when whoever read our output has gone; never where output is no pipe."""
    reader = select.poll()
    with contextlib.suppress(OSError, AttributeError):  # output that is no descriptor
        reader.register(sys.stdout.fileno(), 0)  # POLLERR is always reported
    return reader
