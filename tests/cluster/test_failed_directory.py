"""A log directory that fails under a broker that leads: another leads, producers see nothing of it (LONG=1).

Also a start after a crash of the machine, as far as a file can pretend one.
"""

import json
import os
import shutil
import time

import pytest
from confluent_kafka.admin import NewTopic

from tests.harness.acknowledged_load import Load
from tests.harness.broker import wait_until
from tests.harness.running_cluster import RunningCluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get("LONG"), reason="LONG=1: a cluster of its own"),
]
TOPIC, PARTITIONS, BROKEN = "broken", 6, 2


def test_leaders_move_away_from_it(tmp_path):
    with RunningCluster(tmp_path / "c") as cluster:
        small = NewTopic(TOPIC, PARTITIONS, 3, config={"segment.bytes": "20000"})
        cluster.admin.create_topics([small])[TOPIC].result(20)
        cluster.wait_for_isr(TOPIC, 3)
        with Load(cluster.bootstrap, TOPIC, PARTITIONS, ("librdkafka idempotent", "librdkafka")) as load:
            time.sleep(0.5)
            led = next(number for number, (leader, _) in cluster.partitions(TOPIC).items() if leader == BROKEN)
            shutil.rmtree(cluster.directory / f"broker-{BROKEN}" / f"{TOPIC}-{led}")
            wait_until(
                lambda: all(
                    leader != BROKEN and BROKEN not in isr for leader, isr in cluster.partitions(TOPIC).values()
                ),
                "other leaders",
                30,
            )
            time.sleep(0.5)
        assert load.failed == []

        cluster.kill(BROKEN)
        last = cluster.directory / f"broker-{BROKEN}" / "last-machine.json"
        last.write_text(json.dumps(json.loads(last.read_text()) | {"machine": "another boot"}))
        cluster.start(BROKEN)
        assert "unclean_start" in (cluster.directory / f"broker-{BROKEN}.log").read_text()
