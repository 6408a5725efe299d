"""The store of a cluster, by the setting `mpbroker.cluster.store`. Agents and cluster controllers open it, after their
fork; supervisors only ask where it is."""

from typing import Final, NamedTuple

from mpbroker.errors import ConfigError
from mpbroker.metadata.meta_store import ClusterStore

KEY: Final = "mpbroker.cluster.store"
ALLOWED: Final = "sqlite:/path/of/metadata.db"


class StorePlace(NamedTuple):
    """Where the store is: the path of a SQLite file that the brokers of one machine share."""

    path: str


def place_of(text: str) -> StorePlace:
    """What the setting says; ConfigError."""
    kind, colon, rest = text.partition(":")
    if kind == "sqlite" and colon and rest.startswith("/"):
        return StorePlace(rest)
    raise ConfigError(KEY, text, ALLOWED)


def open_cluster_store(text: str) -> ClusterStore:
    """The store. StoreError, ConfigError: each a sentence."""
    from mpbroker.metadata.sqlite_shared_store import SharedSqliteStore  # a broker by itself needs none of it

    return SharedSqliteStore(place_of(text).path)
