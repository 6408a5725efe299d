"""Arguments that say which part of which traces a command reads. Runs in the command's process."""

import argparse
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mpbroker.errors import MpbrokerError

STATUS_FILE = ".mpbroker-status.json"  # mpbroker.supervisor.status_file, which reading a copied trace does not need


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
    """Where to read: the places named, or where the broker of the data directory writes its traces."""
    return list(arguments.paths or [str(traces_of(arguments.data_dir))])


def traces_of(data_dir: str) -> Path:
    """The trace directory of a running broker, as it says; else the usual one."""
    said = _running(data_dir)
    return Path(said.trace_dir) if said is not None and said.trace_dir else Path(data_dir) / "traces"


def tracing_is_off(data_dir: str) -> bool:
    """Whether a broker runs there that was told not to trace."""
    said = _running(data_dir)
    return said is not None and not said.trace_dir


def why_no_traces(arguments: argparse.Namespace) -> str:
    """One sentence for somebody who found none."""
    if not arguments.paths and tracing_is_off(arguments.data_dir):
        return f"the broker on {arguments.data_dir} does not trace: mpbroker.trace.enabled is false"
    return (f"no trace segments in {', '.join(paths_of(arguments))}; the broker writes them when requests finish "
            "and mpbroker.trace.enabled is true")


def _running(data_dir: str) -> Any:
    """What the broker on a data directory says of itself; None when none runs, or none of ours."""
    if not os.path.exists(os.path.join(data_dir, STATUS_FILE)):
        return None
    from mpbroker.log import data_dir as locks
    from mpbroker.supervisor.status_file import read_status_file

    return read_status_file(data_dir) if locks.holder(data_dir) is not None else None


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
