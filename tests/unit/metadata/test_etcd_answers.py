"""How much of an answer of etcd's gateway is read, and what becomes of the connection."""

from types import SimpleNamespace

import pytest

from mpbroker.metadata import etcd_gateway
from mpbroker.metadata.etcd_gateway import EndPoint, EtcdGateway
from mpbroker.metadata.etcd_store import EtcdStore
from mpbroker.metadata.meta_store import Entry, Health, StoreError

MOST = 40


@pytest.mark.parametrize("length, is_taken", [(MOST - 1, True), (MOST, True), (MOST + 1, False), (MOST + 100, False)])
def test_an_answer_without_end_is_not_read_to_its_end(monkeypatch, length, is_taken):
    monkeypatch.setattr(etcd_gateway, "MAX_ANSWER_BYTES", MOST)
    content, closed = b"{}" + b" " * (length - 2), []
    response = SimpleNamespace(status=200, read=lambda most: content[:most])
    connection = SimpleNamespace(
        request=lambda *_given: None, getresponse=lambda: response, close=lambda: closed.append(1), sock=None
    )
    point = EndPoint("h", 1)
    gateway = EtcdGateway([point], 1000)
    gateway._connections[point] = connection
    monkeypatch.setattr(gateway, "_connect", lambda *_given: connection)
    if is_taken:
        assert gateway._exchange(point, "/p", {}, 1.0) == {} and not closed
    else:
        with pytest.raises(StoreError, match=f"more than {MOST} bytes"):
            gateway._exchange(point, "/p", {}, 1.0)
        assert closed and point not in gateway._connections


@pytest.mark.parametrize(
    ("kv", "entry"),
    [
        ({"key": "aw=="}, Entry("k", b"", 0, 0, 0, None)),
        ({"key": "aw==", "value": "dg==", "version": "3"}, Entry("k", b"v", 3, 0, 0, None)),
        ({"key": "aw==", "create_revision": "4", "mod_revision": "5"}, Entry("k", b"", 0, 4, 5, None)),
        ({"key": "aw==", "lease": "0"}, Entry("k", b"", 0, 0, 0, None)),
        ({"key": "aw==", "lease": "9"}, Entry("k", b"", 0, 0, 0, 9)),
    ],
)
def test_zeros_are_left_out_of_an_answer(kv, entry):
    assert etcd_gateway.entry_of(kv) == entry


@pytest.mark.parametrize(
    ("answer", "health"),
    [
        ({}, Health("etcd ", 0, "", 0)),
        ({"header": {"member_id": "7"}, "raftTerm": "3", "version": "3.5.1"}, Health("etcd 7", 3, "3.5.1", 0)),
        ({"raftIndex": "9", "raftAppliedIndex": "5"}, Health("etcd ", 0, "", 4)),
        ({"raftIndex": "5", "raftAppliedIndex": "9"}, Health("etcd ", 0, "", 0)),
        ({"raftIndex": "5"}, Health("etcd ", 0, "", 0)),
    ],
)
def test_what_a_member_says_of_itself(answer, health):
    store = EtcdStore.__new__(EtcdStore)
    asked = []
    store._own = lambda: SimpleNamespace(read=lambda *words: asked.append(words) or answer)
    assert store.health() == health and asked == [("/v3/maintenance/status", {})]
