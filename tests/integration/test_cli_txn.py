"""`mpbroker txn` as a user types it, beside a real producer: list, describe, and abort, which fences it."""

import json
import subprocess
import sys

import pytest
from confluent_kafka import KafkaException, Producer

from mpbroker.coordinator.transactions.transaction import State
from tests.harness.broker import Broker

pytestmark = pytest.mark.slow


def test_a_transaction_is_shown_and_aborted(tmp_path):
    with Broker(tmp_path, overrides={"transaction.state.log.num.partitions": 2}) as broker:

        def run(*words):
            command = [sys.executable, "-m", "mpbroker", "txn", *words, "--bootstrap", broker.bootstrap]
            return subprocess.run(command, capture_output=True, text=True, timeout=60)

        settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": "pay", "linger.ms": 0, "log_level": 0}
        producer = Producer(settings)
        producer.init_transactions(20)
        producer.begin_transaction()
        producer.produce("orders", b"one", partition=0)
        assert producer.flush(20) == 0
        for state in ("Ongoing", "ongoing"):
            assert run("list", "--state", state).stdout.split() == ["pay", "Ongoing", "producer", "0"]
        described = json.loads(run("describe", "pay", "--json").stdout)
        assert (described["state"], described["producer_epoch"]) == ("Ongoing", 0)
        assert described["partitions"] == [{"topic": "orders", "partition": 0}] and described["started_ms"] > 0
        assert "orders-0" in run("describe", "pay").stdout
        assert run("abort", "pay").stdout == "aborted the transaction of pay; its producer is fenced\n"
        with pytest.raises(KafkaException):
            producer.commit_transaction(20)
        assert run("abort", "pay").stdout == "pay has no transaction\n"
        assert json.loads(run("list", "--json").stdout)[0]["state"] == "Empty"
        missing = run("describe", "nobody")
        assert missing.returncode == 1 and "nobody" in missing.stderr
        odd = run("list", "--state", "Odd")
        assert odd.returncode == 2 and all(state.label in odd.stderr for state in State), odd.stderr
