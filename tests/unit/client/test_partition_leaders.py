"""Who is asked for a partition, what is remembered, and what happens when a broker is gone."""

import pytest

from mpbroker.client import partition_leaders
from mpbroker.client.network_client import ConnectionLost
from mpbroker.client.partition_leaders import PartitionLeaders
from mpbroker.errors import ErrorCode, KafkaError
from mpbroker.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


class Cluster:
    """What Metadata says, which brokers do not answer, and which connections were made."""

    def __init__(self, monkeypatch, brokers, leaders):
        self.brokers, self.leaders, self.gone, self.made, self.asked = brokers, leaders, set(), [], []
        cluster = self

        class Connection:
            client_id, timeout_ms = "test", 1000

            def __init__(self, host, port, client_id="test", timeout_ms=1000):
                self.host, self.port, self.closed = host, port, False
                cluster.made.append(self)
                self.reconnect()

            def reconnect(self):
                if self.host in cluster.gone:
                    raise ConnectionLost(f"{self.host} is gone")

            def call(self, request, response_class, highest):
                self.reconnect()
                cluster.asked.append(self.host)
                return cluster.metadata(request.topics[0].name)

            def close(self):
                self.closed = True

            def __enter__(self):
                return self

            def __exit__(self, *_):
                self.close()

        self.connection = Connection
        monkeypatch.setattr(partition_leaders, "NetworkClient", Connection)

    def metadata(self, topic):
        rows = [MetadataResponsePartition(partition_index=n, leader_id=at) for n, at in enumerate(self.leaders)]
        brokers = [MetadataResponseBroker(number, f"h{number}", 9) for number in self.brokers]
        return MetadataResponse(brokers=brokers, topics=[MetadataResponseTopic(name=topic, partitions=rows)])

    def client(self, host):
        return self.connection(host, 9)


def test_a_broker_alone_is_asked_over_the_connection_there_is(monkeypatch):
    cluster = Cluster(monkeypatch, [1], [1, 1])
    client = cluster.client("elsewhere")
    with PartitionLeaders(client) as leaders:
        assert leaders.by_leader("t", [0, 1]) == {client: [0, 1]} and leaders.of("t", 1) is client
        assert len(list(leaders.pauses())) == 8
    assert cluster.made == [client] and not client.closed and cluster.asked == ["elsewhere"]


def test_of_several_each_leads_its_own_over_connections_that_are_kept(monkeypatch):
    cluster = Cluster(monkeypatch, [1, 2, 3], [1, 2, 1])
    client = cluster.client("h1")
    with PartitionLeaders(client) as leaders:
        found = {one.host: numbers for one, numbers in leaders.by_leader("t", [0, 1, 2]).items()}
        assert found == {"h1": [0, 2], "h2": [1]}
        assert client not in leaders.by_leader("t", [0])  # it is for Metadata: a leader may have a Fetch in hand
        assert leaders.of("t", 1) is leaders.of("t", 1) and len(list(leaders.pauses())) == 14
    assert [(one.host, one.closed) for one in cluster.made] == [("h1", False), ("h1", True), ("h2", True)]


def test_a_move_is_seen_after_an_error(monkeypatch):
    cluster = Cluster(monkeypatch, [1, 2], [1])
    with PartitionLeaders(cluster.client("h1")) as leaders:
        assert leaders.of("t", 0).host == "h1"
        cluster.leaders = [2]
        assert leaders.of("t", 0).host == "h1"
        leaders.look_again()
        assert leaders.of("t", 0).host == "h2"


def test_a_partition_without_a_leader_may_have_one_later(monkeypatch):
    cluster = Cluster(monkeypatch, [1, 2], [-1, 3])  # nobody, and one that is not there
    with PartitionLeaders(cluster.client("h1")) as leaders:
        for number in range(2):
            with pytest.raises(KafkaError, match=f"t-{number}") as caught:
                leaders.of("t", number)
            assert (caught.value.code, caught.value.retriable) == (ErrorCode.LEADER_NOT_AVAILABLE, True)
        cluster.leaders = [1, 2]
        assert leaders.of("t", 1).host == "h2"


def test_when_the_broker_first_named_is_gone_another_one_says_who_leads(monkeypatch):
    cluster = Cluster(monkeypatch, [1, 2], [1])
    with PartitionLeaders(cluster.client("h1")) as leaders:
        lost = leaders.of("t", 0)
        cluster.gone, cluster.leaders = {"h1"}, [2]
        leaders.look_again(lost)
        assert lost.closed and leaders.of("t", 0).host == "h2" and cluster.asked == ["h1", "h2"]
        cluster.gone = {"h1", "h2"}
        leaders.look_again()
        with pytest.raises(ConnectionLost, match="h1 is gone"):
            leaders.of("t", 0)
