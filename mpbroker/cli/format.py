"""`mpbroker format`: gives a data directory its identity without starting a broker."""

import argparse

from mpbroker.cli import config_arguments
from mpbroker.errors import ConfigError
from mpbroker.log import data_dir

DESCRIPTION = """\
Prepare a data directory: create it and write its meta.properties (node id, cluster id).
`start` does the same for a fresh directory; format it yourself to choose the cluster id, or
to find out early that the directory cannot be used."""
EXAMPLES = (
    ("mpbroker format --data-dir /var/lib/mpbroker", "node 0, a new cluster id"),
    (
        "mpbroker format --data-dir d1 --override node.id=1 --cluster-id ZF7CwAAXRvaWnKtFCRe1Gg",
        "a second broker of a cluster",
    ),
    ("mpbroker format server.properties --ignore-formatted", "fine if that has been done before"),
)


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `format`."""
    config_arguments.define(parser)
    parser.add_argument("--cluster-id", metavar="ID", help="22 base64 characters; default: a new one")
    parser.add_argument(
        "--ignore-formatted", action="store_true", help="no error if the directory is formatted already"
    )


def run(arguments: argparse.Namespace) -> int:
    """Format, or say why not."""
    config = config_arguments.build(arguments)
    if arguments.cluster_id is not None and not data_dir.is_id(arguments.cluster_id):
        raise ConfigError("--cluster-id", arguments.cluster_id, "22 characters of URL-safe base64 (a 16-byte id)")
    data_dir.create(config.data_dir)
    lock = data_dir.lock(config.data_dir)
    try:
        existing = data_dir.read_meta(config.data_dir)
        if existing is not None and not arguments.ignore_formatted:
            problem = (
                f"{config.data_dir} is formatted already, for node {existing.node_id} of cluster "
                f"{existing.cluster_id}; --ignore-formatted accepts that"
            )
            raise ConfigError("log.dirs", config.data_dir, problem=problem)
        meta = data_dir.prepare(config.data_dir, config.node_id, arguments.cluster_id)
    finally:
        lock.close()
    state = "was formatted already" if existing is not None else "formatted"
    print(f"{config.data_dir} {state}: node {meta.node_id}, cluster {meta.cluster_id}")
    return 0
