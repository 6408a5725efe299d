"""`mpbroker start`: builds the configuration and becomes the supervisor, in the foreground."""

import argparse
import sys

from mpbroker.cli import config_arguments
from mpbroker.config.broker_config import BrokerConfig

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


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `start`."""
    config_arguments.define(parser)
    parser.add_argument("--ready-file", metavar="F", help="write the ready line as JSON into this file")


def run(arguments: argparse.Namespace) -> int:
    """Supervise until the broker ends; the exit code is the supervisor's."""
    config = config_arguments.build(arguments)
    announce(config)
    _import_msgspec()
    from mpbroker.supervisor.supervisor import run as supervise  # after the checks: they need none of it

    return supervise(config, arguments.ready_file, lambda: config_arguments.build(arguments))


def _import_msgspec() -> None:
    """Import msgspec without typing_extensions, which it does not need from Python 3.11 on but takes where it finds it:
    a tenth of the start, for that and what it imports in turn."""
    if "typing_extensions" in sys.modules:
        return
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]  # the documented way to say: cannot be imported
    try:
        import msgspec  # noqa: F401
    finally:
        del sys.modules["typing_extensions"]


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
