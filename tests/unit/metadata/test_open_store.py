"""Which driver a cluster's store gets, and what that is told."""

import pytest

from mpbroker.config.cluster_store import parse_cluster_store
from mpbroker.metadata import etcd_store, sqlite_shared_store
from mpbroker.metadata.open_store import open_cluster_store


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("sqlite:/d/metadata.db", ("sqlite", ("/d/metadata.db",), {"patience_ms": 70})),
        ("etcd://h:1,[::1]:2", ("etcd", ([("h", 1), ("::1", 2)],), {})),
    ],
)
def test_the_driver_goes_by_the_setting(monkeypatch, text, made):
    def driver(kind):
        return lambda *words, **named: (kind, words, named)

    monkeypatch.setattr(sqlite_shared_store, "SharedSqliteStore", driver("sqlite"))
    monkeypatch.setattr(etcd_store, "EtcdStore", driver("etcd"))
    assert open_cluster_store(parse_cluster_store(text), 70) == made
    if made[0] == "sqlite":
        assert open_cluster_store(parse_cluster_store(text))[2] == {"patience_ms": 0}, "it ends dead sessions itself"
