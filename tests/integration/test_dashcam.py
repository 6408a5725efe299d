"""The dash-cam of a running broker: nothing on disk until something happens, then the minutes before it."""

import json
import os
import signal
import subprocess
import sys

import pytest

from mpbroker.client.bootstrap import connect
from mpbroker.client.topic_admin import create_topic
from mpbroker.trace import dump
from tests.harness.broker import Broker, wait_until
from tests.harness.raw_records import RawProducer
from tests.harness.trace_records import requests_in_directory

SETTINGS = {
    "mpbroker.trace.dashcam.bytes": 8 << 20,
    "mpbroker.trace.dashcam.ms": 60_000,
    "mpbroker.trace.dashcam.after.ms": 2000,  # 20 errors begin a dump, and 100 more belong into it
    "mpbroker.trace.dashcam.error.percent": 20,
}


@pytest.fixture
def broker(tmp_path):
    with Broker(tmp_path, overrides=SETTINGS) as broker:
        with connect(broker.bootstrap) as client:  # answered when it is there: errors would count
            create_topic(client, "t", 1, {})
        yield broker


def _dumps(broker, kind="*"):
    found = {path: dump.read(path) for path in (broker.data_dir / "traces").glob(f"dump-*-{kind}")}
    return {path: said for path, said in found.items() if said is not None}


def _trace(broker, *arguments):
    command = [sys.executable, "-m", "mpbroker", "trace", *arguments, "--data-dir", str(broker.data_dir)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_requests_before_a_command_a_signal_and_errors_are_on_disk_after_it(broker):
    producer = RawProducer("127.0.0.1", broker.port(), "t")
    wait_until(lambda: producer.produce(0, [b"a"]).error == 0, "the topic")
    for _ in range(50):
        assert producer.produce(0, [b"value"]).error == 0

    def seen():
        done = _trace(broker, "stats", "--json")  # 2 before the tracer has made its first segment
        return json.loads(done.stdout)["records"] if done.returncode == 0 else 0

    wait_until(lambda: seen() > 50, "memory to be read as disk is")
    assert not _dumps(broker)
    (asked,) = json.loads(_trace(broker, "dump", "--json", "by", "hand").stdout)
    assert [cause["text"] for cause in asked["causes"]] == ["by hand"]
    produced = [one for one in requests_in_directory(asked["directory"]) if one.api_key == 0]
    assert len(produced) == producer._correlation_id

    os.kill(broker.pid, signal.SIGUSR1)
    wait_until(lambda: len(_dumps(broker, "asked*")) == 2, "the dump that a signal asks for")
    before = producer._correlation_id
    for _ in range(120):
        assert producer.produce(99, [b"no such partition"]).error == 3
    (path,) = wait_until(lambda: _dumps(broker, "errors"), "the dump that errors ask for")
    failed = [one.corr_id for one in requests_in_directory(path) if one.api_key == 0 and one.error == 3]
    assert sorted(failed)[-120:] == list(range(before + 1, before + 121))
    assert len(_trace(broker, "dump", "--list").stdout.splitlines()) == 3
    producer.close()
    broker.stop()
    assert not [name for name in os.listdir("/dev/shm") if name.endswith("-dashcam") and _is_of(broker, name)]


def _is_of(broker, name):
    from mpbroker.shm.segment import name_prefix

    return name.startswith(name_prefix(str(broker.data_dir))[1:])


def test_a_broker_without_one_says_so(tmp_path):
    with Broker(tmp_path) as broker:
        done = _trace(broker, "dump")
        assert done.returncode == 2 and "has no dash-cam: mpbroker.trace.dashcam.bytes is 0" in done.stderr
        os.kill(broker.pid, signal.SIGUSR1)
        wait_until(lambda: "no_dashcam" in broker.log(), "the line about it")
