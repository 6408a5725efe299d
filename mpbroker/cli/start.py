"""`mpbroker start`: builds the configuration and becomes the supervisor, in the foreground."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mpbroker.cli import config_arguments
from mpbroker.config.broker_config import BrokerConfig

if TYPE_CHECKING:
    import argparse
    from types import SimpleNamespace

DESCRIPTION = """\
Run a broker in the foreground until SIGTERM or Ctrl-C. Once every listener answers, stdout
carries one line, `mpbroker ready node=… pid=… data=… NAME://HOST:PORT …`; logs go to stderr.
SIGHUP reads the configuration again."""
EXAMPLES = (
    ("mpbroker start", "listen on 127.0.0.1:9092, keep records in ./mpbroker-data"),
    (
        "mpbroker start --data-dir /var/lib/mpbroker --listener PLAINTEXT://0.0.0.0:9092 "
        "--override advertised.listeners=PLAINTEXT://broker.example:9092",
        "for other machines, under the name they know",
    ),
    (
        "mpbroker start --listener PLAINTEXT://127.0.0.1:0 --ready-file ready.json",
        "on any free port, which ready.json names: for tests",
    ),
    ("mpbroker start deploy/server.properties --override num.io.threads=4", "from a file, one setting changed"),
)

READY_FILE = "--ready-file"


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `start`."""
    config_arguments.define(parser)
    parser.add_argument(READY_FILE, metavar="F", help="write the ready line as JSON into this file")


def plain(words: Sequence[str]) -> SimpleNamespace | None:
    """The arguments of an ordinary command line; None where argparse is needed."""
    return config_arguments.plain(words, [READY_FILE])


def run(arguments: argparse.Namespace | SimpleNamespace) -> int:
    """Supervise until the broker ends; the exit code is the supervisor's."""
    config = config_arguments.build(arguments)
    announce(config)
    from mpbroker.supervisor.lean_imports import import_msgspec  # after the checks: they need none of it

    import_msgspec()
    from mpbroker.supervisor.supervisor import run as supervise

    return supervise(config, arguments.ready_file, lambda: config_arguments.build(arguments))


def announce(config: BrokerConfig) -> None:
    """The first lines of the log: where records are kept, and what in the configuration deserves a word."""
    if config.mpbroker_log_format == "json":
        from mpbroker.metrics.event_log import EventLog

        log = EventLog("start").use_config(config)
        log.info("data_directory", path=config.data_dir)
        for warning in config.warnings:
            log.warning("configuration", text=warning)
        return
    print(f"mpbroker: data directory {config.data_dir}", file=sys.stderr)
    for warning in config.warnings:
        print(f"mpbroker: {warning}", file=sys.stderr, flush=True)
