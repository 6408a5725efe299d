"""A start has the settings that were changed while brokers ran before: of its own store, or of its cluster's."""

from types import SimpleNamespace

import pytest

from mpbroker.config.dynamic import DynamicSettings
from mpbroker.config.load_config import build_broker_config
from mpbroker.config.sources import Given
from mpbroker.metadata import open_store
from mpbroker.metadata.keys import STORE_FILE, Keys
from mpbroker.metadata.meta_store import Put, StoreError
from mpbroker.metadata.sqlite_store import SqliteStore
from mpbroker.metadata.topic_record import BrokerConfigRecord, encode_record
from mpbroker.supervisor.reload import with_settings, with_stored_settings

KEYS = Keys("c")
CHANGED = {KEYS.broker_config(None): {"num.io.threads": "3"}, KEYS.broker_config(2): {"num.network.threads": "2"}}


def _store(path):
    store = SqliteStore(str(path))
    store.txn([], [Put(key, encode_record(BrokerConfigRecord(configs))) for key, configs in CHANGED.items()], tag="t")
    return store


def _start(tmp_path, place):
    texts = {"node.id": "2", "log.dirs": str(tmp_path / "data"), "mpbroker.cluster.store": place}
    config = with_stored_settings(build_broker_config(Given(texts, {}, ()), 8), "c", log=None)
    return config.num_io_threads, config.num_network_threads


@pytest.mark.parametrize("kind", ["alone", "shared", "etcd"])
def test_what_was_stored_is_in_force_from_the_start(tmp_path, monkeypatch, kind):
    (tmp_path / "data").mkdir()
    _store(tmp_path / "shared.db" if kind == "shared" else tmp_path / "data" / STORE_FILE).close()
    opened = SqliteStore(str(tmp_path / "data" / STORE_FILE)) if kind == "etcd" else None
    monkeypatch.setattr(open_store, "open_cluster_store", lambda place: opened)
    place = {"alone": "", "shared": f"sqlite:{tmp_path}/shared.db", "etcd": "etcd://127.0.0.1:1"}[kind]
    closed = []
    if opened is not None:
        close = opened.close
        monkeypatch.setattr(opened, "close", lambda: closed.append(1) or close())
    assert _start(tmp_path, place) == (3, 2) and len(closed) == (kind == "etcd")


def test_a_store_that_does_not_answer_stops_no_start(tmp_path, monkeypatch):
    def unreachable(place):
        raise StoreError("nobody answers")

    monkeypatch.setattr(open_store, "open_cluster_store", unreachable)
    assert _start(tmp_path, "etcd://127.0.0.1:1") == _start(tmp_path, "")


def test_a_setting_that_cannot_be_used_is_left_out_with_a_line_and_the_others_are_in_force():
    told = []

    def error(event, **fields):
        assert len(told) < 3, "each is left out once"
        told.append((event, fields["settings"]))

    static = build_broker_config(Given({"num.io.threads": "2", "log.retention.ms": "5000"}, {}, ()), 4)
    dynamic = DynamicSettings({"num.io.threads": "many", "num.network.threads": "6"}, {"log.retention.ms": "x"}, {})
    found = with_settings(static, dynamic, SimpleNamespace(error=error))
    assert (found.num_io_threads, found.num_network_threads, found.log_retention_ms) == (2, 6, 5000)
    assert {settings for _, settings in told} == {"log.retention.ms,num.io.threads"}
    assert {event for event, _ in told} == {"dynamic_setting_left_out"}
