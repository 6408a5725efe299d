"""`mpbroker consume TOPIC`: print records, from the start, the end, an offset or a time."""

from __future__ import annotations

import base64
import contextlib
import json
import select
import sys

from mpbroker.cli.topic import DEFAULT_BOOTSTRAP
from mpbroker.client.consumer import EARLIEST, LATEST, Consumer, offset_for
from mpbroker.client.network_client import NetworkClient, connect
from mpbroker.client.topic_admin import ensure_partitions
from mpbroker.errors import ConfigError

DESCRIPTION = "Print the records of a topic."
EXAMPLES = (
    ("mpbroker consume orders --from earliest --count 10", "the first ten values"),
    (
        "mpbroker consume orders --partition 0 --from 4711 --json",
        "from an offset on, with keys, headers and timestamps",
    ),
    ("mpbroker consume orders --from @1764000000000", "from a time on, in milliseconds since 1970"),
)
MAX_WAIT_MS = 500


def define(parser) -> None:
    """The arguments of this command."""
    parser.add_argument("topic")
    parser.add_argument("--partition", type=int, help="default: all")
    parser.add_argument(
        "--from",
        dest="start",
        default="latest",
        metavar="earliest|latest|OFFSET|@MS",
        help="default: latest; @MS is milliseconds since 1970",
    )
    parser.add_argument("--count", type=int, help="end after that many records; default: go on until interrupted")
    parser.add_argument("--json", action="store_true", help="one JSON object per record")
    parser.add_argument("--bootstrap", default=DEFAULT_BOOTSTRAP, metavar="H:P", help="default: %(default)s")


def run(args) -> int:
    """Runs the command; returns the exit code."""
    if args.count is not None and args.count < 0:
        raise ConfigError("--count", args.count, "0 or more")
    with connect(args.bootstrap) as client:
        partitions = ensure_partitions(client, args.topic, create=False)
        if args.partition is not None and not 0 <= args.partition < partitions:
            raise ConfigError("--partition", args.partition, f"0 to {partitions - 1}")
        wanted = range(partitions) if args.partition is None else [args.partition]
        positions = {number: _start(client, args, number) for number in wanted}
        _print_records(Consumer(client, args.topic, positions), args)
    return 0


def _start(client: NetworkClient, args, partition: int) -> int:
    """The first offset to read of a partition, from the text of --from."""
    text = args.start
    if text in ("earliest", "latest"):
        return offset_for(client, args.topic, partition, EARLIEST if text == "earliest" else LATEST)
    if text.startswith("@") and text[1:].isdigit():
        return offset_for(client, args.topic, partition, int(text[1:]))
    if text.isdigit():
        return int(text)
    raise ConfigError("--from", text, "earliest, latest, an offset, or @ and milliseconds since 1970")


def _print_records(consumer: Consumer, args) -> None:
    printed = 0
    reader = _reader()
    while args.count is None or printed < args.count:
        if reader.poll(0):
            raise BrokenPipeError  # `| head` has what it wanted: do not wait for a record to find out
        for partition, record in consumer.poll(MAX_WAIT_MS):
            _print_record(args, partition, record)
            printed += 1
            if printed == args.count:
                break
        sys.stdout.flush()


def _reader() -> select.poll:
    """Says when whoever read our output has gone; never where output is no pipe."""
    reader = select.poll()
    with contextlib.suppress(OSError, AttributeError):  # output that is no descriptor
        reader.register(sys.stdout.fileno(), 0)  # POLLERR is always reported
    return reader


def _print_record(args, partition: int, record) -> None:
    if args.json:
        sys.stdout.write(
            json.dumps(
                {
                    "partition": partition,
                    "offset": record.offset,
                    "timestamp": record.timestamp,
                    "key": _text(record.key),
                    "value": _text(record.value),
                    "headers": [[name.decode("utf-8", "replace"), _text(value)] for name, value in record.headers],
                }
            )
            + "\n"
        )
        return
    sys.stdout.buffer.write((record.value or b"") + b"\n")


def _text(value: bytes | None):
    """UTF-8 as a string; anything else as {"base64": …}, so that no byte is lost."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
