"""The commands as a user types them: what they print, and which exit code says what."""

import json
import os
import subprocess
import sys

import pytest

MPBROKER = [sys.executable, "-m", "mpbroker"]


def _cli(*words, stdin="", env=None, timeout_s=30):
    return subprocess.run(
        [*MPBROKER, *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env={**os.environ, **(env or {})},
    )


@pytest.fixture
def at(broker):
    """Runs a command against the broker."""
    return lambda *words, **options: _cli(*words, "--bootstrap", broker.bootstrap, **options)


def test_topics_from_creation_to_deletion(at):
    made = at("topic", "create", "orders", "--partitions", "2", "--config", "retention.ms=60000", "--json")
    assert (made.returncode, json.loads(made.stdout)["name"]) == (0, "orders")
    assert len(json.loads(made.stdout)["partitions"]) == 2
    assert "orders" in at("topic", "list").stdout.splitlines()
    assert [topic["name"] for topic in json.loads(at("topic", "list", "--json").stdout)] == ["orders"]
    described = json.loads(at("topic", "describe", "orders", "--json").stdout)
    assert described["configs"] == {"retention.ms": "60000"}
    again = at("topic", "create", "orders")
    assert (again.returncode, again.stderr.count("\n")) == (1, 1) and "TOPIC_ALREADY_EXISTS" in again.stderr
    assert at("topic", "delete", "orders").returncode == 0
    gone = at("topic", "describe", "orders")
    assert gone.returncode == 1
    assert (
        gone.stderr == "mpbroker: UNKNOWN_TOPIC_OR_PARTITION (3): orders: This broker has no such topic or partition.\n"
    )


def test_a_topic_grows(at):
    at("topic", "create", "growing", "--partitions", "2", "--replication-factor", "1")
    assert at("topic", "alter", "growing", "--partitions", "3").stdout == "growing has 3 partitions\n"
    assert at("topic", "add-partitions", "growing", "2").stdout == "growing has 5 partitions\n"
    assert len(json.loads(at("topic", "describe", "growing", "--json").stdout)["partitions"]) == 5
    fewer = at("topic", "alter", "growing", "--partitions", "4")
    assert (fewer.returncode, fewer.stderr.count("\n")) == (1, 1)
    assert "currently has 5 partition(s); 4 would not be an increase" in fewer.stderr
    at("topic", "delete", "growing")


def test_describe_says_how_far_a_topic_reaches(at):
    at("topic", "create", "reach", "--partitions", "2", "--config", "retention.ms=60000")
    at("produce", "reach", "--partition", "1", stdin="a\nb\n")
    assert at("topic", "describe", "reach").stdout == (
        "reach: 2 partitions\n"
        "  setting retention.ms=60000\n"
        "  partition 0: offsets 0 to 0, leader 0, replicas 0, in sync 0\n"
        "  partition 1: offsets 0 to 2, leader 0, replicas 0, in sync 0\n"
    )
    rows = json.loads(at("topic", "describe", "reach", "--json").stdout)["partitions"]
    assert [(row["id"], row["start"], row["end"]) for row in rows] == [(0, 0, 0), (1, 0, 2)]
    at("topic", "delete", "reach")


def test_scripts_may_create_and_delete_twice(at):
    assert at("topic", "create", "twice", "--if-not-exists").stdout == "created twice with 1 partition\n"
    again = at("topic", "create", "twice", "--if-not-exists")
    assert (again.returncode, again.stdout) == (0, "twice already exists, with 1 partition\n")
    assert at("topic", "delete", "twice", "--if-exists").stdout == "deleted twice\n"
    assert at("topic", "delete", "twice", "--if-exists").stdout == "there is no topic twice\n"


def test_what_one_broker_cannot_do_yet_gets_a_sentence(at):
    copies = at("topic", "create", "copies", "--replication-factor", "3")
    assert (copies.returncode, copies.stderr.count("\n")) == (1, 1)
    assert "INVALID_REPLICATION_FACTOR (38)" in copies.stderr and "only 1 broker(s) are registered" in copies.stderr
    nothing = at("topic", "alter", "copies")
    assert (nothing.returncode, nothing.stderr.count("\n")) == (2, 1) and "nothing to alter" in nothing.stderr


def test_settings_are_changed_shown_and_given_back(at):
    at("topic", "create", "kept", "--partitions", "1")
    both = at("topic", "alter", "kept", "-c", "retention.ms=5000", "-c", "segment.bytes=6000")
    assert both.stdout == "kept has retention.ms=5000, segment.bytes=6000\n"
    changed = at("config", "set", "topic:kept", "retention.ms=7000", "cleanup.policy=compact")
    assert changed.stdout == "cleanup.policy=compact\nretention.ms=7000\n"
    assert at("config", "get", "topic:kept", "retention.ms").stdout == "retention.ms=7000\n"
    assert at("config", "unset", "topic:kept", "retention.ms").stdout == "retention.ms=604800000\n"
    found = json.loads(at("config", "get", "topic:kept", "--json").stdout)
    assert (found["cleanup.policy"], found["retention.ms"]["source"]) == ({"value": "compact", "source": 1}, 5)
    at("topic", "delete", "kept")


def test_settings_that_cannot_be_changed(at):
    at("topic", "create", "kept", "--partitions", "1")
    for words, code, said in (
        (("set", "topic:kept", "retention.ms=x"), 1, "INVALID_CONFIG (40): kept: Invalid value x for configuration"),
        (("set", "topic:nope", "retention.ms=5"), 1, "UNKNOWN_TOPIC_OR_PARTITION (3): nope"),
        (("set", "broker:0", "num.partitions=5"), 1, "Cannot update these configs dynamically: Set(num.partitions)"),
        (("get", "topic:kept", "no.such"), 1, "kept has no setting no.such"),
        (("set", "topic:kept", "retention.ms"), 2, "KEY=VALUE"),
        (("set", "topic:kept", "a=1", "a=2"), 2, "given twice"),
        (("unset", "topic:kept", "retention.ms=5"), 2, "takes KEY, without a value"),
        (("get", "kept"), 2, "topic:NAME, broker:ID or broker:default"),
    ):
        failed = at("config", *words)
        assert (failed.returncode, said in failed.stderr) == (code, True), (words, failed.stderr)
    assert "node.id=0" in at("config", "get", "broker:0").stdout.splitlines()
    at("topic", "delete", "kept")


def test_every_name_of_the_broker_is_understood(broker):
    port = broker.port()
    for words in (
        ["--bootstrap-server", f"127.0.0.1:{port}"],
        ["-b", f"localhost:{port}"],
        ["--bootstrap", f"127.0.0.1:1,127.0.0.1:{port}"],
    ):
        assert _cli("topic", "list", *words).returncode == 0
    assert _cli("topic", "list", env={"MPBROKER_BOOTSTRAP": f"127.0.0.1:{port}"}).returncode == 0


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_lines_in_records_out(at, acks):
    topic = f"lines-{acks}"
    assert at("produce", topic, "--partition", "0", "--acks", acks, stdin="one\n\nthree\n").returncode == 0
    read = at("consume", topic, "--partition", "0", "--from", "earliest", "--count", "3")
    assert (read.returncode, read.stdout) == (0, "one\n\nthree\n")
    found = json.loads(at("consume", topic, "--from", "2", "--count", "1", "--json").stdout)
    assert (found["partition"], found["offset"], found["key"], found["value"]) == (0, 2, None, "three")
    since = at("consume", topic, "--from", f"@{found['timestamp'] - 3_600_000}", "--count", "1")
    assert since.stdout == "one\n"


def test_consume_ends_when_its_reader_has_gone(at, broker):
    assert at("produce", "piped", stdin="one\ntwo\nthree\n").returncode == 0
    consume = " ".join([*MPBROKER, "consume piped --from earliest --bootstrap", broker.bootstrap])
    found = subprocess.run(
        ["bash", "-c", f"{consume} | head -n 2; exit ${{PIPESTATUS[0]}}"], capture_output=True, text=True, timeout=30
    )
    assert (found.stdout, found.stderr, found.returncode) == ("one\ntwo\n", "", 0)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["consume", "t", "--count", "-1"], "--count=-1: must be 0 or more"),
        (
            ["consume", "known", "--from", "noon"],
            "--from=noon: must be earliest, latest, an offset, -N (the last N of each partition), or a time",
        ),
        (["consume", "known", "--partition", "5"], "--partition=5: must be 0 to 0"),
        (["produce", "known", "--partition", "5"], "--partition=5: must be 0 to 0"),
        (["topic", "create", "t", "--config", "x"], "--config=x: must be KEY=VALUE"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(at, words, sentence):
    at("topic", "create", "known")
    found = at(*words)
    assert (found.returncode, found.stdout, found.stderr.count("\n")) == (2, "", 1)
    assert sentence in found.stderr


def test_a_broker_that_is_not_there():
    found = _cli("topic", "list", "--bootstrap", "127.0.0.1:1", "--wait-s", "0")
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr == (
        "mpbroker: no broker answers at 127.0.0.1:1: Connection refused; `mpbroker start` starts a broker, "
        "--bootstrap-server HOST:PORT names another\n"
    )
    assert _cli("topic", "list", "--bootstrap", "nowhere:x").returncode == 2


def _start(tmp_path, *words, **options):
    return _cli(
        "start", "--data-dir", str(tmp_path / "data"), "--listener", "PLAINTEXT://127.0.0.1:0", *words, **options
    )


def test_a_ready_file_that_cannot_be_written_stops_the_start(tmp_path):
    for path in (tmp_path / "missing" / "ready.json", tmp_path):
        found = _start(tmp_path, "--ready-file", str(path))
        assert (found.returncode, found.stdout) == (2, "")
        assert found.stderr.splitlines()[-1].startswith(f"mpbroker: --ready-file {path} cannot be written: ")


def test_a_ready_line_that_nobody_takes_ends_the_broker(tmp_path):
    start = " ".join([*MPBROKER, "start --listener PLAINTEXT://127.0.0.1:0 --data-dir", str(tmp_path / "data")])
    found = subprocess.run(["bash", "-c", f"{start} > /dev/full"], capture_output=True, text=True, timeout=30)
    assert found.returncode == 1
    assert "ready_line_not_written" in found.stderr and "Traceback" not in found.stderr
