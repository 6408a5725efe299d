"""The store of a cluster, by the setting `mpbroker.cluster.store`. Agents, cluster controllers and `mpbroker cluster`
open it, each process for itself."""

from mpbroker.config.cluster_store import ClusterStorePlace
from mpbroker.metadata.meta_store import ClusterStore


def open_cluster_store(place: ClusterStorePlace) -> ClusterStore:
    """The store. StoreError: a sentence why not."""
    from mpbroker.metadata.sqlite_shared_store import SharedSqliteStore

    return SharedSqliteStore(place.sqlite_path)
