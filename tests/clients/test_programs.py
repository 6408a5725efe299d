"""Applications of other languages run unchanged: Kafka's Java client (3.9 and 4), franz-go, sarama, kafkajs.

Each program plays the scenario that its `main` lists: topics with settings, idempotent producing with every codec its
library has, reading, seeking, groups of two members with eager and cooperative rebalances, a static member that comes
back, groups and settings through its admin client. `make clients` builds them; one that was not built is skipped. They
run side by side against one broker, because they mostly wait. LONG=1 in the environment gives them a hundred times the
records.
"""

import os
import re
import subprocess

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.clients.build import DIRECTORY, is_built
from tests.harness.broker import Broker

LONG = bool(os.environ.get("LONG"))
RECORDS, TIMEOUT_S = (10_000, 300) if LONG else (100, 90)
SETTINGS = {
    "group.initial.rebalance.delay.ms": 100,
    "offsets.topic.num.partitions": 5,
    "group.consumer.heartbeat.interval.ms": 200,
    "group.consumer.min.heartbeat.interval.ms": 200,
}
ALL_CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
#: Steps of a program, in its order. kafkajs compresses with two codecs; kafkajs and sarama know no cooperative
#: rebalance, kafkajs no static members. `next` is the protocol of KIP-848, which Java 4 and franz-go know.
ADMIN_STEPS = ["groups", "settings", "delete"]
STEPS = {
    "java-3.9": [*ALL_CODECS, "seek", "eager", "cooperative", "static"],
    "java-4": [*ALL_CODECS, "seek", "eager", "cooperative", "static", "next"],
    "franz": [*ALL_CODECS, "seek", "eager", "cooperative", "static", "next"],
    "sarama": [*ALL_CODECS, "seek", "eager", "static"],
    "kafkajs": ["none", "gzip", "snappy", "seek", "eager"],
}
pytestmark = [pytest.mark.slow, pytest.mark.timeout(TIMEOUT_S + 60)]


def command(name: str) -> list[str]:
    """What starts a program."""
    where = DIRECTORY / name
    if name.startswith("java"):
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
        return ["java", "-Xmx192m", "-XX:TieredStopAtLevel=1", quiet, "-cp", f"{where}:{where}/jars/*", "Program"]
    return ["node", str(where / "kafkajs.js")] if name == "kafkajs" else [str(where / name)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with Broker(tmp_path_factory.mktemp("clients"), overrides=SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def runs(broker):
    """Program → what it printed, when all are done."""
    started = {
        name: subprocess.Popen(
            [*command(name), broker.bootstrap, name, str(RECORDS)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for name in STEPS if is_built(name)
    }  # fmt: skip
    try:
        yield {name: process.communicate(timeout=TIMEOUT_S)[0] for name, process in started.items()}
    finally:
        for process in started.values():
            process.kill()
            process.communicate()


def steps_of(printed: str) -> list[str]:
    """The steps that were done, in their order."""
    return re.findall(r"^ok (\S+)", printed, re.MULTILINE)


@pytest.mark.parametrize("name", STEPS)
def test_a_program_notices_no_difference(runs, name):
    if name not in runs:
        pytest.skip(f"{name} is not built: make clients")
    produced, rest = STEPS[name][: STEPS[name].index("seek")], STEPS[name][STEPS[name].index("seek") :]
    expected = ["topics", *(f"produce-{codec}" for codec in produced), *rest, *ADMIN_STEPS]
    assert steps_of(runs[name]) == expected, runs[name]


def test_what_they_left_is_what_they_said(broker, runs):
    """Seen by another client: the groups that were not deleted, their offsets, no topic of those that were."""
    if not runs:
        pytest.skip("no program is built: make clients")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    groups = {one.group_id for one in admin.list_consumer_groups().result(10).valid}
    assert set(left_by(runs)) <= groups, "these groups were left, without members"
    assert not {f"{name}-eager" for name in runs} & groups
    topics = set(admin.list_topics(timeout=10).topics) - {"__consumer_offsets"}
    assert topics == set(left_by(runs)), "deleted, and nothing else"
    for name in left_by(runs):
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "nobody"})
        ends = [consumer.get_watermark_offsets(TopicPartition(name, one), 10)[1] for one in range(4)]
        consumer.close()
        assert ends == [3 * RECORDS // 4] * 4


def left_by(runs) -> list[str]:
    """Groups that programs leave, each with a topic of its name."""
    return [f"{name}-{step}" for name in runs for step in STEPS[name] if step in ("cooperative", "next")]


def test_their_requests_are_served_natively(broker, runs):
    """Of all Produce requests of these clients only the first ones to a topic need the interpreter, which each handler
    tells its native part of once (docs/architecture.md, section 3, step 11)."""
    if not runs:
        pytest.skip("no program is built: make clients")
    counters = broker.status()["counters"]
    left = {name: value for name, value in counters.items() if name.startswith("produce_left_") and value}
    topics, handlers = 4 * len(runs), 2
    assert set(left) <= {"produce_left_topic"} and left.get("produce_left_topic", 0) <= topics * handlers, left
    assert counters["produce_native"] > 0
