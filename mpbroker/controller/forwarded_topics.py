"""What any broker of Kafka does for topics, asked for from the cluster's controller as a client does, over the brokers'
own listener: topics that are wanted (auto-creation, internal topics: CreateTopics) and changes of topics' settings
(AlterConfigs, IncrementalAlterConfigs). Cluster controller's process, while it is not elected.

One request is in flight at a time; commands wait in a bounded queue and are answered with the controller's results.
"""

import select
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from mpbroker.client.broker_channel import BrokerChannel
from mpbroker.errors import ErrorCode
from mpbroker.metadata.cluster_records import BrokerRecord, ControllerRecord
from mpbroker.metadata.commands import AlterConfigs, Answer, CreateTopics, Failed, NewTopic, TopicResult, TopicResults
from mpbroker.metadata.keys import Keys
from mpbroker.metadata.meta_store import MetaStore
from mpbroker.metadata.topic_record import decode_record
from mpbroker.protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)
from mpbroker.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from mpbroker.protocol.messages.incremental_alter_configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from mpbroker.protocol.types import Struct

MAX_WAITING: Final = 64
TIMEOUT_MS: Final = 10_000


class ForwardedTopics:
    """Commands under way: command number → its topics."""

    def __init__(self, store: MetaStore, keys: Keys, node_id: int, end_points: Callable[[], Any]) -> None:
        self._store = store
        self._keys = keys
        self._node_id = node_id
        self._end_points = end_points
        self._waiting: deque[tuple[int, CreateTopics | AlterConfigs]] = deque()
        self._sent: int | None = None
        self._channel: BrokerChannel | None = None

    def register(self, poll: "select.poll") -> None:
        """What to poll for."""
        if self._channel is not None and self._channel.fileno() >= 0:
            poll.register(self._channel.fileno(), self._channel.events())

    def add(self, number: int, command: CreateTopics | AlterConfigs) -> None:
        """Ask for it when it is its turn."""
        self._waiting.append((number, command))

    def turn(self, now_ms: int) -> list[tuple[int, Answer]]:
        """Answers to commands."""
        done: list[tuple[int, Answer]] = []
        outcome = None if self._channel is None else self._channel.turn(now_ms)  # the other side may close an idle one
        if self._sent is not None:
            if outcome is None:
                return []
            done.append((self._sent, _answer(outcome.response)))
            self._sent = None
        while len(self._waiting) > MAX_WAITING:
            done.append((self._waiting.popleft()[0], Failed(ErrorCode.NOT_CONTROLLER)))
        if self._waiting:
            number, command = self._waiting.popleft()
            address = self._controller()
            if address is None:
                done.append((number, Failed(ErrorCode.NOT_CONTROLLER)))
            else:
                self._send(address, number, command, now_ms)
        return done

    def _send(self, address: tuple[str, int], number: int, command: CreateTopics | AlterConfigs, now_ms: int) -> None:
        if self._channel is None or self._channel.address != address:
            self.close()
            self._channel = BrokerChannel(*address, client_id=str(self._node_id), timeout_ms=TIMEOUT_MS)
        self._channel.send(_request(command), now_ms)
        self._sent = number

    def _controller(self) -> tuple[str, int] | None:
        _, entry = self._store.get(self._keys.controller)
        if entry is None:
            return None
        controller = decode_record(ControllerRecord, entry.value, entry.key).id
        if controller == self._node_id:  # not elected any more, or not yet: nobody asks himself
            return None
        _, broker = self._store.get(self._keys.broker(controller))
        if broker is None:
            return None
        name = self._end_points().inter_broker
        listeners = decode_record(BrokerRecord, broker.value, broker.key).listeners
        return next(((one.host, one.port) for one in listeners if one.name == name), None)

    def close(self) -> None:
        """End the connection."""
        if self._channel is not None:
            self._channel.close()
        self._channel = None


def _request(command: CreateTopics | AlterConfigs) -> Struct:
    if isinstance(command, CreateTopics):
        return CreateTopicsRequest(topics=[_creatable(topic) for topic in command.topics], timeout_ms=TIMEOUT_MS)
    if command.replace:
        return AlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=one.resource_type,
                    resource_name=one.name,
                    configs=[AlterableConfig(name=change.name, value=change.value) for change in one.changes],
                )
                for one in command.resources
            ],
            validate_only=command.validate_only,
        )
    return IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsResource(
                resource_type=one.resource_type,
                resource_name=one.name,
                configs=[
                    IncrementalAlterableConfig(name=each.name, config_operation=each.operation, value=each.value)
                    for each in one.changes
                ],
            )
            for one in command.resources
        ],
        validate_only=command.validate_only,
    )


def _creatable(topic: NewTopic) -> CreatableTopic:
    configs = [CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()]
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        configs=configs,
    )


def _answer(response: Any) -> Answer:
    if isinstance(response, AlterConfigsResponse | IncrementalAlterConfigsResponse):
        rows = response.responses
        return TopicResults([TopicResult(row.resource_name, row.error_code, row.error_message) for row in rows])
    if not isinstance(response, CreateTopicsResponse):
        return Failed(ErrorCode.NOT_CONTROLLER)
    return TopicResults([TopicResult(one.name, one.error_code, one.error_message) for one in response.topics])
