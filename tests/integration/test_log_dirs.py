"""Several log directories: where partitions go, what one that fails takes with it, whose are refused."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from mpbroker.log.data_dir import read_meta
from mpbroker.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from tests.harness.broker import Broker, wait_until
from tests.harness.peer import Peer

WAIT_S = 20
LOST_S = 4  # where nothing comes
PARTITIONS = 6


def directories(tmp_path):
    return [str(tmp_path / name) for name in ("data", "b", "c")]


def start(tmp_path, **options):
    further = directories(tmp_path)[1:]
    return Broker(tmp_path, overrides={"num.io.threads": 2}, further_dirs=further, **options)


def create(broker, topic, partitions=PARTITIONS):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(WAIT_S)


def fill(broker, topic, partitions, count=5, within_s=WAIT_S):
    """(partition → number of acknowledged records)."""
    acknowledged: dict[int, int] = {}

    def delivered(error, message):
        if error is None:
            acknowledged[message.partition()] = acknowledged.get(message.partition(), 0) + 1

    settings = {"message.timeout.ms": within_s * 1000, "acks": "all"}
    producer = Producer({"bootstrap.servers": broker.bootstrap, **settings})
    for number in range(count):
        for partition in partitions:
            producer.produce(topic, b"%d" % number, partition=partition, on_delivery=delivered)
    producer.flush(2 * within_s)
    return acknowledged


def ends(broker, topic, partitions, within_s=WAIT_S):
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    found = {}
    for partition in partitions:
        try:
            found[partition] = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=within_s)[1]
        except KafkaException as error:
            found[partition] = error.args[0].name()
    consumer.close()
    return found


def homes(broker):
    """path → (error, {(topic, partition): size})."""
    with Peer(broker.port()) as peer:
        answer = peer.ask(DescribeLogDirsRequest(topics=None), 4)
    return {
        each.log_dir: (
            each.error_code,
            {(t.name, p.partition_index): p.partition_size for t in each.topics for p in t.partitions},
        )
        for each in answer.results
    }


def test_partitions_go_where_there_are_fewest_and_are_found_again(tmp_path):
    paths = directories(tmp_path)
    with start(tmp_path) as broker:
        create(broker, "t")
        assert fill(broker, "t", range(PARTITIONS)) == dict.fromkeys(range(PARTITIONS), 5)
        placed = homes(broker)
        assert [len(placed[path][1]) for path in paths] == [2, 2, 2] and all(
            size for size in placed[paths[1]][1].values()
        )
        create(broker, "u", 1)
        ids = {read_meta(path).directory_id for path in paths}
        assert len(ids) == 3 and len({read_meta(path).cluster_id for path in paths}) == 1
        broker.destroy()
        broker.start()
        assert ends(broker, "t", range(PARTITIONS)) == dict.fromkeys(range(PARTITIONS), 5)
        again = homes(broker)
        for path in paths:
            assert {who for who in again[path][1] if who[0] == "t"} == set(placed[path][1])
        assert ("u", 0) in again[paths[0]][1]
        broker.stop()
        assert all(os.path.exists(os.path.join(path, ".kafka_cleanshutdown")) for path in paths)
        broker.start()
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.delete_topics(["t"])["t"].result(WAIT_S)
        assert not [who for _, lying in homes(broker).values() for who in lying if who[0] == "t"]
        assert not [
            name for path in paths for name in os.listdir(path) if name in {f"t-{n}" for n in range(PARTITIONS)}
        ]


def test_a_directory_that_fails_takes_only_its_partitions_with_it_and_brings_them_back(tmp_path):
    """First while the broker runs: the directory of a partition vanishes. Then at a start: not even a directory can be
    made there."""
    paths = directories(tmp_path)
    everything = set(range(PARTITIONS))
    with start(tmp_path) as broker:
        create(broker, "t")
        fill(broker, "t", everything)
        lost = {partition for _, partition in homes(broker)[paths[1]][1]}
        kept = everything - lost
        gone = f"t-{min(lost)}"
        broker.kill("handler")  # who has the files open still would not notice
        broker.kill("handler", 1)
        os.rename(os.path.join(paths[1], gone), tmp_path / gone)

        def failed():
            return not fill(broker, "t", [min(lost)], 1, LOST_S) and homes(broker)[paths[1]] == (56, {})

        wait_until(failed, "the failure", 10 * LOST_S)
        assert fill(broker, "t", kept, 1) == dict.fromkeys(kept, 1)
        create(broker, "u", 4)
        assert all(lying for path, (_, lying) in homes(broker).items() if path != paths[1])
        assert not [name for name in os.listdir(paths[1]) if name.startswith("u-")]
        broker.stop(check=False)  # exit code 1: it could not end cleanly
        os.rename(tmp_path / gone, os.path.join(paths[1], gone))
        os.rename(paths[1], paths[1] + "-elsewhere")
        with open(paths[1], "w"):
            pass
        broker.start()
        found = ends(broker, "t", kept) | ends(broker, "t", lost, LOST_S)
        assert {partition for partition, end in found.items() if end == 6} == kept
        assert homes(broker)[paths[1]] == (56, {}) and fill(broker, "t", kept, 1) == dict.fromkeys(kept, 1)
        assert broker.status()["health"]["state"] == "degraded"
        broker.stop()
        os.unlink(paths[1])
        os.rename(paths[1] + "-elsewhere", paths[1])
        broker.start()
        assert ends(broker, "t", everything) == dict.fromkeys(kept, 7) | dict.fromkeys(lost, 5)


def refused(paths):
    command = [sys.executable, "-m", "mpbroker", "start", "--data-dir", ",".join(paths)]
    command += ["--listener", "PLAINTEXT://127.0.0.1:0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    return done.returncode, done.stderr


def test_a_directory_that_is_not_ours_is_refused_and_left_as_it_is(tmp_path):
    paths = directories(tmp_path)[:2]
    with start(tmp_path) as broker, Broker(tmp_path / "other") as other:
        create(broker, "t")
    meta = os.path.join(paths[1], "meta.properties")
    directory = next(name for name in os.listdir(paths[1]) if name.startswith("t-"))
    with open(os.path.join(paths[1], directory, f"{0:020d}.log"), "ab") as file:
        file.write(b"x")
    _is_refused([paths[0], str(other.data_dir)], "has a metadata store (metadata.db) of its own")
    own = Path(meta).read_text()
    shutil.copy(os.path.join(paths[0], "meta.properties"), meta)
    _is_refused(paths, "has the directory.id of the first directory")
    os.unlink(meta)
    _is_refused(paths, f"holds {directory} but no meta.properties")
    with open(meta, "w") as file:
        file.write(own.replace("cluster.id=", "cluster.id=x"))
    _is_refused(paths, "belongs to cluster x")
    _is_refused(paths[::-1], f"holds {directory} but no metadata.db")


def _is_refused(paths, why):
    before = [sorted(os.listdir(path)) for path in paths]
    code, said = refused(paths)
    assert code == 2 and why in said, said
    assert [sorted(os.listdir(path)) for path in paths] == before


def adopt(*paths):
    command = [sys.executable, "-m", "mpbroker", "adopt", *paths]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def test_without_the_store_records_anywhere_forbid_the_start_and_all_directories_are_adopted(tmp_path):
    paths = directories(tmp_path)
    with start(tmp_path) as broker:
        create(broker, "t")
        kept = [number for number in range(PARTITIONS) if f"t-{number}" not in os.listdir(paths[0])]
        assert fill(broker, "t", kept) == dict.fromkeys(kept, 5)
    os.unlink(os.path.join(paths[0], "metadata.db"))
    for name in os.listdir(paths[0]):
        if name.startswith("t-"):
            shutil.rmtree(os.path.join(paths[0], name))
    _is_refused(paths, f"holds no metadata.db, which names the topics, and {paths[1]}/t-")
    assert "taken in  t: 6 partitions" in adopt(*paths)
    with start(tmp_path) as broker:
        assert ends(broker, "t", range(PARTITIONS)) == dict.fromkeys(range(PARTITIONS), 0) | dict.fromkeys(kept, 5)


def test_adopting_the_first_directory_alone_is_put_right_by_naming_all(tmp_path):
    """As Apache Kafka with ZooKeeper left them, too: no ids of directories."""
    paths = directories(tmp_path)
    with start(tmp_path) as broker:
        create(broker, "t")
        assert fill(broker, "t", range(PARTITIONS)) == dict.fromkeys(range(PARTITIONS), 5)
    os.unlink(os.path.join(paths[0], "metadata.db"))
    meta = read_meta(paths[0])
    for path in paths:
        text = f"version=0\nbroker.id={meta.node_id}\ncluster.id={meta.cluster_id}\n"
        Path(path, "meta.properties").write_text(text)
    said = adopt(paths[0])
    assert "taken in  t:" in said and "6 partitions" not in said
    code, why = refused(paths)
    assert code == 2 and f"{paths[1]} is a data directory of Apache Kafka" in why
    assert "more partitions, 6 now" in adopt(*paths)
    for _ in range(2):
        with start(tmp_path) as broker:
            assert ends(broker, "t", range(PARTITIONS)) == dict.fromkeys(range(PARTITIONS), 5)
