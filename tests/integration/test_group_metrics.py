"""Lag of consumer groups in `/metrics`, as real consumers read and commit; while the coordinator does not move; when
there are more groups than are shown."""

import contextlib
import os
import signal
import threading
import time
import urllib.error
import urllib.request

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from prometheus_client.parser import text_string_to_metric_families

from mpbroker.admin import group_lag
from mpbroker.shm.process_context import BoundListener
from tests.harness.broker import Broker, wait_until

pytestmark = pytest.mark.slow
SETTINGS = {"group.initial.rebalance.delay.ms": 0, "num.partitions": 2, "offsets.topic.num.partitions": 3}
LAG, OFFSET = "kafka_consumergroup_lag", "kafka_consumergroup_current_offset"
MEMBERS, COMPLETE = "kafka_consumergroup_members", "mpbroker_consumergroups_complete"


@pytest.fixture
def broker(tmp_path):
    with Broker(tmp_path, overrides=SETTINGS) as running:
        yield running


def get(broker, path, timeout_s=20):
    with urllib.request.urlopen(broker.ready["admin"] + path, timeout=timeout_s) as answer:
        return answer.read().decode()


def scrape(broker):
    """Name → labels' values → value."""
    found = {}
    for family in text_string_to_metric_families(get(broker, "/metrics")):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def complete(broker):
    """A scrape with all that the coordinator says: one that takes it too long is left out, and the gauge says so."""

    def whole():
        found = scrape(broker)
        return found if found[COMPLETE] == {(): 1} else None

    return wait_until(whole, "a complete look at the groups", 20)


def produce(broker, topic, count):
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(count):
        producer.produce(topic, b"v", partition=number % 2)
    assert producer.flush(30) == 0


def consumer(broker, group, topic):
    settings = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    made = Consumer({"bootstrap.servers": broker.bootstrap, **settings})
    made.subscribe([topic])
    return made


def read(reader, count):
    """Reads so many records and commits them."""
    seen, deadline = 0, time.monotonic() + 30
    while seen < count:
        assert time.monotonic() < deadline, f"only {seen} of {count} records"
        message = reader.poll(0.5)
        seen += message is not None and message.error() is None
        if message is not None and message.error() is None:
            reader.commit(message, asynchronous=False)


def sums(found, name, group):
    return sum(value for (one, *_), value in found.get(name, {}).items() if one == group)


def test_lag_before_while_and_after_two_groups_read(broker):
    produce(broker, "t", 40)
    assert MEMBERS not in complete(broker), "no group was ever there"
    first, second = consumer(broker, "first", "t"), consumer(broker, "second", "t")
    read(first, 10)
    read(second, 40)
    found = complete(broker)
    assert found[MEMBERS] == {("first",): 1, ("second",): 1}
    assert (sums(found, LAG, "first"), sums(found, LAG, "second")) == (_unread(found, 10), 0)
    assert sums(found, OFFSET, "second") == 40
    assert found[LAG]["second", "t", "0"] == found[LAG]["second", "t", "1"] == 0
    read(first, 30)
    produce(broker, "t", 6)
    found = complete(broker)
    assert (sums(found, LAG, "first"), sums(found, LAG, "second")) == (6, 6)
    assert found[LAG]["first", "t", "0"] == found[LAG]["first", "t", "1"] == 3
    first.close()
    second.close()
    assert complete(broker)[MEMBERS] == {("first",): 0, ("second",): 0}
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_consumer_groups(["first"])["first"].result(20)
    found = complete(broker)
    assert found[MEMBERS] == {("second",): 0} and {group for group, _, _ in found[LAG]} == {"second"}
    admin.delete_topics(["t"])["t"].result(20)
    wait_until(lambda: LAG not in complete(broker), "no lag in a topic that is gone", 20)


def _unread(found, read_so_far):
    """A partition nobody has committed in has no lag yet; of others it is what is not read."""
    shown = [value for (group, *_), value in found[OFFSET].items() if group == "first"]
    return 20 * len(shown) - read_so_far


def test_a_coordinator_that_does_not_move_hides_its_groups_and_nothing_else(broker):
    produce(broker, "t", 4)
    reader = consumer(broker, "g", "t")
    read(reader, 4)
    pid = broker.row("coordinator")["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: _health_comes_first(broker), "health while metrics wait for the coordinator", 30)
        began = time.monotonic()
        found = scrape(broker)
        took_s = time.monotonic() - began
    finally:
        os.kill(pid, signal.SIGCONT)
    assert took_s < 15, "a client's own timeout is 30 s"
    assert found[COMPLETE] == {(): 0} and LAG not in found and MEMBERS not in found
    assert found["kafka_server_brokertopicmetrics_messagesin_total"][("t",)] == 4
    complete(broker)  # the groups are there again
    reader.close()


def _health_comes_first(broker):
    """Whether health is told, again and again, while a scrape waits."""
    scraping = threading.Thread(target=get, args=(broker, "/metrics"))
    scraping.start()
    time.sleep(0.1)
    for _ in range(20):
        with contextlib.suppress(urllib.error.HTTPError):  # 503 is an answer, too
            get(broker, "/healthz")
    was_first = scraping.is_alive()
    scraping.join(30)
    return was_first


def test_more_groups_than_are_shown(broker, monkeypatch):
    produce(broker, "t", 4)
    for number in range(3):
        reader = consumer(broker, f"g{number}", "t")
        read(reader, 4)
        reader.close()
    host, port = broker.bootstrap.split(":")
    listener = BoundListener(0, "PLAINTEXT", "PLAINTEXT", host, int(port), host, int(port), False)
    monkeypatch.setattr(group_lag, "GROUPS_AT_ONCE", 1)
    monkeypatch.setattr(group_lag, "LIMIT_S", 20.0)  # by number, not by time
    whole = group_lag.GroupLag(lambda: [listener]).look()
    assert whole.is_complete and set(whole.members) == {"g0", "g1", "g2"} and len(whole.offsets) == 6
    monkeypatch.setattr(group_lag, "MAX_GROUPS", 2)
    part = group_lag.GroupLag(lambda: [listener]).look()
    assert not part.is_complete and set(part.members) == {"g0", "g1"}
    monkeypatch.setattr(group_lag, "MAX_GROUPS", 3)
    monkeypatch.setattr(group_lag, "MAX_OFFSETS", 4)
    part = group_lag.GroupLag(lambda: [listener]).look()
    assert not part.is_complete and len(part.offsets) == 4
