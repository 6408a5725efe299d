"""Traces of a running broker: every request has a record, whatever is killed; `mpbroker trace` reads them."""

import json
import os
import signal
import subprocess
import sys

import pytest

from mpbroker.trace import manifest, record
from tests.harness.broker import Broker, wait_until
from tests.harness.raw_client import RawConnection
from tests.harness.raw_records import RawFetcher, RawProducer, batch, create_by_metadata, produce_request, produced
from tests.harness.trace_records import requests_of

TOPIC = "traced"


@pytest.fixture
def broker(tmp_path):
    with Broker(tmp_path, overrides={"num.partitions": 1}) as broker:
        yield broker


def _stats(broker):
    done = subprocess.run(
        [sys.executable, "-m", "mpbroker", "trace", "stats", "--json", "--data-dir", str(broker.data_dir)],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def _produce(broker, count):
    """Produce `count` times on one connection; the correlation ids that were answered."""
    producer = RawProducer("127.0.0.1", broker.port(), TOPIC)
    wait_until(lambda: (answer := producer.produce(0, [b"first"])) and answer.error == 0, "the topic")
    for number in range(count):
        answer = producer.produce(0, [b"value %d" % number], acks=1)
        assert answer is not None and answer.error == 0
    producer.close()
    return producer._correlation_id


def test_every_request_has_one_record(broker):
    create_by_metadata("127.0.0.1", broker.port(), TOPIC)
    last = _produce(broker, 200)
    fetcher = RawFetcher("127.0.0.1", broker.port(), TOPIC)
    assert fetcher.fetch(0, 0).error == 0
    fetcher.fetch(0, 10_000_000)
    assert fetcher.fetch(0, 201, max_wait_ms=50).records == b""  # waits in the purgatory
    fetcher.close()
    broker.stop()
    requests = requests_of(broker)
    produced = [one.corr_id for one in requests if one.api_key == 0]
    assert sorted(produced) == list(range(1, last + 1))
    stats = _stats(broker)
    assert stats["finished"] == stats["records"] + stats["dropped"] == len(requests) and not stats["damage"]
    apis = {api["api"]: api for api in stats["apis"]}
    assert apis["Produce"]["count"] == last and apis["Fetch"]["count"] == 3 and apis["Metadata"]["count"] >= 1
    assert {"queue", "local", "response_queue", "send", "total"} <= apis["Produce"]["stages"].keys()
    assert apis["Fetch"]["stages"]["purgatory"]["count"] >= 1
    assert [one.flags & record.PURGATORY_TIMEOUT for one in requests if one.api_key == 1 and one.purg_kind][-1]
    for one in requests:
        reached = [
            one.stage[record.STAGES.index(name)]
            for name in (
                "frame_done",
                "parsed",
                "enqueued",
                "dequeued",
                "local_done",
                "resp_enq",
                "resp_deq",
                "send_start",
                "send_done",
            )
        ]
        assert record.NOT_REACHED not in reached
        everything = [ticks for ticks in one.stage if ticks != record.NOT_REACHED]
        assert everything == sorted(everything)
    io_done = record.STAGES.index("io_done")
    waited = {one.corr_id: one.stage[io_done] != record.NOT_REACHED for one in requests if one.api_key == 1}
    assert list(waited.values()) == [True, False, False]  # read at once; an error; nothing to read even after a wait
    assert all(one.stage[io_done] != record.NOT_REACHED for one in requests if one.api_key == 0 and not one.error)


def test_a_running_brokers_traces_are_read(broker):
    create_by_metadata("127.0.0.1", broker.port(), TOPIC)
    last = _produce(broker, 20)
    wait_until(
        lambda: (broker.data_dir / "traces").is_dir() and len(requests_of(broker)) > last, "the tracer's next drain"
    )
    assert _stats(broker)["records"] > last


@pytest.mark.parametrize("role", ["tracer", "processor", "handler"])
def test_killed_processes_leave_no_request_unaccounted(broker, role):
    create_by_metadata("127.0.0.1", broker.port(), TOPIC)
    first = _produce(broker, 50)
    pid = broker.kill(role, 0)
    broker.wait_restarted(role, 0, pid)
    second = _produce(broker, 50)
    broker.stop()
    stats = _stats(broker)
    assert stats["finished"] == stats["records"] + stats["dropped"]
    for one in requests_of(broker):
        everything = [ticks for ticks in one.stage if ticks != record.NOT_REACHED]
        assert everything == sorted(everything)
    assert sum(one.api_key == 0 for one in requests_of(broker)) == first + second
    assert all(info.closed is not None for info in manifest.segments(broker.data_dir / "traces"))


def test_sampling_loses_no_count_and_no_failure(tmp_path):
    overrides = {"num.partitions": 1, "mpbroker.trace.sample.shift": 3, "mpbroker.trace.slow.ms": -1}
    with Broker(tmp_path, overrides=overrides) as broker:
        create_by_metadata("127.0.0.1", broker.port(), TOPIC)
        last = _produce(broker, 800)
        fetcher = RawFetcher("127.0.0.1", broker.port(), TOPIC)
        assert fetcher.fetch(0, 10_000_000).error != 0
        fetcher.close()
        finished = broker.status()["counters"]["requests_finished"]
        broker.stop()
    requests, stats = requests_of(broker), _stats(broker)
    assert stats["finished"] == stats["records"] + stats["dropped"] + stats["sampled_out"] >= finished
    assert stats["records"] == len(requests) < 400 and stats["sampled_out"] > 400
    kept = [one for one in requests if one.flags & record.KEPT]
    assert {one.weight for one in kept} == {1} and {one.weight for one in requests if one not in kept} == {8}
    assert [one.error != 0 for one in kept] == [True] * len(kept) and any(one.api_key == 1 for one in kept)
    assert last / 2 < sum(one.weight for one in requests if one.api_key == 0) < last * 2


def test_sampling_follows_the_configuration_of_a_running_broker(tmp_path):
    properties = tmp_path / "server.properties"
    properties.write_text("num.partitions=1\n")
    with Broker(tmp_path, properties=properties) as broker:
        create_by_metadata("127.0.0.1", broker.port(), TOPIC)
        _produce(broker, 10)
        properties.write_text("num.partitions=1\nmpbroker.trace.sample.shift=15\nmpbroker.trace.slow.ms=-1\n")
        os.kill(broker.pid, signal.SIGHUP)
        wait_until(lambda: _produce(broker, 5) and _stats(broker)["sampled_out"] > 0, "sampling")


def test_ctrl_c_ends_following_without_a_word(tmp_path):
    with Broker(tmp_path, overrides={"num.partitions": 1}) as broker:
        follow = [sys.executable, "-m", "mpbroker", "trace", "tail", "--follow", "--data-dir", str(broker.data_dir)]
        with subprocess.Popen(follow, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert "ApiVersions" in process.stdout.readline()  # the supervisor's own question at start
            process.send_signal(signal.SIGINT)
            _, error = process.communicate(timeout=10)
    assert (process.returncode, error) == (130, "")


def test_tracing_can_be_turned_off(tmp_path):
    with Broker(tmp_path, overrides={"num.partitions": 1, "mpbroker.trace.enabled": "false"}) as broker:
        create_by_metadata("127.0.0.1", broker.port(), TOPIC)
        _produce(broker, 5)
    assert not (broker.data_dir / "traces").exists()


def test_a_produce_whose_time_ran_out_shows_its_error(tmp_path):
    """Acknowledgement waits for a sync that does not come, because the log keeper is stopped."""
    with Broker(tmp_path, overrides={"num.partitions": 1, "mpbroker.log.flush": "commit"}) as broker:
        create_by_metadata("127.0.0.1", broker.port(), TOPIC)
        _produce(broker, 1)
        broker.kill("log-keeper", 0, signal.SIGSTOP)
        with RawConnection(broker.port()) as connection:
            _, body = connection.ask(produce_request(77, TOPIC, 0, batch([b"late"]), acks=1, timeout_ms=100))
            assert produced(body).error == 7
        broker.kill("log-keeper", 0, signal.SIGCONT)
        assert broker.status()["counters"]["produce_partition_errors"] >= 1
        broker.stop()
    [late] = [one for one in requests_of(broker) if one.corr_id == 77]
    assert late.error == 7 and late.flags & record.PURGATORY_TIMEOUT
