"""Starts on directories that are not whole, or not ours: refused with the remedy, untouched; `adopt` takes them in."""

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.harness.broker import Broker, wait_until
from tests.integration.test_log_keeping import create, read

RECORDS = 60


def fill(broker: Broker, topic: str) -> None:
    create(broker, topic, **{"segment.bytes": "1048576", "retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
    for number in range(RECORDS):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(15) == 0


@pytest.fixture
def filled(tmp_path):
    """A broker's directory after a clean stop, with two topics."""
    broker = Broker(tmp_path)
    with broker:
        fill(broker, "orders")
        fill(broker, "payments")
    return broker


def whole_tree(directory: Path) -> dict[str, bytes]:
    """Directories, too, and what only a start makes."""
    found = {path: path.read_bytes() if path.is_file() else b"" for path in sorted(directory.rglob("*"))}
    return {str(path.relative_to(directory)): content for path, content in found.items()}


def refused(broker: Broker, *words: str) -> str:
    """Start it: exit code 2 and nothing changed, lock and traces, which have to be made first, included; returns what
    it said."""
    (broker.data_dir / ".lock").unlink(missing_ok=True)
    shutil.rmtree(broker.data_dir / "traces", ignore_errors=True)
    before = whole_tree(broker.data_dir)
    done = subprocess.run([*broker.command(), *words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert whole_tree(broker.data_dir) == before
    return done.stderr


def adopt(broker: Broker, *words: str) -> str:
    command = [sys.executable, "-m", "mpbroker", "adopt", str(broker.data_dir), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


def everything(broker: Broker, *topics: str) -> None:
    for topic in topics:
        assert read(broker, topic, RECORDS) == {number: b"%d" % number for number in range(RECORDS)}


def test_a_clean_stop_leaves_the_store_in_one_file(filled):
    assert (filled.data_dir / "metadata.db").stat().st_size > 4096
    assert not (filled.data_dir / "metadata.db-wal").exists()
    copy = (filled.data_dir / "metadata.db").read_bytes()
    os.unlink(filled.data_dir / "metadata.db")
    (filled.data_dir / "metadata.db").write_bytes(copy)
    with filled:
        everything(filled, "orders", "payments")


@pytest.mark.parametrize("reads", [True, False])
def test_a_stop_while_somebody_reads_the_store_says_that_it_is_in_two_files(tmp_path, reads):
    broker = Broker(tmp_path)
    with broker:
        reader = sqlite3.connect(f"file:{broker.data_dir}/metadata.db?mode=ro", uri=True, isolation_level=None)
        if reads:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM kv").fetchone()
        create(broker, "orders")
    lines = [line for line in broker.log().splitlines() if "metadata_left_in_wal" in line]
    log = broker.data_dir / "metadata.db-wal"
    assert len(lines) == reads and all(str(log) in line for line in lines)
    assert (log.exists() and log.stat().st_size > 0) is reads
    reader.close()
    with broker:
        assert "orders" in AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=15).topics


def test_a_store_with_a_damaged_record_is_refused_and_everything_served_when_it_is_back(filled):
    store = filled.data_dir / "metadata.db"
    whole = store.read_bytes()
    assert whole.count(b'"name":"orders"') >= 1
    store.write_bytes(whole.replace(b'"name":"orders"', b'"name":"ordure"'))
    assert "damaged store" in refused(filled)
    store.write_bytes(whole)
    with filled:
        everything(filled, "orders", "payments")
    assert "log_cut" not in filled.log()


def test_a_partition_without_its_files_is_offline_and_served_when_they_are_back(filled, tmp_path):
    directory = filled.data_dir / "orders-0"
    shutil.copytree(directory, tmp_path / "away")
    for path in directory.iterdir():
        path.unlink()
    for _ in range(2):
        with filled:
            everything(filled, "payments")
            line = next(line for line in filled.log().splitlines()[::-1] if "partition_offline" in line)
            assert f"up to offset {RECORDS} were synced" in line and "put the files back and start again" in line
            assert os.listdir(directory) == []
            wait_until(lambda: filled.status()["health"]["state"] == "degraded", "the status to say so")
            [finding] = filled.status()["health"]["findings"]
            assert "partitions are offline" in finding["sentence"]
    shutil.copytree(tmp_path / "away", directory, dirs_exist_ok=True)
    with filled:
        everything(filled, "orders", "payments")
        assert filled.status()["health"]["state"] == "ok"


def test_a_link_to_nowhere_beside_a_log_that_no_checkpoint_names_costs_nothing(filled):
    """It once counted as a log, and as one that is missing: an empty one was made over the sound one."""
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (filled.data_dir / name).unlink()
    (filled.data_dir / "orders-0/latest.log").symlink_to("/nowhere")
    with filled:
        everything(filled, "orders", "payments")
    assert (filled.data_dir / "orders-0/latest.log").is_symlink()


def test_folders_of_others_forbid_no_start_and_stay(filled):
    """Whatever lies in them: a pipe kept the start waiting, a link to nowhere ended it, an empty folder went."""
    for name in ("app-1", "app-2", "my-0"):
        (filled.data_dir / name).mkdir()
    os.mkfifo(filled.data_dir / "app-1/partition.metadata")
    os.mkfifo(filled.data_dir / f"app-1/{0:020d}.log")
    (filled.data_dir / "app-2/partition.metadata").symlink_to("/nowhere")
    (filled.data_dir / "app-2/cur.log").symlink_to("/nowhere")
    with filled:
        everything(filled, "orders", "payments")
        assert filled.log().count("stray_directory") == 3
    assert {"app-1", "app-2", "my-0"} <= set(os.listdir(filled.data_dir))
    assert len(os.listdir(filled.data_dir / "app-1")) == len(os.listdir(filled.data_dir / "app-2")) == 2


def test_what_is_no_file_in_a_partition_is_left_and_only_in_the_way_of_a_file_an_obstacle(filled):
    """After a stop and after a kill; the stop ends with 0. A pipe kept the start waiting, a folder that ended in
    .deleted took the log directory offline."""
    orders, payments = filled.data_dir / "orders-0", filled.data_dir / "payments-0"
    os.mkfifo(orders / f"{700:020d}.log")
    for name in (f"{0:020d}.log.deleted", f"{7:020d}.snapshot", f"{7:020d}.log"):
        (orders / name).mkdir()
    (orders / "x.log").symlink_to("/nowhere")
    before = sorted(os.listdir(orders))
    os.rename(payments / f"{0:020d}.index", payments / "index.kept")
    (payments / f"{0:020d}.index").mkdir()
    overrides = {"log.segment.delete.delay.ms": 100, "log.retention.check.interval.ms": 100}
    broker = Broker(filled.directory, overrides=overrides)
    for is_clean in (True, False):
        if not is_clean:
            (filled.data_dir / ".kafka_cleanshutdown").unlink()
        with broker:
            everything(broker, "orders")
            lines = broker.log().splitlines()
            assert any("4 entries are named like files of the log" in line for line in lines)
            [offline] = [line for line in lines if "partition_offline" in line][-1:]
            assert f"payments-0/{0:020d}.index" in offline and "move it away and start again" in offline
        assert set(before) <= set(os.listdir(orders))
        assert "log_directory_offline" not in broker.log()
    (payments / f"{0:020d}.index").rmdir()
    with broker:
        everything(broker, "orders", "payments")


def test_without_meta_properties_it_is_refused_and_served_when_it_is_back(filled, tmp_path):
    shutil.move(filled.data_dir / "meta.properties", tmp_path / "meta")
    assert "no meta.properties" in refused(filled) and "adopt" in refused(filled)
    shutil.move(tmp_path / "meta", filled.data_dir / "meta.properties")
    with filled:
        everything(filled, "orders", "payments")


def test_adopt_writes_meta_properties_anew_for_the_cluster_of_the_store(filled):
    before = (filled.data_dir / "meta.properties").read_text()
    (filled.data_dir / "meta.properties").unlink()
    assert "belongs to a topic already" in adopt(filled)
    cluster = [line for line in before.splitlines() if line.startswith("cluster.id")]
    assert cluster[0] in (filled.data_dir / "meta.properties").read_text()
    with filled:
        everything(filled, "orders", "payments")


def test_without_a_store_it_is_refused_and_adopt_takes_the_topics_in(filled):
    ids = {name: (filled.data_dir / name / "partition.metadata").read_text() for name in ("orders-0", "payments-0")}
    (filled.data_dir / "metadata.db").unlink()
    assert "no metadata.db" in refused(filled)
    assert "taken in  orders: 1 partitions" in adopt(filled)
    with filled:
        everything(filled, "orders", "payments")
    assert ids == {name: (filled.data_dir / name / "partition.metadata").read_text() for name in ids}


def test_adopted_records_outlive_retention_until_a_user_gives_one(tmp_path):
    """What the lost store said, `retention.ms=-1` or another policy, nobody can give before the first round."""
    broker = Broker(tmp_path, overrides={"log.retention.check.interval.ms": 200, "log.initial.task.delay.ms": 100})
    long_ago_ms = int((time.time() - 30 * 86_400) * 1000)
    with broker:
        create(broker, "orders", **{"segment.bytes": "1048576", "retention.ms": "-1"})
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(RECORDS):
            producer.produce("orders", b"%d" % number, partition=0, timestamp=long_ago_ms)
        assert producer.flush(15) == 0
    (broker.data_dir / "metadata.db").unlink()
    adopt(broker)
    with broker:
        time.sleep(1.5)
        everything(broker, "orders")
        command = [sys.executable, "-m", "mpbroker", "config", "unset", "topic:orders", "retention.ms"]
        subprocess.run([*command, "--bootstrap-server", broker.bootstrap], check=True, timeout=30, capture_output=True)
        wait_until(lambda: "segments_deleted" in broker.log(), "the broker's retention to hold from here on")


def committed(broker: Broker) -> int:
    reader = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "readers"})
    try:
        return reader.committed([TopicPartition("orders", 0)], timeout=20)[0].offset
    finally:
        reader.close()


def test_adopted_groups_keep_their_offsets_and_transactions_go_on(filled):
    """Also one that was open: the coordinator still knows it, and readers do not wait for it for ever."""
    named = {"bootstrap.servers": "", "transactional.id": "payer"}
    with filled:
        reader = Consumer({"bootstrap.servers": filled.bootstrap, "group.id": "readers"})
        reader.commit(offsets=[TopicPartition("orders", 0, 40)], asynchronous=False)
        reader.close()
        writer = Producer(named | {"bootstrap.servers": filled.bootstrap})
        writer.init_transactions(20)
        writer.begin_transaction()
        writer.produce("payments", b"left open", partition=0)
        assert writer.flush(15) == 0
    (filled.data_dir / "metadata.db").unlink()
    said = adopt(filled)
    assert "taken in  __consumer_offsets: 50 partitions" in said and "__transaction_state: 50 partitions" in said
    with filled:
        assert committed(filled) == 40
        writer = Producer(named | {"bootstrap.servers": filled.bootstrap})
        writer.init_transactions(20)
        writer.begin_transaction()
        writer.produce("payments", b"the next one", partition=0)
        writer.commit_transaction(20)
        found = read(filled, "payments", RECORDS + 1)
        assert list(found.values())[-1] == b"the next one" and b"left open" not in found.values()
        reader = Consumer({"bootstrap.servers": filled.bootstrap, "group.id": "readers"})
        reader.commit(offsets=[TopicPartition("orders", 0, 50)], asynchronous=False)
        reader.close()
        assert committed(filled) == 50
    assert "offsets_topic_not_created" not in filled.log()


def test_partitions_behind_links_are_not_overlooked(filled, tmp_path):
    for name in ("orders-0", "payments-0"):
        shutil.move(filled.data_dir / name, tmp_path / name)
        (filled.data_dir / name).symlink_to(tmp_path / name)
    (filled.data_dir / "metadata.db").unlink()
    assert "holds orders-0 but no metadata.db" in refused(filled)
    assert "taken in  orders: 1 partitions" in adopt(filled)
    with filled:
        everything(filled, "orders", "payments")


def test_another_nodes_directory_is_refused_before_anything_is_touched(filled):
    assert "belongs to node 0, and node.id is 7" in refused(filled, "--override", "node.id=7")


def test_adopt_leaves_a_directory_of_somebodys_as_it_is(tmp_path):
    """Also one with a folder that is called like a partition."""
    (tmp_path / "photos-2024").mkdir()
    (tmp_path / "photos-2024" / "a.jpg").write_bytes(b"x")
    command = [sys.executable, "-m", "mpbroker", "adopt", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "Nothing was changed" in done.stderr
    assert sorted(whole_tree(tmp_path)) == ["photos-2024", "photos-2024/a.jpg"]


def test_a_store_of_another_cluster_is_refused(filled):
    meta = filled.data_dir / "meta.properties"
    text = meta.read_text()
    meta.write_text(
        "\n".join("cluster.id=AAAAAAAAQACAAAAAAAAAAA" if "cluster.id" in line else line for line in text.split("\n"))
    )
    sentence = refused(filled)
    assert "says AAAAAAAAQACAAAAAAAAAAA" in sentence and "put the right meta.properties back" in sentence
    meta.write_text(text)
    with filled:
        everything(filled, "orders", "payments")


def test_a_damaged_store_is_refused_with_a_remedy(filled):
    store = filled.data_dir / "metadata.db"
    whole = store.read_bytes()
    store.write_bytes(b"\xff" * len(whole))
    assert "put a copy of metadata.db back" in refused(filled)
    store.write_bytes(whole)
    with filled:
        everything(filled, "orders", "payments")


@pytest.mark.parametrize("kind", ["kraft", "zookeeper"])
def test_a_directory_of_apache_kafka_is_refused_untouched_and_can_be_adopted(filled, kind):
    """As Kafka leaves it: the same record format, partition.metadata and checkpoints, but no store of ours."""
    (filled.data_dir / "metadata.db").unlink()
    meta = (
        "version=0\nbroker.id={0}\ncluster.id=ZF7CwAAXRvaWnKtFCRe1Gg\n"
        if kind == "zookeeper"
        else ("version=1\nnode.id={0}\ncluster.id=ZF7CwAAXRvaWnKtFCRe1Gg\ndirectory.id=AAAAAAAAQACAAAAAAAAAAA\n")
    )
    node = next(
        line.partition("=")[2]
        for line in (filled.data_dir / "meta.properties").read_text().splitlines()
        if "node.id" in line
    )
    (filled.data_dir / "meta.properties").write_text(meta.format(node))
    if kind == "kraft":
        (filled.data_dir / "__cluster_metadata-0").mkdir()
        (filled.data_dir / "__cluster_metadata-0" / f"{0:020d}.log").write_bytes(b"Kafka's")
    (filled.data_dir / "__consumer_offsets-3").mkdir()
    (filled.data_dir / "__consumer_offsets-3" / f"{0:020d}.log").write_bytes(b"offsets")
    assert ("Apache Kafka" in refused(filled)) == (kind == "kraft")
    said = adopt(filled)
    assert "taken in  orders" in said and "taken in  __consumer_offsets: 50 partitions" in said
    with filled:
        everything(filled, "orders", "payments")
    if kind == "kraft":
        assert (filled.data_dir / "__cluster_metadata-0" / f"{0:020d}.log").read_bytes() == b"Kafka's"
        [said] = [line for line in filled.log().splitlines() if "stray_directory" in line]
        assert "it is Kafka's own metadata" in said and "mpbroker adopt" not in said


@pytest.mark.parametrize("partitions", [(), ("orders-0", "__consumer_offsets-3")])
def test_an_empty_directory_of_kafka_with_zookeeper_is_refused_untouched_and_can_be_adopted(tmp_path, partitions):
    """Its partitions, which hold no records, would otherwise be taken for leftovers and deleted."""
    broker = Broker(tmp_path)
    broker.data_dir.mkdir()
    (broker.data_dir / "meta.properties").write_text("version=0\nbroker.id=0\ncluster.id=ZF7CwAAXRvaWnKtFCRe1Gg\n")
    (broker.data_dir / "cleaner-offset-checkpoint").write_text("0\n0\n")
    for name in partitions:
        (broker.data_dir / name).mkdir()
        (broker.data_dir / name / f"{0:020d}.log").touch()
        (broker.data_dir / name / "leader-epoch-checkpoint").write_text("0\n0\n")
    said = refused(broker)
    assert "is a data directory of Apache Kafka with ZooKeeper: `mpbroker adopt " in said
    assert sorted(os.listdir(broker.data_dir)) == sorted([*partitions, "cleaner-offset-checkpoint", "meta.properties"])
    assert ("taken in  orders: 1 partitions" in adopt(broker)) is bool(partitions)
    with broker:
        found = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=15)
        assert found.cluster_id == "ZF7CwAAXRvaWnKtFCRe1Gg" and ("orders" in found.topics) is bool(partitions)
        fill(broker, "payments")
        everything(broker, "payments")


def test_a_folder_in_a_deleted_topics_directory_costs_no_other_topic_anything(tmp_path):
    broker = Broker(tmp_path, overrides={"log.segment.delete.delay.ms": 100})
    with broker:
        fill(broker, "orders")
        fill(broker, "payments")
        (broker.data_dir / "orders-0" / "photos").mkdir()
        (broker.data_dir / "orders-0" / "photos" / "a.jpg").write_bytes(b"x")
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.delete_topics(["orders"])["orders"].result(15)
        wait_until(lambda: "deleted_directory_stays" in broker.log(), "the broker to say so")
        [left] = broker.data_dir.glob("orders-0.*-delete")
        assert [str(path.relative_to(left)) for path in sorted(left.rglob("*"))] == ["photos", "photos/a.jpg"]
        fill(broker, "orders")
        everything(broker, "orders", "payments")
    with broker:
        everything(broker, "orders", "payments")
    assert (left / "photos" / "a.jpg").read_bytes() == b"x" and "log_directory_offline" not in broker.log()


def test_adopt_brings_strays_back(filled):
    """As an older version of mpbroker left them."""
    os.rename(filled.data_dir / "orders-0", filled.data_dir / f"orders-0.{'0' * 32}-stray")
    with filled:
        assert "partition_offline" in filled.log(), "it is known to have had records"
    assert f"orders: partition 0, from orders-0.{'0' * 32}-stray" in adopt(filled)
    with filled:
        everything(filled, "orders", "payments")


def test_a_missing_partition_directory_is_offline_until_it_is_back(filled, tmp_path):
    shutil.move(filled.data_dir / "orders-0", tmp_path / "away")
    for _ in range(2):
        with filled:
            everything(filled, "payments")
        assert not (filled.data_dir / "orders-0").exists()
    shutil.move(tmp_path / "away", filled.data_dir / "orders-0")
    with filled:
        everything(filled, "orders", "payments")


def test_adopt_runs_beside_no_broker(filled):
    with filled:
        command = [sys.executable, "-m", "mpbroker", "adopt", str(filled.data_dir)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 3 and "in use" in done.stderr


def test_a_new_or_an_empty_directory_is_no_doubt(tmp_path):
    broker = Broker(tmp_path)
    broker.data_dir.mkdir()
    for _ in range(2):
        with broker:
            fill(broker, f"t{len(os.listdir(broker.data_dir))}")


def lose_the_store(broker: Broker) -> None:
    for path in broker.data_dir.glob("metadata.db*"):
        path.unlink()


@pytest.mark.parametrize("fill", [False, True])
def test_what_adopt_says_of_missing_partitions_is_so_after_the_next_start(tmp_path, fill):
    """One that had records is offline, or begins where they ended; one that never had any begins empty."""
    broker = Broker(tmp_path)
    with broker:
        create(broker, "orders", partitions=5)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
        for number in range(30):
            producer.produce("orders", b"%d" % number, partition=number % 3)
        assert producer.flush(15) == 0
    lose_the_store(broker)
    for number in (0, 3):
        shutil.rmtree(broker.data_dir / f"orders-{number}")
    said = adopt(broker, *(["--fill-missing"] if fill else []))
    assert "missing, made empty at the next start: 3;" in said
    assert f"had records, {'begun empty: 0' if fill else 'offline until they are put back'}" in said
    with broker:
        offline = [line for line in broker.log().splitlines() if "partition_offline" in line]
        assert len(offline) == (0 if fill else 1) and all("orders-0" in line for line in offline)
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
        marks = [
            consumer.get_watermark_offsets(TopicPartition("orders", number), timeout=15)
            for number in range(0 if fill else 1, 5)
        ]
        consumer.close()
        assert marks[-4:] == [(0, 10), (0, 10), (0, 0), (0, 0)]
        assert marks[:-4] == ([(10, 10)] if fill else [])


def test_folders_that_look_like_partitions_do_not_keep_a_broker_from_starting(filled):
    for name in ("photos-2024", "snapshot-20261"):
        (filled.data_dir / name).mkdir()
        (filled.data_dir / name / "picture").write_bytes(b"x")
    with filled:
        lines = [line for line in filled.log().splitlines() if "stray_directory" in line]
        assert len(lines) == 2 and not any("mpbroker adopt" in line for line in lines)
    assert "left      photos-2024: it holds no log" in adopt(filled)
    with filled:
        everything(filled, "orders", "payments")
