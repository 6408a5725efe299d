"""A client loses the connection to a leader and asks at once who leads now: not of the dead one, whatever has been said
so far."""

import os
import signal
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from mpbroker.analysis.bench.process_tree import tree
from mpbroker.client.network_client import NetworkClient
from mpbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.harness.broker import wait_until
from tests.harness.raw_client import RawConnection, api_versions
from tests.harness.running_cluster import RunningCluster

pytestmark = pytest.mark.slow
TOPIC = "replicated"
VICTIM, ASKED = 3, 1
LEARN = ("mpbroker: controller", "mpbroker: cluster-controller")
"""Who hears of other brokers."""


def told(client):
    """(brokers, leader of the partition), as the broker at the other end tells it."""
    answer = client.call(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), MetadataResponse, 9)
    return sorted(each.node_id for each in answer.brokers), answer.topics[0].partitions[0].leader_id


def role(pid):
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode().rstrip("0123456789 ")


@contextmanager
def stopped(pids):
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def test_who_loses_the_connection_to_a_leader_is_not_told_of_it_again(tmp_path):
    with RunningCluster(tmp_path / "c") as cluster:
        cluster.admin.create_topics([NewTopic(TOPIC, 1, replica_assignment=[[VICTIM, 1, 2]])])[TOPIC].result(20)
        cluster.wait_for_isr(TOPIC, 3)
        roots = {one["node_id"]: one["pid"] for one in cluster.status()["brokers"]}
        ports = dict(enumerate((int(one.split(":")[1]) for one in cluster.bootstrap.split(",")), start=1))
        learn = [pid for pid in tree(roots[ASKED]) if role(pid) in LEARN]
        assert len(learn) == len(LEARN)
        with NetworkClient("127.0.0.1", ports[ASKED]) as client:
            wait_until(lambda: told(client)[1] == VICTIM, "the leader")
            with RawConnection(ports[VICTIM]) as connection, stopped(learn):
                connection.ask(api_versions(1))
                os.kill(roots[VICTIM], signal.SIGKILL)
                assert connection.receive() is None
                assert told(client) == ([1, 2, 3], -1)
            wait_until(lambda: told(client)[1] in (1, 2), "another leader")
            assert told(client)[0] == [1, 2, 3], "clients hand over what they have for it before it disappears"
