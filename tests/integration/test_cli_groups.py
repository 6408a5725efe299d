"""`mpbroker group` as a user types it, beside real consumers: what it shows while they read, what it resets when they
have gone, and what it refuses."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.harness.broker import Broker

pytestmark = pytest.mark.slow
SETTINGS = {"group.initial.rebalance.delay.ms": 0, "num.partitions": 2, "offsets.topic.num.partitions": 3}


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with Broker(tmp_path_factory.mktemp("groups"), overrides=SETTINGS) as running:
        yield running


@pytest.fixture
def at(broker):
    """Runs `mpbroker group …` against the broker."""

    def run(*words):
        command = [sys.executable, "-m", "mpbroker", "group", *words, "--bootstrap", broker.bootstrap]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    return run


def produce(broker, topic, count):
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(count):
        producer.produce(topic, str(number).encode(), partition=number % 2)
    assert producer.flush(30) == 0


def consumer(broker, group, topic):
    settings = {"group.id": group, "client.id": f"app-{group}", "auto.offset.reset": "earliest"}
    made = Consumer({"bootstrap.servers": broker.bootstrap, "enable.auto.commit": False, **settings})
    made.subscribe([topic])
    return made


def read(reader, count):
    """The values of so many records, each committed."""
    found, deadline = [], time.monotonic() + 30
    while len(found) < count:
        assert time.monotonic() < deadline, f"only {len(found)} of {count} records"
        message = reader.poll(0.5)
        if message is not None and message.error() is None:
            found.append(message.value().decode())
            reader.commit(message, asynchronous=False)
    return found


def commit(broker, group, topic, **offsets):
    """Offsets p0=…, p1=… of a group without members."""
    where = [TopicPartition(topic, int(name[1:]), offset) for name, offset in offsets.items()]
    reader = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "enable.auto.commit": False})
    assert all(one.error is None for one in reader.commit(offsets=where, asynchronous=False))
    reader.close()


def offsets_of(at, group):
    """(topic, partition) → committed, as `describe` has it."""
    rows = json.loads(at("describe", group, "--json").stdout)["partitions"]
    return {(row["topic"], row["partition"]): row["committed"] for row in rows}


def refused(found, code=1):
    """The one sentence of an error."""
    assert (found.returncode, found.stdout, found.stderr.count("\n")) == (code, "", 1), found
    return found.stderr


def test_a_group_while_it_reads_and_afterwards(at, broker):
    produce(broker, "seen", 20)
    reader = consumer(broker, "watched", "seen")
    read(reader, 20)
    produce(broker, "seen", 6)
    assert "watched" in at("list").stdout.splitlines()
    row = {"name": "watched", "state": "Stable", "protocol_type": "consumer", "type": "classic"}
    assert row in json.loads(at("list", "--json").stdout)
    found = json.loads(at("describe", "watched", "--json").stdout)
    assert (found["name"], found["state"], found["protocol"]) == ("watched", "Stable", "range")
    [member] = found["members"]
    assert (member["client_id"], member["host"], member["instance_id"]) == ("app-watched", "127.0.0.1", None)
    assert member["partitions"] == [{"topic": "seen", "partition": 0}, {"topic": "seen", "partition": 1}]
    assert found["partitions"] == [
        {"topic": "seen", "partition": number, "committed": 10, "end": 13, "lag": 3}
        | {"member_id": member["member_id"], "client_id": "app-watched", "host": "127.0.0.1"}
        for number in (0, 1)
    ]
    lines = at("describe", "watched").stdout.splitlines()
    assert lines[0] == "watched: Stable, 1 member, protocol range, lag 6"
    assert lines[1] == f"  member {member['member_id']}: client app-watched, host 127.0.0.1, 2 partitions"
    assert lines[3] == "  seen-1: committed 10, end 13, lag 3, read by app-watched on 127.0.0.1"
    assert "group watched has members: stop its consumers first" in refused(at("reset", "watched", "--to-earliest"))
    assert "NON_EMPTY_GROUP (68): watched" in refused(at("delete", "watched"))
    reader.close()
    assert at("describe", "watched").stdout.splitlines() == [
        "watched: Empty, 0 members, lag 6",
        "  seen-0: committed 10, end 13, lag 3",
        "  seen-1: committed 10, end 13, lag 3",
    ]


def test_an_assigned_partition_without_a_commit_has_no_lag(at, broker):
    produce(broker, "fresh", 2)
    reader = consumer(broker, "starting", "fresh")
    deadline = time.monotonic() + 30
    while not reader.assignment() and time.monotonic() < deadline:
        reader.poll(0.2)
    [first, _] = json.loads(at("describe", "starting", "--json").stdout)["partitions"]
    assert (first["committed"], first["end"], first["lag"], first["client_id"]) == (None, 1, None, "app-starting")
    assert "  fresh-0: nothing committed, end 1, read by app-starting" in at("describe", "starting").stdout
    reader.close()


def test_a_reset_shows_first_and_changes_when_told(at, broker):
    produce(broker, "again", 20)
    commit(broker, "g", "again", p0=4, p1=10)
    shown = at("reset", "g", "--to-earliest")
    text = "again-0: 4 to 0\nagain-1: 10 to 0\ng: 2 partitions would be reset; --execute does it\n"
    assert (shown.returncode, shown.stdout, shown.stderr) == (0, text, "")
    assert at("reset", "g", "--to-earliest", "--dry-run").stdout == text
    assert offsets_of(at, "g") == {("again", 0): 4, ("again", 1): 10}
    done = at("reset", "g", "--to-earliest", "--execute")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "g: 2 partitions reset")
    reader = consumer(broker, "g", "again")
    assert sorted(read(reader, 20), key=int) == [str(number) for number in range(20)]
    reader.close()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--to-latest"], (10, 10)),
        (["--to-offset", "7"], (7, 7)),
        (["--to-offset", "99"], (10, 10)),
        (["--shift-by", "3"], (7, 9)),
        (["--shift-by", "-5"], (0, 1)),
        (["--to-earliest", "--topic", "moved:1"], (4, 0)),
        (["--to-datetime", "0"], (0, 0)),
        (["--to-datetime", "2100-01-01T00:00:00"], (10, 10)),
    ],
)
def test_where_a_reset_may_lead(at, broker, words, expected):
    if (
        "moved"
        not in subprocess.run(
            [sys.executable, "-m", "mpbroker", "topic", "list", "-b", broker.bootstrap], capture_output=True, text=True
        ).stdout.split()
    ):
        produce(broker, "moved", 20)
    commit(broker, "mover", "moved", p0=4, p1=6)
    done = json.loads(at("reset", "mover", *words, "--execute", "--json").stdout)
    assert done["executed"] is True and {row["topic"] for row in done["partitions"]} == {"moved"}
    assert offsets_of(at, "mover") == {("moved", 0): expected[0], ("moved", 1): expected[1]}


def test_an_offset_outside_becomes_the_nearest_and_says_so(at, broker):
    produce(broker, "short", 4)
    commit(broker, "far", "short", p0=1)
    assert at("reset", "far", "--to-offset", "9").stdout.startswith(
        "short-0: 1 to 2 (9 lies beyond the end of the partition)\n"
    )
    assert at("reset", "far", "--shift-by", "-9").stdout.startswith(
        "short-0: 1 to 0 (-8 lies beyond the start of the partition)\n"
    )


def test_a_group_that_is_not_there_yet_begins_where_it_is_told(at, broker):
    produce(broker, "early", 8)
    done = at("reset", "tobe", "--topic", "early", "--to-latest", "--execute")
    assert done.stdout == "early-0: nothing to 4\nearly-1: nothing to 4\ntobe: 2 partitions reset\n"
    produce(broker, "early", 2)
    reader = consumer(broker, "tobe", "early")
    assert sorted(read(reader, 2)) == ["0", "1"]
    reader.close()


def test_a_deleted_group_disappears(at, broker):
    produce(broker, "left", 2)
    commit(broker, "gone", "left", p0=1)
    assert at("delete", "gone").stdout == "deleted gone\n"
    assert "gone" not in at("list").stdout.split()
    assert "GROUP_ID_NOT_FOUND (69): gone: There is no such group." in refused(at("describe", "gone"))
    assert "GROUP_ID_NOT_FOUND (69): gone" in refused(at("delete", "gone"))
    assert at("delete", "gone", "--if-exists").stdout == "there is no group gone\n"
    assert json.loads(at("delete", "gone", "--if-exists", "--json").stdout) == {"name": "gone", "deleted": False}


def test_what_cannot_be_reset_gets_a_sentence(at, broker):
    produce(broker, "fixed", 2)
    commit(broker, "still", "fixed", p0=1)
    assert "GROUP_ID_NOT_FOUND (69): nobody" in refused(at("reset", "nobody", "--to-latest"))
    assert "UNKNOWN_TOPIC_OR_PARTITION (3): nowhere" in refused(
        at("reset", "still", "--topic", "nowhere", "--to-latest")
    )
    assert "fixed-9" in refused(at("reset", "still", "--topic", "fixed:9", "--to-latest"))
    nothing = refused(at("reset", "still", "--topic", "fixed:1", "--shift-by", "1"))
    assert "group still has committed nothing in fixed-1 to shift from" in nothing
    assert "one of the arguments --to-earliest --to-latest" in refused(at("reset", "still"), 2)
    assert "--to-offset=-1: must be 0 or more" in refused(at("reset", "still", "--to-offset", "-1"), 2)
    assert "--topic=fixed:: must be TOPIC or TOPIC:P,P…" in refused(
        at("reset", "still", "--topic", "fixed:", "--to-latest"), 2
    )
    both = refused(at("reset", "still", "--to-latest", "--execute", "--dry-run"), 2)
    assert "not allowed with" in both
    assert offsets_of(at, "still") == {("fixed", 0): 1}


def test_a_broker_without_any_group(tmp_path):
    with Broker(tmp_path, overrides=SETTINGS) as alone:
        words = [sys.executable, "-m", "mpbroker", "group", "list", "-b", alone.bootstrap]
        assert subprocess.run(words, capture_output=True, text=True, timeout=60).stdout == ""
        done = subprocess.run([*words, "--json"], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (0, "[]\n")
        words[4:5] = ["describe", "none"]
        assert "GROUP_ID_NOT_FOUND (69): none" in refused(
            subprocess.run(words, capture_output=True, text=True, timeout=60)
        )


def test_a_coordinator_that_restarts_is_waited_for(at, broker):
    produce(broker, "kept", 2)
    commit(broker, "patient", "kept", p0=1)
    os.kill(broker.row("coordinator")["pid"], signal.SIGKILL)
    assert at("describe", "patient").stdout == "patient: Empty, 0 members, lag 0\n  kept-0: committed 1, end 1, lag 0\n"
