"""The metadata store that brokers of a cluster share (`mpbroker.cluster.store`); empty: a broker by itself. Pure."""

from typing import NamedTuple

from mpbroker.errors import ConfigError

KEY = "mpbroker.cluster.store"
_ALLOWED = "sqlite:/path/of/metadata.db (brokers of one machine), or empty for a broker by itself"


class ClusterStorePlace(NamedTuple):
    """`text`: the setting; `sqlite_path`: the file."""

    text: str
    sqlite_path: str


def parse_cluster_store(text: str) -> ClusterStorePlace | None:
    """Where the store is; None: this broker is by itself. ConfigError."""
    text = text.strip()
    if not text:
        return None
    kind, colon, rest = text.partition(":")
    if kind == "sqlite" and colon and rest.startswith("/") and not rest.endswith("/"):
        return ClusterStorePlace(text, rest)
    raise ConfigError(KEY, text, _ALLOWED)
