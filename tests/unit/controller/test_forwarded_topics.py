"""Topics that a broker of a cluster wants for itself: asked for one by one, refused when nobody can be asked."""

from types import SimpleNamespace
from typing import ClassVar

import pytest

from mpbroker.controller import forwarded_topics
from mpbroker.controller.forwarded_topics import MAX_WAITING, TIMEOUT_MS, ForwardedTopics
from mpbroker.errors import ErrorCode
from mpbroker.metadata.cluster_records import ControllerRecord
from mpbroker.metadata.commands import (
    AlterConfigs,
    ConfigChange,
    ConfigChanges,
    CreateTopics,
    Failed,
    NewTopic,
    TopicResult,
    TopicResults,
)
from mpbroker.metadata.keys import Keys
from mpbroker.metadata.meta_store import Delete, Put
from mpbroker.metadata.topic_record import encode_record
from mpbroker.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from mpbroker.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from mpbroker.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from mpbroker.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsResourceResponse as IncrementalResourceResponse,
)
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


class Asked(Channel):
    """Answers with `answer`, which may be nothing."""

    answer = None

    def turn(self, now_ms):
        self.turns += 1
        return None if self.answer is None else SimpleNamespace(response=self.answer)


def request_of(store, monkeypatch, command):
    monkeypatch.setattr(forwarded_topics, "BrokerChannel", Asked)
    elect(store, CONTROLLER)
    topics = forwarded(store)
    topics.add(7, command)
    topics.turn(0)
    [channel] = Channel.made
    [request] = channel.sent
    return topics, channel, request


def test_a_topic_is_asked_for_as_it_is_wanted(store, monkeypatch):
    wanted = [NewTopic("t", 3, 2, configs={"cleanup.policy": "compact", "a": "b"}), NewTopic("u", -1, -1)]
    _, _, request = request_of(store, monkeypatch, CreateTopics(wanted, forward=True))
    found = [
        (one.name, one.num_partitions, one.replication_factor, {each.name: each.value for each in one.configs})
        for one in request.topics
    ]
    assert found == [("t", 3, 2, {"cleanup.policy": "compact", "a": "b"}), ("u", -1, -1, {})]
    assert request.timeout_ms == TIMEOUT_MS == 10_000


@pytest.mark.parametrize("validate_only", [False, True])
def test_settings_are_replaced_or_changed_one_by_one_as_they_were_asked_for(store, monkeypatch, validate_only):
    changes = [ConfigChange("a", 1, None), ConfigChange("b", 0, "5")]
    resources = [ConfigChanges(2, "t", changes), ConfigChanges(2, "u", [])]
    for replace, kind in ((True, AlterConfigsRequest), (False, IncrementalAlterConfigsRequest)):
        Channel.made.clear()
        command = AlterConfigs(resources, validate_only=validate_only, replace=replace)
        _, _, request = request_of(store, monkeypatch, command)
        assert type(request) is kind and request.validate_only is validate_only
        assert [(one.resource_type, one.resource_name) for one in request.resources] == [(2, "t"), (2, "u")]
        assert [(one.name, one.value) for one in request.resources[0].configs] == [("a", None), ("b", "5")]
        if not replace:
            assert [one.config_operation for one in request.resources[0].configs] == [1, 0]


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        (
            CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_code=36, error_message="it is there")]),
            TopicResults([TopicResult("t", 36, "it is there")]),
        ),
        (
            AlterConfigsResponse(
                responses=[AlterConfigsResourceResponse(error_code=3, error_message="no", resource_name="t")]
            ),
            TopicResults([TopicResult("t", 3, "no")]),
        ),
        (
            IncrementalAlterConfigsResponse(
                responses=[IncrementalResourceResponse(error_code=0, error_message=None, resource_name="u")]
            ),
            TopicResults([TopicResult("u", 0, None)]),
        ),
    ],
    ids=["CreateTopics", "AlterConfigs", "IncrementalAlterConfigs"],
)
def test_the_controllers_answer_is_the_commands(store, monkeypatch, response, answer):
    topics, channel, _ = request_of(store, monkeypatch, COMMAND)
    assert topics.turn(1) == []
    channel.answer = response
    assert topics.turn(2) == [(7, answer)]


def test_a_connection_that_ended_before_the_answer_is_a_refusal_and_the_next_one_is_asked_over_it(store, monkeypatch):
    topics, channel, _ = request_of(store, monkeypatch, COMMAND)
    topics.add(8, COMMAND)
    monkeypatch.setattr(channel, "turn", lambda now_ms: SimpleNamespace(response=None))
    assert topics.turn(1) == [(7, Failed(ErrorCode.NOT_CONTROLLER))]
    assert len(channel.sent) == 2 and len(Channel.made) == 1 and not channel.closed
    assert topics.turn(1) == [(8, Failed(ErrorCode.NOT_CONTROLLER))] and len(channel.sent) == 2


def test_what_waits_is_carried_on_while_one_is_asked(store, monkeypatch):
    """The answer to the first and what is refused of the rest come in the same turn."""
    topics, channel, _ = request_of(store, monkeypatch, COMMAND)
    for number in range(MAX_WAITING + 1):
        topics.add(100 + number, COMMAND)
    assert topics.turn(0) == [], "nobody is refused while an answer is waited for"
    channel.answer = CreateTopicsResponse(topics=[])
    refused = Failed(ErrorCode.NOT_CONTROLLER)
    assert topics.turn(0) == [(7, TopicResults([])), (100, refused)]
    store.txn([], [Delete(KEYS.controller)], tag="")
    channel.answer = None
    assert topics.turn(0) == []
    channel.answer = CreateTopicsResponse(topics=[])
    assert topics.turn(0) == [(101, TopicResults([])), (102, refused)], "the controller is gone meanwhile"


def test_it_asks_on_the_brokers_own_listener(store, monkeypatch):
    elect(store, CONTROLLER)
    monkeypatch.setattr(forwarded_topics, "BrokerChannel", Asked)
    topics = ForwardedTopics(store, KEYS, SELF, lambda: SimpleNamespace(inter_broker="OTHER"))
    topics.add(7, COMMAND)
    assert topics.turn(0) == [(7, Failed(ErrorCode.NOT_CONTROLLER))] and Channel.made == []


@pytest.mark.parametrize(("fd", "polled"), [(-1, []), (0, [(0, 4)]), (5, [(5, 4)])])
def test_its_connection_is_polled_once_it_is_open(store, monkeypatch, fd, polled):
    fds = []
    poll = SimpleNamespace(register=lambda fd, events: fds.append((fd, events)))
    forwarded(store).register(poll)
    assert fds == [], "there is none yet"
    topics, channel, _ = request_of(store, monkeypatch, COMMAND)
    channel.fileno, channel.events = lambda: fd, lambda: 4
    topics.register(poll)
    assert fds == polled


def test_a_connection_that_was_closed_is_not_used_again(store, monkeypatch):
    topics, channel, _ = request_of(store, monkeypatch, COMMAND)
    channel.answer = CreateTopicsResponse(topics=[])
    topics.turn(0)
    topics.close()
    turns = channel.turns
    assert topics.turn(0) == [] and channel.turns == turns
    topics.add(8, COMMAND)
    topics.turn(0)
    assert len(Channel.made) == 2 and len(channel.sent) == 1
