"""`mpbroker stop`: asks the broker of a data directory to end, and waits until it has."""

import argparse
import os
import select
import signal
import sys

from mpbroker.cli import broker_arguments
from mpbroker.errors import NothingRuns
from mpbroker.log import data_dir

DESCRIPTION = """\
Stop the broker that runs on a data directory: SIGTERM, then wait until its process has ended.
Requests in hand are finished first (mpbroker.drain.timeout.ms)."""
EXAMPLES = (
    ("mpbroker stop", "the broker on ./mpbroker-data"),
    ("mpbroker stop --data-dir /var/lib/mpbroker --timeout 30", "wait at most 30 seconds"),
)


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `stop`."""
    broker_arguments.define(parser)
    parser.add_argument("--timeout", type=float, default=20.0, metavar="S", help="seconds to wait (default 20)")


def run(arguments: argparse.Namespace) -> int:
    """0 once the broker has ended, 1 if it has not in time; NothingRuns if there is none."""
    path = broker_arguments.directory(arguments)
    pid = data_dir.holder(path)
    if not pid:
        raise NothingRuns(path)
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        raise NothingRuns(path) from None
    try:
        if data_dir.holder(path) != pid:  # it ended meanwhile, and the number may be somebody else's by now
            raise NothingRuns(path)
        signal.pidfd_send_signal(pidfd, signal.SIGTERM)
        ended, _, _ = select.select([pidfd], [], [], arguments.timeout)
    except ProcessLookupError:
        ended = [pidfd]
    finally:
        os.close(pidfd)
    if not ended:
        print(f"mpbroker: the broker (pid {pid}) has not ended in {arguments.timeout:g} seconds", file=sys.stderr)
        return 1
    return 0
