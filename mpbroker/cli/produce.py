"""`mpbroker produce TOPIC`: lines, JSON or whole files as records, with keys, headers, timestamps and compression."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

from mpbroker.cli import client_arguments, moments
from mpbroker.cli.record_batches import Batches
from mpbroker.cli.record_input import FORMATS, JSON, LINES, Given, items, parse_header
from mpbroker.cli.usage import UsageError
from mpbroker.client.partition_leaders import PartitionLeaders
from mpbroker.client.producer import Producer
from mpbroker.client.topic_admin import ensure_partitions
from mpbroker.errors import ConfigError, MpbrokerError
from mpbroker.record.compression import CODEC_NAMES

DESCRIPTION = """\
Write records to a topic: one for each line of standard input, or for each line of JSON, or one
of all the input. A record goes to --partition, or where its key belongs (as the Java client
decides); without a key all partitions take turns, a batch each. With acks=all a lost connection is
made again and nothing is stored twice."""
EXAMPLES = (
    ("seq 1000 | mpbroker produce numbers", "a thousand records, batches in turn to all partitions"),
    ("echo 'jane:blue' | mpbroker produce colours -K :", "key jane, value blue"),
    ("echo blue | mpbroker produce colours -k jane -H source=shop -z zstd", "one key and one header for all"),
    (
        "mpbroker consume orders -o earliest -e -f json | mpbroker produce copy -f json",
        "a copy with keys, headers and timestamps",
    ),
    ("mpbroker produce pictures -f raw -k cat --file cat.jpg", "a file as one record"),
    ("mpbroker produce events --partition 2 --acks 1 < events.txt", "one partition, acknowledged by the leader alone"),
)
STDIN = 0
PROGRESS_EVERY_RECORDS = 100_000
ACKS = {"all": -1, "-1": -1, "0": 0, "1": 1}


class ProduceFailed(MpbrokerError):
    """What went wrong, and how much was written before."""


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    parser.add_argument("topic", metavar="TOPIC", help="created with the broker's defaults if it does not exist")
    _define_records(parser)
    _define_sending(parser)
    client_arguments.define(parser)


def _define_records(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what becomes a record")
    group.add_argument("-f", "--format", choices=FORMATS, default=FORMATS[0], help="default: %(default)s")
    group.add_argument("-J", dest="format", action="store_const", const=JSON, help="as --format json")
    group.add_argument(
        "--file", action="append", default=[], metavar="F", help="read F instead of standard input (may be repeated)"
    )
    group.add_argument("-k", "--key", metavar="KEY", help="the key of every record that has none of its own")
    group.add_argument("-K", "--key-separator", metavar="SEP", help="the text of a line before SEP is its key")
    group.add_argument(
        "-H",
        "--header",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a header of every record (may be repeated)",
    )
    group.add_argument(
        "--header-separator", metavar="SEP", help="each line begins with its headers, NAME=VALUE,NAME=VALUE, then SEP"
    )
    group.add_argument("--null", metavar="TEXT", help="a value or key that is TEXT becomes null (a tombstone)")
    group.add_argument("-Z", dest="null", action="store_const", const="", help="an empty one does, as --null ''")
    group.add_argument("--timestamp", metavar="MS|TIME", help="the time of every record (default: the time it is sent)")


def _define_sending(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how it is sent")
    group.add_argument("-p", "--partition", type=client_arguments.whole("--partition", 0), metavar="N")
    group.add_argument("-z", "--compression", choices=CODEC_NAMES, default="none", help="default: %(default)s")
    group.add_argument("--acks", choices=sorted(ACKS), default="all", help="default: %(default)s")


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; returns the exit code."""
    given = _given(arguments)
    with client_arguments.open_client(arguments) as client, PartitionLeaders(client) as leaders:
        partitions = ensure_partitions(client, arguments.topic, create=True)
        if arguments.partition is not None and arguments.partition >= partitions:
            raise ConfigError("--partition", arguments.partition, f"0 to {partitions - 1}")
        codec = CODEC_NAMES.index(arguments.compression)
        producer = Producer(leaders, arguments.topic, ACKS[arguments.acks], codec)
        try:
            _send_all(producer, Batches(partitions, arguments.partition), arguments.file, given)
        except KeyboardInterrupt:
            client_arguments.say(_tally(producer, arguments.topic))
            raise
        except MpbrokerError as error:
            failed = ProduceFailed(f"{error}; before that: {_tally(producer, arguments.topic)}")
            failed.exit_code = error.exit_code
            raise failed from error
    client_arguments.say(_tally(producer, arguments.topic))
    return 0


def _given(arguments: argparse.Namespace) -> Given:
    """What the command line says about every record; UsageError, ConfigError."""
    for flag, text in (("-K", arguments.key_separator), ("--header-separator", arguments.header_separator)):
        if text == "":
            raise UsageError(f"{flag} needs at least one character")
        if text is not None and arguments.format != LINES:
            raise UsageError(f"{flag} belongs to --format lines")
    if arguments.null is not None and arguments.format == JSON:
        raise UsageError("--null belongs to --format lines and raw; JSON has a null of its own")
    if not all(text.partition("=")[0] for text in arguments.header):
        raise UsageError("-H NAME=VALUE: the name is missing")
    moment = arguments.timestamp
    return Given(
        arguments.format,
        _encoded(arguments.key_separator),
        _encoded(arguments.header_separator),
        _encoded(arguments.null),
        _encoded(arguments.key),
        tuple(parse_header(os.fsencode(text)) for text in arguments.header),
        None if moment is None else moments.epoch_ms("--timestamp", moment),
    )


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else os.fsencode(text)


def _send_all(producer: Producer, batches: Batches, files: list[str], given: Given) -> None:
    for item in items(_sources(files), given):
        for partition, records in batches.rest() if item is None else batches.add(item):
            before = producer.acknowledged
            producer.send(partition, records)
            if producer.acknowledged // PROGRESS_EVERY_RECORDS != before // PROGRESS_EVERY_RECORDS:
                client_arguments.say(f"{producer.acknowledged} records")
    for partition, records in batches.rest():
        producer.send(partition, records)


def _sources(files: list[str]) -> Iterator[int]:
    if not files:
        yield STDIN
    for path in files:
        with open(path, "rb", buffering=0) as file:
            yield file.fileno()


def _tally(producer: Producer, topic: str) -> str:
    """What is known to be stored, and what may be."""
    text = f"{_records(producer.acknowledged)} written to {topic}"
    if not producer.unknown:
        return text
    if not producer.acknowledged:
        return f"{_records(producer.unknown)} sent to {topic}, not acknowledged"
    return f"{text}, {producer.unknown} more sent and not acknowledged"


def _records(count: int) -> str:
    return f"{count} record{'' if count == 1 else 's'}"
