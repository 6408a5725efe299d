"""`produce` and `consume` as a user types them: keys, headers, partitions, times, compression, formats; what a real
client reads of what they wrote, and the reverse."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.harness.broker import Broker, wait_until
from tests.harness.peer import Peer, fetch

MPBROKER = [sys.executable, "-m", "mpbroker"]
confluent_kafka = pytest.importorskip("confluent_kafka")


def run(broker, *words, given=b"", code=0):
    """What a command printed; its exit code must be as said."""
    environ = {**os.environ, "MPBROKER_BOOTSTRAP": broker.bootstrap}
    done = subprocess.run([*MPBROKER, *words], input=given, capture_output=True, timeout=60, env=environ)
    assert done.returncode == code, done.stderr.decode()
    return done


def read_all(broker, topic, partitions=1):
    """Every record of a topic as librdkafka reads it."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "g",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in range(partitions)])
    found, ended = [], 0
    deadline = time.monotonic() + 30
    while ended < partitions and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error():
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
            ended += 1
        else:
            found.append(message)
    consumer.close()
    assert ended == partitions
    return found


def test_a_real_client_reads_keys_headers_times_and_tombstones(broker):
    run(
        broker,
        *("produce", "rich", "-K", ":", "--header-separator", "|", "-H", "all=1", "--null", "-"),
        *("--timestamp", "2025-11-24T16:00:00", "-p", "0"),
        given=b"a=x,b|jane:blue\n|-:red\n|joe:-\n",
    )
    found = read_all(broker, "rich")
    assert [(one.key(), one.value()) for one in found] == [(b"jane", b"blue"), (None, b"red"), (b"joe", None)]
    assert found[0].headers() == [("all", b"1"), ("a", b"x"), ("b", None)]
    assert found[1].headers() == [("all", b"1")]
    assert {one.timestamp() for one in found} == {(confluent_kafka.TIMESTAMP_CREATE_TIME, 1764000000000)}


@pytest.mark.parametrize(("number", "codec"), [(0, "none"), (1, "gzip"), (2, "snappy"), (3, "lz4"), (4, "zstd")])
def test_compression_is_on_the_wire_and_real_clients_read_it(broker, number, codec):
    topic, line = f"packed-{codec}", b"the same words over and over"
    run(broker, "produce", topic, "-z", codec, given=(line + b"\n") * 200)
    with Peer(broker.port()) as peer:
        stored = bytes(fetch(peer, topic).records)
    assert stored[22] & 7 == number and (len(stored) < 60 * len(line)) == (number > 0)
    assert [one.value() for one in read_all(broker, topic)] == [line] * 200
    kafka = pytest.importorskip("kafka")
    consumer = kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap, consumer_timeout_ms=20_000)
    consumer.assign([kafka.TopicPartition(topic, 0)])
    consumer.seek_to_beginning()
    assert [next(consumer).value for _ in range(200)] == [line] * 200
    consumer.close()


def test_what_a_real_client_wrote_is_shown(broker):
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "compression.type": "lz4"})
    producer.produce("theirs", b"\xffv\n", b"k", 0, timestamp=1764000000000, headers=[("h", b"1"), ("n", None)])
    producer.produce("theirs", None, None, 0, timestamp=1764000000001)
    assert producer.flush(20) == 0
    consume = ("consume", "theirs", "-o", "earliest", "-e")
    assert run(broker, *consume).stdout == b"\xffv\n\n\n"
    assert run(broker, *consume, "-K", ":", "--header-separator", "|", "-Z").stdout == b"h=1,n|k:\xffv\n\n|NULL:NULL\n"
    shown = run(broker, *consume, "-f", r"%t[%p]@%o %T %K %k %S %s %h;").stdout
    assert shown == b"theirs[0]@0 1764000000000 1 k 3 \xffv\n h=1,n;theirs[0]@1 1764000000001 -1  -1  ;"
    first, second = map(json.loads, run(broker, *consume, "-f", "json").stdout.splitlines())
    assert first["value"] == {"base64": "/3YK"} and first["headers"] == [["h", "1"], ["n", None]]
    assert (second["key"], second["value"], second["offset"], second["timestamp"]) == (None, None, 1, 1764000000001)


def test_a_copy_through_json_is_the_same(broker):
    run(broker, "topic", "create", "original", "--partitions", "3")
    run(broker, "topic", "create", "copy", "--partitions", "3")
    lines = b"".join(b"h=%d|key-%d:value %d\n" % (n, n, n) for n in range(200))
    run(broker, "produce", "original", "-K", ":", "--header-separator", "|", given=lines)
    dump = run(broker, "consume", "original", "-o", "earliest", "-e", "-J").stdout
    assert len(dump.splitlines()) == 200
    run(broker, "produce", "copy", "-J", given=dump)
    copied = run(broker, "consume", "copy", "-o", "earliest", "-e", "-J").stdout
    assert sorted(copied.splitlines()) == sorted(dump.replace(b'"original"', b'"copy"').splitlines())


def test_keys_go_where_the_java_client_puts_them(broker):
    run(broker, "topic", "create", "keyed", "--partitions", "4")
    run(broker, "produce", "keyed", "-K", ":", given=b"".join(b"key-%d:v\n" % n for n in range(100)))
    kafka_python = pytest.importorskip("kafka.partitioner.default")
    found = {one.key(): one.partition() for one in read_all(broker, "keyed", 4)}
    assert found == {key: (kafka_python.murmur2(key) & 0x7FFFFFFF) % 4 for key in found}
    assert len(set(found.values())) == 4


def test_a_file_is_one_record(broker, tmp_path):
    data = bytes(range(256)) * 1000
    (tmp_path / "picture").write_bytes(data)
    run(broker, "produce", "files", "-f", "raw", "-k", "cat", "--file", str(tmp_path / "picture"))
    (found,) = read_all(broker, "files")
    assert (found.key(), found.value()) == (b"cat", data)
    assert run(broker, "consume", "files", "-o", "0", "-c", "1", "-f", "%s").stdout == data


def test_where_reading_begins_and_ends(broker):
    run(broker, "topic", "create", "places", "--partitions", "2")
    for partition in (0, 1):
        lines = b"".join(b"%d-%d\n" % (partition, n) for n in range(20))
        run(broker, "produce", "places", "-p", str(partition), given=lines)
    last = run(broker, "consume", "places", "--from", "-3", "-e").stdout.split()
    assert sorted(last) == [b"0-17", b"0-18", b"0-19", b"1-17", b"1-18", b"1-19"]
    assert run(broker, "consume", "places", "-o", "18", "-p", "1", "-e").stdout == b"1-18\n1-19\n"
    both = run(broker, "consume", "places", "-o", "19", "-p", "1", "-p", "0", "-e").stdout
    assert sorted(both.split()) == [b"0-19", b"1-19"]
    assert run(broker, "consume", "places", "-o", "latest", "-e").stdout == b""
    whole = run(broker, "consume", "places", "-e").stdout
    assert whole == run(broker, "consume", "places", "-o", "earliest", "-e").stdout != b"", "all there is"
    assert run(broker, "consume", "places", "-o", "1970-01-02", "-p", "0", "-c", "2").stdout == b"0-0\n0-1\n"
    assert run(broker, "consume", "places", "-o", "2100-01-01", "-e").stdout == b""


def test_an_offset_that_is_not_there_is_told_with_what_is(broker):
    run(broker, "produce", "short", given=b"a\nb\n")
    failed = run(broker, "consume", "short", "-o", "99", code=1).stderr.decode()
    assert failed == (
        "mpbroker: OFFSET_OUT_OF_RANGE (1): short-0: offset 99 is out of range: the partition has 0 to 2\n"
    )


def test_ctrl_c_is_the_quiet_end_of_a_consumer(broker):
    run(broker, "produce", "endless", given=b"one\n")
    environ = {**os.environ, "MPBROKER_BOOTSTRAP": broker.bootstrap}
    command = [*MPBROKER, "consume", "endless", "-o", "earliest"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ) as process:
        assert process.stdout.readline() == b"one\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, b"", b"")


def test_a_producer_that_is_interrupted_says_what_it_wrote(broker):
    """A record is there for others before its producer hears of it: on a slow machine it may be the third that has."""
    for topic in ("typed", "typed-2", "typed-3"):
        said = said_by_an_interrupted_one(broker, topic)
        if said == f"2 records written to {topic}\n".encode():
            return
        assert said == f"2 records sent to {topic}, not acknowledged\n".encode()
    pytest.fail("it never hears of what it wrote")


def said_by_an_interrupted_one(broker, topic):
    environ = {**os.environ, "MPBROKER_BOOTSTRAP": broker.bootstrap}
    options = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environ}
    with subprocess.Popen([*MPBROKER, "produce", topic], **options) as process:
        process.stdin.write(b"one\ntwo\n")
        process.stdin.flush()
        shown = ("consume", topic, "-o", "earliest", "-e")
        wait_until(lambda: topic.encode() in run(broker, "topic", "list").stdout.split(), "the topic", 30)
        wait_until(lambda: run(broker, *shown).stdout == b"one\ntwo\n", "the records", 30)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert process.returncode == 130
    return said


@pytest.fixture
def small_topic(broker):
    run(broker, "topic", "create", "small", "--config", "max.message.bytes=1000", "--if-not-exists")
    return "small"


def test_a_record_that_is_too_large_is_told_with_both_numbers_and_what_was_written(broker, small_topic):
    lines = b"".join(b"%d\n" % n for n in range(300)) + b"x" * 2000 + b"\nnever\n"
    failed = run(broker, "produce", small_topic, "-p", "0", given=lines, code=1).stderr.decode()
    assert failed.startswith("mpbroker: MESSAGE_TOO_LARGE (10): small-0: a record takes 20")
    assert " bytes as a batch, the topic accepts at most 1000 (max.message.bytes); before that" in failed
    assert failed.endswith(": 300 records written to small\n")
    assert len(read_all(broker, small_topic)) == 300


def test_a_bad_line_is_named_and_what_was_acknowledged_is_exact(broker):
    lines = b'{"value": "x"}\n' * 700 + b'{"valeu": 1}\n'
    failed = run(broker, "produce", "half", "-J", given=lines, code=2).stderr.decode()
    assert failed.startswith("mpbroker: line 701: unknown field 'valeu'")
    assert failed.endswith("; before that: 500 records written to half\n")
    assert len(read_all(broker, "half")) == 500


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["produce", "t", "-K", ""], "-K needs at least one character"),
        (["produce", "t", "-K", ":", "-J"], "-K belongs to --format lines"),
        (["produce", "t", "--null", "x", "-f", "json"], "--null belongs to --format lines and raw"),
        (["produce", "t", "-H", "=x"], "the name is missing"),
        (["produce", "t", "--timestamp", "noon"], "--timestamp=noon: must be milliseconds"),
        (["consume", "t", "-f", "%x"], "--format=%x: must be json, or text with %t topic"),
        (["consume", "t", "-f", "%s", "-K", ":"], "do not go with --format"),
        (["consume", "t", "-p", "-1"], "--partition=-1: must be 0 or more"),
        (["consume", "t", "--wait-s", "1e9"], "--wait-s=1e9: must be 0 to 600"),
    ],
)
def test_what_does_not_fit_together_is_a_usage_error(broker, words, sentence):
    failed = run(broker, *words, code=2).stderr.decode()
    assert sentence in failed and failed.count("\n") == 1


def test_both_go_on_when_a_processor_dies(tmp_path):
    """The producer sends what was not acknowledged again, and nothing is stored twice; the reader goes on reading."""
    with Broker(tmp_path, overrides={"num.network.threads": 1}) as broker:
        environ = {**os.environ, "MPBROKER_BOOTSTRAP": broker.bootstrap}
        options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environ}
        writer = subprocess.Popen([*MPBROKER, "produce", "lively"], **options)
        reader = None
        try:
            for number in range(60):
                writer.stdin.write(b"%d\n" % number)
                writer.stdin.flush()
                if number == 10:
                    wait_until(lambda: b"lively" in run(broker, "topic", "list").stdout, "the topic")
                    command = [*MPBROKER, "consume", "lively", "-o", "earliest", "-c", "60"]
                    reader = subprocess.Popen(command, **options)
                if number in (20, 40):
                    broker.wait_restarted("processor", 0, broker.kill("processor"))
            _, told = writer.communicate(timeout=30)
            assert (writer.returncode, told) == (0, b"60 records written to lively\n")
            out, err = reader.communicate(timeout=30)
        finally:
            for process in filter(None, (writer, reader)):
                process.kill()
                process.wait()
        assert (reader.returncode, err) == (0, b"")
        assert out.split() == [b"%d" % number for number in range(60)]


def test_a_command_waits_for_a_broker_that_is_starting(tmp_path):
    with Broker(tmp_path / "first") as broker:
        port = broker.port()
    environ = {**os.environ, "MPBROKER_BOOTSTRAP": f"127.0.0.1:{port}"}
    command = [*MPBROKER, "topic", "create", "early", "--partitions", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ) as process:
        assert process.stderr.readline() == f"mpbroker: waiting for a broker at 127.0.0.1:{port}\n".encode()
        with Broker(tmp_path / "second", listeners=[f"PLAINTEXT://127.0.0.1:{port}"]):
            out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, b"created early with 2 partitions\n", b"")
