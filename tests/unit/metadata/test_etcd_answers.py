"""How much of an answer of etcd's gateway is read, and what becomes of the connection."""

from types import SimpleNamespace

import pytest

from mpbroker.metadata import etcd_gateway
from mpbroker.metadata.etcd_gateway import EndPoint, EtcdGateway
from mpbroker.metadata.meta_store import StoreError

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
