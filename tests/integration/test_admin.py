"""The admin process of a real broker: `/metrics` counts what clients did, read by Prometheus' own parser; health
while a process hangs; clients of HTTP that misbehave; the process dies and comes back."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families

from tests.harness.broker import Broker, wait_until
from tests.harness.raw_client import RawConnection, api_versions
from tests.harness.raw_records import batch, produce_request

pytestmark = pytest.mark.slow
DASHBOARD = Path(__file__).parents[2] / "deploy" / "grafana-dashboard.json"
TOPICS = "kafka_server_brokertopicmetrics_"
REQUESTS = "kafka_network_requestmetrics_"


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with Broker(tmp_path_factory.mktemp("admin"), overrides={"num.io.threads": 1}) as started:
        yield started


def get(broker, path):
    """Status and body."""
    try:
        with urllib.request.urlopen(broker.ready["admin"] + path, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def scrape(broker):
    """(name, labels) → value of every sample."""
    status, text = get(broker, "/metrics")
    assert status == 200
    families = list(text_string_to_metric_families(text))
    samples = [sample for family in families for sample in family.samples]
    found = {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for sample in samples}
    assert len(found) == len(samples), "a sample stands there twice"
    return found


def value(found, name, **labels):
    return found[name, tuple(sorted(labels.items()))]


def test_records_and_bytes_are_those_that_clients_sent_and_received(broker):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("counted", 2, 1)])["counted"].result(20)
    before = scrape(broker)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
    for number in range(300):
        producer.produce("counted", b"v" * 100, partition=number % 2)
    assert producer.flush(20) == 0
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition("counted", partition, 0) for partition in (0, 1)])
    received, deadline = 0, time.monotonic() + 20
    while received < 300 and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        received += message is not None and message.error() is None
    assert received == 300

    after = scrape(broker)
    assert value(after, TOPICS + "messagesin_total", topic="counted") == 300
    assert value(after, TOPICS + "messagesin_total") - value(before, TOPICS + "messagesin_total") == 300
    log_bytes = sum(value(after, "kafka_log_log_size", topic="counted", partition=str(p)) for p in (0, 1))
    assert value(after, TOPICS + "bytesin_total", topic="counted") == log_bytes > 300 * 100
    assert value(after, TOPICS + "bytesout_total", topic="counted") >= log_bytes
    for partition in ("0", "1"):
        assert value(after, "kafka_log_log_logendoffset", topic="counted", partition=partition) == 150
        assert value(after, "kafka_log_log_logstartoffset", topic="counted", partition=partition) == 0
        assert value(after, "kafka_log_log_numlogsegments", topic="counted", partition=partition) == 1
    consumer.close()


def test_requests_are_counted_by_version_and_error_and_timed(tmp_path):
    with Broker(tmp_path) as broker:  # nobody else asks it anything
        _ask_and_compare(broker)


def _ask_and_compare(broker):
    before = scrape(broker)
    begun = time.monotonic()
    with RawConnection(broker.port()) as connection:
        for number in range(40):
            connection.ask(api_versions(number))
        for number in range(3):
            connection.ask(produce_request(number, "nowhere", 0, batch([b"x"]), acks=1))
    passed_ms = (time.monotonic() - begun) * 1000

    def settled():
        found = scrape(broker)
        name = REQUESTS + "totaltimems_count"
        return found if value(found, name, request="Produce") >= 3 else None

    after = wait_until(settled, "the last answers to be counted")

    def risen(name, **labels):
        return value(after, name, **labels) - before.get((name, tuple(sorted(labels.items()))), 0)

    assert risen(REQUESTS + "requests_total", request="ApiVersions", version="0") == 40
    assert risen(REQUESTS + "errors_total", request="ApiVersions", error="NONE") == 40
    assert risen(REQUESTS + "errors_total", request="Produce", error="UNKNOWN_TOPIC_OR_PARTITION") == 3
    assert risen(TOPICS + "failedproducerequests_total") == 3
    assert risen(REQUESTS + "totaltimems_count", request="ApiVersions") == 40
    assert 0 < risen(REQUESTS + "totaltimems_sum", request="ApiVersions") < passed_ms
    stage = {"request": "ApiVersions", "stage": "Local"}
    assert risen("mpbroker_request_stage_seconds_count", **stage) == 40
    assert value(after, "mpbroker_request_stage_seconds_bucket", **stage, le="+Inf") == value(
        after, "mpbroker_request_stage_seconds_count", **stage
    )
    quantiles = [value(after, REQUESTS + "totaltimems", request="ApiVersions", quantile=q) for q in ("0.5", "0.99")]
    assert 0 < quantiles[0] <= quantiles[1] and quantiles[0] < passed_ms


def test_processes_rings_and_counters_are_there(broker):
    found = scrape(broker)
    status = broker.status()
    for row in status["processes"]:
        assert value(found, "mpbroker_process_up", role=row["role"], index=str(row["index"])) == 1
        assert value(found, "mpbroker_process_resident_memory_bytes", role=row["role"], index=str(row["index"])) > 1e6
    assert value(found, "mpbroker_ring_capacity", ring="data") == 500
    assert value(found, "kafka_server_kafkaserver_brokerstate") == 3
    assert 0 <= value(found, "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent") <= 1
    assert value(found, "mpbroker_requests_received_total") >= 1
    with RawConnection(broker.port()):
        name, labels = "kafka_server_socket_server_metrics_connection_count", {"listener": "PLAINTEXT"}
        wait_until(lambda: value(scrape(broker), name, networkprocessor="0", **labels) == 1, "one connection", 20)


def test_every_metric_of_the_dashboard_is_there(broker):
    _commit_something(broker)
    asked = set(re.findall(r"\b(?:kafka|mpbroker)_\w+", DASHBOARD.read_text()))
    assert len(asked) > 10

    def whole():  # a look at the groups that takes too long is left out, and the gauge says so
        found = scrape(broker)
        return found if value(found, "mpbroker_consumergroups_complete") == 1 else None

    assert asked <= {name for name, _ in wait_until(whole, "a complete look at the groups", 20)}


def _commit_something(broker):
    """Metrics of groups are there once a group has committed."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("committed", b"v", partition=0)
    assert producer.flush(20) == 0
    reader = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "some", "enable.auto.commit": False})
    [done] = reader.commit(offsets=[TopicPartition("committed", 0, 1)], asynchronous=False)
    assert done.error is None
    reader.close()


def test_health_while_a_handler_does_not_move(broker):
    assert json.loads(get(broker, "/healthz")[1]) == {"ok": True, "state": "running", "findings": []}
    pid = broker.row("handler")["pid"]
    connection = RawConnection(broker.port(), timeout_s=60)
    os.kill(pid, signal.SIGSTOP)
    try:
        connection.send(api_versions(0))
        status, body = wait_until(
            lambda: (found := get(broker, "/healthz"))[0] == 503 and found, "the broker to be called unhealthy", 30
        )
        (finding,) = json.loads(body)["findings"]
        assert status == 503 and finding["level"] == "hung" and finding["process"] == "handler 0"
        assert get(broker, "/readyz")[0] == 503
        assert value(scrape(broker), "mpbroker_health_findings", level="hung") == 1
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: get(broker, "/healthz")[0] == 200 and get(broker, "/readyz")[0] == 200, "health again", 20)
    connection.close()


def test_only_get_and_head_of_known_paths(broker):
    address = urlsplit(broker.ready["admin"])
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=20)
    connection.request("HEAD", "/metrics")
    answer = connection.getresponse()
    assert answer.status == 200 and int(answer.headers["Content-Length"]) > 1000 and answer.read() == b""
    connection.close()
    assert get(broker, "/nothing")[0] == 404
    assert get(broker, "/healthz?verbose=1")[0] == 200
    request = urllib.request.Request(broker.ready["admin"] + "/metrics", data=b"x", method="POST")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=20)
    assert refused.value.code == 501


def test_clients_that_say_nothing_keep_nobody_out_for_long(broker):
    address = urlsplit(broker.ready["admin"])
    silent = [socket.create_connection((address.hostname, address.port)) for _ in range(30)]
    try:
        wait_until(lambda: _try(broker, "/healthz") == 200, "a place among silent clients", 30)
        pid = broker.row("admin")["pid"]
        threads = len(os.listdir(f"/proc/{pid}/task"))
        assert threads <= 18  # its own, MAX_CONNECTIONS of them, one that is just ending
    finally:
        for each in silent:
            each.close()


def test_clients_that_send_a_byte_at_a_time_are_cut_off(broker):
    address = urlsplit(broker.ready["admin"])
    slow = [socket.create_connection((address.hostname, address.port)) for _ in range(16)]
    begun = time.monotonic()
    try:
        for each in slow:
            each.sendall(b"GET / HTTP/1.0\r\nx: ")
        left = list(slow)
        while left and time.monotonic() - begun < 40:
            time.sleep(1)
            for each in list(left):
                try:
                    each.sendall(b"y")
                except OSError:
                    left.remove(each)
        assert not left, "each had a place, and gave it back although it never fell silent"
        wait_until(lambda: _try(broker, "/healthz") == 200, "a place", 10)
    finally:
        for each in slow:
            each.close()


def _try(broker, path):
    try:
        return get(broker, path)[0]
    except OSError:
        return None


def test_it_comes_back_after_a_kill(broker):
    pid = broker.kill("admin")
    broker.wait_restarted("admin", 0, pid)
    assert get(broker, "/readyz")[0] == 200


def test_status_and_ready_file_name_it(broker):
    url = broker.ready["admin"]
    assert url.startswith("http://127.0.0.1:") and broker.status()["admin"] == url
    command = [sys.executable, "-m", "mpbroker", "status", "--data-dir", str(broker.data_dir)]
    assert url in subprocess.run(command, capture_output=True, text=True, timeout=30).stdout


def test_it_can_be_turned_off(tmp_path):
    with Broker(tmp_path, overrides={"mpbroker.admin.listener": ""}) as broker:
        assert broker.ready["admin"] is None and broker.status()["admin"] is None
        assert all(row["role"] != "admin" for row in broker.status()["processes"])


def test_an_address_that_is_taken_stops_the_start(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [
            sys.executable,
            "-m",
            "mpbroker",
            "start",
            "--data-dir",
            str(tmp_path),
            "--listener",
            "PLAINTEXT://127.0.0.1:0",
            "--admin",
            f"127.0.0.1:{port}",
        ]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2 and f"port {port} is in use" in ended.stderr
    wrong = subprocess.run([*command[:-1], "here"], capture_output=True, text=True, timeout=60)
    assert wrong.returncode == 2 and "mpbroker.admin.listener=here: must be HOST:PORT" in wrong.stderr
