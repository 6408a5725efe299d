"""What the load generator's members and transactional producers say, against a real broker and beside real clients."""

import select
import time
from collections import Counter

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from mpbroker.analysis.lab.conversations import conversation_of
from mpbroker.analysis.lab.generator_plan import GeneratorPlan
from mpbroker.client.network_client import Asked, NetworkClient
from mpbroker.client.topic_admin import await_leaders, create_topic
from tests.harness.broker import Broker

TURNS, PARTITIONS = 4, 4


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    settings = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 5}
    with Broker(tmp_path_factory.mktemp("broker"), overrides=settings) as running:
        with NetworkClient("127.0.0.1", running.port()) as client:
            create_topic(client, "t", PARTITIONS, {})
            await_leaders(client, "t")
        yield running


def _plan(api, **fields):
    about = {name: 0 for name in GeneratorPlan._fields if name not in GeneratorPlan._field_defaults}
    about |= {"client_id": api, "topic": "t", "partitions": PARTITIONS, "value_bytes": 10, "records": 3}
    return GeneratorPlan(**{**about, "api": api, "turns": TURNS, "group_size": 3, **fields})


class Talks:
    """Conversations over connections of their own; a request that the broker parks holds up nobody else."""

    def __init__(self, broker, plan, number):
        self.parts = [conversation_of(plan, each) for each in range(number)]
        self._clients = [NetworkClient("127.0.0.1", broker.port(), plan.client_id) for _ in range(number)]
        self._asked = {}
        self.heard = Counter()

    def until(self, enough):
        """Go on until `enough()`."""
        deadline = time.monotonic() + 20
        while not enough():
            assert time.monotonic() < deadline, self.heard
            for each, client in enumerate(self._clients):
                if client not in self._asked:
                    self._asked[client] = each, self.parts[each].ask()
                    client.send_only(self._asked[client][1].message, self._asked[client][1].version)
            for client in select.select(list(self._asked), [], [], 1)[0]:
                self._hear(client)

    def _hear(self, client):
        each, asked = self._asked.pop(client)
        answer = client.answer_to(Asked(type(asked.message), asked.version), asked.answer, 5000)
        self.heard[type(asked.message).__name__.removesuffix("Request"), self.parts[each].hear(answer)] += 1

    def close(self):
        """Once all is answered."""
        for client in self._clients:
            if client in self._asked:
                self._hear(client)
            client.close()


def _members(broker, group):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    return len(admin.describe_consumer_groups([group])[group].result(10).members)


def test_classic_members_join_live_leave_and_join_again(broker):
    """Two groups of three. Those that stay rejoin when another one leaves: more joins than leavings."""
    talks = Talks(broker, _plan("classic_member"), 6)
    talks.until(lambda: talks.heard["LeaveGroup", 0] >= 9 and talks.heard["Heartbeat", 0] > 40)
    talks.until(lambda: all(part._next == part._beat for part in talks.parts))
    assert [_members(broker, f"classic_member-{number}") for number in (0, 1)] == [3, 3]
    talks.close()
    assert talks.heard["JoinGroup", 0] > talks.heard["LeaveGroup", 0] and talks.heard["SyncGroup", 0] >= 9
    assert {error for _, error in talks.heard} == {0}


def test_members_by_heartbeats_have_all_partitions_between_them(broker):
    talks = Talks(broker, _plan("consumer_member", turns=1_000_000), 3)  # none leaves until it is told to
    seen = [{}, {}, {}]

    def spread():
        for each, part in enumerate(talks.parts):
            if part._owned is not None:
                seen[each] = {number for one in part._owned for number in one.partitions}
        return sorted(number for each in seen for number in each) == [*range(PARTITIONS)] and all(seen)

    talks.until(spread)
    assert _members(broker, "consumer_member-0") == 3
    for part in talks.parts:
        part._turns = part._beats + 2
    joined = talks.heard["FindCoordinator", 0] + talks.heard["ConsumerGroupHeartbeat", 0]
    talks.until(lambda: talks.heard["ConsumerGroupHeartbeat", 0] > joined + 12)
    talks.close()
    assert {error for _, error in talks.heard} == {0}


def test_transactions_commit_what_they_sent(broker):
    """As often as their end was answered, and what the last one left open is seen by nobody who reads the committed."""
    talks = Talks(broker, _plan("transaction", turns=TURNS), 2)
    talks.until(lambda: talks.heard["EndTxn", 0] >= 7 and talks.heard["Produce", 0] > TURNS * talks.heard["EndTxn", 0])
    talks.close()
    assert {error for _, error in talks.heard} == {0}
    ended, sent = talks.heard["EndTxn", 0], talks.heard["Produce", 0]
    assert _count(broker, "read_committed", 3 * TURNS * ended) == 3 * TURNS * ended
    assert _count(broker, "read_uncommitted", 3 * sent) >= 3 * sent


def _count(broker, isolation, least):
    """Records of the topic that a real consumer gets."""
    reader = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": isolation, "isolation.level": isolation})
    reader.assign([TopicPartition("t", number, 0) for number in range(PARTITIONS)])
    found, until = 0, time.monotonic() + 10
    while time.monotonic() < until:
        messages = reader.consume(500, timeout=0.3)
        found += sum(message.error() is None for message in messages)
        if not messages and found >= least:
            break
    reader.close()
    return found
