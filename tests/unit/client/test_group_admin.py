"""Groups on brokers of other ages and in clusters of several: which requests are sent, and to whom."""

from types import SimpleNamespace

import pytest

from mpbroker.client import group_admin
from mpbroker.client.group_admin import ask_coordinator, at_coordinator, commit_offsets, committed_offsets
from mpbroker.client.network_client import ConnectionLost
from mpbroker.errors import ErrorCode, KafkaError
from mpbroker.protocol.messages.find_coordinator import FindCoordinatorResponse
from mpbroker.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from mpbroker.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from mpbroker.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)


class Client:
    """Answers with what `answers` says for a response class: one answer, or a list of them in turn."""

    client_id, timeout_ms = "test", 1000

    def __init__(self, newest=9, **answers):
        self.newest, self.answers, self.requests = newest, answers, []

    def version_for(self, request_class, highest):
        return min(self.newest, highest)

    def call(self, request, response_class, highest):
        self.requests.append(request)
        found = self.answers[response_class.__name__]
        return found.pop(0) if isinstance(found, list) else found


def topics(**offsets):
    return [
        OffsetFetchResponseTopic(name, [OffsetFetchResponsePartition(0, offset), OffsetFetchResponsePartition(1, -1)])
        for name, offset in offsets.items()
    ]


def test_a_broker_of_today_is_asked_for_several_groups_at_once():
    answer = OffsetFetchResponse(groups=[OffsetFetchResponseGroup(name, topics(t=3)) for name in "ab"])
    client = Client(OffsetFetchResponse=answer)
    assert committed_offsets(client, "ab") == {"a": {("t", 0): 3}, "b": {("t", 0): 3}}
    [request] = client.requests
    assert [group.topics for group in request.groups] == [None, None]


def test_a_broker_of_before_3_0_is_asked_for_one_after_the_other():
    client = Client(newest=7, OffsetFetchResponse=[OffsetFetchResponse(topics=topics(t=at)) for at in (3, 4)])
    assert committed_offsets(client, "ab") == {"a": {("t", 0): 3}, "b": {("t", 0): 4}}
    assert [(request.group_id, request.topics) for request in client.requests] == [("a", None), ("b", None)]


@pytest.mark.parametrize("newest", [7, 8])
def test_the_error_of_a_group_names_it(newest):
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    answer = OffsetFetchResponse(error_code=code, groups=[OffsetFetchResponseGroup("g", error_code=code)])
    with pytest.raises(KafkaError, match=r"\(14\): g: "):
        committed_offsets(Client(newest, OffsetFetchResponse=answer), ["g"])


def test_many_commits_go_in_pieces_and_an_error_names_its_partition():
    fine = OffsetCommitResponse()
    bad = [OffsetCommitResponseTopic("t", [OffsetCommitResponsePartition(7, ErrorCode.UNKNOWN_MEMBER_ID)])]
    client = Client(OffsetCommitResponse=[fine, OffsetCommitResponse(topics=bad)])
    with pytest.raises(KafkaError, match=r"\(25\): g: t-7: "):
        commit_offsets(client, "g", {("t", number): 1 for number in range(1500)})
    assert [len(request.topics[0].partitions) for request in client.requests] == [1000, 500]


def cluster(count):
    return MetadataResponse(brokers=[MetadataResponseBroker(number, f"h{number}", 1) for number in range(count)])


def test_one_broker_is_the_coordinator_whatever_its_address(monkeypatch):
    monkeypatch.setattr(group_admin, "NetworkClient", None)
    client = Client(FindCoordinatorResponse=FindCoordinatorResponse(host="inside", port=2), MetadataResponse=cluster(1))
    with at_coordinator(client, "g") as found:
        assert found is client


def test_of_several_brokers_it_is_the_one_named(monkeypatch):
    made = []

    class Other:
        def __init__(self, *words):
            made.append(words)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            made.append("closed")

    monkeypatch.setattr(group_admin, "NetworkClient", Other)
    client = Client(FindCoordinatorResponse=FindCoordinatorResponse(host="h1", port=2), MetadataResponse=cluster(3))
    with at_coordinator(client, "g") as found:
        assert isinstance(found, Other) and made == [("h1", 2, "test", 1000)]
    assert made[-1] == "closed"


def test_a_coordinator_that_has_moved_is_looked_for_again(monkeypatch):
    class Other:
        def __init__(self, host, *_):
            if host == "dead":
                raise ConnectionLost("nobody answers")
            self.host = host

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    def ask(one):
        if one.host == "h1":
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return one.host

    monkeypatch.setattr(group_admin, "NetworkClient", Other)
    monkeypatch.setattr(group_admin, "time", SimpleNamespace(sleep=lambda _: None))
    places = [FindCoordinatorResponse(host=host, port=2) for host in ("h1", "dead", "h2")]
    client = Client(FindCoordinatorResponse=places, MetadataResponse=cluster(3))
    assert ask_coordinator(client, "g", ask) == "h2"


def test_a_coordinator_that_is_coming_is_waited_for_but_not_for_ever(monkeypatch):
    slept = []
    monkeypatch.setattr(group_admin, "time", SimpleNamespace(sleep=slept.append))
    coming = FindCoordinatorResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    client = Client(FindCoordinatorResponse=[coming, coming, FindCoordinatorResponse()], MetadataResponse=cluster(1))
    assert ask_coordinator(client, "g", lambda one: one) is client and len(slept) == 2
    with pytest.raises(KafkaError, match=r"\(15\)"):
        ask_coordinator(Client(FindCoordinatorResponse=coming, MetadataResponse=cluster(1)), "g", lambda one: one)
    assert sum(slept) < 10
