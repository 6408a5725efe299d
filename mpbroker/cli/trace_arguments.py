"""Arguments that say which part of which traces a command reads. Runs in the command's process."""

import argparse
import difflib
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpbroker.errors import MpbrokerError, NoBrokerOfYours

if TYPE_CHECKING:
    from mpbroker.analysis.engine.engines.cluster import Cluster
    from mpbroker.trace.record_filter import RecordFilter

_LAST_NS = 1 << 62  # in the year 2116
DEFAULT_DIRECTORY = "mpbroker-data"  # where `start` keeps records when nothing says otherwise
STATUS_FILE = ".mpbroker-status.json"  # mpbroker.supervisor.status_file, which reading a copied trace does not need


class BadTime(MpbrokerError):
    """A time that cannot be read, or two that hold nothing between them."""

    exit_code = 2


class BadApi(MpbrokerError):
    """A name that no API of Kafka has."""

    exit_code = 2


class BadSetting(MpbrokerError):
    """--conf without a value."""

    exit_code = 2


class NoTraces(MpbrokerError):
    """There is nothing to read."""

    exit_code = 2


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """For argparse: a number within bounds."""

    def read(text: str) -> int:
        if not text.lstrip("-").isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r}: a whole number from {least} to {most}")
        return int(text)

    return read


def define_input(parser: argparse.ArgumentParser) -> None:
    """--in, --data-dir."""
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "--in",
        dest="paths",
        nargs="+",
        metavar="T",
        help="folders with traces (searched downwards), segment files, or compacted traces",
    )
    place.add_argument(
        "--data-dir",
        metavar="D",
        help="without --in: the broker's data directory, whose traces folder is read (default: ./mpbroker-data if it "
        "has traces, else that of your running broker)",
    )
    parser.set_defaults(command=parser.prog)


def define_slice(parser: argparse.ArgumentParser) -> None:
    """--from, --to, --api, --broker."""
    parser.add_argument(
        "--from",
        dest="from_time",
        metavar="TIME",
        help="only requests that began at this time or later: "
        "2026-11-21T17:00:00 (UTC unless it says otherwise) or seconds since 1970",
    )
    parser.add_argument("--to", dest="to_time", metavar="TIME", help="only requests that began before this time")
    parser.add_argument(
        "--api",
        dest="apis",
        action="append",
        metavar="NAME",
        help="only this API, as Produce (may be given several times)",
    )
    parser.add_argument(
        "--broker",
        dest="brokers",
        action="append",
        type=whole_number(0, 2**31 - 1),
        metavar="ID",
        help="only this broker (several times)",
    )


def define_spark(parser: argparse.ArgumentParser) -> None:
    """--master, --remote, --conf."""
    parser.add_argument("--master", metavar="URL", help="Spark's master (default: this machine)")
    parser.add_argument("--remote", metavar="URL", help="a Spark Connect server, sc://host:port")
    parser.add_argument(
        "--conf",
        dest="settings",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of Spark's, as of a catalog (several times)",
    )


def cluster_of(arguments: argparse.Namespace) -> "Cluster":
    """What those say; BadSetting."""
    from mpbroker.analysis.engine.engines.cluster import Cluster

    settings = {}
    for text in arguments.settings:
        name, equals, value = text.partition("=")
        if not equals:
            raise BadSetting(f"--conf {text}: write --conf NAME=VALUE")
        settings[name] = value
    return Cluster(arguments.master, arguments.remote, settings)


def define_requests(parser: argparse.ArgumentParser) -> None:
    """--from, --to, --api, --client: for parts that look at single requests."""
    parser.add_argument(
        "--from",
        dest="from_time",
        metavar="TIME",
        help="only requests that began at this time or later",
    )
    parser.add_argument("--to", dest="to_time", metavar="TIME", help="only requests that began before this time")
    parser.add_argument(
        "--api", dest="apis", action="append", metavar="NAME", help="only this API, as Produce (several times)"
    )
    parser.add_argument(
        "--client", dest="clients", action="append", metavar="ID", help="only this client id (several times)"
    )


def record_filter(arguments: argparse.Namespace) -> "RecordFilter":
    """What these arguments let through. BadTime, BadApi."""
    from mpbroker.trace.record_filter import RecordFilter

    from_ns, to_ns = time_range(arguments)
    keys = None
    if wanted := api_names(arguments.apis):
        from mpbroker.protocol.api_keys import API_NAMES

        keys = {key for key, name in API_NAMES.items() if name in wanted}
        keys |= {int(name[3:]) for name in wanted if name.startswith("Api") and name[3:].isdecimal()}
    clients = frozenset(arguments.clients) if arguments.clients else None
    return RecordFilter(from_ns, to_ns, None if keys is None else frozenset(keys), clients)


def paths_of(arguments: argparse.Namespace) -> list[str]:
    """Where to read: the places named, or where the broker of the data directory writes its traces."""
    return list(arguments.paths or [str(traces_of(broker_directory(arguments)))])


def broker_directory(arguments: argparse.Namespace) -> str:
    """The data directory meant: the one named, else ./mpbroker-data if it has traces, else that of this user's one
    running broker, which is said once."""
    if arguments.data_dir is None:
        arguments.data_dir = DEFAULT_DIRECTORY
        if not os.path.isdir(os.path.join(DEFAULT_DIRECTORY, "traces")) and not _running(DEFAULT_DIRECTORY):
            from mpbroker.cli import broker_arguments

            try:
                arguments.data_dir = broker_arguments.find(os.path.abspath(DEFAULT_DIRECTORY), arguments.command)
            except NoBrokerOfYours:
                return DEFAULT_DIRECTORY  # what is missing there is said where it is looked for
            print(f"mpbroker: traces of the broker on {arguments.data_dir}", file=sys.stderr)
    return str(arguments.data_dir)


def traces_of(data_dir: str) -> Path:
    """The trace directory of a running broker, as it says; else the usual one."""
    said = _running(data_dir)
    return Path(said.trace_dir) if said is not None and said.trace_dir else Path(data_dir) / "traces"


def tracing_is_off(data_dir: str) -> bool:
    """Whether a broker runs there that was told not to trace."""
    said = _running(data_dir)
    return said is not None and not said.trace_dir


def require_traces(arguments: argparse.Namespace) -> None:
    """NoTraces when none are named and the broker of the data directory has none."""
    if not arguments.paths and not traces_of(broker_directory(arguments)).is_dir():
        raise NoTraces(why_no_traces(arguments))


def why_no_traces(arguments: argparse.Namespace) -> str:
    """One sentence for somebody who found none."""
    if not arguments.paths and tracing_is_off(broker_directory(arguments)):
        return f"the broker on {arguments.data_dir} does not trace: mpbroker.trace.enabled is false"
    compacted = [path for path in paths_of(arguments) if os.path.exists(os.path.join(path, "compact.json"))]
    if compacted:
        return (
            f"{compacted[0]} was made by trace compact; trace study, rollup and export read it, ls, stats and "
            "tail read segments"
        )
    return (
        f"no trace segments in {', '.join(paths_of(arguments))}; the broker writes them when requests finish "
        "and mpbroker.trace.enabled is true"
    )


def _running(data_dir: str) -> Any:
    """What the broker on a data directory says of itself; None when none runs, or none of ours."""
    if not os.path.exists(os.path.join(data_dir, STATUS_FILE)):
        return None
    from mpbroker.log import data_dir as locks
    from mpbroker.supervisor.status_file import read_status_file

    return read_status_file(data_dir) if locks.holder(data_dir) is not None else None


def time_range(arguments: argparse.Namespace) -> tuple[int | None, int | None]:
    """--from and --to in nanoseconds since 1970; BadTime."""
    from_ns, to_ns = epoch_ns(arguments.from_time), epoch_ns(arguments.to_time)
    if from_ns is not None and to_ns is not None and from_ns >= to_ns:
        raise BadTime(f"--from {arguments.from_time} is not before --to {arguments.to_time}")
    return from_ns, to_ns


def slice_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """As open_input takes it."""
    from_ns, to_ns = time_range(arguments)
    return {"from_ns": from_ns, "to_ns": to_ns, "apis": api_names(arguments.apis), "brokers": arguments.brokers}


def api_names(asked: list[str] | None) -> list[str] | None:
    """APIs as traces name them, however they were written; BadApi for one that is none."""
    if not asked:
        return None
    from mpbroker.protocol.api_keys import API_NAMES

    known = {name.casefold(): name for name in API_NAMES.values()} | {
        f"api{key}": f"Api{key}" for key in range(1 << 15)
    }
    for name in asked:
        if name.casefold() not in known:
            near = difflib.get_close_matches(name.casefold(), [one.casefold() for one in API_NAMES.values()], 3, 0.5)
            raise BadApi(
                f"--api {name}: no API has this name"
                + (
                    f"; near it: {', '.join(known[one] for one in near)}"
                    if near
                    else "; the traces' own are what `mpbroker trace stats` shows"
                )
            )
    return [known[name.casefold()] for name in asked]


def epoch_ns(text: str | None) -> int | None:
    """Nanoseconds since 1970; BadTime says what can be read."""
    if text is None:
        return None
    try:
        found = _seconds(text) if _is_number(text) else _moment(text)
    except (ValueError, OverflowError):
        found = _LAST_NS
    if abs(found) >= _LAST_NS:
        raise BadTime(
            f"{text!r} is no time; write 2026-11-21T17:00:00, with +01:00 behind it for another zone than UTC, "
            "or seconds since 1970"
        )
    return found


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _seconds(text: str) -> int:
    """Of a number of seconds; no digit is lost as a float would lose it."""
    return int(Decimal(text) * 1_000_000_000) if abs(float(text)) < _LAST_NS / 1e9 else _LAST_NS


def _moment(text: str) -> int:
    moment = datetime.fromisoformat(text)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000
