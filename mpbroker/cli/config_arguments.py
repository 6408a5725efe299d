"""The arguments that give a broker its configuration, shared by the commands that need one."""

import argparse

from mpbroker.config import admin_listener
from mpbroker.config.broker_config import BrokerConfig
from mpbroker.config.load_config import load_broker_config
from mpbroker.errors import ConfigError


def define(parser: argparse.ArgumentParser) -> None:
    """Add `[server.properties] [--data-dir D] [--listener L]… [--override k=v]…`."""
    parser.add_argument(
        "properties",
        nargs="?",
        metavar="server.properties",
        help="settings in Java's .properties syntax, with Kafka's names (docs/configuration.md)",
    )
    parser.add_argument("--data-dir", metavar="D", help="where records are kept (log.dirs; default ./mpbroker-data)")
    parser.add_argument(
        "--listener",
        action="append",
        default=[],
        metavar="NAME://HOST:PORT",
        help="where to listen (listeners; may be repeated; port 0: any free port; default PLAINTEXT://127.0.0.1:9092)",
    )
    parser.add_argument(
        "--admin",
        metavar="HOST:PORT",
        help="where /metrics and /healthz are served (mpbroker.admin.listener; port 0: any free port; default: one on "
        "127.0.0.1; '' for none)",
    )
    parser.add_argument(
        "--override",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set one setting; wins over everything else (may be repeated)",
    )


def build(arguments: argparse.Namespace) -> BrokerConfig:
    """The configuration these arguments, their file and the environment give; ConfigError when it is wrong."""
    overrides = []
    _refuse_two_places(arguments)
    if arguments.data_dir is not None:
        overrides.append(f"log.dirs={arguments.data_dir}")
    if arguments.listener:
        overrides.append(f"listeners={','.join(arguments.listener)}")
    if arguments.admin is not None:
        overrides.append(f"{admin_listener.KEY}={arguments.admin}")
    return load_broker_config(arguments.properties, overrides=[*overrides, *arguments.override])


def _refuse_two_places(arguments: argparse.Namespace) -> None:
    """`status --data-dir D` must find the broker that `start --data-dir D` began."""
    for pair in arguments.override:
        key, _, value = pair.partition("=")
        if arguments.data_dir is not None and key.strip() in ("log.dir", "log.dirs") and value != arguments.data_dir:
            problem = f"{key.strip()} and --data-dir are the same setting; give only one"
            raise ConfigError("--override", pair, problem=problem)
