"""The metadata store that brokers of a cluster share (`mpbroker.cluster.store`); empty: a broker by itself. Pure."""

import re
from typing import NamedTuple

from mpbroker.errors import ConfigError

KEY = "mpbroker.cluster.store"
MAX_END_POINTS = 16
_ALLOWED = "sqlite:/path/of/metadata.db (brokers of one machine), etcd://HOST:PORT,…, or empty for a broker by itself"
_END_POINT = re.compile(r"(?:\[([0-9A-Fa-f:.%]+)\]|([0-9A-Za-z._-]+)):(\d{1,5})\Z")


class ClusterStorePlace(NamedTuple):
    """`text`: the setting; `sqlite_path`: the file, or empty; `etcd`: (host, port) of etcd's members, or none."""

    text: str
    sqlite_path: str
    etcd: tuple[tuple[str, int], ...] = ()


def parse_cluster_store(text: str) -> ClusterStorePlace | None:
    """Where the store is; None: this broker is by itself. ConfigError."""
    text = text.strip()
    if not text:
        return None
    kind, colon, rest = text.partition(":")
    if kind == "sqlite" and colon and rest.startswith("/") and not rest.endswith("/"):
        return ClusterStorePlace(text, rest)
    if kind == "etcd" and rest.startswith("//"):
        found = [_END_POINT.match(item.strip()) for item in rest.removeprefix("//").split(",")]
        members = tuple((one[1] or one[2], int(one[3])) for one in found if one and 0 < int(one[3]) < 65536)
        if 0 < len(members) == len(found) <= MAX_END_POINTS:
            return ClusterStorePlace(text, "", members)
    raise ConfigError(KEY, text, _ALLOWED)
