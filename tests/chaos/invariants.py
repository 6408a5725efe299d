"""What holds of a broker whatever was killed: disk space given back, memory bounded, nobody killed for want of it, the
records of partitions that nobody wrote to still there, a clean stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from mpbroker.log.clean_shutdown import MARKER
from mpbroker.record.batch_builder import encode_batch
from tests.chaos.surroundings import Surroundings
from tests.harness.broker import Broker
from tests.harness.checker import Anomaly
from tests.harness.footprint import deleted_bytes, pss_bytes
from tests.harness.peer import Peer, create_topic, produce
from tests.harness.raw_records import RawFetcher, RawProducer, records_in

QUIET, SHORT = "quiet", "short"
GROWTH_BYTES = 64 << 20  # of all processes together, from the first second of the load to the end
GIVEN_BACK_S = 30.0  # a second, and patience for a machine that does much else; what is kept, is for good
STOP_S = 40.0  # what the settings promise: drain, stop and flush
ALWAYS = {
    "log.retention.check.interval.ms": 500,
    "log.initial.task.delay.ms": 500,
    "log.segment.delete.delay.ms": 100,
}
RETAINED = {"retention_bytes": "200000", "file_delete_delay_ms": "100"}


def make_topics(broker: Broker, quiet_partitions: int) -> None:
    """A topic of partitions with a record each, which stay as they are; one whose old segments are deleted."""
    with Peer(broker.port(), timeout_s=60) as peer:
        assert create_topic(peer, SHORT, 1, **RETAINED).error_code == 0
        if quiet_partitions:
            assert create_topic(peer, QUIET, quiet_partitions).error_code == 0
        for partition in range(quiet_partitions):
            record = (None, b"%d" % partition, time.time_ns() // 1_000_000)
            assert produce(peer, QUIET, encode_batch([record]), partition).error_code == 0


class Churn(threading.Thread):
    """Writes to the topic whose segments are deleted, so that there is something to give back; what is lost is lost."""

    def __init__(self, port: int) -> None:
        super().__init__(name="churn", daemon=True)
        self._producer = RawProducer("127.0.0.1", port, SHORT)
        self.stopping = threading.Event()
        self.written = 0

    def run(self) -> None:
        """Until told to stop."""
        while not self.stopping.wait(0.02):
            answer = self._producer.produce(0, [bytes(30_000)], acks=1)
            self.written += answer is not None and answer.error == 0
        self._producer.close()


def space_kept(broker: Broker) -> list[Anomaly]:
    """space-kept: files that are deleted and still open, after the time in which they have to be closed."""
    deadline = time.monotonic() + GIVEN_BACK_S
    while (found := deleted_bytes(broker)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return [Anomaly("space-kept", -1, f"{path} still takes {size} bytes") for path, size in found.items()]


def memory_grown(broker: Broker, before_bytes: int) -> list[Anomaly]:
    """memory: more than the kills and the load can explain."""
    now_bytes = pss_bytes(broker)
    if now_bytes <= before_bytes + GROWTH_BYTES:
        return []
    return [Anomaly("memory", -1, f"{before_bytes >> 20} MiB at first, {now_bytes >> 20} MiB in the end")]


def killed_for_memory(surroundings: Surroundings) -> list[Anomaly]:
    """out-of-memory: the kernel killed somebody in the group."""
    kills = surroundings.group.oom_kills() if surroundings.group else 0
    return [Anomaly("out-of-memory", -1, f"{kills} processes killed by the kernel")] if kills else []


def quiet_lost(broker: Broker, partitions: int) -> list[Anomaly]:
    """quiet-lost: a record of a partition that nobody touched is not read any more."""
    fetcher, found = RawFetcher("127.0.0.1", broker.port(), QUIET), []
    for partition in range(partitions):
        answer = fetcher.fetch(partition, 0, 0)
        values = [value for _, value in records_in(answer.records)] if answer else []
        if values != [b"%d" % partition]:
            found.append(Anomaly("quiet-lost", partition, f"holds {values[:3]}"))
    fetcher.close()
    return found


def stop(broker: Broker, say: Callable[[str, float], object]) -> list[Anomaly]:
    """stop: not clean, or longer than the settings promise. `say(name, seconds)` is told how long it took."""
    begun = time.monotonic()
    try:
        code = broker.stop(check=False, timeout_s=STOP_S)
    except AssertionError:
        return [Anomaly("stop", -1, f"took longer than {STOP_S} s")]
    say("stop_s", round(time.monotonic() - begun, 2))
    broker.assert_nothing_left()
    clean = code == 0 and (broker.data_dir / MARKER).exists()
    return [] if clean else [Anomaly("stop", -1, f"exit code {code}, or no marker of a clean stop")]
