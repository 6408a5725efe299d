"""Kafka's own command line tools against this broker, where Java and Kafka's jars are.

TEST_KAFKA_LIBS names the directory with the jars (`libs` of any Kafka 3.x installation).
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

LIBS, JAVA = os.environ.get("TEST_KAFKA_LIBS", ""), shutil.which("java")
TOOLS = "org.apache.kafka.tools"
TIMEOUT_S = 90
pytestmark = [
    pytest.mark.skipif(
        not (LIBS and JAVA and list(Path(LIBS).glob("*.jar"))),
        reason="TEST_KAFKA_LIBS names no directory with Kafka's jars, or there is no java",
    ),
    pytest.mark.timeout(2 * TIMEOUT_S),
]


def run(main_class: str, *words: str, given: str = "") -> str:
    """What a tool printed; it must succeed."""
    done = subprocess.run(
        [JAVA, "-Xmx256m", "-cp", f"{LIBS}/*", main_class, *words],
        input=given,
        text=True,
        capture_output=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def topics(broker, *words: str) -> str:
    return run(f"{TOOLS}.TopicCommand", "--bootstrap-server", broker.bootstrap, *words)


def ends(broker, topic: str) -> list[int]:
    """End offsets by partition."""
    told = run(f"{TOOLS}.GetOffsetShell", "--bootstrap-server", broker.bootstrap, "--topic", topic)
    return [int(line.rsplit(":", 1)[1]) for line in sorted(told.split())]


def test_topics_are_created_grown_described_and_deleted(broker):
    topics(broker, "--create", "--topic", "java", "--partitions", "2", "--config", "segment.bytes=100000")
    topics(broker, "--alter", "--topic", "java", "--partitions", "3")
    described = topics(broker, "--describe", "--topic", "java")
    assert "PartitionCount: 3" in described and "segment.bytes=100000" in described
    settings = run(
        "kafka.admin.ConfigCommand",
        "--bootstrap-server",
        broker.bootstrap,
        "--describe",
        "--entity-type",
        "topics",
        "--entity-name",
        "java",
    )
    assert "segment.bytes=100000" in settings and "DYNAMIC_TOPIC_CONFIG" in settings
    topics(broker, "--delete", "--topic", "java")
    assert "java" not in topics(broker, "--list").split()


@pytest.mark.parametrize(
    "settings",
    [
        [],
        ["acks=1", "enable.idempotence=false", "compression.type=lz4"],
        ["acks=0", "enable.idempotence=false"],
        ["acks=all", "compression.type=zstd"],
    ],
)
def test_producer_performance_gets_every_record_in(broker, settings):
    topic = f"performance-{len(settings)}-{len(''.join(settings))}"
    topics(broker, "--create", "--topic", topic, "--partitions", "3")
    told = run(
        f"{TOOLS}.ProducerPerformance",
        "--topic",
        topic,
        "--num-records",
        "3000",
        "--record-size",
        "100",
        "--throughput",
        "-1",
        "--producer-props",
        f"bootstrap.servers={broker.bootstrap}",
        *settings,
    )
    assert re.search(r"^3000 records sent", told, re.MULTILINE)
    assert sum(ends(broker, topic)) == 3000


def test_the_console_writes_and_reads_by_partition(broker):
    lines = "".join(f"line {number}\n" for number in range(100))
    topics(broker, "--create", "--topic", "console", "--partitions", "1")
    run("kafka.tools.ConsoleProducer", "--bootstrap-server", broker.bootstrap, "--topic", "console", given=lines)
    assert (
        run(
            f"{TOOLS}.consumer.ConsoleConsumer",
            "--bootstrap-server",
            broker.bootstrap,
            "--topic",
            "console",
            "--partition",
            "0",
            "--offset",
            "earliest",
            "--max-messages",
            "100",
        )
        == lines
    )
    assert broker.status()["counters"]["fetch_sessions_made"] > 0, "Java's consumer goes on with a session"
