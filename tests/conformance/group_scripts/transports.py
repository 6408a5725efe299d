"""Whom scripts are played to: a broker behind sockets, or the coordinator's logic alone in a time of its own."""

from __future__ import annotations

import select
import time
from typing import Any

from mpbroker.coordinator.effects import Answer, GroupRequest, Now
from mpbroker.coordinator.group_coordinator import GroupCoordinator
from mpbroker.coordinator.group_settings import GroupSettings
from mpbroker.protocol.codec import decode, encode
from mpbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from mpbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from mpbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from mpbroker.protocol.schema import schema_of
from tests.harness.group_world import MemoryTable, MemoryTopics
from tests.harness.peer import Peer, create_topic, list_offset

#: What scripts count on; the peers are started with these settings.
SETTINGS = {
    "group.initial.rebalance.delay.ms": "1000",
    "group.min.session.timeout.ms": "500",
    "group.max.session.timeout.ms": "60000",
    "group.max.size": "3",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.session.timeout.ms": "3000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.max.size": "4",
    "group.consumer.assignment.interval.ms": "0",
}
AFTERMATH_MS = 50  # answers to others that follow an answer
CLIENT_ID = "cl-"


class Sockets:
    """A broker on loopback; every client has a connection, opened when it is first used."""

    host = "/127.0.0.1"

    def __init__(self, port: int) -> None:
        self._port = port
        self._peers: dict[str, Peer] = {}
        self._admin = Peer(port, "admin")
        deadline = time.monotonic() + 30
        while self._admin.ask(FindCoordinatorRequest(key="g"), 0).error_code:  # Kafka makes its topic first
            assert time.monotonic() < deadline, "no coordinator"
            time.sleep(0.1)

    def close(self) -> None:
        """Hang up."""
        for peer in (*self._peers.values(), self._admin):
            peer.socket.close()

    def _peer(self, client: str) -> Peer:
        if client not in self._peers:
            self._peers[client] = Peer(self._port, CLIENT_ID + client)
        return self._peers[client]

    def send(self, client: str, message: Any, version: int) -> None:
        self._peer(client).send(message, version)

    def answers(self, wanted: str | None, wait_ms: int) -> list[tuple[str, Any]]:
        found: list[tuple[str, Any]] = []
        end = time.monotonic() + wait_ms / 1000
        while (left := end - time.monotonic()) > 0:
            by_socket = {peer.socket: (client, peer) for client, peer in self._peers.items() if peer._sent}
            for each in select.select(list(by_socket), [], [], left)[0]:
                client, peer = by_socket[each]
                found.append((client, peer.receive()))
                if client == wanted:
                    end = min(end, time.monotonic() + AFTERMATH_MS / 1000)
        return found

    def create_topic(self, name: str, partitions: int) -> bytes:
        assert create_topic(self._admin, name, partitions).error_code == 0
        deadline = time.monotonic() + 30
        while any(list_offset(self._admin, name, -1, number).error_code for number in range(partitions)):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        time.sleep(0.1)
        asked = [MetadataRequestTopic(name=name)]
        return bytes(self._admin.ask(MetadataRequest(topics=asked), 12).topics[0].topic_id)

    def delete_topic(self, name: str) -> None:
        answer = self._admin.ask(DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000), 3)
        assert answer.responses[0].error_code == 0


class Logic:
    """The logic, whose appends are acknowledged at once. Time passes only when a script lets it."""

    host = "/127.0.0.1"

    def __init__(self) -> None:
        self._topics = MemoryTopics()
        settings = GroupSettings(
            initial_rebalance_delay_ms=int(SETTINGS["group.initial.rebalance.delay.ms"]),
            min_session_timeout_ms=int(SETTINGS["group.min.session.timeout.ms"]),
            max_session_timeout_ms=int(SETTINGS["group.max.session.timeout.ms"]),
            max_group_size=int(SETTINGS["group.max.size"]),
            consumer_session_timeout_ms=int(SETTINGS["group.consumer.session.timeout.ms"]),
            consumer_heartbeat_interval_ms=int(SETTINGS["group.consumer.heartbeat.interval.ms"]),
            consumer_max_size=int(SETTINGS["group.consumer.max.size"]),
            assignment_interval_ms=int(SETTINGS["group.consumer.assignment.interval.ms"]),
        )
        has_partition = self._topics.has_partition
        self.coordinator = GroupCoordinator(settings, MemoryTable(), has_partition, bytes(16), self._topics)
        self._ms = 1000
        self._requests = 0
        self._answers: list[tuple[str, Any]] = []
        for partition in range(settings.partitions):
            self.coordinator.open(partition, 0, self._now())
            self.coordinator.loaded(partition, self._now())

    def _now(self) -> Now:
        return Now(self._ms, 1_700_000_000_000 + self._ms)

    def _carry_out(self, effects: list[Any]) -> None:
        for effect in effects:
            if isinstance(effect, Answer):
                client, _, version = effect.token
                cls = type(effect.message)  # as the wire carries it
                self._answers.append((client, decode(cls, version, encode(effect.message, version))))
            else:
                self._carry_out(self.coordinator.appended(effect.partition, effect.number, 0, self._now()))

    def send(self, client: str, message: Any, version: int) -> None:
        self._requests += 1
        request = GroupRequest(
            token=(client, self._requests, version),
            api_key=schema_of(type(message)).key,
            version=version,
            message=message,
            client_id=CLIENT_ID + client,
            client_host=self.host,
            identity=self._requests.to_bytes(8, "big"),
        )
        self._carry_out(self.coordinator.handle(request, self._now()))

    def answers(self, wanted: str | None, wait_ms: int) -> list[tuple[str, Any]]:
        is_there = wanted is not None and any(client == wanted for client, _ in self._answers)
        end_ms = self._ms + (AFTERMATH_MS if is_there else wait_ms)
        while (due_ms := self.coordinator.deadline_ms()) is not None and due_ms <= end_ms:
            self._ms = max(self._ms, due_ms)
            self._carry_out(self.coordinator.pass_time(self._now()))
        self._ms = end_ms
        found, self._answers = self._answers, []
        return found

    def create_topic(self, name: str, partitions: int) -> bytes:
        found = self._topics.create(name, partitions)
        self.coordinator.topics_changed(frozenset({name}))
        return found

    def delete_topic(self, name: str) -> None:
        self._topics.delete(name)
        self.coordinator.topics_changed(frozenset({name}))
        self._carry_out(self.coordinator.topic_deleted(name, self._now()))
