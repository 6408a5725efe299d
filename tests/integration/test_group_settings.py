"""Settings of a single group are changed while its members are there: the next heartbeat knows them, and so do the
successors of the controller and the coordinator, and the next start."""

import pytest

from mpbroker.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from mpbroker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from mpbroker.protocol.messages.incremental_alter_configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from mpbroker.protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.harness.broker import Broker, wait_until
from tests.harness.group_client import GroupClient
from tests.harness.peer import Peer, create_topic

pytestmark = pytest.mark.slow
GROUP, HEARTBEAT = 32, "consumer.heartbeat.interval.ms"
SETTINGS = {"offsets.topic.num.partitions": 1, "mpbroker.trace.enabled": "false", "mpbroker.admin.listener": ""}


def alter(broker, value, operation=0):
    change = IncrementalAlterableConfig(HEARTBEAT, operation, value)
    with Peer(broker.port()) as peer:
        resource = IncrementalAlterConfigsResource(GROUP, "g", [change])
        return peer.ask(IncrementalAlterConfigsRequest([resource]), 1).responses[0].error_code


def shown(broker):
    with Peer(broker.port()) as peer:
        [found] = peer.ask(DescribeConfigsRequest([DescribeConfigsResource(GROUP, "g", [HEARTBEAT])]), 4).results
        listed = peer.ask(ListConfigResourcesRequest([GROUP]), 1).config_resources
    return found.configs[0].value, [one.resource_name for one in listed]


class Member:
    """It beats, and hears when to beat again."""

    def __init__(self, broker):
        self._client = GroupClient(broker.port())
        self._client.find("g")
        self.epoch = 0

    def interval_ms(self):
        first = {"rebalance_timeout_ms": 20_000, "subscribed_topic_names": ["t"]} if not self.epoch else {}
        owned: list[ConsumerGroupHeartbeatRequestTopicPartitions] = []
        request = ConsumerGroupHeartbeatRequest("g", "m", self.epoch, topic_partitions=owned, **first)
        answer = self._client.ask(request, 1)
        assert not answer.error_code, answer
        self.epoch = answer.member_epoch
        return answer.heartbeat_interval_ms


def test_the_next_heartbeat_knows(tmp_path):
    with Broker(tmp_path, overrides=SETTINGS) as broker:
        with Peer(broker.port()) as peer:
            assert create_topic(peer, "t").error_code == 0
        member = Member(broker)
        assert member.interval_ms() == 5000 and shown(broker) == ("5000", [])
        assert alter(broker, "7000") == 0 and alter(broker, "1") == 40
        assert shown(broker) == ("7000", ["g"])
        wait_until(lambda: member.interval_ms() == 7000, "the new interval")
        for role in ("coordinator", "controller"):
            broker.wait_restarted(role, 0, broker.kill(role))
        assert member.interval_ms() == 7000 and shown(broker) == ("7000", ["g"])
    with Broker(tmp_path, overrides=SETTINGS) as broker:
        wait_until(lambda: shown(broker) == ("7000", ["g"]), "the stored setting")
        member = Member(broker)
        wait_until(lambda: member.interval_ms() == 7000, "the stored interval")
        assert alter(broker, None, operation=1) == 0
        wait_until(lambda: member.interval_ms() == 5000, "the broker's interval")
        assert shown(broker) == ("5000", [])
