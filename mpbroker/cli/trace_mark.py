"""`mpbroker trace mark TEXT`: puts a marker into the trace of a running broker. Runs in the command's process."""

import argparse
import json
import time
from pathlib import Path

from mpbroker.cli import broker_arguments, trace_arguments
from mpbroker.errors import MpbrokerError, NothingRuns
from mpbroker.trace import mark_spool

DESCRIPTION = """\
Put a marker with a text into the trace of a running broker, at this moment of its clock: reports show
it, and one finds it again. Ends when the tracer has written it.
Exit code 3: no broker runs there. 2: it does not trace."""
EXAMPLES = (
    ('mpbroker trace mark "load step 3"', "for the broker on mpbroker-data"),
    ("mpbroker trace mark --in /var/trace deployed 1.4.2", "by its trace directory (mpbroker.trace.dir)"),
)
WAIT_S = 10.0
_PAUSE_S = 0.02


class NotMarked(MpbrokerError):
    """There is no trace to mark. Exit code 2: the broker does not trace."""

    exit_code = 2


class NobodyTraces(MpbrokerError):
    """No tracer takes markers in that directory."""

    exit_code = 3


def define(parser: argparse.ArgumentParser, _: str = "mark") -> None:
    """The arguments of `trace mark`."""
    parser.add_argument(
        "text",
        nargs="+",
        metavar="TEXT",
        help=f"what to call this moment, up to {mark_spool.MAX_TEXT_CHARS} characters",
    )
    place = parser.add_mutually_exclusive_group()
    broker_arguments.define(parser, place)
    place.add_argument("--in", dest="traces", metavar="T", help="its trace directory instead")
    parser.add_argument("--json", action="store_true", help="print text and time as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Leave the marker, wait until it is taken."""
    t0_ns, epoch_ns = time.monotonic_ns(), time.time_ns()
    text = " ".join(arguments.text)
    traces = Path(arguments.traces) if arguments.traces else _traces_of_running(arguments)
    if arguments.traces and not mark_spool.is_watched(traces):
        raise NobodyTraces(f"no broker traces into {traces}")
    path = mark_spool.put(traces, text, t0_ns)
    deadline = time.monotonic() + WAIT_S
    while path.exists():
        if time.monotonic() > deadline:
            raise MpbrokerError(f"the tracer has not taken {path} for {WAIT_S:.0f} s; it will once it can write")
        time.sleep(_PAUSE_S)
    if arguments.json:
        print(json.dumps({"text": text, "t0_ns": t0_ns, "time_us": epoch_ns // 1000}))
    return 0


def _traces_of_running(arguments: argparse.Namespace) -> Path:
    from mpbroker.log import data_dir as locks

    data_dir = broker_arguments.directory(arguments)
    if locks.holder(data_dir) is None:
        raise NothingRuns(data_dir)
    if trace_arguments.tracing_is_off(data_dir):
        raise NotMarked(f"the broker on {data_dir} does not trace: mpbroker.trace.enabled is false")
    return trace_arguments.traces_of(data_dir)
