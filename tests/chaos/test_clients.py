"""The soak's clients against a broker that nobody kills, and that is not ours: what they record has no anomaly."""

import time

from tests.chaos.clients import drain
from tests.chaos.soak import PARTITIONS, TOPIC, make_clients, make_topic, running
from tests.harness.broker import wait_until
from tests.harness.checker import check, summary
from tests.harness.history import OK, History
from tests.harness.mock_cluster import MockCluster

WRITERS = {"raw0", "raw1", "idempotent0", "idempotent1"}


def writers(history: History) -> set[str]:
    return {write.client for write in list(history.writes)}


def test_an_undisturbed_load_has_no_anomaly():
    history = History()
    with MockCluster() as cluster:
        make_topic(cluster.host, cluster.port)
        clients = make_clients(history, 1, cluster.host, cluster.port, raw=2, idempotent=2, readers=1)
        with running(clients):
            time.sleep(1)
            wait_until(lambda: len(history.writes) > 50 and writers(history) == WRITERS, "every writer to write", 30)
        drain(cluster.host, cluster.port, TOPIC, PARTITIONS, history)
    anomalies = check(history)
    assert anomalies == [], summary(anomalies)
    assert writers(history) == WRITERS
    assert all(write.result == OK for write in history.writes)
