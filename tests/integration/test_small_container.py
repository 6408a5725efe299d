"""A container of 220 MB, and ten clients that ask for much and never read: nothing of the broker is killed, and others
produce and fetch all the while. The container is a control group with a memory limit."""

import pytest

from tests.harness.broker import Broker, wait_until
from tests.harness.memory_limit import NoGroup, memory_limit
from tests.harness.raw_records import RawFetcher, RawProducer
from tests.integration.test_answer_memory import ASKED_BYTES, RECORD_BYTES, fill, silent_client

CONTAINER_BYTES = 220_000_000
SILENT_CLIENTS, TURNS = 10, 50


@pytest.fixture
def container():
    try:
        with memory_limit(CONTAINER_BYTES) as group:
            yield group
    except NoGroup as error:
        pytest.skip(f"no container of limited memory can be made: {error}")


def test_ten_readers_that_never_read_end_nothing(tmp_path, container):
    with Broker(tmp_path, overrides={"num.partitions": 1}, prefix=container.prefix) as broker:
        assert {str(pid) for pid in broker.processes()} <= set((container.path / "cgroup.procs").read_text().split())
        fill(broker)
        silent = [silent_client(broker.port()) for _ in range(SILENT_CLIENTS)]
        reader, producer = (kind("127.0.0.1", broker.port(), "t") for kind in (RawFetcher, RawProducer))

        def others_are_served():
            fetched = reader.fetch(0, 1, max_bytes=ASKED_BYTES)
            assert fetched is not None and fetched.error == 0 and len(fetched.records) > RECORD_BYTES
            produced = producer.produce(0, [b"v"])
            assert produced is not None and produced.error == 0
            return broker.status()["counters"]["answers_stuck"] > 0

        wait_until(others_are_served, "clients that do not read to be closed", 30)
        for _ in range(TURNS):
            others_are_served()
        assert container.oom_kills() == 0
        assert all(row["restarts"] == 0 for row in broker.status()["processes"])
        for connection in (*silent, reader, producer):
            connection.close()
