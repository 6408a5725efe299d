"""Arguments that say which part of which traces a command reads. Runs in the command's process."""

import argparse
import os
from datetime import UTC, datetime
from typing import Any

from mpbroker.errors import MpbrokerError


class BadTime(MpbrokerError):
    """A time that cannot be read."""

    exit_code = 2


def define_input(parser: argparse.ArgumentParser) -> None:
    """--in, --data-dir."""
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--in", dest="paths", nargs="+", metavar="T",
                       help="folders with traces (searched downwards), segment files, or compacted traces")
    place.add_argument("--data-dir", metavar="D", default="mpbroker-data",
                       help="without --in: the broker's data directory, whose traces folder is read (default: %(default)s)")


def define_slice(parser: argparse.ArgumentParser) -> None:
    """--from, --to, --api, --broker."""
    parser.add_argument("--from", dest="from_time", metavar="TIME", help="only requests that began at this time or later: "
                        "2026-11-21T17:00:00 (UTC unless it says otherwise) or seconds since 1970")
    parser.add_argument("--to", dest="to_time", metavar="TIME", help="only requests that began before this time")
    parser.add_argument("--api", dest="apis", action="append", metavar="NAME", help="only this API (may be given several times)")
    parser.add_argument("--broker", dest="brokers", action="append", type=int, metavar="ID", help="only this broker (several times)")


def paths_of(arguments: argparse.Namespace) -> list[str]:
    """Where to read."""
    return list(arguments.paths or [os.path.join(arguments.data_dir, "traces")])


def slice_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """As open_input takes it."""
    return {"from_ns": epoch_ns(arguments.from_time), "to_ns": epoch_ns(arguments.to_time), "apis": arguments.apis,
            "brokers": arguments.brokers}


def epoch_ns(text: str | None) -> int | None:
    """Nanoseconds since 1970; BadTime says what can be read."""
    if text is None:
        return None
    try:
        return int(float(text) * 1e9)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadTime(f"{text!r} is no time; write 2026-11-21T17:00:00, with +01:00 behind it for another zone than UTC, "
                      "or seconds since 1970") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1_000_000) * 1000
