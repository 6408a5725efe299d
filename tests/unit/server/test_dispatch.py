"""Which versions of an API are served: from the lowest to the highest, both included."""

from types import SimpleNamespace

import pytest

from mpbroker.errors import ErrorCode
from mpbroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from mpbroker.protocol.messages.metadata import MetadataRequest
from mpbroker.server import dispatch, server_context
from mpbroker.server.api_table import API_TABLE
from mpbroker.server.handlers import fetch
from mpbroker.server.replica_read import check_leader_epoch
from mpbroker.server.server_context import ServerContext
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


@pytest.mark.parametrize(("version", "on_partitions"), [(6, True), (7, True), (12, True), (13, False), (16, False)])
def test_a_fetch_that_fails_as_a_whole_says_it_where_its_version_has_room(version, on_partitions):
    message = FetchRequest(session_id=5, topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=3)])])
    response = fetch.failed(message, version, 56)
    assert (response.error_code, response.session_id) == (56, 5)
    found = [
        (topic.topic, one.partition_index, one.error_code) for topic in response.responses for one in topic.partitions
    ]
    assert found == ([("t", 3, 56)] if on_partitions else [])


@pytest.mark.parametrize(("index", "renewed"), [(0, False), (1, True), (2, True)])
def test_a_listener_that_was_added_a_moment_ago_is_looked_up(index, renewed):
    old = (SimpleNamespace(name="old", removed=False), SimpleNamespace(name="gone", removed=True))
    new = tuple(SimpleNamespace(name=f"new {number}", removed=False) for number in range(3))
    context = ServerContext.__new__(ServerContext)
    context.listeners, context.renew_listeners = old, lambda: new
    assert context.listener(index).name == (f"new {index}" if renewed else "old")


@pytest.mark.parametrize(
    ("asked", "code"), [(-1, 0), (5, 0), (4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_an_older_leader_epoch_is_fenced_and_a_newer_one_not_known(asked, code):
    assert check_leader_epoch(asked, 5) == code


@pytest.mark.parametrize("has_memory", [True, False])
def test_an_answer_without_memory_waits_for_room(monkeypatch, has_memory):
    later, sent = [], []
    context = ServerContext.__new__(ServerContext)
    context.port = SimpleNamespace(answer=lambda request, frame: sent.append(frame) or has_memory)
    context.answer_later = lambda request, frame: later.append(frame)
    monkeypatch.setattr(server_context, "encode_answer", lambda request, message, version: b"frame")
    context.answer("request", "message")
    assert sent == [b"frame"] and later == ([] if has_memory else [b"frame"])
