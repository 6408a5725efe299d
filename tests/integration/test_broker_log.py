"""What a broker logs: every line of a run with errors is an object, names API, client and errno; floods are counted."""

import json
import os
import re
import resource
import signal

import pytest
from kafka import KafkaConsumer, TopicPartition

from tests.harness.broker import Broker, wait_until
from tests.harness.raw_client import RawConnection, frame
from tests.harness.raw_records import RawProducer, create_by_metadata

LINE = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (DEBUG|INFO|WARN|ERROR) [a-z-]+(-\d+)? [a-z_]+( [a-z_]+=\S.*)?\Z"
)
TLS_HELLO = bytes.fromhex("16030100c8010000c40303")


def send_and_be_closed(port, data):
    connection = RawConnection(port)
    connection.send(data)
    assert connection.is_closed()
    connection.close()


def provoke(broker):
    """Foreign protocols, APIs and versions that are not served, a request cut off, a dead worker."""
    port = broker.port()
    for data in (b"GET / HTTP/1.1\r\n\r\n", TLS_HELLO, b"SSH-2.0-x\r\n"):
        send_and_be_closed(port, data)
    send_and_be_closed(port, frame(39, 0, 1, b"", b"my client"))
    send_and_be_closed(port, frame(1, 99, 1, b"", b"my\nclient \x1b[31m"))
    send_and_be_closed(port, frame(3, 1, 1, b"\0", b"cut off"))
    pid = broker.kill("handler", 0)
    broker.wait_restarted("handler", 0, pid)
    os.kill(broker.pid, signal.SIGHUP)
    wait_until(lambda: "reloaded" in broker.log(), "the reload")


def named(lines, event):
    return [line["fields"] for line in lines if line["event"] == event]


def test_every_line_of_a_run_with_errors_is_an_object(tmp_path):
    overrides = {"mpbroker.log.format": "json", "mpbroker.log.level": "DEBUG", "controller.socket.timeout.ms": 30001}
    with Broker(tmp_path, overrides=overrides) as broker:
        provoke(broker)
    lines = [json.loads(line) for line in broker.log().splitlines()]
    for line in lines:
        assert list(line) == ["ts", "level", "process", "pid", "event", "fields"], line
        assert isinstance(line["pid"], int) and isinstance(line["fields"], dict)
        assert line["level"] in ("DEBUG", "INFO", "WARN", "ERROR")
    assert lines[0]["event"] == "data_directory"
    assert named(lines, "configuration") == [{"text": "controller.socket.timeout.ms is accepted but has no effect yet"}]
    reasons = [fields["reason"] for fields in named(lines, "invalid_frame")]
    assert "HTTP" in reasons[0]  # the others are the same kind from the same peer: counted
    fetch, renew = sorted(named(lines, "unsupported_request"), key=lambda fields: fields["api"])
    assert (renew["version"], renew["client_id"], renew["peer"]) == (0, "my client", "127.0.0.1")
    assert (fetch["api"], fetch["version"], fetch["client_id"]) == ("Fetch", 99, "my\nclient \x1b[31m")
    (cut_off,) = named(lines, "request_refused")
    assert (cut_off["reason"], cut_off["api"], cut_off["client_id"]) == ("malformed_body", "Metadata", "cut off")
    assert {"ready", "worker_died", "reloaded", "stopping", "stopped"} <= {line["event"] for line in lines}


def test_text_lines_name_the_same_things_and_cannot_be_forged(tmp_path):
    with Broker(tmp_path) as broker:
        provoke(broker)
    first, *lines = broker.log().splitlines()
    assert first == f"mpbroker: data directory {broker.data_dir}"
    assert [line for line in lines if not LINE.match(line)] == []
    assert "\\n" in next(line for line in lines if "api=Fetch" in line) and "\x1b" not in broker.log()
    assert any('api=RenewDelegationToken version=0 client_id="my client"' in line for line in lines)
    assert any("this looks like HTTP" in line for line in lines)


def test_lines_below_the_level_are_not_written(tmp_path):
    with Broker(tmp_path, overrides={"mpbroker.log.level": "ERROR"}) as broker:
        send_and_be_closed(broker.port(), b"GET / HTTP/1.1\r\n\r\n")
    assert broker.log().splitlines() == [f"mpbroker: data directory {broker.data_dir}"]


def test_level_and_format_change_while_the_broker_runs(tmp_path):
    properties = tmp_path / "server.properties"
    properties.write_text("mpbroker.log.level=ERROR\n")
    with Broker(tmp_path, properties=properties) as broker:
        send_and_be_closed(broker.port(), b"GET / HTTP/1.1\r\n\r\n")
        properties.write_text("mpbroker.log.level=INFO\nmpbroker.log.format=json\n")
        os.kill(broker.pid, signal.SIGHUP)

        def written():
            send_and_be_closed(broker.port(), b"GET / HTTP/1.1\r\n\r\n")
            return "invalid_frame" in broker.log()

        wait_until(written, "a line of a processor with the new level")
    first, *lines = broker.log().splitlines()
    assert first.startswith("mpbroker: data directory")
    assert json.loads(lines[0])["event"] in ("reloaded", "invalid_frame")


def test_kafkas_own_kraft_file_starts_a_broker(tmp_path):
    """Its keys with ports and a directory of the test's own; every key is named once, none stops the start."""
    properties = tmp_path / "server.properties"
    properties.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@localhost:9093\n"
        "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\ninter.broker.listener.name=PLAINTEXT\n"
        "advertised.listeners=PLAINTEXT://localhost:0,CONTROLLER://localhost:0\ncontroller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL\n"
        f"log.dirs={tmp_path}/data\nshare.coordinator.state.topic.min.isr=1\n"
    )
    with Broker(tmp_path, properties=properties, listeners=()) as broker:
        assert [listener["name"] for listener in broker.ready["listeners"]] == ["PLAINTEXT"]
        assert broker.status()["node_id"] == 1
        create_by_metadata("127.0.0.1", broker.port(), "orders")
        wait_until((broker.data_dir / "orders-0").is_dir, "the topic")
    for key in (
        "process.roles",
        "controller.quorum.voters",
        "controller.listener.names",
        "share.coordinator",
    ):
        assert sum(line.startswith(f"mpbroker: {key}") for line in broker.log().splitlines()) == 1, key


@pytest.fixture
def no_more_files():
    """no_more_files(pid): the process can open none from now on; undone afterwards."""
    before = {}

    def limit(pid):
        before[pid] = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        used = 1 + max(int(number) for number in os.listdir(f"/proc/{pid}/fd"))
        full = [number for number in range(used) if not os.path.lexists(f"/proc/{pid}/fd/{number}")]
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (min(full, default=used), before[pid][1]))

    yield limit
    for pid, limits in before.items():
        if os.path.exists(f"/proc/{pid}"):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)


def test_failed_calls_on_log_files_are_said_with_errno_and_partition(tmp_path, no_more_files):
    with Broker(tmp_path, overrides={"mpbroker.log.format": "json"}) as broker:
        create_by_metadata("127.0.0.1", broker.port(), "orders")
        wait_until((broker.data_dir / "orders-0").is_dir, "the topic")
        for number in range(2):
            no_more_files(broker.row("handler", number)["pid"])
        producer = RawProducer("127.0.0.1", broker.port(), "orders")
        wait_until(lambda: (answer := producer.produce(0, [b"x"])) and answer.error == 56, "a refused append")
        producer.close()
        line = wait_until(lambda: next((x for x in broker.log().splitlines() if "log_calls_failed" in x), ""), "a line")
        fields = json.loads(line)["fields"]
        assert (fields["partition"], fields["error"]) == ("orders-0", "EMFILE: Too many open files")
        assert "limit on open files" in fields["remedy"] and fields["calls"] >= 1


def test_damage_that_a_reader_meets_is_said_and_hides_nothing_behind_it(tmp_path):
    """A length that reaches beyond the file, which no checksum covers, in a segment that is not written any more."""
    settings = {"mpbroker.log.format": "json", "log.index.interval.bytes": 1, "log.segment.bytes": 4096}
    with Broker(tmp_path, overrides=settings) as broker:
        create_by_metadata("127.0.0.1", broker.port(), "orders")
        wait_until((broker.data_dir / "orders-0").is_dir, "the topic")
        producer = RawProducer("127.0.0.1", broker.port(), "orders")
        offsets = [producer.produce(0, [bytes(300)]).base_offset for _ in range(20)]
        producer.close()
        assert offsets == list(range(20))
        first = broker.data_dir / "orders-0" / f"{0:020d}.log"
        batch_bytes = 12 + int.from_bytes(first.read_bytes()[8:12], "big")
        with first.open("r+b") as file:
            file.seek(3 * batch_bytes + 8)
            file.write(b"\x10")
        consumer = KafkaConsumer(bootstrap_servers=f"127.0.0.1:{broker.port()}", enable_auto_commit=False)
        consumer.assign([orders := TopicPartition("orders", 0)])
        consumer.seek(orders, 0)
        seen = []
        wait_until(lambda: seen.extend(r.offset for r in consumer.poll(200).get(orders, [])) or 19 in seen, "the last")
        consumer.close()
        assert seen == [offset for offset in range(20) if offset != 3]
        line = wait_until(lambda: next((x for x in broker.log().splitlines() if "log_calls_failed" in x), ""), "a line")
        fields = json.loads(line)["fields"]
        assert (fields["partition"], fields["error"][:8]) == ("orders-0", "EBADMSG:")
        assert "a batch is damaged on disk: bring its segment back from a copy" in fields["remedy"]
