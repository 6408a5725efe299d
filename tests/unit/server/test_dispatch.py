"""Which versions of an API are served: from the lowest to the highest, both included."""

from types import SimpleNamespace

import pytest

from mpbroker.protocol.messages.metadata import MetadataRequest
from mpbroker.server import dispatch
from mpbroker.server.api_table import API_TABLE
from tests.harness.in_process_broker import InProcessBroker


@pytest.mark.parametrize("version", [0, 13])
def test_the_lowest_and_the_highest_version_are_served(tmp_path, version):
    assert InProcessBroker(tmp_path).call(MetadataRequest(topics=[]), version).brokers


@pytest.mark.parametrize("beyond", [-1, 1])
def test_the_versions_beyond_them_are_refused_before_they_are_read(monkeypatch, beyond):
    api, refused = API_TABLE.get(3), []
    monkeypatch.setattr(dispatch, "waits_for_repair", lambda *_: False)
    monkeypatch.setattr(dispatch, "is_poison", lambda *_: False)
    monkeypatch.setattr(dispatch, "_unsupported_version", lambda _, request, found: refused.append(found))
    version = api.versions[0] - 1 if beyond < 0 else api.versions[1] + 1
    dispatch.dispatch(None, SimpleNamespace(api_key=3, api_version=version))
    assert refused == [api]
