"""Apache Kafka's own tools read `__consumer_offsets`: DumpLogSegments its files, the console consumer its records.

Needs Java and Kafka's jars, as test_dump_log_segments.py does.
"""

import json
import re
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from mpbroker.metadata.coordinator_partitions import partition_of
from tests.conformance.test_dump_log_segments import LIBS, dump, pytestmark, trouble  # noqa: F401  (skips without Kafka's jars)
from tests.harness.broker import Broker, wait_until
from tests.harness.peer import Peer, create_topic

GROUP, TOPIC = "my-group", "t"
CONSOLE = "org.apache.kafka.tools.consumer"
SETTINGS = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 3}


@pytest.fixture(scope="module")
def used(tmp_path_factory):
    """A broker on which a group joined, committed and left."""
    directory = tmp_path_factory.mktemp("offsets")
    with Broker(directory, overrides=SETTINGS) as broker:
        with Peer(broker.port()) as peer:
            assert create_topic(peer, TOPIC, 2).error_code == 0
        settings = {"bootstrap.servers": broker.bootstrap, "group.id": GROUP, "client.id": "reader"}
        member = Consumer({**settings, "enable.auto.commit": False})
        member.subscribe([TOPIC])
        wait_until(lambda: (member.poll(0.1), len(member.assignment()) == 2)[1], "an assignment", 30)
        member.commit(offsets=[TopicPartition(TOPIC, 0, 42), TopicPartition(TOPIC, 1, 43)], asynchronous=False)
        member.close()
        yield broker, directory


def values(text: str, kind: str) -> list[dict]:
    """The decoded values of the records whose key is of this type, in the order of the log."""
    pattern = rf'key: (\{{"type":"{kind}".*?\}}) payload: (\{{.*\}})$'
    return [json.loads(value) for _, value in re.findall(pattern, text, re.MULTILINE)]


def test_the_console_consumer_formats_them(used):
    broker, _ = used
    command = ["java", "-cp", f"{LIBS}/*", f"{CONSOLE}.ConsoleConsumer", "--bootstrap-server", broker.bootstrap]
    command += ["--topic", "__consumer_offsets", "--partition", str(partition_of(GROUP, 3)), "--offset", "earliest"]
    command += ["--max-messages", "3"]  # the stable group and its two offsets
    command += ["--timeout-ms", "30000", "--formatter", f"{CONSOLE}.OffsetsMessageFormatter"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    rows = [json.loads(line) for line in done.stdout.replace("}}{", "}}\n{").splitlines() if line.startswith("{")]
    found = {(row["key"]["data"]["partition"], row["value"]["data"]["offset"]) for row in rows}
    assert found == {(0, 42), (1, 43)}, done.stdout + done.stderr


def test_dump_log_segments_decodes_them(used):
    broker, directory = used
    broker.stop()
    files = [path for path in Path(directory).rglob("__consumer_offsets-*/*.log") if path.stat().st_size]
    text = dump(files, "--offsets-decoder", "--deep-iteration")
    assert not trouble(text)
    offsets = values(text, "1")
    assert [row["data"]["offset"] for row in offsets] == [42, 43]
    stable, empty = values(text, "2")
    assert {stable["version"], empty["version"], *(row["version"] for row in offsets)} == {"3"}
    [member] = stable["data"]["members"]
    assert stable["data"]["leader"] == member["memberId"] and member["memberId"].startswith("reader-")
    assert (member["clientId"], member["clientHost"]) == ("reader", "/127.0.0.1")
    assert member["subscription"]["topics"] == [TOPIC]
    assert member["assignment"]["assignedPartitions"] == [{"topic": TOPIC, "partitions": [0, 1]}]
    assert (empty["data"]["generation"], empty["data"]["members"]) == (2, [])
