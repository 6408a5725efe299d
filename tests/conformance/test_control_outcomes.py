"""The script of control requests, answered by a broker of ours as Kafka 3.9.2 answered it."""

import json
from pathlib import Path

import pytest

from tests.conformance.control_script import ControlScript
from tests.harness.running_cluster import RunningCluster

KAFKA = json.loads(Path(__file__).with_name("kafka_3_9_control_outcomes.json").read_text())
#: A broker whose session ended gives up its roles and is given them again in the epochs they had; what was stopped is
#: not told apart from that. Kafka's broker keeps its partition, and refuses.
OURS = {"leads in the epoch in which it stopped": [0, [0]]}
pytestmark = pytest.mark.slow


def test_every_step_is_answered_as_kafka_does(tmp_path):
    with RunningCluster(tmp_path / "c", brokers=1) as cluster:
        (broker,) = cluster.status()["brokers"]
        places = {one["name"]: (one["host"], one["port"]) for one in broker["listeners"]}
        script = ControlScript(places["PLAINTEXT"], places["CONTROL"])
        script.prepare()
        assert script.run() == KAFKA | OURS
