"""Topics are created, extended and deleted while the controller and the handlers are killed: every request gets the one
answer that its history allows, over one connection that never breaks, and afterwards nothing is half there."""

import random
import threading

from mpbroker.protocol.codec import decode
from mpbroker.protocol.headers import encode_request_frame
from mpbroker.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from mpbroker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from mpbroker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from mpbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.harness.broker import Broker
from tests.harness.raw_client import RawConnection

ROUNDS = 250
KILLS = 8
NAMES = ["a", "b", "c"]


class Admin:
    """Sequential requests on one connection, and what must be true if each is carried out exactly once."""

    def __init__(self, connection: RawConnection) -> None:
        self._connection = connection
        self._correlation_id = 0
        self.topics: dict[str, int] = {}

    def call(self, request, version: int, response: type):
        self._correlation_id += 1
        answer = self._connection.ask(encode_request_frame(request, version, self._correlation_id, "admin"))
        assert answer is not None, "the connection was closed"
        assert answer[0] == self._correlation_id
        return decode(response, version, answer[1])

    def create(self, name: str) -> None:
        topic = CreatableTopic(name=name, num_partitions=2, replication_factor=1, assignments=[], configs=[])
        request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000, validate_only=False)
        (result,) = self.call(request, 4, CreateTopicsResponse).topics
        assert result.error_code == (36 if name in self.topics else 0), (name, result)
        self.topics.setdefault(name, 2)

    def extend(self, name: str) -> None:
        wanted = self.topics.get(name, 0) + 1
        topic = CreatePartitionsTopic(name=name, count=wanted, assignments=None)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=30_000, validate_only=False)
        (result,) = self.call(request, 1, CreatePartitionsResponse).results
        assert result.error_code == (0 if name in self.topics else 3), (name, result)
        if name in self.topics:
            self.topics[name] = wanted

    def delete(self, name: str) -> None:
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=30_000)
        (result,) = self.call(request, 3, DeleteTopicsResponse).responses
        assert result.error_code == (0 if name in self.topics else 3), (name, result)
        self.topics.pop(name, None)

    def seen(self) -> dict[str, int]:
        answer = self.call(MetadataRequest(topics=None, allow_auto_topic_creation=False), 4, MetadataResponse)
        return {topic.name: len(topic.partitions) for topic in answer.topics}


def _kill(broker: Broker, stop: threading.Event, killed: list[str]) -> None:
    """Controller and handlers in turn, each only once its predecessor's successor runs."""
    rng = random.Random(5)
    for n in range(KILLS):
        role, index = [("controller", 0), ("handler", n // 2 % 2)][n % 2]
        if stop.wait(rng.uniform(0.05, 0.4)):
            return
        broker.wait_restarted(role, index, broker.kill(role, index))
        killed.append(role)


def test_every_request_is_carried_out_exactly_once(tmp_path):
    rng, stop, killed = random.Random(11), threading.Event(), []
    with Broker(tmp_path, overrides={"num.io.threads": 2}) as broker:
        with RawConnection(broker.port(), timeout_s=40) as connection:
            admin = Admin(connection)
            killer = threading.Thread(target=_kill, args=(broker, stop, killed))
            killer.start()
            try:
                rounds = 0
                while rounds < ROUNDS or (killer.is_alive() and rounds < 20 * ROUNDS):
                    rng.choice([admin.create, admin.create, admin.extend, admin.delete])(rng.choice(NAMES))
                    assert admin.seen() == admin.topics
                    rounds += 1
            finally:
                stop.set()
                killer.join()
        directories = {path.name for path in broker.data_dir.iterdir() if path.is_dir() and "-" in path.name}
    assert len(killed) == KILLS
    live = {name for name in directories if not name.endswith("-delete")}
    assert live == {f"{name}-{number}" for name, count in admin.topics.items() for number in range(count)}
