"""`mpbroker log dump FILE…`: what the files of a partition hold; needs no broker."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from mpbroker.cli.usage import UsageError, example_text

if TYPE_CHECKING:
    from mpbroker.cli.log_dump import Entry

DESCRIPTION = "Look into the files of a partition. They are only read, and may be in use."
EXAMPLES = (
    ("mpbroker log dump mpbroker-data/orders-0/00000000000000000000.log", "batches and records of a segment"),
    ("mpbroker log dump --help", "indexes, producer snapshots, committed offsets"),
)
DUMP_EXAMPLES = (
    ("mpbroker log dump mpbroker-data/orders-0/00000000000000000000.log", "batches and records of a segment"),
    ("mpbroker log dump --batches mpbroker-data/orders-0/00000000000000000000.log", "batches alone"),
    ("mpbroker log dump mpbroker-data/orders-0/00000000000000000000.index", "offsets and positions of an index"),
    ("mpbroker log dump --offsets mpbroker-data/__consumer_offsets-3/00000000000000000000.log", "groups, offsets"),
)


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of this command."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="dump", title="subcommands")
    dump = verbs.add_parser(
        "dump",
        help="print batches and records of segments, entries of indexes and producer snapshots",
        description="Print batches and records of segments (.log), entries of indexes (.index, .timeindex, .txnindex), "
        "and producers of snapshots (.snapshot). Ends with exit code 1 where a file is damaged.",
        epilog=example_text(DUMP_EXAMPLES),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    dump.add_argument("files", nargs="+", metavar="FILE", help="NNN.log, .index, .timeindex, .txnindex or .snapshot")
    what = dump.add_mutually_exclusive_group()
    what.add_argument("--batches", action="store_true", help="of segments only the batches, without their records")
    what.add_argument("--offsets", action="store_true", help="records of __consumer_offsets as groups and offsets")
    dump.add_argument("--json", action="store_true", help="print one JSON object a line")


def run(arguments: argparse.Namespace) -> int:
    """Print every file; DumpError where one is damaged, after what stands before it."""
    from mpbroker.cli.log_dump import KINDS, entries

    for path in arguments.files:
        if os.path.splitext(path)[1] not in KINDS:
            raise UsageError(f"{path}: its name should end in one of {' '.join(KINDS)}")
    for path in arguments.files:
        if len(arguments.files) > 1 and not arguments.json:
            print(f"{path}:")
        for entry in entries(path, not arguments.batches, arguments.offsets):
            line = json.dumps({"file": path} | entry) if arguments.json else as_text(entry)
            sys.stdout.write(line + "\n")
    return 0


def as_text(entry: Entry) -> str:
    """One line: a batch in words, records of it indented, anything else as names and values."""
    if entry["kind"] == "batch":
        return _batch(entry)
    fields = [f"{name} {_value(value)}" for name, value in entry.items() if name != "kind" and value != []]
    return ("  " if entry["kind"] == "record" else "") + ", ".join(fields)


def _batch(entry: Entry) -> str:
    count, producer = entry["records"], entry["producer_id"]
    parts = [
        f"batch at byte {entry['position']}: offsets {entry['base_offset']} to {entry['last_offset']}",
        f"{count} record{'' if count == 1 else 's'}",
        f"{entry['bytes']} bytes",
        entry["codec"] if entry["codec"] != "none" else "not compressed",
        f"timestamps {entry['base_timestamp']} to {entry['max_timestamp']}",
        f"leader epoch {entry['leader_epoch']}",
    ]
    if producer >= 0:
        parts.append(f"producer {producer} epoch {entry['producer_epoch']} sequence {entry['base_sequence']}")
    return ", ".join([*parts, *entry["flags"]])


def _value(value: Any) -> str:
    return "none" if value is None else value if isinstance(value, str) and value else json.dumps(value)
