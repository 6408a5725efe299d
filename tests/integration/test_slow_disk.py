"""A disk whose every sync takes its time: stops stay clean, and nobody waits for another's partition."""

import struct
import time

import psutil
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from mpbroker.log.checkpoint_file import HIGH_WATERMARK
from mpbroker.log.clean_shutdown import MARKER
from tests.harness import slow_disk
from tests.harness.broker import Broker, wait_until
from tests.harness.raw_client import RawConnection, frame
from tests.harness.raw_records import RawProducer, create_by_metadata

PARTITIONS = 300
SYNC_MS = 20


@pytest.fixture(scope="module")
def preload(tmp_path_factory):
    return slow_disk.build(tmp_path_factory.mktemp("preload"))


def slow_broker(tmp_path, preload, part: str, ms: int, **overrides) -> Broker:
    return Broker(tmp_path, env=slow_disk.slow_env(preload, part, ms), overrides=overrides)


def create(broker: Broker, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(60)


def test_three_hundred_partitions_stop_cleanly(tmp_path, preload):
    """6 s of syncs, one after the other, were once killed after 4.8 s: every planned restart was a crash recovery."""
    broker = slow_broker(tmp_path, preload, "many-", SYNC_MS)
    broker.start()
    create(broker, "many", PARTITIONS)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "1"})
    for partition in range(PARTITIONS):
        producer.produce("many", b"v", partition=partition)
    assert producer.flush(60) == 0
    broker.process.terminate()
    assert broker.process.wait(60) == 0, broker.log()
    assert (broker.data_dir / MARKER).exists()
    assert "not_stopped_cleanly" not in broker.log()


def test_a_partition_with_a_slow_disk_delays_no_acknowledgement_of_another(tmp_path, preload):
    overrides = {"mpbroker.log.flush": "commit"}
    with slow_broker(tmp_path, preload, "slow-0/", 3000, **overrides) as broker:
        create(broker, "slow", 1)
        create(broker, "quick", 1)
        slow = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
        quick = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", "linger.ms": 0})

        def appended() -> int:
            return sum(path.stat().st_size for path in broker.data_dir.glob("slow-0/*.log"))

        def ten_meanwhile() -> bool:
            before = appended()
            slow.produce("slow", b"v", partition=0)
            wait_until(lambda: appended() > before, "its append")
            slow.poll(0.5)  # its sync is under way
            acknowledged: list[object] = []
            while len(acknowledged) < 10:
                quick.produce("quick", b"v", partition=0, on_delivery=lambda error, _: acknowledged.append(error))
                assert quick.flush(10) == 0
            is_waiting = len(slow) == 1
            assert slow.flush(20) == 0 and acknowledged == [None] * 10
            return is_waiting

        # A machine that pauses for seconds may sync the slow one meanwhile; who waits for it is late every time.
        assert any(ten_meanwhile() for _ in range(5)), "ten of the other, while the slow one is not acknowledged yet"


def test_a_slow_log_directory_delays_no_acknowledgement_of_another(tmp_path, preload):
    """Its checkpoints are synced, too, again and again: with each of them all acknowledgements once waited."""
    slow_ms, second = 500, str(tmp_path / "second")
    often = {"log.flush.offset.checkpoint.interval.ms": 100, "replica.high.watermark.checkpoint.interval.ms": 100}
    broker = Broker(
        tmp_path,
        env=slow_disk.slow_env(preload, second, slow_ms),
        overrides={"mpbroker.log.flush": "commit", "log.initial.task.delay.ms": 0} | often,
        further_dirs=[second],
    )
    broker.start()
    try:
        create(broker, "t", 2)  # one in each directory
        slow = next(at for at in range(2) if (tmp_path / "second" / f"t-{at}").exists())
        assert (broker.data_dir / f"t-{1 - slow}").exists()
        wanted = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", "log_level": 0})
        quick = RawProducer("127.0.0.1", broker.port(), "t")
        checkpoints, took_s = set(), []
        while len(checkpoints) < 5:
            wanted.produce("t", b"v", partition=slow)
            wanted.poll(0)
            asked = time.monotonic()
            assert quick.produce(1 - slow, [b"v"]).error == 0
            took_s.append(time.monotonic() - asked)
            checkpoints |= {path.stat().st_mtime_ns for path in (tmp_path / "second").glob(HIGH_WATERMARK)}
            time.sleep(0.01)
        late = [one for one in took_s if one >= slow_ms / 1000]
        assert len(late) < 3, f"one for each checkpoint, not for a pause of this machine: {late}"
        quick.close()
    finally:
        broker.destroy()  # to stop it cleanly takes a dozen syncs


def test_nobody_is_answered_before_a_slow_recovery_has_ended(tmp_path, preload):
    """Sockets listen and acceptors run while the controller still reads: a client that is quick waits, and never sees a
    broker without its topics."""
    broker = Broker(tmp_path, overrides={"mpbroker.admin.listener": ""})
    with broker:
        create_by_metadata("127.0.0.1", broker.port(), "t")
        producer = RawProducer("127.0.0.1", broker.port(), "t")
        wait_until(lambda: producer.produce(0, [b"v"]).error == 0, "the topic")
        producer.close()
    broker.env = slow_disk.slow_env(preload, str(broker.data_dir), 300)
    # A machine that pauses may let us ask when the recovery is over: that start has shown nothing.
    assert any(answered_after_s(broker) > 0.3 for _ in range(5)), "it was no slow recovery"


def answered_after_s(broker: Broker) -> float:
    """How long Metadata, which must be whole, was waited for by who asked as soon as the socket was there."""
    broker.ready_file.unlink()
    process = psutil.Process(broker.spawn().pid)
    try:
        (listening,) = wait_until(lambda: process.net_connections(), "its listener")
        with RawConnection(listening.laddr.port, timeout_s=30.0) as client:
            asked = time.monotonic()
            _, body = client.ask(frame(3, 1, 1, struct.pack(">ih1s", 1, 1, b"t")))  # Metadata
            waited_s = time.monotonic() - asked
        assert body.endswith(b"t" + struct.pack(">?ihiiiiii", False, 1, 0, 0, 0, 1, 0, 1, 0)), body
        wait_until(broker.ready_file.exists, "the start's end", 30)
        broker.stop()
    finally:
        broker.destroy()
    return waited_s
