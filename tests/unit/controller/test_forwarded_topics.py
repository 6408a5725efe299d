"""Topics that a broker of a cluster wants for itself: asked for one by one, refused when nobody can be asked."""

from types import SimpleNamespace
from typing import ClassVar

import pytest

from mpbroker.controller import forwarded_topics
from mpbroker.controller.forwarded_topics import MAX_WAITING, ForwardedTopics
from mpbroker.errors import ErrorCode
from mpbroker.metadata.cluster_records import ControllerRecord
from mpbroker.metadata.commands import AlterConfigs, CreateTopics, Failed, NewTopic
from mpbroker.metadata.keys import Keys
from mpbroker.metadata.meta_store import Put
from mpbroker.metadata.topic_record import encode_record
from mpbroker.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from tests.harness.memory_store import MemoryStore
from tests.unit.cluster.controller_bench import broker_record

KEYS, SELF, CONTROLLER = Keys("c"), 1, 2
COMMAND = CreateTopics([NewTopic("t", 1, 1)], forward=True)


class Channel:
    """To a broker that answers at the second turn."""

    made: ClassVar[list["Channel"]] = []

    def __init__(self, host, port, *, client_id, timeout_ms):
        self.address, self.sent, self.turns, self.closed = (host, port), [], 0, False
        Channel.made.append(self)

    def send(self, request, now_ms):
        self.sent.append(request)
        self.turns = 0

    def turn(self, now_ms):
        self.turns += 1
        topics = [CreatableTopicResult(name=topic.name, error_code=36) for topic in self.sent[-1].topics]
        return SimpleNamespace(response=CreateTopicsResponse(topics=topics)) if self.turns == 2 else None

    def fileno(self):
        return -1

    def close(self):
        self.closed = True


@pytest.fixture
def store(monkeypatch):
    monkeypatch.setattr(forwarded_topics, "BrokerChannel", Channel)
    Channel.made = []
    return MemoryStore()


def elect(store, broker, **fields):
    put = [Put(KEYS.controller, encode_record(ControllerRecord(broker, 1, "i")))]
    store.txn([], [*put, Put(KEYS.broker(broker), encode_record(broker_record(broker, **fields)))], tag="")


def forwarded(store):
    return ForwardedTopics(store, KEYS, SELF, lambda: SimpleNamespace(inter_broker="PLAINTEXT"))


def test_one_after_the_other_over_one_connection(store):
    elect(store, CONTROLLER)
    topics, done = forwarded(store), []
    for number in (7, 8):
        topics.add(number, CreateTopics([NewTopic(f"t{number}", 1, 1)], forward=True))
    for turn in range(6):
        done += [(turn, number, answer.results[0].name) for number, answer in topics.turn(0)]
    [channel] = Channel.made
    assert channel.address == ("host2", 9002)
    assert [type(request) for request in channel.sent] == [CreateTopicsRequest] * 2
    assert [number for _, number, _ in done] == [7, 8] and [name for *_, name in done] == ["t7", "t8"]
    before = channel.turns
    assert topics.turn(0) == [] and channel.turns == before + 1, "nothing is asked: the other side may have closed it"
    topics.close()
    assert channel.closed


@pytest.mark.parametrize("controller", [None, SELF, CONTROLLER], ids=["none", "itself", "one that is gone"])
def test_without_a_controller_it_is_refused(store, controller):
    if controller is not None:
        store.txn([], [Put(KEYS.controller, encode_record(ControllerRecord(controller, 1, "i")))], tag="")
    topics = forwarded(store)
    topics.add(7, COMMAND)
    assert topics.turn(0) == [(7, Failed(ErrorCode.NOT_CONTROLLER))] and topics.turn(0) == []
    assert Channel.made == []


def test_the_oldest_of_too_many_are_refused(store):
    elect(store, CONTROLLER)
    topics = forwarded(store)
    for number in range(MAX_WAITING + 2):
        topics.add(number, COMMAND)
    assert topics.turn(0) == [(number, Failed(ErrorCode.NOT_CONTROLLER)) for number in (0, 1)]
    assert MAX_WAITING == 64 and len(Channel.made) == 1


def test_the_next_controller_is_asked_over_a_connection_of_its_own(store):
    elect(store, CONTROLLER)
    topics = forwarded(store)
    topics.add(7, COMMAND)
    for _ in range(3):
        topics.turn(0)
    elect(store, 3)
    topics.add(8, AlterConfigs([]))
    topics.turn(0)
    first, second = Channel.made
    assert first.closed and not second.closed and second.address == ("host3", 9003)
