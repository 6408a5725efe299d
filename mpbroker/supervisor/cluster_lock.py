"""A broker of a cluster on one machine shows that it lives by a lock beside the shared store; supervisor only.

The supervisor holds it, not the agent: an agent that dies is replaced, and its broker lives on. A broker by itself, or
one whose cluster keeps its metadata in etcd, has no such lock.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from mpbroker.config.broker_config import BrokerConfig
from mpbroker.errors import ConfigError


@contextmanager
def cluster_lock(config: BrokerConfig) -> Iterator[None]:
    """Held inside. ConfigError: another broker of this id runs on the store, or its directory cannot be used."""
    place = config.cluster_store
    if place is None or not place.sqlite_path:
        yield
        return
    from mpbroker.config import cluster_store
    from mpbroker.metadata.broker_registration import owner_of  # a broker by itself needs none of it
    from mpbroker.metadata.session_files import OwnerAlive, OwnerLock

    import_module("mpbroker.metadata.listener_locks")  # processors and handlers share its memory
    try:
        lock = OwnerLock(place.sqlite_path, owner_of(config.node_id))
    except OwnerAlive as error:
        problem = f"node.id {config.node_id} is taken: {error}; give each broker of the cluster its own"
        raise ConfigError("node.id", config.node_id, problem=problem) from None
    except OSError as error:
        problem = f"{cluster_store.KEY}={place.text}: {error.filename or place.sqlite_path}: {error.strerror}"
        raise ConfigError(cluster_store.KEY, place.text, problem=problem) from None
    try:
        yield
    finally:
        lock.close()
