"""A handler, or the log keeper, that is stopped while it holds a partition's lock, on a real broker: what that costs
the others, and what becomes of the requests that wait for it."""

import os
import signal
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from mpbroker.client.bootstrap import connect
from mpbroker.client.topic_admin import create_topic
from tests.harness.broker import Broker, wait_until
from tests.harness.raw_client import RawConnection
from tests.harness.raw_records import batch, fetch_request, fetched, produce_request, produced, records_in

POINTS = ["append.locked", "append.log_written", "append.committed", "append.cell_half"]
RETENTION = {"log.retention.check.interval.ms": "300", "log.initial.task.delay.ms": "100"}
SETTINGS = {"num.io.threads": "3", "log.segment.delete.delay.ms": "0", **RETENTION}
MANY_S = 20.0  # long enough for a loaded machine; a request that waits for a stopped process waits for ever


def _state(pid: int) -> tuple[str, int]:
    """(state, parent) of a process."""
    try:
        rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "", 0
    return rest[0], int(rest[1])


def _stopped(broker: Broker) -> list[int]:
    pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
    return [pid for pid in pids if _state(pid) == ("T", broker.process.pid)]


def _create(broker: Broker, *topics: str, **settings: str) -> None:
    with connect(broker.bootstrap) as client:
        for topic in topics:
            create_topic(client, topic, 1, {key.replace("_", "."): value for key, value in settings.items()})


def _hold(broker: Broker, connection: RawConnection) -> int:
    """Lets a handler stop with the lock of `held`; returns its pid."""
    connection.send(produce_request(1, "held", 0, batch([b"holder"])))
    wait_until(lambda: len(_stopped(broker)) == 1, "a stopped handler")
    return _stopped(broker)[0]


def _values(port: int, topic: str) -> list[bytes]:
    with RawConnection(port) as connection:
        _, body = connection.ask(fetch_request(9, topic, 0, 0))
    return [value for _, value in records_in(fetched(body).records)]


def _produce(broker: Broker, topic: str, count: int, timeout_s: float = MANY_S) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", "linger.ms": 0})
    for number in range(count):
        producer.produce(topic, b"%d" % number)
        assert producer.flush(timeout_s) == 0


def _produce_until_stopped(broker: Broker, topic: str, count: int) -> None:
    """The keeper may be stopped before the last one is synced: nobody acknowledges that one."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", "linger.ms": 0})
    for number in range(count):
        producer.produce(topic, b"%d" % number)
        wait_until(lambda: producer.flush(0.02) == 0 or _stopped(broker), "an acknowledgement or a stop", MANY_S)
        if _stopped(broker):
            return


def _consume(broker: Broker, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "none", "enable.auto.commit": False})
    try:
        from confluent_kafka import TopicPartition

        consumer.assign([TopicPartition(topic, 0, 0)])
        found, until = [], time.monotonic() + MANY_S
        while len(found) < count and time.monotonic() < until:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                found.append(message.value())
        return found
    finally:
        consumer.close()


@pytest.mark.parametrize("point", POINTS)
def test_only_requests_of_its_partition_wait_and_they_are_made_once(tmp_path, point):
    """More requests wait than there are handlers: each of them would once have held one up."""
    waiting = 5
    with Broker(tmp_path, overrides=SETTINGS, env={"MPBROKER_CRASH": f"{point}=stop"}) as broker:
        _create(broker, "held", "free")
        connections = [RawConnection(broker.port()) for _ in range(waiting + 1)]
        pid = _hold(broker, connections[0])
        for number, connection in enumerate(connections[1:]):
            connection.send(produce_request(number + 2, "held", 0, batch([b"%d" % number])))
        _produce(broker, "free", 20)
        assert _consume(broker, "free", 20) == [b"%d" % number for number in range(20)]
        assert _values(broker.port(), "held") in ([], [b"holder"])  # reading needs no lock
        assert _stopped(broker) == [pid]
        os.kill(pid, signal.SIGCONT)
        answers = [produced(connection.receive()[1]) for connection in connections]
        assert [answer.error for answer in answers] == [0] * (waiting + 1)
        assert sorted(answer.base_offset for answer in answers) == list(range(waiting + 1))
        assert sorted(_values(broker.port(), "held")) == sorted([b"holder", *(b"%d" % n for n in range(waiting))])
        for connection in connections:
            connection.close()


def test_the_log_keeper_goes_on_with_the_others(tmp_path):
    """Retention and, with flush=commit, acknowledgements."""
    settings = {**SETTINGS, "mpbroker.log.flush": "commit"}
    with Broker(tmp_path, overrides=settings, env={"MPBROKER_CRASH": "append.committed=stop"}) as broker:
        _create(broker, "held", "old", segment_bytes="200", retention_ms="1", segment_ms="100")
        _create(broker, "free")
        with RawConnection(broker.port()) as holder, RawConnection(broker.port()) as other:
            pid = _hold(broker, holder)
            other.send(produce_request(2, "held", 0, batch([b"other"])))
            _produce(broker, "old", 10)
            _produce(broker, "free", 10)
            wait_until(lambda: "segments_deleted partition=old-0" in broker.log(), "retention", MANY_S)
            assert "partition=held-0" not in broker.log()
            assert _stopped(broker) == [pid]
            os.kill(pid, signal.SIGCONT)
            assert produced(holder.receive()[1]) == (0, 0)
            assert produced(other.receive()[1]) == (0, 1)
            wait_until(lambda: "segments_deleted partition=held-0" in broker.log(), "its retention", MANY_S)


def test_a_holder_that_is_killed_is_followed_by_those_who_wait(tmp_path):
    with Broker(tmp_path, overrides=SETTINGS, env={"MPBROKER_CRASH": "append.committed=stop"}) as broker:
        _create(broker, "held")
        with RawConnection(broker.port()) as holder, RawConnection(broker.port()) as other:
            pid = _hold(broker, holder)
            other.send(produce_request(2, "held", 0, batch([b"other"])))
            time.sleep(0.3)
            os.kill(pid, signal.SIGKILL)
            assert sorted(produced(connection.receive()[1]) for connection in (holder, other)) == [(0, 0), (0, 1)]
        assert _values(broker.port(), "held") == [b"holder", b"other"]


def test_a_log_keeper_that_holds_one_is_ended_and_followed(tmp_path):
    """Stopped for good it would hold up every partition's retention and, with flush=commit, acknowledgements."""
    settings = {**SETTINGS, "mpbroker.log.flush": "commit"}
    with Broker(tmp_path, overrides=settings, env={"MPBROKER_CRASH": "retain.committed=stop"}) as broker:
        _create(broker, "held", "old", segment_bytes="200", retention_ms="1", segment_ms="100")
        _create(broker, "free")
        _produce_until_stopped(broker, "held", 10)
        wait_until(lambda: _stopped(broker), "a stopped log keeper", MANY_S)
        (keeper,) = (row for row in broker.status()["processes"] if row["role"] == "log-keeper")
        assert [keeper["pid"]] == _stopped(broker)
        _produce(broker, "old", 10, timeout_s=3 * MANY_S)
        _produce(broker, "free", 10)
        assert broker.log().count("stopped_log_keeper_ended") == 1 and _stopped(broker) == []
        for topic in ("held", "old"):
            wait_until(lambda topic=topic: f"segments_deleted partition={topic}-0" in broker.log(), topic, MANY_S)
        assert _consume(broker, "free", 10) == [b"%d" % number for number in range(10)]
