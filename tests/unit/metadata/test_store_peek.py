"""A look into a store's file from outside: which clusters and topics it names, which settings; nothing is written."""

import os
import re
import sqlite3
from contextlib import closing

import pytest

from mpbroker.metadata.meta_store import Put
from mpbroker.metadata.sqlite_store import SqliteStore
from mpbroker.metadata.store_peek import StorePeek, UnreadableStore, peek, peek_settings
from mpbroker.metadata.topic_record import BrokerConfigRecord, encode_record

KEYS = [
    "/mpb/v1/one/tn/a",
    "/mpb/v1/one/tn/b",
    "/mpb/v1/two/tn/a",
    "/mpb/v1/three/admin/delete/00ff",
    "/mpb/v1/one/admin/delete/01",
    "/mpb/v1/four/t/00ff",  # what says nothing of a topic's existence
    "/mpb/v1/four/tn/a/b",
    "/mpb/v1/four/admin/other/01",
    "/mpb/v1/four",
    "/mpb/v10/five/tn/a",
    "/mpb/v0/five/tn/a",
    "/other/v1/five/tn/a",
]
CONFIG = "/mpb/v1/one/config/broker/default"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    made = tmp_path_factory.mktemp("peek") / "metadata.db"
    store = SqliteStore(made)
    settings = Put(CONFIG, encode_record(BrokerConfigRecord({"retention.ms": "5"})))
    store.txn([], [*(Put(key, b"") for key in KEYS), settings, Put("/mpb/v1/one/config/broker/1", b"junk")], tag="t")
    store.close()
    return str(made)


def test_clusters_and_the_topics_that_each_has(path):
    found = peek(path)
    assert found == StorePeek({"one": {"a", "b"}, "two": {"a"}}, {"three": {"00ff"}, "one": {"01"}})
    assert found.clusters == {"one", "two", "three"}


def test_settings_under_a_key(path):
    assert peek_settings(path, CONFIG) == {"retention.ms": "5"}
    assert peek_settings(path, "/mpb/v1/two/config/broker/default") == {}
    with pytest.raises(
        UnreadableStore, match=f"^{re.escape(path)} cannot be read as a metadata store: .*config/broker/1"
    ):
        peek_settings(path, "/mpb/v1/one/config/broker/1")


def test_where_nothing_was_written_nothing_is_named(tmp_path):
    missing, empty, other = (tmp_path / name for name in ("missing", "empty", "other"))
    empty.touch()
    with closing(sqlite3.connect(other)) as db:
        db.execute("CREATE TABLE something (else_ INTEGER)")
    for path in (missing, empty, other):
        assert peek(str(path)) == StorePeek({}, {}) and peek(str(path)).clusters == set()
    for path in (empty, other):
        assert peek_settings(str(path), CONFIG) == {}
    assert not missing.exists() and empty.stat().st_size == 0


@pytest.mark.parametrize("look", [peek, lambda path: peek_settings(path, CONFIG)])
def test_a_file_that_is_no_store_is_named(tmp_path, look):
    path = tmp_path / "junk"
    path.write_bytes(b"no database" * 500)
    with pytest.raises(UnreadableStore, match=f"^{re.escape(str(path))} cannot be read as a metadata store: "):
        look(str(path))


def test_names_that_are_no_text_are_damage(tmp_path):
    path = tmp_path / "metadata.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE kv (key TEXT, value BLOB)")
        db.execute("INSERT INTO kv VALUES (CAST(x'2f6d70622f76312f6f6e652f746e2fff' AS TEXT), x'')")
        db.commit()
    with pytest.raises(UnreadableStore):
        peek(str(path))


def test_the_file_itself_is_not_written(path):
    with open(path, "rb") as file:
        before = file.read()
    peek(path)
    peek_settings(path, CONFIG)
    with open(path, "rb") as file:
        assert file.read() == before
    assert os.listdir(os.path.dirname(path)) == ["metadata.db"], "and none is made beside it"


def test_what_an_open_store_has_not_put_into_its_file_yet_is_seen(tmp_path):
    store = SqliteStore(tmp_path / "metadata.db")
    store.txn([], [Put("/mpb/v1/one/tn/a", b"")], tag="t")
    assert peek(str(tmp_path / "metadata.db")).topics == {"one": {"a"}}
    store.close()


@pytest.mark.parametrize("look", [peek, lambda path: peek_settings(path, CONFIG)])
def test_a_file_is_opened_for_reading_alone(path, monkeypatch, look):
    real, asked = sqlite3.connect, []
    monkeypatch.setattr(sqlite3, "connect", lambda name, **how: asked.append((name, how["uri"])) or real(name, **how))
    look(path)
    assert asked == [(f"file:{path}?mode=ro&immutable=1", True)], "it would leave two files"
    for beside, content in (("-wal", b""), ("-shm", b"")):
        with open(path + beside, "wb") as file:
            file.write(content)
    look(path)
    for beside in ("-wal", "-shm"):
        os.unlink(path + beside)
    assert asked[1] == (f"file:{path}?mode=ro", True), "a broker may be at work"
