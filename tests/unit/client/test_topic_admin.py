"""Waiting for leaders, and creating a topic that somebody else creates at the same time."""

from types import SimpleNamespace

import pytest

from mpbroker.client import topic_admin
from mpbroker.client.topic_admin import NoLeaders, await_leaders, ensure_partitions
from mpbroker.errors import ErrorCode, KafkaError
from mpbroker.protocol.messages.create_topics import CreateTopicsRequest

UNKNOWN, LEADERLESS, LED = "unknown", "leaderless", "led"


class Client:
    """Answers each Metadata request with the next state (the last one for ever), CreateTopics with `created`."""

    def __init__(self, *states, created=ErrorCode.NONE):
        self.states, self.created, self.creations = list(states), created, 0

    def call(self, request, response, version):
        if isinstance(request, CreateTopicsRequest):
            self.creations += 1
            return SimpleNamespace(topics=[SimpleNamespace(error_code=self.created, error_message=None)])
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if state == UNKNOWN else ErrorCode.NONE
        row = SimpleNamespace(partition_index=0, leader_id=-state.count("less"), replica_nodes=[0], isr_nodes=[0])
        return SimpleNamespace(topics=[SimpleNamespace(error_code=code, name="t", is_internal=False, partitions=[row])])


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(topic_admin.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(topic_admin.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    return now


def test_a_topic_that_is_not_visible_yet_is_waited_for():
    assert await_leaders(Client(UNKNOWN, LEADERLESS, LED), "t").partitions[0]["leader"] == 0


def test_the_wait_is_bounded(clock):
    with pytest.raises(NoLeaders, match="topic t has partitions without a leader after 3 s"):
        await_leaders(Client(LEADERLESS), "t", 3)
    assert 3 <= clock[0] < 3.1


def test_a_topic_that_exists_is_not_created():
    client = Client(LED)
    assert (ensure_partitions(client, "t", create=True), client.creations) == (1, 0)


def test_another_client_may_be_faster():
    client = Client(UNKNOWN, LED, created=ErrorCode.TOPIC_ALREADY_EXISTS)
    assert (ensure_partitions(client, "t", create=True), client.creations) == (1, 1)


def test_a_reader_creates_nothing():
    client = Client(UNKNOWN)
    with pytest.raises(KafkaError):
        ensure_partitions(client, "t", create=False)
    assert client.creations == 0


def test_partitions_without_a_leader_do_not_hide_the_others():
    assert ensure_partitions(Client(LEADERLESS), "t", create=False) == 1
