"""Processes are killed while transactions go on: what was read and what was written appear together or not at all.

LONG=1: more named moments. A thousand kills of chains with several clients: transaction_soak.py (`make soak`).
"""

import os
import random
import time

import pytest
from confluent_kafka import Producer

from mpbroker.client.bootstrap import connect
from mpbroker.client.topic_admin import create_topic
from tests.harness.broker import Broker
from tests.harness.transaction_chain import PARTITIONS, Chain, copied, copies

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

SETTINGS = {
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 2,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 300,
    "num.io.threads": 2,
    "mpbroker.trace.enabled": "false",
    "mpbroker.admin.listener": "",
}
LONG = bool(os.environ.get("LONG"))
#: Moments that the coordinator passes in a transaction, with how often before it dies.
POINTS = (
    "coordinator.prepared:2",
    "coordinator.marked:2",
    *(
        (
            "coordinator.decided:7",
            "coordinator.appended:4",
            "coordinator.marked:7",
            "coordinator.answered:12",
            "coordinator.transactions_loaded:2",
        )
        if LONG
        else ()
    ),
)


def fill(broker, records):
    """A topic to copy from, and one to copy to."""
    with connect(broker.bootstrap) as client:
        for name in ("source", "target"):
            create_topic(client, name, PARTITIONS, {})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5, "log_level": 0})
    for number in range(records):
        producer.produce("source", b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(20) == 0


def check(broker, chain, records, patience_s):
    chain.join(patience_s)
    assert not chain.is_alive(), (chain.wrong, broker.log()[-3000:])
    expected = sorted((number % PARTITIONS, number // PARTITIONS) for number in range(records))
    assert copies(copied(broker.bootstrap, "target")) == expected, chain.wrong
    assert chain.committed, "nothing was committed"


@pytest.mark.parametrize("point", POINTS)
def test_a_death_at_a_named_moment(tmp_path, point):
    with Broker(tmp_path, overrides=SETTINGS, env={"MPBROKER_CRASH": point}) as broker:
        fill(broker, 30)
        chain = Chain(broker.bootstrap, "source", "target", 30)
        chain.start()
        check(broker, chain, 30, 60)
        died = any(row["role"] == "coordinator" and row["restarts"] for row in broker.status()["processes"])
        assert died, f"nobody passed {point}"


def test_kills_of_all_kinds(tmp_path):
    kills, records, choice = 4, 200, random.Random(7)
    with Broker(tmp_path, overrides=SETTINGS) as broker:
        fill(broker, records)
        chain = Chain(broker.bootstrap, "source", "target", records)
        chain.start()
        for _ in range(kills):
            time.sleep(choice.uniform(0.05, 0.4))
            role = choice.choice(("coordinator", "coordinator", "handler", "processor", "controller", "log-keeper"))
            broker.wait_restarted(role, 0, broker.kill(role, 0), 20)
        check(broker, chain, records, 90)
