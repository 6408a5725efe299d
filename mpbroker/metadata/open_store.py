"""The store of a cluster, by the setting `mpbroker.cluster.store`. Agents, cluster controllers and `mpbroker cluster`
open it, each process for itself."""

from mpbroker.config.cluster_store import ClusterStorePlace
from mpbroker.metadata.meta_store import ClusterStore


def open_cluster_store(place: ClusterStorePlace, patience_ms: int = 0) -> ClusterStore:
    """The store. StoreError: a sentence why not. Only the driver that is used is imported. `patience_ms`: for how long
    its watches leave sessions that have died to others."""
    if place.etcd:
        from mpbroker.metadata.etcd_gateway import EndPoint
        from mpbroker.metadata.etcd_store import EtcdStore

        return EtcdStore([EndPoint(host, port) for host, port in place.etcd])
    from mpbroker.metadata.sqlite_shared_store import SharedSqliteStore

    return SharedSqliteStore(place.sqlite_path, patience_ms=patience_ms)
