"""`mpbroker stop`: asks the broker of a data directory to end, and waits until it has."""

import argparse
import os
import select
import signal
import sys
import time

from mpbroker.cli import broker_arguments
from mpbroker.errors import MpbrokerError, NothingRuns
from mpbroker.log import data_dir
from mpbroker.shm.owner import refusal
from mpbroker.supervisor.status import read_status

DESCRIPTION = """\
Stop the broker that runs on a data directory: SIGTERM, then wait until its process has ended.
Requests in hand are finished first (mpbroker.drain.timeout.ms), then the logs are synced
(mpbroker.stop.flush.timeout.ms). A wait of more than a second
is shown on stderr, with the processes that are left."""
EXAMPLES = (
    ("mpbroker stop", "the broker on ./mpbroker-data, else the only one that you run"),
    ("mpbroker stop --data-dir /var/lib/mpbroker --timeout 30", "wait at most 30 seconds"),
)
PROGRESS_S = 1.0


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `stop`."""
    broker_arguments.define(parser)
    parser.add_argument("--timeout", type=float, default=45.0, metavar="S", help="seconds to wait (default 45)")


def run(arguments: argparse.Namespace) -> int:
    """0 once the broker has ended, 1 if it has not in time; NothingRuns if there is none."""
    path = broker_arguments.directory(arguments)
    pid = data_dir.holder(path)
    if not pid:
        raise NothingRuns(path)
    if arguments.data_dir is None:
        print(f"mpbroker: stopping the broker on {path} (pid {pid})", file=sys.stderr)
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        raise NothingRuns(path) from None
    try:
        if data_dir.holder(path) != pid:  # it ended meanwhile, and the number may be somebody else's by now
            raise NothingRuns(path)
        signal.pidfd_send_signal(pidfd, signal.SIGTERM)
        ended = _wait(pidfd, pid, path, arguments.timeout)
    except ProcessLookupError:
        ended = True
    except PermissionError:
        raise refusal(f"the broker on {path} (pid {pid})", f"/proc/{pid}") from None
    finally:
        os.close(pidfd)
    if not ended:
        print(f"mpbroker: the broker (pid {pid}) has not ended in {arguments.timeout:g} seconds", file=sys.stderr)
        return 1
    return 0


def _wait(pidfd: int, pid: int, path: str, timeout_s: float) -> bool:
    """Whether the process ended in time; says every second what it waits for."""
    began = time.monotonic()
    while True:
        waited_s = time.monotonic() - began
        ended, _, _ = select.select([pidfd], [], [], max(0.0, min(PROGRESS_S, timeout_s - waited_s)))
        waited_s = time.monotonic() - began
        if ended or waited_s >= timeout_s:
            return bool(ended)
        print(
            f"mpbroker: the broker (pid {pid}) is stopping, {waited_s:.0f} of {timeout_s:g} s{_left(path)}",
            file=sys.stderr,
            flush=True,
        )


def _left(path: str) -> str:
    """The workers that are still there, as far as anybody can see."""
    try:
        rows = read_status(path)["processes"]
    except (MpbrokerError, OSError):
        return ""
    left = [f"{row['role']} {row['index']}" for row in rows if row["pid"] and row["role"] != "supervisor"]
    return f"; left: {', '.join(left)}" if left else ""
