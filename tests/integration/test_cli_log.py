"""`mpbroker log dump` on the files of a real broker, in use and after its stop; damaged and cut ones."""

import json
import os
import subprocess
import sys

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from mpbroker.cli import log_dump
from tests.harness.broker import Broker, wait_until

pytestmark = pytest.mark.slow
FIRST = "00000000000000000000"
SETTINGS = {"offsets.topic.num.partitions": 1, "log.index.interval.bytes": 100}


def dump(*words):
    command = [sys.executable, "-m", "mpbroker", "log", "dump", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def entries(*words):
    done = dump("--json", *words)
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def refused(done, code=1):
    assert (done.returncode, done.stderr.count("\n")) == (code, 1), done
    return done.stderr


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Directories of a topic `t` and of `__consumer_offsets`, of a broker that was stopped; what was seen before."""
    with Broker(tmp_path_factory.mktemp("dumped"), overrides=SETTINGS) as broker:
        settings = {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True}
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            producer = Producer({**settings, "compression.type": codec, "linger.ms": 50})
            for number in range(30):
                producer.produce("t", f"{codec} {number}" + "x" * 50, f"k{number}", headers=[("h", b"\xff")])
            assert producer.flush(30) == 0
        reader = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "enable.auto.commit": False})
        reader.subscribe(["t"])
        wait_until(lambda: (reader.poll(0.2), reader.assignment())[1], "the partition", 30)
        reader.commit(offsets=[TopicPartition("t", 0, 7)], asynchronous=False)
        in_use = entries(broker.data_dir / "t-0" / f"{FIRST}.log")
        reader.close()
        broker.stop()
        yield broker.data_dir / "t-0", broker.data_dir / "__consumer_offsets-0", in_use


def test_a_segment_has_its_batches_and_records(places):
    topic, _, in_use = places
    found = entries(topic / f"{FIRST}.log")
    assert found == in_use, "the file was in use before"
    batches = [one for one in found if one["kind"] == "batch"]
    records = [one for one in found if one["kind"] == "record"]
    assert {one["codec"] for one in batches} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert [one["offset"] for one in records] == list(range(150))
    assert records[31]["key"] == "k1" and records[31]["value"] == "gzip 1" + "x" * 50
    assert records[31]["headers"] == [["h", {"base64": "/w=="}]]
    assert sum(one["bytes"] for one in batches) == (topic / f"{FIRST}.log").stat().st_size
    assert len({one["producer_id"] for one in batches}) == 5 and batches[0]["base_sequence"] == 0
    only = entries("--batches", topic / f"{FIRST}.log")
    assert [one | {"kind": "batch"} for one in only] == batches
    lines = dump(topic / f"{FIRST}.log").stdout.splitlines()
    assert lines[0].startswith("batch at byte 0: offsets 0 to ") and "not compressed" in lines[0]
    assert lines[1].startswith("  offset 0, timestamp 1") and "key k0, value none 0xxx" in lines[1]


def test_indexes_point_at_batches(places):
    topic, _, _ = places
    batches = {one["position"]: one for one in entries("--batches", topic / f"{FIRST}.log")}
    index = entries(topic / f"{FIRST}.index")
    assert index
    assert all(batches[one["position"]]["last_offset"] == one["offset"] for one in index)
    times = entries(topic / f"{FIRST}.timeindex")
    assert times and times[-1]["timestamp"] == max(one["max_timestamp"] for one in batches.values())
    assert dump(topic / f"{FIRST}.index", topic / f"{FIRST}.timeindex").stdout.count(f"{FIRST}.") == 2


def test_an_index_counts_from_the_offset_in_its_name_up_to_what_is_filled_with_zeros(tmp_path):
    index = tmp_path / "00000000000000001000.index"
    index.write_bytes(b"\0\0\0\5\0\0\1\0" + b"\0\0\0\7\0\0\2\0" + bytes(80))
    assert [(one["offset"], one["position"]) for one in entries(index)] == [(1005, 256), (1007, 512)]
    index.write_bytes(bytes(80))
    assert entries(index) == [], "of Kafka, before its first entry"
    index.write_bytes(b"\0\0\0\5\0\0\1\0\1")
    assert "the last 1 bytes are no whole entry" in refused(dump(index))
    time_index = tmp_path / "00000000000000000003.timeindex"
    time_index.write_bytes(bytes(120))
    assert entries(time_index) == []
    time_index.write_bytes(bytes(12))
    assert [(one["timestamp"], one["offset"]) for one in entries(time_index)] == [(0, 3)]
    named = tmp_path / "mine.index"
    named.write_bytes(bytes(8))
    assert "this name has none" in refused(dump(named))


def test_a_snapshot_has_its_producers(places, tmp_path):
    topic, _, _ = places
    snapshot = max(topic.glob("*.snapshot"))
    found = entries(snapshot)
    assert len(found) == 5 and max(one["last_offset"] for one in found) == 149
    assert all(one["first_sequence"] == one["last_sequence"] - one["offset_delta"] for one in found)
    damaged = tmp_path / snapshot.name
    damaged.write_bytes(snapshot.read_bytes()[:-1])
    assert "this producer snapshot is damaged" in refused(dump(damaged))


def test_offsets_and_groups_in_words(places):
    _, offsets, _ = places
    found = [one for one in entries("--offsets", offsets / f"{FIRST}.log") if one["kind"] == "record"]
    [commit] = [one for one in found if "committed" in one]
    assert (commit["group"], commit["topic"], commit["partition"], commit["committed"]) == ("g", "t", 0, 7)
    [stable] = [one for one in found if one.get("members")]
    assert (stable["group"], stable["protocol"], stable["members"][0]["partitions"]) == ("g", "range", ["t-0"])
    assert stable["members"][0]["host"] == "127.0.0.1"
    assert "  offset" in dump("--offsets", offsets / f"{FIRST}.log").stdout
    assert all("key" in one for one in entries(offsets / f"{FIRST}.log") if one["kind"] == "record")


def test_a_damaged_or_cut_segment_shows_what_stands_before(places, tmp_path):
    topic, _, in_use = places
    data = bytearray((topic / f"{FIRST}.log").read_bytes())
    batches = [one for one in in_use if one["kind"] == "batch"]
    cut = tmp_path / f"{FIRST}.log"
    cut.write_bytes(data[:-3])
    done = dump("--batches", cut)
    assert len(done.stdout.splitlines()) == len(batches) - 1
    last = batches[-1]["position"]
    left = len(data) - 3 - last
    assert f"the last {left} bytes, from byte {last} on, are no whole batch" in refused(done)
    data[batches[1]["position"] + 70] ^= 1
    cut.write_bytes(data)
    done = dump(cut)
    assert f"no record batch, or a damaged one, at byte {batches[1]['position']}" in refused(done)
    assert done.stdout.startswith("batch at byte 0:")
    assert refused(dump(tmp_path / "none.log")) == f"mpbroker: {tmp_path}/none.log: No such file or directory\n"
    named = "its name should end in one of .log .index .timeindex .txnindex .snapshot"
    assert named in refused(dump(tmp_path / "x.txt"), 2)


def test_batches_larger_than_a_window(places, monkeypatch):
    topic, _, in_use = places
    monkeypatch.setattr(log_dump, "WINDOW_BYTES", 64)
    path = str(topic / f"{FIRST}.log")
    assert [{"file": path} | one for one in log_dump.entries(path, True, False)] == in_use


def test_a_length_that_nobody_can_mean_takes_no_memory(tmp_path, monkeypatch):
    path = tmp_path / f"{FIRST}.log"
    path.write_bytes(b"\0" * 8 + b"\x7f\xff\xff\xff" + b"\0" * 4 + b"\2" + b"\0" * 100)
    assert "byte 0" in refused(dump(path))
    asked, pread = [], os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, at: (asked.append(size), pread(fd, size, at))[1])
    with pytest.raises(log_dump.DumpError):
        list(log_dump.entries(str(path), True, False))
    assert max(asked) <= log_dump.WINDOW_BYTES
